// Heat-bath sweeps over sums of terms. Each term keeps a state per chain: numbers that make the gain of one
// element cheap, and that are updated by a flip.
//
// States with rounding errors are computed afresh before each sweep.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "chains.hpp"

namespace LOGSUPER_ISA {

class Term {
   public:
    virtual ~Term() = default;
    virtual int64_t state_size() const = 0;  // numbers per chain
    virtual int64_t steps() const = 0;  // of a poll, for one visit
    virtual void start(const uint8_t* x, double* state) const = 0;
    // Before each sweep.
    virtual void renew(const uint8_t*, double*) const {}
    // f(x, x_d = 1) - f(x, x_d = 0), whatever x_d is.
    virtual double gain(const uint8_t* x, double* state, int64_t d) const = 0;
    // After x_d has been flipped.
    virtual void flip(const uint8_t* x, double* state, int64_t d) const = 0;
};

// sum_u max_{i on} b_ui. The state is the best and the second best benefit of every user: without facility d
// a user has the second best if d is the best, and a facility below the best adds nothing.
class FacilityTerm final : public Term {
    const int64_t n_, users_, stride_;
    std::vector<double> benefit_;  // a row per facility: benefits, padded by zeros

    const double* row(int64_t d) const { return benefit_.data() + d * stride_; }

    static void open(const double* benefit, int64_t users, double* best, double* second) {
        for (int64_t u = 0; u < users; ++u) {
            const double b = benefit[u], top = best[u];
            const double lower = b < top ? b : top;
            second[u] = second[u] < lower ? lower : second[u];
            best[u] = top < b ? b : top;
        }
    }

   public:
    // benefits: (users, n)
    FacilityTerm(int64_t n, int64_t users, const double* benefits)
        : n_(n), users_(users), stride_((users + 3) / 4 * 4), benefit_(n * stride_, 0.0) {
        for (int64_t u = 0; u < users; ++u)
            for (int64_t d = 0; d < n; ++d) benefit_[d * stride_ + u] = benefits[u * n + d];
    }

    int64_t state_size() const override { return 2 * stride_ + n_; }  // the last n: work space
    int64_t steps() const override { return 8 + users_; }

    void start(const uint8_t* x, double* state) const override {
        std::fill(state, state + 2 * stride_, 0.0);
        for (int64_t d = 0; d < n_; ++d) {
            poll(users_);
            if (x[d]) open(row(d), users_, state, state + stride_);
        }
    }

    double gain(const uint8_t* x, double* state, int64_t d) const override {
        const double *benefit = row(d), *without = x[d] ? state + stride_ : state;
        Float64x4 sum = {};
        for (int64_t u = 0; u < stride_; u += 4) {
            Float64x4 b, w;
            std::memcpy(&b, benefit + u, sizeof b);
            std::memcpy(&w, without + u, sizeof w);
            const Float64x4 more = b - w;
            sum += (Float64x4)((Int64x4)more & (more > 0.0));
        }
        return total(sum);
    }

    void flip(const uint8_t* x, double* state, int64_t d) const override {
        double *best = state, *second = state + stride_, *on = state + 2 * stride_;
        const double* benefit = row(d);
        if (x[d]) {
            open(benefit, users_, best, second);
            return;
        }
        int64_t count = 0;
        for (int64_t i = 0; i < n_; ++i)
            if (x[i]) on[count++] = static_cast<double>(i);
        for (int64_t u = 0; u < users_; ++u) {
            if (benefit[u] < second[u] || benefit[u] == 0) continue;
            poll(count);
            double first = 0, next = 0;
            for (int64_t k = 0; k < count; ++k) {
                const double b = row(static_cast<int64_t>(on[k]))[u], lower = b < first ? b : first;
                next = next < lower ? lower : next;
                first = first < b ? b : first;
            }
            best[u] = first;
            second[u] = next;
        }
    }
};

// Element d is in the groups group[e], with weight[e], for entry[d] <= e < entry[d + 1]. The profile h_g of
// group g goes through the points (point[p], value[p]), piece[g] <= p < piece[g + 1], the first of them (0,
// 0).
struct Groups {
    std::vector<int64_t> entry, group;
    std::vector<double> weight;
    std::vector<int64_t> piece;
    std::vector<double> point, value;
};

// sum_g h_g(sum_{i in g} w_gi x_i), each h concave and piecewise linear. The state is the sum of every group.
class GroupTerm final : public Term {
    const Groups groups_;
    std::vector<double> slope_;

