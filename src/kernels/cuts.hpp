// Shared by the three max-flow solvers: ranges of weights, quantisation, precision.
//
// Every solver computes  argmax_y theta'y - sum_e w_e |y_i - y_j|  for w >= 0. A node has an `excess` (the
// rest of theta), an undirected edge one signed `flow` with residuals w - flow and w + flow; theta > 0 is a
// source, theta < 0 a sink. All numbers are integers:
//     w -> round(w * scale),  theta -> round(clip(theta * scale, -bound, bound)),
// with scale a power of two (so that numbers with few bits, and ties between them, stay exact)
// and bound = (largest sum of weights at a node) + 1: beyond it a node's label is its sign.
// The bound limits excess and flow, hence nothing can overflow whatever theta is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace LOGSUPER_ISA {

// Thrown while a field is read; the Python caller names the entry.
[[noreturn]] inline void refuse_nan() { throw std::invalid_argument("theta has a NaN"); }

enum class Tie { kMinimal = 0, kMaximal = 1 };

// The label of a node without edges.
inline bool label_of(double theta, Tie tie) { return theta > 0 || (theta == 0 && tie == Tie::kMaximal); }

struct WeightRange {
    double largest_degree = 0;  // bound on the sum of the weights at one node, or on the total flow
    double smallest = std::numeric_limits<double>::infinity();  // smallest positive weight
    double largest_field = 0;  // fields up to this size must keep their value, not only their sign
    double cap = std::numeric_limits<double>::infinity();  // weights and fields are capped here
    int64_t most_edges = 32;  // at one node
};

inline void refuse_overflow(const WeightRange& range) {
    if (!(range.largest_degree <= std::numeric_limits<double>::max() / 4))
        throw std::invalid_argument("alpha times the weights of the edges is too large: it overflows");
}

template <class T>
struct Quantiser {
    double scale = 1;
    double bound = 1;  // of fields, in integer units
    double limit = std::numeric_limits<double>::infinity();  // of weights, in integer units

    // |flow + excess| <= 3 * degree + 1 must fit: 2^29 * 3 < 2^31 and 2^60 * 3 < 2^63.
    static constexpr int kBits = sizeof(T) == 4 ? 29 : 60;

    explicit Quantiser(const WeightRange& range) {
        int exponent = 0;
        const double largest = range.largest_degree + range.largest_field;
        if (largest > 0) {
            std::frexp(largest, &exponent);  // largest <= 2^exponent
            scale = std::ldexp(1.0, std::clamp(kBits - exponent, -1000, 1000));
        }
        bound = above(std::min(largest, range.cap), range.most_edges);
        if (std::isfinite(range.cap)) limit = bound;
    }
    T weight(double w) const { return static_cast<T>(std::nearbyint(std::min(w * scale, limit))); }

    // Narrow integers are precise enough if their unit is below 1e-7 of every positive weight.
    static bool narrow_is_enough(const WeightRange& range) {
        return range.largest_degree == 0 || range.smallest * Quantiser<int32_t>(range).scale >= 1e7;
    }

   private:
    // An upper bound on the integer sum of weights whose sum is x: it allows for the rounding of every
    // weight, and for that of the sum in float64, which does not represent all integers beyond 2^53.
    double above(double x, int64_t edges) const {
        const double count = static_cast<double>(edges);
        return std::ceil(x * scale * (1 + 0x1p-40 + count * 0x1p-51)) + count + 64;
    }
};

// Whether the integers are fine enough for a field. Three in four of its entries must keep 20 bits (40 in
// wide integers), so that rounding changes the sum of the |theta_i| by less than 1e-6 (1e-12), and no entry
// may become 0 in a narrow integer. Entries that are 0, or so large that only their sign matters, are not
// counted: they would hide the loss of the others.
template <class T>
struct Resolution {
    static constexpr double kFine = sizeof(T) == 4 ? 0x1p20 : 0x1p40;
    int64_t seen = 0, coarse = 0;
    bool lost = false;  // whether a narrow integer is 0 although the entry is not
    void note(double scaled, double bound) {
        const double size = std::abs(scaled);
        seen += size != 0 && size < bound;
        coarse += size != 0 && size < kFine;
        lost |= sizeof(T) == 4 && size != 0 && size < 0.5;
    }
    bool enough() const { return 4 * coarse <= seen && !lost; }
};

// One entry of a field as an integer.
template <class T>
T quantise(double theta, double scale, double bound, Resolution<T>& resolution) {
    if (std::isnan(theta)) refuse_nan();
    resolution.note(theta * scale, bound);
    return static_cast<T>(std::nearbyint(std::clamp(theta * scale, -bound, bound)));
}

}  // namespace LOGSUPER_ISA
