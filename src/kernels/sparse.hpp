// Max-flow on any sparse graph: index-order sweeps, then Boykov & Kolmogorov (2004).
//
// Arcs are sorted by their tails, so that the arcs of a node are contiguous; each has its residual capacity,
// its head and the index of its reverse.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "cuts.hpp"
#include "interrupt.hpp"

namespace LOGSUPER_ISA {

struct SparseShape {
    int64_t n = 0, m = 0;
    std::vector<int32_t> first;          // (n + 1) arcs of node i: first[i] .. first[i + 1]
    std::vector<int32_t> head, reverse;  // (2 m)
    std::vector<int32_t> arc;            // (m) arc of edge e that leaves its smaller end
    std::vector<int32_t> tail;           // (m) smaller end of edge e

    SparseShape(int64_t nodes, const int64_t* edges, int64_t count) : n(nodes), m(count) {
        first.assign(n + 1, 0);
        polled(2 * m, 2, [&](int64_t e) { ++first[edges[e] + 1]; });
        for (int64_t i = 0; i < n; ++i) first[i + 1] += first[i];
        std::vector<int32_t> at(first.begin(), first.end() - 1);
        head.resize(2 * m);
        reverse.resize(2 * m);
        arc.resize(m);
        tail.resize(m);
        polled(m, 16, [&](int64_t e) {
            const int64_t i = edges[2 * e], j = edges[2 * e + 1];
            const int32_t a = at[i]++, b = at[j]++;
            head[a] = static_cast<int32_t>(j);
            head[b] = static_cast<int32_t>(i);
            reverse[a] = b;
            reverse[b] = a;
            arc[e] = a;
            tail[e] = static_cast<int32_t>(i);
        });
    }
};

template <class T>
class SparseSolver {
    enum : uint8_t { kFree = 0, kSource = 1, kSink = 2 };

   protected:  // the flow, for solvers that continue from it
    const SparseShape& g_;
    std::vector<T> capacity_, residual_, excess_;

   private:
    std::vector<uint8_t> tree_, orphaned_, queued_;
    std::vector<int32_t> parent_, stamp_, distance_;  // parent_: arc from the node to its parent
    std::vector<int32_t> queue_, orphans_;
    size_t queue_head_ = 0, queue_size_ = 0;
    int32_t time_ = 0;
    const int64_t steps_;  // of a node in a search, for polls
    double scale_ = 1, bound_ = 1;

   public:
    // What the constructor allocates.
    static int64_t bytes(const SparseShape& graph) {
        const int64_t number = sizeof(T);
        return 4 * graph.m * number + graph.n * (number + 3 + 4 * 4);
    }

    explicit SparseSolver(const SparseShape& graph)
        : g_(graph),
          capacity_(2 * graph.m),
          residual_(2 * graph.m),
          excess_(graph.n),
          tree_(graph.n),
          orphaned_(graph.n),
          queued_(graph.n),
          parent_(graph.n),
          stamp_(graph.n),
          distance_(graph.n),
          queue_(graph.n + 1),
          steps_(64 + 8 * graph.m / std::max<int64_t>(1, graph.n)) {}

    template <class Weight>
    void set_weights(const WeightRange& range, Weight&& weight) {
        const Quantiser<T> q(range);
        scale_ = q.scale;
        bound_ = q.bound;
        polled(g_.m, 8, [&](int64_t e) {
            const int32_t a = g_.arc[e];
            capacity_[a] = capacity_[g_.reverse[a]] = q.weight(weight(e));
        });
    }

    bool label(int64_t i) const { return tree_[i] == kSource; }
    double scale() const { return scale_; }
    T excess(int64_t i) const { return excess_[i]; }
    T weight(int64_t e) const { return capacity_[g_.arc[e]]; }
    void erase(int64_t e) {
        const int32_t a = g_.arc[e], b = g_.reverse[a];
        capacity_[a] = capacity_[b] = residual_[a] = residual_[b] = 0;
    }

