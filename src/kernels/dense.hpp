// Max-flow on dense graphs: waves of pushes towards the deficits.
//
// A wave computes exact distances to the nearest deficit in the residual graph, by bit sets; then every
// node with excess, farthest level first, pushes into the level below it, and into a deficit at most its
// size. This is push-relabel with exact labels once per wave: a node that keeps excess after a wave has
// saturated its arcs to the level below, so that its distance must grow, and the waves end.
#pragma once

#include <utility>
#include <vector>

#include "cuts.hpp"
#include "interrupt.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

template <class T>
class DenseSolver {
    const int64_t n_, words_, stride_;
    std::vector<T> capacity_, residual_, excess_;
    std::vector<uint64_t> into_, all_into_;  // row j: the nodes i with residual capacity i -> j
    std::vector<std::pair<int32_t, int32_t>> touched_;  // pairs whose residuals have changed
    std::vector<uint64_t> seen_, front_, next_;
    std::vector<std::vector<uint64_t>> levels_;
    std::vector<uint64_t> label_;
    double scale_ = 1, bound_ = 1;

   public:
    // What the constructor allocates.
    static int64_t bytes(int64_t n) {
        const int64_t words = (n + 63) / 64, number = sizeof(T);
        return n * words * (2 * 64 * number + 2 * 8);
    }

    explicit DenseSolver(int64_t n)
        : n_(n),
          words_((n + 63) / 64),
          stride_(words_ * 64),
          capacity_(n * stride_),
          residual_(n * stride_),
          excess_(stride_),
          into_(n * words_),
          all_into_(n * words_),
          seen_(words_),
          front_(words_),
          next_(words_),
          label_(words_) {}

    // set(i, j, w) is called through `fill` for every edge.
    template <class Fill>
    void set_weights(const WeightRange& range, Fill&& fill) {
        const Quantiser<T> q(range);
        scale_ = q.scale;
        bound_ = q.bound;
        std::fill(capacity_.begin(), capacity_.end(), T{0});
        fill([&](int64_t i, int64_t j, double w) {
            capacity_[j * stride_ + i] = capacity_[i * stride_ + j] += q.weight(w);
        });
        clear_flow();
        all_into_ = into_;
    }

    bool label(int64_t i) const { return label_[i >> 6] >> (i & 63) & 1; }
    double scale() const { return scale_; }
    T excess(int64_t i) const { return excess_[i]; }
    T weight(int64_t i, int64_t j) const { return capacity_[i * stride_ + j]; }
    void erase(int64_t i, int64_t j) {
        for (T* cell : {&capacity_[0], &residual_[0]}) cell[i * stride_ + j] = cell[j * stride_ + i] = 0;
        into_[i * words_ + (j >> 6)] &= ~(uint64_t{1} << (j & 63));
        into_[j * words_ + (i >> 6)] &= ~(uint64_t{1} << (i & 63));
    }

    // A flow in stages: clear it, then repeatedly add to the excess and make it maximal.
    void clear_flow() {
        residual_ = capacity_;
        touched_.clear();
        std::fill(excess_.begin(), excess_.end(), T{0});
        set_bits();
    }
    void add(int64_t i, T amount) { excess_[i] += amount; }
    void resume() {
        while (find_levels()) {
            push_wave();
            poll(n_ * n_);
        }
        reach_from_excess();
    }

    // False, and no labels, if the integers are too coarse for this field (unless `force`).
    bool solve(const double* theta, Tie tie, bool force) {
        Resolution<T> resolution;
        // Undo the last solve; its flow changed only a small part of the matrix.
        for (const auto& [i, j] : touched_) {
            residual_[i * stride_ + j] = capacity_[i * stride_ + j];
            residual_[j * stride_ + i] = capacity_[j * stride_ + i];
        }
        touched_.clear();
        into_ = all_into_;
        for (int64_t i = 0; i < n_; ++i) excess_[i] = quantise(theta[i], scale_, bound_, resolution);
        if (!force && !resolution.enough()) return false;
        resume();
        if (tie == Tie::kMaximal)
            for (int64_t w = 0; w < words_; ++w) label_[w] = ~seen_[w];
        label_isolated(theta, tie);
        return true;
    }

   private:
    void label_isolated(const double* theta, Tie tie) {
        for (int64_t i = 0; i < n_; ++i) {
            poll_at_row(i, n_);
            const T* row = &capacity_[i * stride_];
            if (std::any_of(row, row + n_, [](T w) { return w != 0; })) continue;
            const uint64_t bit = uint64_t{1} << (i & 63);
            if (label_of(theta[i], tie))
                label_[i >> 6] |= bit;
            else
                label_[i >> 6] &= ~bit;
        }
    }

