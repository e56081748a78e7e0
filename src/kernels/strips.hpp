// Transfer matrices of a strip of a grid, one row at a time, over all states of a row.
//
// A profile holds a weight for each of the 2^n states of a row of n columns; column k is bit n - 1 - k of the
// number of a state. From one row to the next, every column acts on its bit by the matrix (1 flip; flip 1),
// where flip is the factor of two vertical neighbours that differ. These matrices commute, so that several
// bits are done in one pass over the profile, in registers. Then each state is multiplied by the weight of
// the new row, which is kept as a product of two short tables.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "interrupt.hpp"
#include "simd.hpp"

// For the bodies of inner loops.
#define LOGSUPER_INLINE_LAMBDA __attribute__((always_inline))

namespace LOGSUPER_ISA {

LOGSUPER_INLINE Float64x4 same4(double x) { return Float64x4{x, x, x, x}; }

// Written element by element, which compilers turn into the best shuffles of the machine.
LOGSUPER_INLINE Float64x4 swap_neighbours(Float64x4 a) { return Float64x4{a[1], a[0], a[3], a[2]}; }
LOGSUPER_INLINE Float64x4 swap_halves(Float64x4 a) { return Float64x4{a[2], a[3], a[0], a[1]}; }

LOGSUPER_INLINE Float64x4 larger(Float64x4 a, Float64x4 b) {
#if defined(__AVX2__)
    return (Float64x4)_mm256_max_pd((__m256d)a, (__m256d)b);
#elif defined(__SSE2__)
    const __m128d low = _mm_max_pd(__m128d{a[0], a[1]}, __m128d{b[0], b[1]});
    const __m128d high = _mm_max_pd(__m128d{a[2], a[3]}, __m128d{b[2], b[3]});
    return Float64x4{low[0], low[1], high[0], high[1]};
#else
    for (int i = 0; i < 4; ++i) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

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
    static double log_ratio(double a, double b) { return std::log(a / b); }
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
    static double log_ratio(double a, double b) { return a - b; }
};

// Then alpha and beta of a row are within exp(-300) of their largest entry, profiles within a row within
// exp(-600), and no product of two leaves the range of normal numbers, exp(+-708).
constexpr double kSafeSpread = 300.0;

// ---- the vertical edges between two rows ----

template <class D>
LOGSUPER_INLINE Float64x4 mix(Float64x4 same, Float64x4 other, Float64x4 flip) {
    return D::plus(same, D::times(other, flip));
}

// The two bits within a vector.
template <class D>
LOGSUPER_INLINE Float64x4 cross_lanes(Float64x4 x, Float64x4 flip1, Float64x4 flip0) {
    x = mix<D>(x, swap_halves(x), flip1);
    return mix<D>(x, swap_neighbours(x), flip0);
}

// Bits bit .. bit + Bits - 1 of a profile, bit >= 2; flips in the order of the bits. With Lanes, bits 0 and 1
// too, whose flips are flips[-2] and flips[-1]. before(at, x) and after(at, x) may change the vectors x of
// the states at, at + 2^bit, ..., when they are loaded and before they are stored.
template <class D, int Bits, bool Lanes, class Before, class After>
LOGSUPER_INLINE void cross_bits(const double* flips, int bit, int64_t size, const double* in, double* out,
                                Before&& before, After&& after) {
    constexpr int kVectors = 1 << Bits;
    Float64x4 flip[Bits + 1], lanes[2] = {};
    for (int k = 0; k < Bits; ++k) flip[k] = same4(flips[k]);
    if (Lanes)
        for (int k = 0; k < 2; ++k) lanes[k] = same4(flips[k - 2]);
    const int64_t stride = int64_t{1} << bit;
    const auto block = [&](int64_t at) LOGSUPER_INLINE_LAMBDA {
        Float64x4 x[kVectors];
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) x[i] = load4(in + at + i * stride);
        before(at, x);
#pragma GCC unroll 3
        for (int k = 0; k < Bits; ++k)
#pragma GCC unroll 8
            for (int i = 0; i < kVectors; ++i)
                if (!(i >> k & 1)) {
                    const Float64x4 zero = x[i], one = x[i | 1 << k];
                    x[i] = mix<D>(zero, one, flip[k]);
                    x[i | 1 << k] = mix<D>(one, zero, flip[k]);
                }
        if (Lanes)
#pragma GCC unroll 8
            for (int i = 0; i < kVectors; ++i) x[i] = cross_lanes<D>(x[i], lanes[1], lanes[0]);
        after(at, x);
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) store4(out + at + i * stride, x[i]);
    };
    constexpr int64_t kPolled = 1 << 16;  // states, where blocks are too small to poll
    for (int64_t first = 0; first < size;) {
        polled<4>(stride, 4 * kVectors * D::kSteps,
                  [&](int64_t i) LOGSUPER_INLINE_LAMBDA { block(first + i); });
        first += stride << Bits;
        if (!(first & (kPolled - 1))) poll(kPolled * D::kSteps);
    }
}

