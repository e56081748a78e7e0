// The min-norm point of the base polytope of f(x) = sum_e w_e |x_i - x_j| - theta'x by divide and
// conquer, all regions of a level in one flow (Groenevelt 1991; Hochbaum 2001; Bach 2013, sec. 9.1).
//
// With c = -theta, a region R has the level tau = mean of c over R. Let A minimise f(A) - tau |A|
// within R. If nothing is gained, s = tau on R. Otherwise A and R \ A are regions of the next level;
// an edge (i in A, j in R \ A) is paid for: c_i += w, c_j -= w, and it is deleted.
//
// The certificate: a flow xi within the capacities gives the point c + div xi of B(f); any v gives
// the lower bound -f(v) - |v|^2 / 2 on half the squared norm (f: the Lovasz extension). With v = -s,
//     gap = |c + div xi|^2 / 2 + f(-s) + |s|^2 / 2 >= 0.
// Deleted edges are saturated and join regions ordered by s, edges inside a region see a constant s:
// hence f(-s) = -c's with the final c.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "structure.hpp"

namespace LOGSUPER_ISA {

inline ParametricResult without_edges(const double* theta, int64_t n, double* s) {
    for (int64_t i = 0; i < n; ++i) s[i] = -theta[i];
    return {};
}

template <class View>
ParametricResult divide(View& view, const double* theta, double* s) {
    const int64_t n = view.nodes();
    ParametricResult result;
    std::vector<double> c(n), field(n), outflow(n), point(n);
    std::vector<uint8_t> y(n);
    std::vector<int32_t> region(n, 0);  // -1: done
    struct Region {
        double total = 0, gain = 0, tolerance = 0;
        int64_t size = 0, chosen = 0;
        int32_t child = -1;
    };
    std::vector<Region> regions(n ? 1 : 0), next;
    for (int64_t i = 0; i < n; ++i) c[i] = -theta[i];

    while (!regions.empty()) {
        ++result.levels;
        for (auto& r : regions) r = Region();
        for (int64_t i = 0; i < n; ++i)
            if (region[i] >= 0) {
                Region& r = regions[region[i]];
                r.total += c[i];
                r.tolerance += std::abs(c[i]);
                ++r.size;
            }
        for (int64_t i = 0; i < n; ++i)
            field[i] = region[i] < 0 ? 0 : regions[region[i]].total / regions[region[i]].size - c[i];
        view.solve(field.data());
        view.read(y.data(), outflow.data(), field.data());
        for (int64_t i = 0; i < n; ++i)
            if (region[i] >= 0 && y[i]) {
                regions[region[i]].gain += field[i];
                ++regions[region[i]].chosen;
            }
        view.visit_cut([&](int64_t i, int64_t, double w, const auto&) {
            if (region[i] >= 0) regions[region[i]].gain -= w;
        });
        int32_t count = 0;
        for (auto& r : regions) {
            // Rounding in c is of the order of 1e-16 of its absolute sum.
            const bool split = r.chosen > 0 && r.chosen < r.size && r.gain > 1e-14 * r.tolerance;
            if (split) {
                r.child = count;
                count += 2;
            }
        }
        for (int64_t i = 0; i < n; ++i) {
            if (region[i] < 0) continue;
            const Region& r = regions[region[i]];
            if (r.child < 0) {
                s[i] = r.total / r.size;
                point[i] = c[i] + outflow[i];
            }
        }
        view.visit_cut([&](int64_t i, int64_t j, double w, const auto& edge) {
            if (region[i] < 0 || regions[region[i]].child < 0) return;
            c[i] += y[i] ? w : -w;
            c[j] += y[j] ? w : -w;
            view.erase(edge);
        });
        if (count) view.erased();
        for (int64_t i = 0; i < n; ++i)
            if (region[i] >= 0) {
                const int32_t child = regions[region[i]].child;
                region[i] = child < 0 ? -1 : child + y[i];
            }
        regions.assign(count, Region());
    }
    for (int64_t i = 0; i < n; ++i) result.gap += (point[i] - s[i]) * (point[i] + s[i]) / 2 + s[i] * (s[i] - c[i]);
    return result;
}

}  // namespace LOGSUPER_ISA