    double profile(int64_t g, double v) const {
        const double *first = groups_.point.data() + groups_.piece[g] + 1,
                     *last = groups_.point.data() + groups_.piece[g + 1];
        if (last - first > 4)
            first = std::upper_bound(first, last, v);
        else
            while (first < last && *first <= v) ++first;
        const int64_t at = first - groups_.point.data() - 1;
        return groups_.value[at] + (v - groups_.point[at]) * slope_[at];
    }

   public:
    explicit GroupTerm(Groups groups) : groups_(std::move(groups)), slope_(groups_.point.size(), 0.0) {
        for (size_t g = 0; g + 1 < groups_.piece.size(); ++g)
            for (int64_t p = groups_.piece[g]; p + 1 < groups_.piece[g + 1]; ++p)
                slope_[p] =
                    (groups_.value[p + 1] - groups_.value[p]) / (groups_.point[p + 1] - groups_.point[p]);
    }

    int64_t state_size() const override { return static_cast<int64_t>(groups_.piece.size()) - 1; }
    int64_t steps() const override {
        return 8 + 16 * static_cast<int64_t>(groups_.group.size()) /
                       (static_cast<int64_t>(groups_.entry.size()) - 1);
    }

    void start(const uint8_t* x, double* state) const override {
        std::fill(state, state + state_size(), 0.0);
        for (size_t d = 0; d + 1 < groups_.entry.size(); ++d) {
            poll(groups_.entry[d + 1] - groups_.entry[d]);
            if (x[d])
                for (int64_t e = groups_.entry[d]; e < groups_.entry[d + 1]; ++e)
                    state[groups_.group[e]] += groups_.weight[e];
        }
    }
    void renew(const uint8_t* x, double* state) const override { start(x, state); }

    double gain(const uint8_t* x, double* state, int64_t d) const override {
        double sum = 0;
        for (int64_t e = groups_.entry[d]; e < groups_.entry[d + 1]; ++e) {
            const double w = groups_.weight[e], v = state[groups_.group[e]] - (x[d] ? w : 0.0);
            const double without = v < 0 ? 0.0 : v;  // by rounding
            sum += profile(groups_.group[e], without + w) - profile(groups_.group[e], without);
        }
        return sum;
    }

    void flip(const uint8_t* x, double* state, int64_t d) const override {
        for (int64_t e = groups_.entry[d]; e < groups_.entry[d + 1]; ++e)
            state[groups_.group[e]] += x[d] ? groups_.weight[e] : -groups_.weight[e];
    }
};

// log det K_SS for S = {d: x_d = on}: the gain of d is the logarithm of its variance given the others in S.
// The state holds conditional kernels of nested ranges of elements around the last one that was visited, each
// given the elements of S outside the range. Halving a range conditions on the other half; a sweep halves
// each range once, with positive pivots only, and never reverses a step.
class DeterminantTerm final : public Term {
    static constexpr double kLeast = std::numeric_limits<double>::epsilon();  // of a variance
    const int64_t n_;
    const uint8_t on_;
    std::vector<double> kernel_;  // lower triangles, row by row
    std::vector<double> variance_;
    std::vector<int64_t> place_;  // of the kernel of each level in the state

    static int64_t at(int64_t i) { return i * (i + 1) / 2; }
    int64_t spare() const { return place_.back(); }