struct Nothing {
    template <class X>
    LOGSUPER_INLINE void operator()(int64_t, X&) const {}
};

// The low bits of n >= 3, so many that the others can be done by threes. `in` may be `out`, here and below.
template <class D, class Before, class After>
LOGSUPER_INLINE void cross_low(const double* flips, int n, const double* in, double* out, Before&& before,
                               After&& after) {
    const int64_t size = int64_t{1} << n;
    switch ((n - 2) % 3) {
        case 0:
            cross_bits<D, 3, true>(flips + 2, 2, size, in, out, before, after);
            break;
        case 1:
            cross_bits<D, 1, true>(flips + 2, 2, size, in, out, before, after);
            break;
        default:
            cross_bits<D, 2, true>(flips + 2, 2, size, in, out, before, after);
    }
}

inline int low_bits_of(int n) { return (n - 2) % 3 ? 2 + (n - 2) % 3 : 5; }

// The other bits; returns where the result is: in `out`, or in `in` if there are none.
template <class D>
const double* cross_high(const double* flips, int n, const double* in, double* out) {
    for (int bit = low_bits_of(n); bit < n; bit += 3, in = out)
        cross_bits<D, 3, false>(flips + bit, bit, int64_t{1} << n, in, out, Nothing(), Nothing());
    return in;
}

// All bits; flips[k] is that of bit k.
template <class D>
void cross(const double* flips, int n, const double* in, double* out) {
    cross_low<D>(flips, n, cross_high<D>(flips, n, in, out), out, Nothing(), Nothing());
}

// One bit alone.
template <class D>
void cross_bit(double flip, int bit, int n, const double* in, double* out) {
    const int64_t size = int64_t{1} << n;
    if (bit >= 2) return cross_bits<D, 1, false>(&flip, bit, size, in, out, Nothing(), Nothing());
    const Float64x4 factor = same4(flip);
    polled<4>(size, 4 * D::kSteps, [&](int64_t i) LOGSUPER_INLINE_LAMBDA {
        const Float64x4 x = load4(in + i);
        store4(out + i, mix<D>(x, bit ? swap_halves(x) : swap_neighbours(x), factor));
    });
}

// ---- the weights of a row ----

// State s has the weight head[s >> tail_bits] * tail[the lowest bit of that, s's last tail_bits bits].
struct Row {
    const double *flips, *head, *tail;
    int n, tail_bits;
};

// About half of the bits, and no fewer than `cross_low` has.
inline int tail_bits_of(int n) { return n <= 6 ? n : std::max(5, n / 2); }

// Weights of a pixel's value, by that of its left neighbour.
struct Site {
    double zero[2], one[2];
};

// Weights of all states of some sites, given the value left of them.
template <class D>
void tabulate(const Site* sites, int count, int left, double* out) {
    out[0] = D::kOne;
    for (int k = 0; k < count; ++k)
        for (int64_t s = (int64_t{1} << k) - 1; s >= 0; --s) {
            const int before = k ? s & 1 : left;
            const double weight = out[s];
            out[2 * s] = D::times(weight, sites[k].zero[before]);
            out[2 * s + 1] = D::times(weight, sites[k].one[before]);
        }
}

// Multiplies the states of whole blocks of a row by their weights and by a factor, and keeps the largest.
template <class D>
class Weigher {
    const Row row_;
    const double shrink_;
    Float64x4 top_[2];

