// Transfer matrices of a strip of a grid, one site at a time, over all states of a broken profile.
//
// A profile holds the newest value of each of the strip's n columns: 2^n states. Its top bit is the column
// that the next site replaces, its lowest bit the column written last, which is the left neighbour of that
// site. A site removes the top bit and inserts the new value at the bottom; every site therefore reads and
// writes whole vectors, and after a row column k is bit n - 1 - k again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "interrupt.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

LOGSUPER_INLINE Float64x4 same4(double x) { return Float64x4{x, x, x, x}; }

// Written element by element, which compilers turn into the best shuffles of the machine.
LOGSUPER_INLINE Float64x4 pairs_low(Float64x4 a, Float64x4 b) { return Float64x4{a[0], b[0], a[1], b[1]}; }
LOGSUPER_INLINE Float64x4 pairs_high(Float64x4 a, Float64x4 b) { return Float64x4{a[2], b[2], a[3], b[3]}; }
LOGSUPER_INLINE Float64x4 evens(Float64x4 a, Float64x4 b) { return Float64x4{a[0], a[2], b[0], b[2]}; }
LOGSUPER_INLINE Float64x4 odds(Float64x4 a, Float64x4 b) { return Float64x4{a[1], a[3], b[1], b[3]}; }

// Two representations of weights. Plain numbers, rescaled by powers of two once per row, are fast, and exact
// up to rounding while the logarithms within a row differ by less than kSafeSpread; logarithms always work.
struct Plain {
    static constexpr double kNever = 0.0, kOne = 1.0, kUnit = 0.6931471805599453;  // log 2
    static constexpr int64_t kSteps = 1;  // of a poll, for one state
    static double weight(double log) { return std::exp(log); }
    static double log(double weight) { return std::log(weight); }
    template <class T>
    static LOGSUPER_INLINE T times(T a, T b) {
        return a * b;
    }
    template <class T>
    static LOGSUPER_INLINE T plus(T a, T b) {
        return a + b;
    }
    // A power of two that scales a weight to about 1, and its logarithm in units of kUnit.
    static double shrink(double weight) {
        const bool usual = weight > 0.0 && std::isfinite(weight);  // else scaling does not help
        return usual ? std::ldexp(1.0, -std::ilogb(weight)) : 1.0;
    }
    static double units(double shrink) { return std::ilogb(shrink); }
};

struct Logs {
    static constexpr double kNever = -1e300, kOne = 0.0, kUnit = 1.0;  // finite: no NaN from inf - inf
    static constexpr int64_t kSteps = 32;
    static double weight(double log) { return log; }
    static double log(double weight) { return weight; }
    template <class T>
    static LOGSUPER_INLINE T times(T a, T b) {
        return a + b;
    }
    static double plus(double a, double b) {
        return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
    }
    static Float64x4 plus(Float64x4 a, Float64x4 b) {
        for (int i = 0; i < 4; ++i) a[i] = plus(a[i], b[i]);
        return a;
    }
    static double shrink(double weight) { return -weight; }
    static double units(double shrink) { return shrink; }
};

// Then alpha and beta of a row are within exp(-300) of their largest entry, profiles within a row within
// exp(-600), and no product of two leaves the range of normal numbers, exp(+-708).
constexpr double kSafeSpread = 300.0;

struct Site {
    double zero[2], one[2];  // weight of the new value, by the value of the left neighbour
    double flip;             // factor if the new value differs from the one above
};

template <class D>
LOGSUPER_INLINE Float64x4 mix(Float64x4 same, Float64x4 other, Float64x4 flip) {
    return D::plus(same, D::times(other, flip));
}

