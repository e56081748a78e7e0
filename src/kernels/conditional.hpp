// P(y_d = 1 | the noise of all other elements) under logistic perturbations, from the maximiser y.
//
// Element d of the maximiser is 1 where z_d > -m_d; m_d is the value of the best y with y_d = 1 minus that of
// the best y with y_d = 0, without the noise of d. Hence P(y_d = 1 | z_others) = sigma(m_d). On a tree m_d =
// theta_d
// + sum of max-product messages
//     M_jd = clip(theta_j + z_j + sum over k != d of M_kj, -w_jd, w_jd).
// Here they start from the maximiser, M_jd = w_jd (2 y_j - 1), and a few rounds follow: on any graph the
// elements within that distance of d may then respond to a change of y_d, and the others are held fixed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "interrupt.hpp"
#include "noise.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

// 2^24 sigma(x), truncated to an integer, for |x| <= 80: -x = k log 2 + r, and the series of e^r.
LOGSUPER_INLINE Int32x8 sigmoid8(Float32x8 x) {
    constexpr float kRound = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer
    const Float32x8 k = x * -1.44269504f + kRound;
    const Float32x8 whole = k - kRound;
    const Float32x8 r = (-x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    const Float32x8 p = ((((r * (1.0f / 720) + 1.0f / 120) * r + 1.0f / 24) * r + 1.0f / 6) * r + 0.5f) * r;
    const Float32x8 e = (Float32x8)((UInt32x8)((p + 1.0f) * r + 1.0f) + ((UInt32x8)k << 23));
    return __builtin_convertvector(16777216.0f / (1.0f + e), Int32x8);
}

// Vectors of 32 bytes. Arrays that are read in whole vectors have kPad zeros behind their end.
constexpr int64_t kPad = 8;
template <class T>
struct Pack;
template <>
struct Pack<float> {
    typedef Float32x8 type;
};
template <>
struct Pack<double> {
    typedef Float64x4 type;
};
template <class T>
using Packed = typename Pack<T>::type;
template <class T>
constexpr int64_t kPack = 32 / static_cast<int64_t>(sizeof(T));

template <class T>
LOGSUPER_INLINE Packed<T> read(const T* p) {
    Packed<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class V, class T>
LOGSUPER_INLINE void write(T* p, V v) {
    std::memcpy(p, &v, sizeof v);
}
template <class V>
LOGSUPER_INLINE V clip(V x, V w) {
    x = x > w ? w : x;
    return x < -w ? -w : x;
}

// sums[i] += 2^24 sigma(theta[i] + pull[i])
template <class T>
void add_sigmoid(const T* theta, const T* pull, int64_t n, int32_t* sums) {
    constexpr int64_t pack = kPack<T>;
    for (int64_t i = 0; i < n; i += 8) {
        T x[8];
        for (int64_t j = 0; j < 8; j += pack)
            write(x + j, clip(read(theta + i + j) + read(pull + i + j), Packed<T>{} + T(80)));
        float single[8];
        for (int j = 0; j < 8; ++j) single[j] = static_cast<float>(x[j]);
        Int32x8 sum;
        std::memcpy(&sum, sums + i, sizeof sum);
        write(sums + i, sum + sigmoid8(read(single)));
    }
}

// field = theta + noise on the elements first .. first + n - 1; `first` is a multiple of 32.
template <class T>
void perturb_part(const NoiseStream& stream, const T* theta, int64_t first, int64_t n, T* field) {
    float z[32];
    for (int64_t i = 0; i < n; i += 32) {
        logistic32(stream, first + i, z);
        if (i + 32 <= n)
            for (int64_t j = 0; j < 32; ++j) field[i + j] = theta[i + j] + z[j];
        else
            for (int64_t j = 0; i + j < n; ++j) field[i + j] = theta[i + j] + z[j];
    }
}

// The perturbed problems, without the graph.
struct Perturbations {
    int64_t problems = 0, samples = 0, nodes = 0;
    const double* theta = nullptr;  // (problems, nodes)
    const uint8_t* labels = nullptr;  // (problems, samples, nodes): the maximisers
    const uint64_t* numbers = nullptr;  // (problems,): which stream each problem has
    uint64_t key = 0;
    uint32_t first_sample = 0;
    int rounds = 0;
    double* sums = nullptr;  // (problems, nodes)

    NoiseStream noise(int64_t m, int64_t s) const {
        return {key, numbers[m], static_cast<uint32_t>(first_sample + s)};
    }
};

// Arrays over the elements, and messages along the edges (`there`) and against them (`back`).
template <class T>
struct ConditionalScratch {
    std::vector<T> theta, field, spin, belief, pull, weights, there, back;
    std::vector<int32_t> sums;

    void resize(int64_t elements, int64_t edges) {
        for (auto* each : {&theta, &field, &spin, &belief, &pull}) each->assign(elements + kPad, T(0));
        for (auto* each : {&weights, &there, &back}) each->assign(edges + kPad, T(0));
        sums.assign(elements + kPad, 0);
    }
    // The sums are integers and exact, hence independent of the order of the samples.
    void flush(int64_t first, int64_t count, double* out) {
        for (int64_t i = 0; i < count; ++i) out[i] += sums[first + i] * (1.0 / 16777216);
        std::fill(sums.begin(), sums.end(), 0);
    }
};
constexpr int64_t kFlush = 64;  // samples whose sums fit 32 bits

struct ConditionalGrid {
    std::vector<int64_t> offsets;  // edges lead from i to i + offset
    const double* weights = nullptr;  // (problems or 1, offsets, nodes), 0 where an edge leaves the grid
    bool shared = false;  // by all problems
};

// A grid as flat arrays, in parts: the results of a part depend on its own elements and those within a margin
// of rounds + 1 steps.
template <class T>
class GridConditional {
    const Perturbations& p_;
    const ConditionalGrid& grid_;
    int64_t margin_ = 0, part_ = 0;

   public:
    using Scratch = ConditionalScratch<T>;

    GridConditional(const Perturbations& p, const ConditionalGrid& grid) : p_(p), grid_(grid) {
        for (int64_t offset : grid.offsets) margin_ = std::max(margin_, (p.rounds + 1) * offset);
        part_ = std::max<int64_t>(4096, 8 * margin_);  // its arrays stay in the cache
    }
    int64_t units() const { return p_.problems * parts(); }

    void run(Scratch& scratch, int64_t unit) const {
        const int64_t m = unit / parts(), first = unit % parts() * part_, n = p_.nodes;
        const int64_t last = std::min(n, first + part_);
        const int64_t low = std::max<int64_t>(0, first - margin_) / 32 * 32,
                      high = std::min(n, last + margin_);
        const int64_t size = high - low, count = static_cast<int64_t>(grid_.offsets.size());
        scratch.resize(size, count * (size + kPad));
        std::copy_n(p_.theta + m * n + low, size, scratch.theta.data());
        for (int64_t o = 0; o < count; ++o)  // only the edges inside the part
            std::copy_n(grid_.weights + ((grid_.shared ? 0 : m * count) + o) * n + low,
                        size - grid_.offsets[o], scratch.weights.data() + o * (size + kPad));
        for (int64_t s = 0; s < p_.samples; ++s) {
            if (s && s % kFlush == 0) scratch.flush(first - low, last - first, p_.sums + m * n + first);
            perturb_part(p_.noise(m, s), scratch.theta.data(), low, size, scratch.field.data());
            exchange(scratch, p_.labels + (m * p_.samples + s) * n + low, size);
            add_sigmoid(scratch.theta.data() + (first - low), scratch.pull.data() + (first - low),
                        last - first, scratch.sums.data() + (first - low));
        }
        scratch.flush(first - low, last - first, p_.sums + m * n + first);
    }

   private:
    int64_t parts() const { return (p_.nodes + part_ - 1) / part_; }

    // pull[i]: the sum of all messages into element i, after the last round.
    void exchange(Scratch& scratch, const uint8_t* y, int64_t size) const {
        T *field = scratch.field.data(), *belief = scratch.belief.data(), *pull = scratch.pull.data();
        T* __restrict spin = scratch.spin.data();
        for (int64_t i = 0; i < size; ++i) spin[i] = static_cast<T>(2 * y[i] - 1);
        for (int round = 0; round <= p_.rounds; ++round) {
            for (int64_t i = 0; round && i < size; i += kPack<T>)
                write(belief + i, read(field + i) + read(pull + i));
            std::fill_n(pull, size, T(0));
            for (size_t o = 0; o < grid_.offsets.size(); ++o) {
                const int64_t offset = grid_.offsets[o], count = size - offset;
                const size_t at = o * static_cast<size_t>(size + kPad);
                const Edges edges{offset, count, scratch.weights.data() + at, scratch.there.data() + at,
                                  scratch.back.data() + at};
                if (round)
                    pass(belief, edges);
                else
                    start(spin, edges);
                add(edges.back, count, pull);
                add(edges.there, count, pull + offset);
                poll(4 * count);
            }
        }
    }

    // The edges (i, i + offset) for i < count, and their messages from i (`there`) and from i + offset
    // (`back`).
    struct Edges {
        int64_t offset, count;
        const T* weights;
        T *there, *back;
    };
    static void start(const T* spin, const Edges& edges) {
        const auto [offset, count, w, there, back] = edges;
        for (int64_t i = 0; i < count; i += kPack<T>) {
            write(there + i, read(w + i) * read(spin + i));
            write(back + i, read(w + i) * read(spin + i + offset));
        }
    }
    static void pass(const T* belief, const Edges& edges) {
        const auto [offset, count, w, there, back] = edges;
        for (int64_t i = 0; i < count; i += kPack<T>) {
            const auto from_here = read(belief + i) - read(back + i);
            const auto from_there = read(belief + i + offset) - read(there + i);
            write(there + i, clip(from_here, read(w + i)));
            write(back + i, clip(from_there, read(w + i)));
        }
    }
    static void add(const T* x, int64_t count, T* sum) {
        for (int64_t i = 0; i < count; i += kPack<T>) write(sum + i, read(sum + i) + read(x + i));
    }
};

struct ConditionalGraph {
    int64_t edges = 0;
    const int64_t* ends = nullptr;  // (edges, 2)
    const double* weights = nullptr;  // (problems or 1, edges)
    bool shared = false;  // by all problems
};

// Any graph, edge by edge.
template <class T>
class GraphConditional {
    const Perturbations& p_;
    const ConditionalGraph& graph_;

   public:
    using Scratch = ConditionalScratch<T>;

    GraphConditional(const Perturbations& p, const ConditionalGraph& graph) : p_(p), graph_(graph) {}
    int64_t units() const { return p_.problems; }

    void run(Scratch& scratch, int64_t m) const {
        const int64_t n = p_.nodes;
        scratch.resize(n, graph_.edges);
        std::copy_n(p_.theta + m * n, n, scratch.theta.data());
        std::copy_n(graph_.weights + (graph_.shared ? 0 : m * graph_.edges), graph_.edges,
                    scratch.weights.data());
        for (int64_t s = 0; s < p_.samples; ++s) {
            if (s && s % kFlush == 0) scratch.flush(0, n, p_.sums + m * n);
            perturb_part(p_.noise(m, s), scratch.theta.data(), 0, n, scratch.field.data());
            exchange(scratch, p_.labels + (m * p_.samples + s) * n);
            add_sigmoid(scratch.theta.data(), scratch.pull.data(), n, scratch.sums.data());
        }
        scratch.flush(0, n, p_.sums + m * n);
    }

   private:
    void exchange(Scratch& scratch, const uint8_t* y) const {
        const int64_t n = p_.nodes;
        const T* w = scratch.weights.data();
        T *belief = scratch.belief.data(), *pull = scratch.pull.data();
        T *there = scratch.there.data(), *back = scratch.back.data();
        for (int round = 0; round <= p_.rounds; ++round) {
            for (int64_t i = 0; round && i < n; ++i) belief[i] = scratch.field[i] + pull[i];
            std::fill_n(pull, n, T(0));
            polled(graph_.edges, 4, [&](int64_t e) {
                const int64_t i = graph_.ends[2 * e], j = graph_.ends[2 * e + 1];
                const T from_i = round ? belief[i] - back[e] : y[i] ? w[e] : -w[e];
                const T from_j = round ? belief[j] - there[e] : y[j] ? w[e] : -w[e];
                pull[j] += there[e] = clip(from_i, w[e]);
                pull[i] += back[e] = clip(from_j, w[e]);
            });
            poll(graph_.edges + n);
        }
    }
};
}  // namespace LOGSUPER_ISA