   public:
    Weigher(const Row& row, double shrink)
        : row_(row), shrink_(shrink), top_{same4(-std::numeric_limits<double>::infinity()), top_[0]} {}

    // States at .. at + 4 Vectors - 1, which have the same head.
    template <size_t Vectors>
    LOGSUPER_INLINE void operator()(int64_t at, Float64x4 (&x)[Vectors]) {
        const int64_t g = at >> row_.tail_bits, mask = (int64_t{1} << row_.tail_bits) - 1;
        const Float64x4 head = same4(D::times(row_.head[g], shrink_));
        const double* const tail = row_.tail + ((g & 1) << row_.tail_bits) + (at & mask);
#pragma GCC unroll 8
        for (size_t i = 0; i < Vectors; ++i) {
            x[i] = D::times(D::times(x[i], head), load4(tail + 4 * i));
            top_[i & 1] = larger(top_[i & 1], x[i]);
        }
    }

    double largest() const {
        const Float64x4 top = larger(top_[0], top_[1]);
        return std::max(std::max(top[0], top[1]), std::max(top[2], top[3]));
    }
};

// out[s] = in[s & mask] times shrink and the weight of s; returns the largest.
template <class D>
double weigh(const Row& row, int64_t mask, double shrink, const double* in, double* out) {
    Weigher<D> weigher(row, shrink);
    polled<8>(int64_t{1} << row.n, 8 * D::kSteps, [&](int64_t at) LOGSUPER_INLINE_LAMBDA {
        Float64x4 x[2] = {load4(in + (at & mask)), load4(in + ((at + 4) & mask))};
        weigher(at, x);
        for (int i = 0; i < 2; ++i) store4(out + at + 4 * i, x[i]);
    });
    return weigher.largest();
}

// From the states of the row above to those of a row, and back; both return the largest weight after
// it was multiplied by that of its state.
template <class D>
double step_down(const Row& row, double shrink, const double* in, double* out) {
    Weigher<D> weigher(row, shrink);
    in = cross_high<D>(row.flips, row.n, in, out);
    cross_low<D>(row.flips, row.n, in, out, Nothing(), weigher);
    return weigher.largest();
}
template <class D>
double step_up(const Row& row, double shrink, const double* in, double* out) {
    Weigher<D> weigher(row, shrink);
    cross_low<D>(row.flips, row.n, in, out, weigher, Nothing());
    cross_high<D>(row.flips, row.n, out, out);
    return weigher.largest();
}

// The factor that scales the largest of n >= 4 weights to about 1.
template <class D>
double shrink_of(const double* v, int64_t n) {
    return D::shrink(*std::max_element(v, v + n));
}

// ---- sums over states ----

// Sums of a[i] b[i] over the lower and the upper half of n states, and a[i] b[i] of both halves added in out.
// Without b, of a alone.
template <class D>
void fold(const double* a, const double* b, int64_t n, double* out, double* zero, double* one) {
    const int64_t half = n / 2;
    const auto vector = [&](int64_t i) LOGSUPER_INLINE_LAMBDA {
        return b ? D::times(load4(a + i), load4(b + i)) : load4(a + i);
    };
    const auto number = [&](int64_t i) LOGSUPER_INLINE_LAMBDA { return b ? D::times(a[i], b[i]) : a[i]; };
    if (half < 8) {
        for (int64_t i = 0; i < half; ++i) {
            const double x = number(i), y = number(i + half);
            *zero = i ? D::plus(*zero, x) : x;
            *one = i ? D::plus(*one, y) : y;
            out[i] = D::plus(x, y);
        }
        return;
    }
    Float64x4 zeros[2], ones[2];  // two each, so that additions overlap
    for (int j = 0; j < 2; ++j) {
        zeros[j] = vector(4 * j), ones[j] = vector(half + 4 * j);
        store4(out + 4 * j, D::plus(zeros[j], ones[j]));
    }
    polled<8>(half - 8, 8 * D::kSteps, [&](int64_t i) LOGSUPER_INLINE_LAMBDA {
        for (int j = 0; j < 2; ++j) {
            const Float64x4 x = vector(i + 8 + 4 * j), y = vector(half + i + 8 + 4 * j);
            zeros[j] = D::plus(zeros[j], x);
            ones[j] = D::plus(ones[j], y);
            store4(out + i + 8 + 4 * j, D::plus(x, y));
        }
    });
    const auto total = [](const Float64x4* sums) {
        const Float64x4 sum = D::plus(sums[0], sums[1]);
        return D::plus(D::plus(sum[0], sum[1]), D::plus(sum[2], sum[3]));
    };
    *zero = total(zeros), *one = total(ones);
}

