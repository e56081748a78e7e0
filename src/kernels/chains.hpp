// Heat-bath sweeps over pairwise models: x_d <- 1[noise < theta_d + scale * sum_j w_dj (2 x_j - 1)].
//
// All chains of a problem share the noise, which keeps ordered chains ordered: two of them, from all 0 and
// from all 1, give coupling from the past. The noise of position p of the scan at a time depends on (key,
// problem, time, p) alone; no number is carried from one sweep to the next. Sums run over the neighbours in
// the order of the elements, in double precision and with exact products: the same bits on every machine, and
// from NumPy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "noise.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

// The sweeps at the times first, first + step, ..., `count` of them.
struct Sweeps {
    double scale = 1;
    uint64_t key = 0;
    int64_t first = 0, count = 0, step = 1;

    NoiseStream noise(uint64_t problem, int64_t k) const {
        return {key, problem, static_cast<uint32_t>(first + k * step)};
    }
};

// The chains of one problem of n elements.
struct ProblemChains {
    uint8_t* states = nullptr;  // (count, n)
    int count = 1;  // 1 or 2
    const double* theta = nullptr;  // (n,)
    uint64_t problem = 0;  // number of the problem, for its noise
};

// Size of an array that fill_noise can write n numbers to.
inline int64_t padded(int64_t n) { return (n + 31) / 32 * 32; }

// The noise of the elements 0 .. n - 1, rounded up to whole blocks of 32.
inline void fill_noise(const NoiseStream& stream, int64_t n, float* out) {
    for (int64_t i = 0; i < n; i += 32) {
        if (i % kPollInterval == 0) poll(kPollInterval);
        logistic32(stream, i, out + i);
    }
}

struct ScanScratch {
    std::vector<double> field;
    std::vector<float> noise;
    std::vector<double> spins;  // GraphScan: +1 or -1
    std::vector<int64_t> signs;  // GridScan: sign bits
    std::vector<double> terms;  // TermScan: states of the terms
};

// A model without its fields, whose elements are visited in a fixed order.
class Scan {
   public:
    virtual ~Scan() = default;
    virtual int64_t size() const = 0;
    virtual void run(ScanScratch& scratch, const ProblemChains& chains, const Sweeps& sweeps) const = 0;
};

// A graph by the positions of a scan: position p is element order[p] and has the neighbours (positions too)
// neighbour[start[p]] .. neighbour[start[p + 1] - 1].
struct ScanGraph {
    std::vector<int64_t> order, start;
    std::vector<int32_t> neighbour;
    std::vector<double> weight;
};

// Any graph, element by element in a given order.
class GraphScan final : public Scan {
    const ScanGraph graph_;

   public:
    explicit GraphScan(ScanGraph graph) : graph_(std::move(graph)) {}

    int64_t size() const override { return static_cast<int64_t>(graph_.order.size()); }

    void run(ScanScratch& scratch, const ProblemChains& chains, const Sweeps& sweeps) const override {
        const int64_t n = size();
        const int count = chains.count;
        scratch.field.resize(n);
        scratch.noise.resize(padded(n));
        scratch.spins.resize(n * count);
        for (int64_t p = 0; p < n; ++p) {
            scratch.field[p] = chains.theta[graph_.order[p]];
            for (int c = 0; c < count; ++c)
                scratch.spins[p * count + c] = chains.states[c * n + graph_.order[p]] ? 1 : -1;
        }
        if (count == 1)
            run_chains<1>(scratch, chains.problem, sweeps);
        else
            run_chains<2>(scratch, chains.problem, sweeps);
        for (int64_t p = 0; p < n; ++p)
            for (int c = 0; c < count; ++c)
                chains.states[c * n + graph_.order[p]] = scratch.spins[p * count + c] > 0;
    }

   private:
    template <int C>
    void run_chains(ScanScratch& scratch, uint64_t problem, const Sweeps& sweeps) const {
        for (int64_t k = 0; k < sweeps.count; ++k) {
            fill_noise(sweeps.noise(problem, k), size(), scratch.noise.data());
            sweep<C>(scratch.field.data(), scratch.noise.data(), sweeps.scale, scratch.spins.data());
        }
    }

    template <int C>
    void sweep(const double* field, const float* noise, double scale, double* spins) const {
        const int64_t n = size();
        polled(n, 32 + 2 * static_cast<int64_t>(graph_.weight.size()) / n, [&](int64_t p) {
            double sum[C] = {};
            for (int64_t k = graph_.start[p]; k < graph_.start[p + 1]; ++k)
                for (int c = 0; c < C; ++c) sum[c] += graph_.weight[k] * spins[graph_.neighbour[k] * C + c];
            for (int c = 0; c < C; ++c) spins[p * C + c] = noise[p] < field[p] + scale * sum[c] ? 1.0 : -1.0;
        });
    }
};

// A 4-neighbour grid as a checkerboard: first the elements with even row + column, then the others, each
// colour row by row. Elements of one colour in one row are contiguous, and so are their neighbours in each
// direction: four are updated at a time. Places outside the grid have weight 0.
class GridScan final : public Scan {
    const int64_t rows_, columns_, stride_, area_;
    std::vector<double> right_[2], down_[2];  // weights to the next column and row, by colour