    // The range of a level; level 0 is all elements.
    struct Range {
        int64_t first, last;
        bool has(int64_t d) const { return first <= d && d < last; }
        Range half(bool second) const {
            const int64_t middle = (first + last) / 2;
            return second ? Range{middle, last} : Range{first, middle};
        }
    };
    double& depth(double* state) const { return state[0]; }
    double* ends(double* state, int64_t level) const { return state + 1 + 2 * level; }
    Range range(double* state, int64_t level) const {
        const double* const end = ends(state, level);
        return level ? Range{static_cast<int64_t>(end[0]), static_cast<int64_t>(end[1])} : Range{0, n_};
    }
    const double* kernel(const double* state, int64_t level) const {
        return level ? state + place_[level - 1] : kernel_.data();
    }

    // Drops the levels without element d.
    int64_t climb(double* state, int64_t d) const {
        int64_t level = static_cast<int64_t>(depth(state));
        while (level > 0 && !range(state, level).has(d)) --level;
        depth(state) = static_cast<double>(level);
        return level;
    }

    // The kernel of one half of a range, given the elements of S in the other half.
    void halve(const uint8_t* x, double* state, int64_t level, bool second) const {
        const Range whole = range(state, level), own = whole.half(second), other = whole.half(!second);
        const double* const from = kernel(state, level);
        double* const work = state + spare();
        int64_t rows = 0;
        const auto entry = [&](int64_t i, int64_t j) {
            const int64_t a = i - whole.first, b = j - whole.first;
            return a < b ? from[at(b) + a] : from[at(a) + b];
        };
        // the given elements come first: they are the pivots
        const auto gather = [&](int64_t i) {
            double* row = work + at(rows++);
            for (int64_t j = other.first; j < other.last; ++j)
                if (x[j] == on_ && (!other.has(i) || j <= i)) *row++ = entry(i, j);
            for (int64_t j = own.first; j <= i && own.has(i); ++j) *row++ = entry(i, j);
        };
        for (int64_t i = other.first; i < other.last; ++i)
            if (x[i] == on_) gather(i);
        const int64_t pivots = rows;
        for (int64_t i = own.first; i < own.last; ++i) gather(i);
        int64_t pivot = 0;
        double* const column = work + at(rows);
        for (int64_t given = other.first; given < other.last; ++given) {
            if (x[given] != on_) continue;
            poll((rows - pivot) * (rows - pivot) / 4 + rows);
            for (int64_t i = pivot; i < rows; ++i) column[i] = work[at(i) + pivot];
            const double p = std::max(column[pivot], kLeast * variance_[given]);
            for (int64_t i = pivot + 1; i < rows; ++i) {
                const double factor = column[i] / p;
                double* const row = work + at(i);
                for (int64_t j = pivot + 1; j <= i; ++j) row[j] -= factor * column[j];
            }
            ++pivot;
        }
        double* to = state + place_[level];
        for (int64_t i = pivots; i < rows; ++i) to = std::copy(work + at(i) + pivots, work + at(i + 1), to);
        ends(state, level + 1)[0] = static_cast<double>(own.first);
        ends(state, level + 1)[1] = static_cast<double>(own.last);
        depth(state) = static_cast<double>(level + 1);
    }

   public:
    // kernel: (n, n)
    DeterminantTerm(int64_t n, const double* kernel, bool on) : n_(n), on_(on), kernel_(at(n)), variance_(n) {
        for (int64_t i = 0; i < n; ++i) {
            std::copy(kernel + i * n, kernel + i * n + i + 1, kernel_.begin() + at(i));
            variance_[i] = kernel[i * n + i];
        }
        int64_t depth = 0;
        for (int64_t size = n; size > 1; size = (size + 1) / 2) ++depth;
        int64_t place = 1 + 2 * (depth + 1);
        for (int64_t size = (n + 1) / 2, level = 0; level < depth; size = (size + 1) / 2, ++level) {
            place_.push_back(place);
            place += at(size);
        }
        place_.push_back(place);  // work space
    }

    int64_t state_size() const override { return spare() + at(n_) + n_; }
    int64_t steps() const override { return 32; }  // halving polls itself