    // A flow in stages: clear it, then repeatedly add to the excess and make it maximal.
    void clear_flow() {
        residual_ = capacity_;
        std::fill(excess_.begin(), excess_.end(), T{0});
    }
    void add(int64_t i, T amount) { excess_[i] += amount; }
    void resume() {
        sweep();
        plant();
        search();
    }

    // False, and no labels, if the integers are too coarse for this field (unless `force`).
    bool solve(const double* theta, Tie tie, bool force) {
        Resolution<T> resolution;
        std::copy(capacity_.begin(), capacity_.end(), residual_.begin());
        for (int64_t i = 0; i < g_.n; ++i) excess_[i] = quantise(theta[i], scale_, bound_, resolution);
        if (!force && !resolution.enough()) return false;
        resume();
        if (tie == Tie::kMaximal)
            for (auto& tree : tree_) tree = tree == kSink ? kFree : kSource;
        label_isolated(theta, tie);
        return true;
    }

   private:
    void label_isolated(const double* theta, Tie tie) {
        polled(g_.n, 8, [&](int64_t i) {
            T degree = 0;
            for (int32_t a = g_.first[i]; a < g_.first[i + 1] && !degree; ++a) degree = capacity_[a];
            if (!degree) tree_[i] = label_of(theta[i], tie) ? kSource : kFree;
        });
    }

    // Pushes the excess of each node towards later nodes, then towards earlier ones: this solves a path in
    // index order exactly, and settles most of any graph.
    void sweep() {
        polled(g_.n, steps_, [&](int64_t i) { push_from(i, [i](int32_t j) { return j > i; }); });
        polled(g_.n, steps_, [&](int64_t k) {
            const int64_t i = g_.n - 1 - k;
            push_from(i, [i](int32_t j) { return j < i; });
        });
    }
    template <class Wanted>
    void push_from(int64_t i, Wanted&& wanted) {
        T have = excess_[i];
        for (int32_t a = g_.first[i]; a < g_.first[i + 1] && have; ++a) {
            if (!wanted(g_.head[a])) continue;
            T& forth = residual_[a];
            T& back = residual_[g_.reverse[a]];
            const T moved = have > 0 ? std::min(have, forth) : std::max(have, static_cast<T>(-back));
            forth -= moved;
            back += moved;
            have -= moved;
            excess_[g_.head[a]] += moved;
        }
        excess_[i] = have;
    }

    void plant() {
        std::fill(parent_.begin(), parent_.end(), -1);
        polled(g_.n, 4, [&](int64_t i) {
            tree_[i] = excess_[i] > 0 ? kSource : excess_[i] < 0 ? kSink : kFree;
            if (tree_[i]) push_active(static_cast<int32_t>(i));
        });
    }

    void push_active(int32_t i) {
        if (queued_[i]) return;
        queued_[i] = 1;
        size_t at = queue_head_ + queue_size_++;
        if (at >= queue_.size()) at -= queue_.size();
        queue_[at] = i;
    }
    int32_t pop_active() {
        const int32_t i = queue_[queue_head_];
        if (++queue_head_ == queue_.size()) queue_head_ = 0;
        --queue_size_;
        queued_[i] = 0;
        return i;
    }

    void search() {
        if (time_ > std::numeric_limits<int32_t>::max() / 2) {
            time_ = 0;
            std::fill(stamp_.begin(), stamp_.end(), 0);
        }
        for (uint64_t step = 1; queue_size_; ++step) {
            if (step % 256 == 0) poll(256 * steps_);
            const int32_t p = pop_active();
            if (tree_[p]) extend(p);
        }
    }

    // Residual capacity of arc a in the direction in which a tree of this kind grows.
    T growth(uint8_t tree, int32_t a) const { return residual_[tree == kSource ? a : g_.reverse[a]]; }

    void extend(int32_t p) {
        const uint8_t mine = tree_[p];
        for (int32_t a = g_.first[p]; a < g_.first[p + 1]; ++a) {
            const int32_t q = g_.head[a];
            while (tree_[q] != mine && growth(mine, a)) {
                if (tree_[q] == kFree) {
                    tree_[q] = mine;
                    parent_[q] = g_.reverse[a];
                    stamp_[q] = stamp_[p];
                    distance_[q] = static_cast<int32_t>(static_cast<uint32_t>(distance_[p]) + 1);
                    push_active(q);
                    break;
                }
                augment(mine == kSource ? a : g_.reverse[a]);
                adopt();
                if (tree_[p] != mine) return;
            }
        }
    }