// out[new] = sum over the old top bit; 2 * half states, half >= 4.
template <class D>
void forward_site(const Site& site, double shrink, int64_t half, const double* in, double* out) {
    const double z0 = D::times(site.zero[0], shrink), z1 = D::times(site.zero[1], shrink);
    const double o0 = D::times(site.one[0], shrink), o1 = D::times(site.one[1], shrink);
    const Float64x4 zero = {z0, z1, z0, z1}, one = {o0, o1, o0, o1}, flip = same4(site.flip);
    polled<4>(half, 4 * D::kSteps, [&](int64_t i) {
        const Float64x4 x = load4(in + i), y = load4(in + i + half);
        const Float64x4 a = D::times(mix<D>(x, y, flip), zero), b = D::times(mix<D>(y, x, flip), one);
        store4(out + 2 * i, pairs_low(a, b));
        store4(out + 2 * i + 4, pairs_high(a, b));
    });
}

// The transpose of the same matrix.
template <class D>
void backward_site(const Site& site, double shrink, int64_t half, const double* in, double* out) {
    const double z0 = D::times(site.zero[0], shrink), z1 = D::times(site.zero[1], shrink);
    const double o0 = D::times(site.one[0], shrink), o1 = D::times(site.one[1], shrink);
    const Float64x4 zero = {z0, z1, z0, z1}, one = {o0, o1, o0, o1}, flip = same4(site.flip);
    polled<4>(half, 4 * D::kSteps, [&](int64_t i) {
        const Float64x4 low = load4(in + 2 * i), high = load4(in + 2 * i + 4);
        const Float64x4 a = D::times(evens(low, high), zero);
        const Float64x4 b = D::times(odds(low, high), one);
        store4(out + i, mix<D>(a, b, flip));
        store4(out + i + half, mix<D>(b, a, flip));
    });
}

// Sites first .. last - 1 of a row of n columns.
struct SiteRange {
    const Site* row;
    int n, first, last;

    int64_t half() const { return int64_t{1} << (n - 1); }
};

// From the profile `in` to `out`; `spare` has space for two profiles.
template <class D>
void forward_sites(const SiteRange& sites, double shrink, const double* in, double* out, double* spare) {
    const auto [row, n, first, last] = sites;
    const int64_t half = sites.half();
    for (int k = first; k < last; ++k) {
        double* to = k == last - 1 ? out : spare + (k & 1) * 2 * half;
        forward_site<D>(row[k], k == first ? shrink : D::kOne, half, in, to);
        in = to;
    }
}

template <class D>
void backward_sites(const SiteRange& sites, double shrink, const double* in, double* out, double* spare) {
    const auto [row, n, first, last] = sites;
    const int64_t half = sites.half();
    for (int k = last - 1; k >= first; --k) {
        double* to = k == first ? out : spare + (k & 1) * 2 * half;
        backward_site<D>(row[k], k == last - 1 ? shrink : D::kOne, half, in, to);
        in = to;
    }
}

// Probabilities that a site is 1, and that it differs from its left neighbour and from the pixel above, from
// the weights of the profiles before it (everything above) and after it (everything below).
struct Moments {
    double one, differ, flip;
};

template <class D>
Moments site_moments(const Site& site, int64_t half, const double* before, const double* after) {
    Float64x4 same[2], other[2];  // by the new value; the left neighbour is the parity of the lane
    polled<4>(half, 4 * D::kSteps, [&](int64_t i) {
        const Float64x4 x = load4(before + i), y = load4(before + i + half);
        const Float64x4 low = load4(after + 2 * i), high = load4(after + 2 * i + 4);
        const Float64x4 zero = evens(low, high);
        const Float64x4 one = odds(low, high);
        const Float64x4 terms[4] = {D::times(x, zero), D::times(y, one), D::times(y, zero), D::times(x, one)};
        for (int b = 0; b < 2; ++b) {
            same[b] = i ? D::plus(same[b], terms[b]) : terms[b];
            other[b] = i ? D::plus(other[b], terms[2 + b]) : terms[2 + b];
        }
    });
    double logs[8], top = -std::numeric_limits<double>::infinity();
    for (int j = 0; j < 8; ++j) {  // bits of j: new value, left neighbour, whether it differs from above
        const int value = j & 1, left = j >> 1 & 1;
        const Float64x4& sums = j >> 2 ? other[value] : same[value];
        double weight = D::times(D::plus(sums[left], sums[left + 2]), (value ? site.one : site.zero)[left]);
        if (j >> 2) weight = D::times(weight, site.flip);
        logs[j] = D::log(weight);
        top = std::max(top, logs[j]);
    }
    double total = 0;
    Moments found{0, 0, 0};
    for (int j = 0; j < 8; ++j) {
        const double p = std::exp(logs[j] - top);
        total += p;
        if (j & 1) found.one += p;
        if ((j & 1) != (j >> 1 & 1)) found.differ += p;
        if (j >> 2) found.flip += p;
    }
    return Moments{found.one / total, found.differ / total, found.flip / total};
}