    void set_bits() {  // without flow residuals are symmetric: rows serve as columns
        const Vec<T> zero = {};
        for (int64_t j = 0; j < n_; ++j) {
            poll_at_row(j, n_);
            for (int64_t w = 0; w < words_; ++w) {
                const T* row = &residual_[j * stride_ + w * 64];
                into_[j * words_ + w] = bits_of_64<T>([&](int i) { return load<T>(row + i) > zero; });
            }
        }
    }

    // Levels by distance to a deficit; returns whether some excess can reach one.
    bool find_levels() {
        std::fill(seen_.begin(), seen_.end(), 0);
        std::fill(front_.begin(), front_.end(), 0);
        bool any = false;
        for (int64_t i = 0; i < n_; ++i)
            if (excess_[i] < 0) {
                front_[i >> 6] |= uint64_t{1} << (i & 63);
                any = true;
            }
        n_levels_ = 0;
        bool reached = false;
        while (any) {
            if (levels_.size() <= n_levels_) levels_.emplace_back(words_);
            levels_[n_levels_++] = front_;
            for (int64_t w = 0; w < words_; ++w) seen_[w] |= front_[w];
            std::fill(next_.begin(), next_.end(), 0);
            for (int64_t w = 0; w < words_; ++w)
                for (uint64_t bits = front_[w]; bits; bits &= bits - 1) {
                    const uint64_t* row = &into_[(w * 64 + count_trailing_zeros(bits)) * words_];
                    for (int64_t v = 0; v < words_; ++v) next_[v] |= row[v];
                }
            any = false;
            for (int64_t w = 0; w < words_; ++w) {
                next_[w] &= ~seen_[w];
                any |= next_[w] != 0;
                for (uint64_t bits = reached ? 0 : next_[w]; bits; bits &= bits - 1)
                    reached |= excess_[w * 64 + count_trailing_zeros(bits)] > 0;
            }
            front_.swap(next_);
        }
        return reached;
    }
    size_t n_levels_ = 0;

    void push_wave() {
        for (size_t level = n_levels_ - 1; level > 0; --level) {
            const uint64_t* const here = levels_[level].data();
            const uint64_t* const below = levels_[level - 1].data();
            for (int64_t w = 0; w < words_; ++w)
                for (uint64_t bits = here[w]; bits; bits &= bits - 1) {
                    const int64_t i = w * 64 + count_trailing_zeros(bits);
                    if (excess_[i] > 0) push_from(i, below, level == 1);
                }
        }
    }

    void push_from(int64_t i, const uint64_t* below, bool to_deficit) {
        T have = excess_[i];
        T* const row = &residual_[i * stride_];
        for (int64_t w = 0; w < words_ && have; ++w)
            for (uint64_t bits = below[w]; bits && have; bits &= bits - 1) {
                const int64_t j = w * 64 + count_trailing_zeros(bits);
                T amount = std::min(have, row[j]);
                if (to_deficit) amount = std::min(amount, static_cast<T>(-excess_[j]));
                if (amount <= 0) continue;
                have -= amount;
                excess_[j] += amount;
                touched_.emplace_back(static_cast<int32_t>(i), static_cast<int32_t>(j));
                T& back = residual_[j * stride_ + i];
                if ((row[j] -= amount) == 0) into_[j * words_ + (i >> 6)] &= ~(uint64_t{1} << (i & 63));
                back += amount;
                into_[i * words_ + (j >> 6)] |= uint64_t{1} << (j & 63);
            }
        excess_[i] = have;
    }

    // The minimal source side: the nodes that excess can reach. `into_` has arcs by head, hence the search by
    // rows.
    void reach_from_excess() {
        std::fill(label_.begin(), label_.end(), 0);
        bool grown = false;
        for (int64_t i = 0; i < n_; ++i)
            if (excess_[i] > 0) {
                label_[i >> 6] |= uint64_t{1} << (i & 63);
                grown = true;
            }
        while (grown) {  // a node joins if some labelled node has residual capacity into it
            grown = false;
            poll(n_ * words_);
            for (int64_t j = 0; j < n_; ++j) {
                if (label_[j >> 6] >> (j & 63) & 1) continue;
                const uint64_t* row = &into_[j * words_];
                uint64_t hit = 0;
                for (int64_t w = 0; w < words_; ++w) hit |= row[w] & label_[w];
                if (hit) {
                    label_[j >> 6] |= uint64_t{1} << (j & 63);
                    grown = true;
                }
            }
        }
    }
};

}  // namespace LOGSUPER_ISA
