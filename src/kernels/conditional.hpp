// P(y_d = 1 | the noise of all other elements) under logistic perturbations, from the maximiser y.
//
// Element d of the maximiser is 1 where z_d > -m_d: m_d is what the best y with y_d = 1 is worth
// more than the best one with y_d = 0, its own noise left out. Hence P(y_d = 1 | z_others) =
// sigma(m_d). On a tree m_d = theta_d + sum of max-product messages
//     M_jd = clip(theta_j + z_j + sum over k != d of M_kj, -w_jd, w_jd).
// Here they start from the maximiser, M_jd = w_jd (2 y_j - 1), and a few rounds follow: on any graph
// that lets the elements within that distance of d answer to a change of it, and holds the others.
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

// 2^24 sigma(x), a whole number, for |x| <= 80: -x = k log 2 + r, and the series of e^r.
LOGSUPER_INLINE Int8 sigmoid8(Float8 x) {
    constexpr float kRound = 12582912.0f;  // 1.5 2^23: what is added to it becomes whole
    const Float8 k = x * -1.44269504f + kRound;
    const Float8 whole = k - kRound;
    const Float8 r = (-x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    const Float8 p = ((((r * (1.0f / 720) + 1.0f / 120) * r + 1.0f / 24) * r + 1.0f / 6) * r + 0.5f) * r;
    const Float8 e = (Float8)((UInt8)((p + 1.0f) * r + 1.0f) + ((UInt8)k << 23));
    return __builtin_convertvector(16777216.0f / (1.0f + e), Int8);
}

// Vectors of 32 bytes. Arrays that are read by them have `kPad` zeros behind their end.
constexpr int64_t kPad = 8;
template <class T>
struct Pack;
template <>
struct Pack<float> {
    typedef Float8 type;
};
template <>
struct Pack<double> {
    typedef Double4 type;
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
        Int8 sum;
        std::memcpy(&sum, sums + i, sizeof sum);
        write(sums + i, sum + sigmoid8(read(single)));
    }
}

// field = theta + noise on the elements first .. first + n - 1; `first` is a multiple of 32.
template <class T>
void perturb_part(const T* theta, int64_t first, int64_t n, uint64_t key, uint64_t problem, uint32_t sample,
                  T* field) {
    uint32_t words[4][8];
    float z[32];
    for (int64_t i = 0; i < n; i += 32) {
        philox8(static_cast<uint32_t>((first + i) / 4), sample, static_cast<uint32_t>(problem),
                static_cast<uint32_t>(problem >> 32), key, words);
        for (int j = 0; j < 4; ++j) {
            const Float8 eight = logistic8(words[j]);
            std::memcpy(z + 8 * j, &eight, sizeof eight);
        }
        if (i + 32 <= n)
            for (int64_t j = 0; j < 32; ++j) field[i + j] = theta[i + j] + z[j];
        else
            for (int64_t j = 0; i + j < n; ++j) field[i + j] = theta[i + j] + z[j];
    }
}

// The perturbed problems: everything but the graph.
struct Perturbations {
    int64_t problems = 0, samples = 0, nodes = 0;
    const double* theta = nullptr;    // (problems, nodes)
    const uint8_t* labels = nullptr;  // (problems, samples, nodes): the maximisers
    const uint64_t* numbers = nullptr;
    uint64_t key = 0;
    uint32_t first_sample = 0;
    int rounds = 0;
    double* sums = nullptr;  // (problems, nodes)

    uint32_t sample(int64_t s) const { return static_cast<uint32_t>(first_sample + s); }
};

// Numbers of the type T: of the elements, and messages along the edges and against them.
template <class T>
struct ConditionalScratch {
    std::vector<T> theta, field, spin, belief, pull, weights, there, back;
    std::vector<int32_t> sums;

    void resize(int64_t elements, int64_t edges) {
        for (auto* each : {&theta, &field, &spin, &belief, &pull}) each->assign(elements + kPad, T(0));
        for (auto* each : {&weights, &there, &back}) each->assign(edges + kPad, T(0));
        sums.assign(elements + kPad, 0);
    }
    // Adds up exactly, as the sums are whole numbers: in any order, the same.
    void flush(int64_t first, int64_t count, double* out) {
        for (int64_t i = 0; i < count; ++i) out[i] += sums[first + i] * (1.0 / 16777216);
        std::fill(sums.begin(), sums.end(), 0);
    }
};
constexpr int64_t kFlush = 64;  // samples whose sums fit 32 bits

// A grid as flat arrays: edges lead from i to i + offset, with weight 0 where that leaves the grid.
// A part of the elements with a margin of `rounds` + 1 steps is all that its own results need.
template <class T>
class GridConditional {
    const Perturbations& p_;
    const std::vector<int64_t> offsets_;
    const double* const planes_;  // (problems or 1, offsets, nodes)
    const bool shared_;
    int64_t margin_ = 0, part_ = 0;

   public:
    using Scratch = ConditionalScratch<T>;