// The factor for the next row that scales the largest of n >= 8 weights to about 1.
template <class D>
double shrink_of(const double* v, int64_t n) {
    double top[8];  // not Float64x4, which is slow to compare without AVX
    std::copy_n(v, 8, top);
    for (int64_t i = 8; i < n; i += 8)
        for (int j = 0; j < 8; ++j) top[j] = v[i + j] > top[j] ? v[i + j] : top[j];
    return D::shrink(*std::max_element(top, top + 8));
}

// log of the sum of n >= 4 weights.
template <class D>
double log_sum(const double* v, int64_t n) {
    Float64x4 sum = load4(v);
    polled<4>(n - 4, 4 * D::kSteps, [&](int64_t i) { sum = D::plus(sum, load4(v + 4 + i)); });
    return D::log(D::plus(D::plus(sum[0], sum[1]), D::plus(sum[2], sum[3])));
}

// log (sum a[i] b[2i + 1] / sum a[i] b[2i]).
template <class D>
double log_odds_below(const double* a, const double* b, int64_t n) {
    Float64x4 zeros = {}, ones = {};
    polled<4>(n, 4 * D::kSteps, [&](int64_t i) {
        const Float64x4 x = load4(a + i), low = load4(b + 2 * i), high = load4(b + 2 * i + 4);
        const Float64x4 zero = D::times(x, evens(low, high));
        const Float64x4 one = D::times(x, odds(low, high));
        zeros = i ? D::plus(zeros, zero) : zero;
        ones = i ? D::plus(ones, one) : one;
    });
    return D::log(D::plus(D::plus(ones[0], ones[1]), D::plus(ones[2], ones[3]))) -
           D::log(D::plus(D::plus(zeros[0], zeros[1]), D::plus(zeros[2], zeros[3])));
}

// Log-odds of the first `wanted` of n columns, from a[i] b[i] over the profiles of a whole row; `spare` has
// space for one profile.
template <class D>
void log_odds_of_columns(const double* a, const double* b, int n, int wanted, double* out, double* spare) {
    int64_t size = int64_t{1} << n;
    polled<4>(size, 4 * D::kSteps,
              [&](int64_t i) { store4(spare + i, D::times(load4(a + i), load4(b + i))); });
    for (int k = 0; k < wanted; ++k) {
        const int64_t half = size / 2;
        if (half >= 4) {
            out[k] = log_sum<D>(spare + half, half) - log_sum<D>(spare, half);
            polled<4>(half, 4 * D::kSteps, [&](int64_t i) {
                store4(spare + i, D::plus(load4(spare + i), load4(spare + i + half)));
            });
        } else {
            double zero = spare[0], one = spare[half];
            if (half == 2) zero = D::plus(zero, spare[1]), one = D::plus(one, spare[3]);
            out[k] = D::log(one) - D::log(zero);
            for (int64_t i = 0; i < half; ++i) spare[i] = D::plus(spare[i], spare[i + half]);
        }
        size = half;
    }
}

}  // namespace LOGSUPER_ISA