// Log-odds of the first `wanted` of n columns, from a[i] b[i] over the states of a row; `spare` has space for
// half a profile.
template <class D>
void log_odds_of_columns(const double* a, const double* b, int n, int wanted, double* out, double* spare) {
    for (int k = 0; k < wanted; ++k) {
        double zero = 0, one = 0;
        fold<D>(k ? spare : a, k ? nullptr : b, int64_t{1} << (n - k), spare, &zero, &one);
        out[k] = D::log_ratio(one, zero);
    }
}

// log of the sum of the weights of 2^n states; `spare` as above.
template <class D>
double log_sum(const double* v, int n, double* spare) {
    double zero = 0, one = 0;
    fold<D>(v, nullptr, int64_t{1} << n, spare, &zero, &one);
    return D::log(D::plus(zero, one));
}

// Probabilities that a pixel is 1, and that it differs from its left neighbour and from the pixel above.
struct Moments {
    double one, differ, flip;
};

// The share of the second of two weights.
template <class D>
double share(double first, double second) {
    const double odds = D::log_ratio(second, first);
    return odds > 0 ? 1 / (1 + std::exp(-odds)) : std::exp(odds) / (1 + std::exp(odds));
}

// Probability that the pixels of a bit differ in two rows, from the weights of everything above, before the
// bit is crossed, and of everything below, after it.
template <class D>
double flip_share(double flip, int bit, int n, const double* above, const double* below) {
    Float64x4 same = {}, other = {};
    const int64_t size = int64_t{1} << n, stride = int64_t{1} << bit;
    polled<4>(size, 8 * D::kSteps, [&](int64_t i) LOGSUPER_INLINE_LAMBDA {
        const Float64x4 x = load4(above + i), y = load4(below + i);
        const Float64x4 z = bit >= 2 ? load4(below + (i ^ stride))
                            : bit    ? swap_halves(y)
                                     : swap_neighbours(y);
        same = i ? D::plus(same, D::times(x, y)) : D::times(x, y);
        other = i ? D::plus(other, D::times(x, z)) : D::times(x, z);
    });
    const auto total = [](Float64x4 sum) {
        return D::plus(D::plus(sum[0], sum[1]), D::plus(sum[2], sum[3]));
    };
    return share<D>(total(same), D::times(total(other), flip));
}

// Moments of all columns but the flips, from a[i] b[i]; `spare` has space for a profile.
template <class D>
void row_moments(const double* a, const double* b, int n, int wanted, Moments* out, double* spare) {
    int64_t size = int64_t{1} << n;
    polled<4>(size, 4 * D::kSteps, [&](int64_t i) LOGSUPER_INLINE_LAMBDA {
        store4(spare + i, D::times(load4(a + i), load4(b + i)));
    });
    for (int k = 0; k < wanted; ++k, size /= 2) {
        // the states of column k and those of column k + 1, if there is one
        double sums[2][2] = {};
        for (int left = 0; left < 2; ++left) {
            double* const part = spare + left * size / 2;
            if (size == 2) {
                sums[left][0] = part[0];
                continue;
            }
            fold<D>(part, nullptr, size / 2, spare + (int64_t{1} << n), &sums[left][0], &sums[left][1]);
        }
        const bool last = size == 2;
        const double zero = last ? sums[0][0] : D::plus(sums[0][0], sums[0][1]);
        const double one = last ? sums[1][0] : D::plus(sums[1][0], sums[1][1]);
        out[k].one = share<D>(zero, one);
        if (k + 1 < wanted)
            out[k + 1].differ = share<D>(D::plus(sums[0][0], sums[1][1]), D::plus(sums[0][1], sums[1][0]));
        fold<D>(spare, nullptr, size, spare, &sums[0][0], &sums[0][1]);
    }
}

}  // namespace LOGSUPER_ISA
