// Three solvers in turn: narrow integers, wide ones, and wide ones with capped weights.
//
// Integers are as fine as the largest weight allows. Each solver reports, once it has read a field, whether
// its integers are fine enough for it (see Resolution); if not, the next solver takes over. The choice
// depends on the problem alone, never on other problems or threads.
//
// The cap: no edge carries more than all sources send, or all sinks receive. With
//     M = min(sum of positive fields, sum of negative ones)
// weights and fields can be capped at (a little more than) M without changing any label, and the resolution
// of the integers then follows from the fields instead of the weights. A hard constraint written as a weight
// of 1e12 therefore costs no precision.
#pragma once

#include <memory>

#include "cuts.hpp"
#include "interrupt.hpp"
#include "structure.hpp"

namespace LOGSUPER_ISA {

inline WeightRange cap_weights(const WeightRange& range, const double* theta, int64_t n) {
    const double degree = range.largest_degree;  // beyond it a field is only a sign
    double positive = 0, negative = 0;
    for (int64_t i = 0; i < n; ++i) {
        positive += std::clamp(theta[i], 0.0, degree);
        negative += std::clamp(-theta[i], 0.0, degree);
    }
    poll(8 * n);
    WeightRange capped = range;
    capped.cap = std::min(positive, negative);
    if (capped.cap == 0) capped.cap = std::max(positive, negative);  // nothing flows, signs remain
    positive = negative = 0;
    for (int64_t i = 0; i < n; ++i) {
        positive += std::clamp(theta[i], 0.0, capped.cap);
        negative += std::clamp(-theta[i], 0.0, capped.cap);
    }
    capped.largest_degree = std::max(positive, negative);
    capped.most_edges = std::max(capped.most_edges, n);  // n fields were rounded on the way
    return capped;
}

template <class Narrow, class Wide>
class Tiers {
    std::unique_ptr<Narrow> narrow_;
    std::unique_ptr<Wide> wide_, capped_;
    WeightRange range_;
    bool may_be_narrow_ = false, narrow_is_set_ = false, wide_is_set_ = false;
    bool imposed_ = false;
    enum { kNarrow, kWide, kCapped } answer_ = kNarrow;
    Precision precision_;

   public:
    // imposed: the integers were chosen for a larger problem, and are used whatever the field is.
    void reset(const WeightRange& range, bool wide, bool imposed = false) {
        range_ = range;
        imposed_ = imposed;
        may_be_narrow_ = !wide && (imposed || Quantiser<int32_t>::narrow_is_enough(range));
        narrow_is_set_ = wide_is_set_ = false;
    }

    // apply(solver, range) makes the solver if it is null, and sets the current weights.
    template <class Apply>
    void solve(const double* theta, int64_t n, Tie tie, Apply&& apply) {
        const bool fine = solve_by_tiers(theta, n, tie, apply);
        with_answer([&](const auto& solver) { precision_ = {1 / solver.scale(), !fine}; });
    }
    Precision precision() const { return precision_; }

    // Without edges there is nothing to solve, but labels need memory.
    template <class Apply>
    void skip(Apply&& apply) {
        if (!narrow_is_set_) apply(narrow_, range_);
        narrow_is_set_ = true;
        answer_ = kNarrow;
        precision_ = {};
    }

    // Bytes of the solvers that exist.
    template <class Shape>
    int64_t held_bytes(const Shape& shape) const {
        return (narrow_ ? Narrow::bytes(shape) : 0) + (wide_ ? Wide::bytes(shape) : 0) +
               (capped_ ? Wide::bytes(shape) : 0);
    }
    template <class Shape>
    static WorkspaceBytes workspace(const Shape& shape, SolveKind kind) {
        const int64_t small = Narrow::bytes(shape), large = Wide::bytes(shape);
        if (kind.min_norm) return {large, large};
        return kind.wide ? WorkspaceBytes{large, 2 * large} : WorkspaceBytes{small, small + 2 * large};
    }

    // For the min-norm point: a wide solver with its own range of weights.
    template <class Apply>
    Wide& separate(const WeightRange& range, Apply&& apply) {
        apply(capped_, range);
        return *capped_;
    }

    template <class Use>
    void with_answer(Use&& use) const {
        if (answer_ == kNarrow)
            use(*narrow_);
        else
            use(answer_ == kWide ? *wide_ : *capped_);
    }

   private:
    // Whether the integers were fine enough in the end.
    template <class Apply>
    bool solve_by_tiers(const double* theta, int64_t n, Tie tie, Apply&& apply) {
        if (may_be_narrow_) {
            if (!narrow_is_set_) apply(narrow_, range_);
            narrow_is_set_ = true;
            answer_ = kNarrow;
            if (narrow_->solve(theta, tie, imposed_)) return true;
        }
        if (!wide_is_set_) apply(wide_, range_);
        wide_is_set_ = true;
        answer_ = kWide;
        if (wide_->solve(theta, tie, imposed_)) return true;
        const WeightRange capped = cap_weights(range_, theta, n);
        if (Quantiser<int64_t>(capped).scale > Quantiser<int64_t>(range_).scale) {
            apply(capped_, capped);
            answer_ = kCapped;
            if (capped_->solve(theta, tie, false)) return true;
            capped_->solve(theta, tie, true);
        } else {
            wide_->solve(theta, tie, true);
        }
        return false;
    }
};

}  // namespace LOGSUPER_ISA