    void start(const uint8_t*, double* state) const override { depth(state) = 0; }
    void renew(const uint8_t*, double* state) const override { depth(state) = 0; }

    double gain(const uint8_t* x, double* state, int64_t d) const override {
        int64_t level = climb(state, d);
        for (Range now = range(state, level); now.last - now.first > 1; now = range(state, ++level))
            halve(x, state, level, !now.half(false).has(d));
        const double most = variance_[d], found = *kernel(state, level);
        const double variance = std::max(std::min(found, most), kLeast * most);
        return on_ ? std::log(variance) : -std::log(variance);
    }

    void flip(const uint8_t*, double* state, int64_t d) const override { climb(state, d); }
};

// A weighted sum of terms, element by element.
class TermScan final : public Scan {
    const int64_t n_;
    int64_t state_size_ = 0, steps_ = 16;
    std::vector<std::pair<double, std::unique_ptr<const Term>>> terms_;

   public:
    explicit TermScan(int64_t n) : n_(n) {}
    TermScan(const TermScan&) = delete;
    TermScan& operator=(const TermScan&) = delete;

    void add(double weight, std::unique_ptr<const Term> term) {
        state_size_ += term->state_size();
        steps_ += term->steps();
        terms_.emplace_back(weight, std::move(term));
    }

    int64_t size() const override { return n_; }

    void run(ScanScratch& scratch, const ProblemChains& chains, const Sweeps& sweeps) const override {
        uint8_t* const states = chains.states;
        scratch.noise.resize(padded(n_));
        scratch.terms.resize(state_size_ * chains.count);
        for (int c = 0; c < chains.count; ++c)
            each(scratch, c,
                 [&](const Term& term, double, double* state) { term.start(states + c * n_, state); });
        int live = chains.count;
        for (int64_t k = 0; k < sweeps.count; ++k) {
            // equal chains stay equal
            if (live == 2 && !std::memcmp(states, states + n_, n_)) live = 1;
            fill_noise(sweeps.noise(chains.problem, k), n_, scratch.noise.data());
            if (live == 2)
                sweep<2>(scratch, states, chains.theta, sweeps.scale);
            else
                sweep<1>(scratch, states, chains.theta, sweeps.scale);
        }
        if (live < chains.count) std::memcpy(states + n_, states, n_);
    }

   private:
    template <class Visit>
    void each(ScanScratch& scratch, int chain, Visit&& visit) const {
        double* state = scratch.terms.data() + chain * state_size_;
        for (const auto& [weight, term] : terms_) {
            visit(*term, weight, state);
            state += term->state_size();
        }
    }

    double gain_at(ScanScratch& scratch, int chain, const uint8_t* x, int64_t d) const {
        double sum = 0;
        each(scratch, chain,
             [&](const Term& term, double weight, double* state) { sum += weight * term.gain(x, state, d); });
        return sum;
    }

    void set(ScanScratch& scratch, int chain, uint8_t* x, int64_t d, bool value) const {
        if (x[d] == static_cast<uint8_t>(value)) return;
        x[d] = value;
        each(scratch, chain, [&](const Term& term, double, double* state) { term.flip(x, state, d); });
    }

    template <int C>
    void sweep(ScanScratch& scratch, uint8_t* states, const double* theta, double scale) const {
        for (int c = 0; c < C; ++c)
            each(scratch, c,
                 [&](const Term& term, double, double* state) { term.renew(states + c * n_, state); });
        for (int64_t d = 0; d < n_; ++d) {
            poll(C * steps_);
            double gain[C];
            for (int c = 0; c < C; ++c) gain[c] = gain_at(scratch, c, states + c * n_, d);
            // up to rounding, the gain at the larger state is the smaller one
            if (C == 2) gain[C - 1] = std::min(gain[0], gain[C - 1]);
            for (int c = 0; c < C; ++c)
                set(scratch, c, states + c * n_, d, scratch.noise[d] < theta[d] - scale * gain[c]);
        }
    }
};

}  // namespace LOGSUPER_ISA