    GridConditional(const Perturbations& p, std::vector<int64_t> offsets, const double* planes, bool shared)
        : p_(p), offsets_(std::move(offsets)), planes_(planes), shared_(shared) {
        for (int64_t offset : offsets_) margin_ = std::max(margin_, (p.rounds + 1) * offset);
        part_ = std::max<int64_t>(4096, 8 * margin_);  // so that its arrays stay in the cache
    }
    int64_t units() const { return p_.problems * parts(); }

    void run(Scratch& scratch, int64_t unit) const {
        const int64_t m = unit / parts(), first = unit % parts() * part_, n = p_.nodes;
        const int64_t last = std::min(n, first + part_);
        const int64_t low = std::max<int64_t>(0, first - margin_) / 32 * 32,
                      high = std::min(n, last + margin_);
        const int64_t size = high - low, count = static_cast<int64_t>(offsets_.size());
        scratch.resize(size, count * (size + kPad));
        std::copy_n(p_.theta + m * n + low, size, scratch.theta.data());
        for (int64_t o = 0; o < count; ++o)  // only the edges inside of the part
            std::copy_n(planes_ + ((shared_ ? 0 : m * count) + o) * n + low, size - offsets_[o],
                        scratch.weights.data() + o * (size + kPad));
        for (int64_t s = 0; s < p_.samples; ++s) {
            if (s && s % kFlush == 0) scratch.flush(first - low, last - first, p_.sums + m * n + first);
            perturb_part(scratch.theta.data(), low, size, p_.key, p_.numbers[m], p_.sample(s),
                         scratch.field.data());
            exchange(scratch, p_.labels + (m * p_.samples + s) * n + low, size);
            add_sigmoid(scratch.theta.data() + (first - low), scratch.pull.data() + (first - low),
                        last - first, scratch.sums.data() + (first - low));
        }
        scratch.flush(first - low, last - first, p_.sums + m * n + first);
    }

   private:
    int64_t parts() const { return (p_.nodes + part_ - 1) / part_; }

    // What all messages into each element add up to, after the last round.
    void exchange(Scratch& scratch, const uint8_t* y, int64_t size) const {
        T *field = scratch.field.data(), *belief = scratch.belief.data(), *pull = scratch.pull.data();
        T* __restrict spin = scratch.spin.data();
        for (int64_t i = 0; i < size; ++i) spin[i] = static_cast<T>(2 * y[i] - 1);
        for (int round = 0; round <= p_.rounds; ++round) {
            for (int64_t i = 0; round && i < size; i += kPack<T>)
                write(belief + i, read(field + i) + read(pull + i));
            std::fill_n(pull, size, T(0));
            for (size_t o = 0; o < offsets_.size(); ++o) {
                const int64_t offset = offsets_[o], count = size - offset;
                const size_t at = o * static_cast<size_t>(size + kPad);
                const T* w = scratch.weights.data() + at;
                T *there = scratch.there.data() + at, *back = scratch.back.data() + at;
                if (round)
                    pass(belief, w, offset, count, there, back);
                else
                    start(spin, w, offset, count, there, back);
                add(back, count, pull);
                add(there, count, pull + offset);
                poll(4 * count);
            }
        }
    }

    // Messages from i to i + offset, `there`, and from i + offset to i, `back`.
    static void start(const T* spin, const T* w, int64_t offset, int64_t count, T* there, T* back) {
        for (int64_t i = 0; i < count; i += kPack<T>) {
            write(there + i, read(w + i) * read(spin + i));
            write(back + i, read(w + i) * read(spin + i + offset));
        }
    }
    static void pass(const T* belief, const T* w, int64_t offset, int64_t count, T* there, T* back) {
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

// Any graph, edge by edge.
template <class T>
class GraphConditional {
    const Perturbations& p_;
    const int64_t edges_;
    const int64_t* const ends_;    // (edges, 2)
    const double* const weights_;  // (problems or 1, edges)
    const bool shared_;

   public:
    using Scratch = ConditionalScratch<T>;

    GraphConditional(const Perturbations& p, int64_t edges, const int64_t* ends, const double* weights,
                     bool shared)
        : p_(p), edges_(edges), ends_(ends), weights_(weights), shared_(shared) {}
    int64_t units() const { return p_.problems; }

    void run(Scratch& scratch, int64_t m) const {
        const int64_t n = p_.nodes;
        scratch.resize(n, edges_);
        std::copy_n(p_.theta + m * n, n, scratch.theta.data());
        std::copy_n(weights_ + (shared_ ? 0 : m * edges_), edges_, scratch.weights.data());
        for (int64_t s = 0; s < p_.samples; ++s) {
            if (s && s % kFlush == 0) scratch.flush(0, n, p_.sums + m * n);
            perturb_part(scratch.theta.data(), 0, n, p_.key, p_.numbers[m], p_.sample(s),
                         scratch.field.data());
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
            polled(edges_, 4, [&](int64_t e) {
                const int64_t i = ends_[2 * e], j = ends_[2 * e + 1];
                const T from_i = round ? belief[i] - back[e] : y[i] ? w[e] : -w[e];
                const T from_j = round ? belief[j] - there[e] : y[j] ? w[e] : -w[e];
                pull[j] += there[e] = clip(from_i, w[e]);
                pull[i] += back[e] = clip(from_j, w[e]);
            });
            poll(edges_ + n);
        }
    }
};
}  // namespace LOGSUPER_ISA