   public:
    GridScan(int64_t rows, int64_t columns, const double* across, const double* down)
        : rows_(rows),
          columns_(columns),
          stride_((columns + 1) / 2 / 4 * 4 + 4),
          area_((rows + 2) * stride_ + 4) {
        for (int colour = 0; colour < 2; ++colour) {
            right_[colour].assign(area_, 0.0);
            down_[colour].assign(area_, 0.0);
        }
        each([&](int colour, int64_t at, int64_t element) {
            const int64_t i = element / columns, j = element % columns;
            if (j + 1 < columns) right_[colour][at] = across[i * (columns - 1) + j];
            if (i + 1 < rows) down_[colour][at] = down[element];
        });
    }

    int64_t size() const override { return rows_ * columns_; }

    void run(ScanScratch& scratch, const ProblemChains& chains, const Sweeps& sweeps) const override {
        scratch.field.assign(2 * area_, 0.0);
        scratch.noise.resize(padded(size()) + 4);
        scratch.signs.resize(2 * 2 * area_);
        each([&](int colour, int64_t at, int64_t element) {
            scratch.field[colour * area_ + at] = chains.theta[element];
            for (int c = 0; c < chains.count; ++c)
                signs(scratch, colour, c)[at] = chains.states[c * size() + element] ? 0 : kMinus;
        });
        int64_t done = 0;
        bool merged = chains.count == 1;
        while (!merged && done < sweeps.count) merged = !sweep<2>(scratch, chains.problem, sweeps, done++);
        const bool together = merged && chains.count == 2;
        while (done < sweeps.count) sweep<1>(scratch, chains.problem, sweeps, done++);
        each([&](int colour, int64_t at, int64_t element) {
            for (int c = 0; c < chains.count; ++c)
                chains.states[c * size() + element] = signs(scratch, colour, together ? 0 : c)[at] == 0;
        });
    }

   private:
    static constexpr int64_t kMinus = std::numeric_limits<int64_t>::min();

    static int64_t first(int colour, int64_t i) { return (colour + i) % 2; }
    int64_t place(int64_t i) const { return (i + 1) * stride_; }
    int64_t* signs(ScanScratch& scratch, int colour, int chain) const {
        return scratch.signs.data() + (2 * chain + colour) * area_;
    }
    template <class Visit>
    void each(Visit&& visit) const {
        for (int colour = 0; colour < 2; ++colour)
            for (int64_t i = 0; i < rows_; ++i)
                for (int64_t h = 0, j = first(colour, i); j < columns_; ++h, j += 2)
                    visit(colour, place(i) + h, i * columns_ + j);
    }

    static Int64x4 read(const int64_t* p) {
        Int64x4 v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }

    // One sweep of C chains; returns whether they differ anywhere.
    template <int C>
    bool sweep(ScanScratch& scratch, uint64_t problem, const Sweeps& sweeps, int64_t k) const {
        fill_noise(sweeps.noise(problem, k), size(), scratch.noise.data());
        const float* noise = scratch.noise.data();
        Int64x4 difference = {};
        for (int colour = 0; colour < 2; ++colour) {
            int64_t *own[C], *other[C];
            for (int c = 0; c < C; ++c) {
                own[c] = signs(scratch, colour, c);
                other[c] = signs(scratch, 1 - colour, c);
            }
            const double* field = scratch.field.data() + colour * area_;
            const double *right = right_[colour].data(), *from_left = right_[1 - colour].data();
            const double *down = down_[colour].data(), *from_above = down_[1 - colour].data();
            for (int64_t i = 0; i < rows_; ++i) {
                poll_at_row(i, columns_);
                const int64_t odd = first(colour, i), count = (columns_ - odd + 1) / 2;
                for (int64_t h = 0; h < count; h += 4) {
                    // neighbours in the order of the elements: above, left, right, below
                    const int64_t at = place(i) + h;
                    const int64_t next[4] = {at - stride_, at + odd - 1, at + odd, at + stride_};
                    const Int64x4 weight[4] = {(Int64x4)load4(from_above + next[0]),
                                               (Int64x4)load4(from_left + next[1]),
                                               (Int64x4)load4(right + at), (Int64x4)load4(down + at)};
                    Float32x4 z;
                    std::memcpy(&z, noise + h, sizeof z);
                    const Float64x4 threshold = __builtin_convertvector(z, Float64x4), t = load4(field + at);
                    Int64x4 now[C];
                    for (int c = 0; c < C; ++c) {
                        Float64x4 sum = {};
                        for (int d = 0; d < 4; ++d) sum += (Float64x4)(weight[d] ^ read(other[c] + next[d]));
                        now[c] = ~(Int64x4)(threshold < t + sweeps.scale * sum) & kMinus;
                        std::memcpy(own[c] + at, &now[c], sizeof now[c]);
                    }
                    difference |= now[0] ^ now[C - 1];
                }
                noise += count;
            }
        }
        return (difference[0] | difference[1] | difference[2] | difference[3]) != 0;
    }
};

}  // namespace LOGSUPER_ISA
