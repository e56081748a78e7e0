// The min-norm point of the base polytope of f(x) = sum_e w_e |x_i - x_j| - theta'x by divide and
// conquer, with one flow per level for all its regions (Groenevelt 1991; Hochbaum 2001; Bach 2013, sec. 9.1).
//
// With c = -theta, a region R has the level tau = mean of c over R. Let A minimise f(A) - tau |A|
// within R: a cut with the field tau - c. If that gains nothing, s = tau on R. Otherwise A and
// R \ A are regions of the next level, and an edge (i in A, j in R \ A) is replaced by c_i += w,
// c_j -= w. Such an edge is saturated, so that the rest of the flow is still a flow; the excess of the
// next level is that of this one plus the change of tau, and the flow continues from there.
//
// The certificate: a flow xi within the capacities gives the point c + div xi = tau - excess of B(f);
// any v gives the lower bound -f(v) - |v|^2 / 2 on half the squared norm (f: the Lovasz extension).
// With v = -s the gap is |tau - excess|^2 / 2 + f(-s) + |s|^2 / 2 >= 0, up to rounding. Deleted edges
// join regions ordered by s, edges inside a region see a constant s: hence f(-s) = -c's with the
// final c.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "interrupt.hpp"
#include "structure.hpp"

namespace LOGSUPER_ISA {

inline ParametricResult without_edges(const double* theta, int64_t n, double* s) {
    for (int64_t i = 0; i < n; ++i) s[i] = -theta[i];
    return {};
}

// The range for the integers of all levels. Every tau lies between the smallest and the largest c, hence
// the excess that any region has to move is at most n times their difference. Weights are capped there
// if that makes the integers finer.
inline void cap_for_regions(WeightRange& range, const double* theta, int64_t n) {
    const auto [low, high] = std::minmax_element(theta, theta + n);
    range.largest_field = *high - *low;
    const double mass = static_cast<double>(n) * range.largest_field;
    if (!(range.largest_degree + mass <= std::numeric_limits<double>::max() / 4))
        throw std::invalid_argument("theta is too large: sums overflow");
    if (mass > 0 && mass < range.largest_degree) {
        range.cap = mass;
        range.largest_degree = mass;
    }
}

// Lower bound on the bytes of `divide`, reached while there are few regions.
inline int64_t divide_bytes(int64_t slots, int64_t n) { return 16 * slots + 4 * n; }

// A view has `slots()` positions for nodes, `slot(i)` being that of node i, and
//   units(field)                 as an integer
//   add(slot, units)             raise the excess
//   solve(open)                  make the flow maximal; `open` lists the slots of open regions
//   label(slot), excess(slot)
//   visit_cut(found)             found(slot, slot, weight, edge) for edges between different labels
//   erase(edge), erased()
template <class View>
ParametricResult divide(View& view, const double* theta, double* s) {
    const int64_t n = view.nodes();
    CallMonitor::reserve(divide_bytes(view.slots(), n));
    ParametricResult result;
    struct Region {
        double total = 0, absolute = 0, tau = 0, gain = 0;
        int64_t size = 0, chosen = 0;
        int64_t shift = 0;  // tau minus that of the region that this one is a part of, in integer units
        int32_t child = -1;
    };
    std::vector<double> c(view.slots());
    std::vector<int32_t> region(view.slots(), -1);  // -1: done, or not a node
    std::vector<int32_t> node(view.slots()), open(n);
    std::vector<Region> regions(n ? 1 : 0), children;
    for (int64_t i = 0; i < n; ++i) {
        const int32_t b = static_cast<int32_t>(view.slot(i));
        open[i] = b;
        node[b] = static_cast<int32_t>(i);
        c[b] = -theta[i];
        region[b] = 0;
    }
    if (n) {
        Region& all = regions[0];
        for (int32_t b : open) {
            all.total += c[b];
            all.absolute += std::abs(c[b]);
        }
        all.size = n;
        all.tau = all.total / static_cast<double>(n);
    }
    for (int32_t b : open) view.add(b, view.units(regions[0].tau - c[b]));

    while (!open.empty()) {
        ++result.levels;
        view.solve(open);
        poll(static_cast<int64_t>(16 * open.size()));
        for (int32_t b : open)
            if (view.label(b)) {
                Region& r = regions[region[b]];
                r.gain += r.tau - c[b];
                ++r.chosen;
            }
        view.visit_cut([&](int64_t b, int64_t, double w, const auto&) {
            if (region[b] >= 0) regions[region[b]].gain -= w;
        });
        int32_t count = 0;
        for (Region& r : regions)  // rounding in c is of the order of 1e-16 of its absolute sum
            if (r.chosen > 0 && r.chosen < r.size && r.gain > 1e-14 * r.absolute) {
                r.child = count;
                count += 2;
            }
        view.visit_cut([&](int64_t b, int64_t d, double w, const auto& edge) {
            if (region[b] < 0 || regions[region[b]].child < 0) return;
            const bool first = view.label(b);
            c[b] += first ? w : -w;
            c[d] += first ? -w : w;
            view.erase(edge);
        });
        if (count) view.erased();

        poll(static_cast<int64_t>(16 * open.size()));
        children.assign(count, Region());
        size_t kept = 0;
        for (int32_t b : open) {
            const Region& r = regions[region[b]];
            if (r.child < 0) {
                const double point = r.tau - view.excess(b);
                result.gap += (point - r.tau) * (point + r.tau) / 2 + r.tau * (r.tau - c[b]);
                s[node[b]] = r.tau;
                region[b] = -1;
            } else {
                open[kept++] = b;
                region[b] = r.child + view.label(b);
                Region& child = children[region[b]];
                child.total += c[b];
                child.absolute += std::abs(c[b]);
            }
        }
        open.resize(kept);
        poll(static_cast<int64_t>(16 * open.size()));
        for (const Region& r : regions)
            for (int label = 0; r.child >= 0 && label < 2; ++label) {
                Region& child = children[r.child + label];
                child.size = label ? r.chosen : r.size - r.chosen;
                child.tau = child.total / static_cast<double>(child.size);
                child.shift = view.units(child.tau - r.tau);
            }
        for (int32_t b : open) view.add(b, children[region[b]].shift);
        regions.swap(children);
    }
    return result;
}

}  // namespace LOGSUPER_ISA