    void make_orphan(int32_t i) {
        orphaned_[i] = 1;
        orphans_.push_back(i);
    }

    // Sends as much as fits along arc a, from the root above its tail to the root above its head.
    void augment(int32_t a) {
        const int32_t p = g_.head[g_.reverse[a]], q = g_.head[a];
        T amount = residual_[a];
        int32_t i = p;
        int64_t length = 0;
        for (; !excess_[i]; i = g_.head[parent_[i]], ++length)
            amount = std::min(amount, residual_[g_.reverse[parent_[i]]]);
        amount = std::min(amount, excess_[i]);
        i = q;
        for (; !excess_[i]; i = g_.head[parent_[i]], ++length)
            amount = std::min(amount, residual_[parent_[i]]);
        poll_if_many(length);
        amount = std::min(amount, static_cast<T>(-excess_[i]));

        residual_[a] -= amount;
        residual_[g_.reverse[a]] += amount;
        for (i = p; !excess_[i]; i = g_.head[parent_[i]]) {
            const int32_t up = parent_[i], down = g_.reverse[up];
            residual_[up] += amount;
            if ((residual_[down] -= amount) == 0) make_orphan(i);
        }
        if ((excess_[i] -= amount) == 0) make_orphan(i);
        for (i = q; !excess_[i]; i = g_.head[parent_[i]]) {
            const int32_t up = parent_[i];
            residual_[g_.reverse[up]] += amount;
            if ((residual_[up] -= amount) == 0) make_orphan(i);
        }
        if ((excess_[i] += amount) == 0) make_orphan(i);
    }

    // Distance of i from its root, or -1 if its path ends at an orphan. Stamps the path.
    int32_t depth(int32_t i) {
        int32_t length = 0, x = i;
        for (;;) {
            if (stamp_[x] == time_) {
                length += distance_[x];
                break;
            }
            if (excess_[x]) {
                stamp_[x] = time_;
                distance_[x] = 0;
                break;
            }
            if (orphaned_[x]) {
                poll_if_many(length);
                return -1;
            }
            x = g_.head[parent_[x]];
            ++length;
        }
        poll_if_many(length);
        for (int32_t left = length; stamp_[i] != time_; i = g_.head[parent_[i]]) {
            stamp_[i] = time_;
            distance_[i] = left--;
        }
        return length;
    }

    void adopt() {
        ++time_;
        for (size_t k = 0; k < orphans_.size(); ++k) {
            const int32_t i = orphans_[k];
            const uint8_t mine = tree_[i];
            if (k % 256 == 255) poll(256 * steps_);
            int32_t best = -1, shortest = std::numeric_limits<int32_t>::max();
            for (int32_t a = g_.first[i]; a < g_.first[i + 1]; ++a) {
                if (tree_[g_.head[a]] != mine || !growth(mine, g_.reverse[a])) continue;
                const int32_t length = depth(g_.head[a]);
                if (length >= 0 && length < shortest) {
                    shortest = length;
                    best = a;
                    if (length == 0) break;
                }
            }
            orphaned_[i] = 0;
            parent_[i] = best;
            if (best >= 0) {
                stamp_[i] = time_;
                distance_[i] = shortest + 1;
                continue;
            }
            tree_[i] = kFree;
            for (int32_t a = g_.first[i]; a < g_.first[i + 1]; ++a) {
                const int32_t q = g_.head[a];
                if (tree_[q] != mine) continue;
                if (growth(mine, g_.reverse[a])) push_active(q);
                if (!excess_[q] && !orphaned_[q] && parent_[q] == g_.reverse[a]) make_orphan(q);
            }
        }
        orphans_.clear();
    }
};

}  // namespace LOGSUPER_ISA
