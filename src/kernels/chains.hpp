// Heat-bath sweeps over pairwise models: x_d <- 1[noise < theta_d + scale * sum_j w_dj (2 x_j - 1)].
//
// One noise draw moves all chains of a problem, which keeps ordered chains ordered: two of them,
// from all 0 and from all 1, are coupling from the past. The noise of position p of the scan at a
// time depends on (key, problem, time, p) alone; no number is carried from one sweep to the next.
// Sums run over the neighbours in the order of the elements, in double precision and with exact
// products: the same bits on every machine, and from NumPy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "noise.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

// Which sweeps to run: at the times first, first + step, ..., `count` of them.
struct Sweeps {
    double scale = 1;
    uint64_t key = 0;
    int64_t first = 0, count = 0, step = 1;
};

// Numbers that fill_noise may write for n of them.
inline int64_t padded(int64_t n) { return (n + 31) / 32 * 32; }

// The noise of the elements 0 .. n - 1, rounded up to whole blocks of 32.
inline void fill_noise(uint64_t key, uint64_t problem, int64_t time, int64_t n, float* out) {
    uint32_t words[4][8];
    for (int64_t i = 0; i < n; i += 32) {
        if (i % kPolled == 0) poll(kPolled);
        philox8(static_cast<uint32_t>(i / 4), static_cast<uint32_t>(time), static_cast<uint32_t>(problem),
                static_cast<uint32_t>(problem >> 32), key, words);
        for (int j = 0; j < 4; ++j) {
            const Float8 eight = logistic8(words[j]);
            std::memcpy(out + i + 8 * j, &eight, sizeof eight);
        }
    }
}

struct ScanScratch {
    std::vector<double> field;
    std::vector<float> noise;
    std::vector<double> spins;   // of a graph: +1 or -1
    std::vector<int64_t> signs;  // of a grid: sign bits
    std::vector<double> terms;   // of a sum of terms: their states
};

// A graph without its fields. One or two chains of a problem are `chains` rows of n bytes.
class Scan {
   public:
    virtual ~Scan() = default;
    virtual int64_t size() const = 0;
    virtual void run(ScanScratch& scratch, uint8_t* states, int chains, const double* theta, uint64_t problem,
                     const Sweeps& sweeps) const = 0;
};

// Any graph, element by element in a given order; everything below is indexed by its positions.
class GraphScan final : public Scan {
    std::vector<int64_t> order_, start_;
    std::vector<int32_t> neighbour_;
    std::vector<double> weight_;

   public:
    GraphScan(std::vector<int64_t> order, std::vector<int64_t> start, std::vector<int32_t> neighbour,
              std::vector<double> weight)
        : order_(std::move(order)),
          start_(std::move(start)),
          neighbour_(std::move(neighbour)),
          weight_(std::move(weight)) {}

    int64_t size() const override { return static_cast<int64_t>(order_.size()); }

    void run(ScanScratch& scratch, uint8_t* states, int chains, const double* theta, uint64_t problem,
             const Sweeps& sweeps) const override {
        const int64_t n = size();
        scratch.field.resize(n);
        scratch.noise.resize(padded(n));
        scratch.spins.resize(n * chains);
        for (int64_t p = 0; p < n; ++p) {
            scratch.field[p] = theta[order_[p]];
            for (int c = 0; c < chains; ++c)
                scratch.spins[p * chains + c] = states[c * n + order_[p]] ? 1 : -1;
        }
        if (chains == 1)
            run_chains<1>(scratch, problem, sweeps);
        else
            run_chains<2>(scratch, problem, sweeps);
        for (int64_t p = 0; p < n; ++p)
            for (int c = 0; c < chains; ++c) states[c * n + order_[p]] = scratch.spins[p * chains + c] > 0;
    }

   private:
    template <int C>
    void run_chains(ScanScratch& scratch, uint64_t problem, const Sweeps& sweeps) const {
        for (int64_t k = 0; k < sweeps.count; ++k) {
            fill_noise(sweeps.key, problem, sweeps.first + k * sweeps.step, size(), scratch.noise.data());
            sweep<C>(scratch.field.data(), scratch.noise.data(), sweeps.scale, scratch.spins.data());
        }
    }

    template <int C>
    void sweep(const double* field, const float* noise, double scale, double* spins) const {
        const int64_t n = size();
        polled(n, 32 + 2 * static_cast<int64_t>(weight_.size()) / n, [&](int64_t p) {
            double sum[C] = {};
            for (int64_t k = start_[p]; k < start_[p + 1]; ++k)
                for (int c = 0; c < C; ++c) sum[c] += weight_[k] * spins[neighbour_[k] * C + c];
            for (int c = 0; c < C; ++c) spins[p * C + c] = noise[p] < field[p] + scale * sum[c] ? 1.0 : -1.0;
        });
    }
};

// A 4-neighbour grid as a checkerboard: first the elements with even row + column, then the others,
// each in the order of the rows. The elements of one colour in one row lie side by side, and so do
// their neighbours in every direction: four at a time. Places beyond the grid have weight 0.
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

    void run(ScanScratch& scratch, uint8_t* states, int chains, const double* theta, uint64_t problem,
             const Sweeps& sweeps) const override {
        scratch.field.assign(2 * area_, 0.0);
        scratch.noise.resize(padded(size()) + 4);
        scratch.signs.resize(2 * 2 * area_);
        each([&](int colour, int64_t at, int64_t element) {
            scratch.field[colour * area_ + at] = theta[element];
            for (int c = 0; c < chains; ++c)
                signs(scratch, colour, c)[at] = states[c * size() + element] ? 0 : kMinus;
        });
        int64_t done = 0;
        bool merged = chains == 1;
        while (!merged && done < sweeps.count) merged = !sweep<2>(scratch, problem, sweeps, done++);
        const bool together = merged && chains == 2;
        while (done < sweeps.count) sweep<1>(scratch, problem, sweeps, done++);
        each([&](int colour, int64_t at, int64_t element) {
            for (int c = 0; c < chains; ++c)
                states[c * size() + element] = signs(scratch, colour, together ? 0 : c)[at] == 0;
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

    static Long4 read(const int64_t* p) {
        Long4 v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
    static Double4 read(const double* p) {
        Double4 v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }

    // One sweep of C chains; returns whether they differ anywhere.
    template <int C>
    bool sweep(ScanScratch& scratch, uint64_t problem, const Sweeps& sweeps, int64_t k) const {
        fill_noise(sweeps.key, problem, sweeps.first + k * sweeps.step, size(), scratch.noise.data());
        const float* noise = scratch.noise.data();
        Long4 difference = {};
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
                    const Long4 weight[4] = {(Long4)read(from_above + next[0]),
                                             (Long4)read(from_left + next[1]), (Long4)read(right + at),
                                             (Long4)read(down + at)};
                    Float4 z;
                    std::memcpy(&z, noise + h, sizeof z);
                    const Double4 threshold = __builtin_convertvector(z, Double4), t = read(field + at);
                    Long4 now[C];
                    for (int c = 0; c < C; ++c) {
                        Double4 sum = {};
                        for (int d = 0; d < 4; ++d) sum += (Double4)(weight[d] ^ read(other[c] + next[d]));
                        now[c] = ~(Long4)(threshold < t + sweeps.scale * sum) & kMinus;
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
