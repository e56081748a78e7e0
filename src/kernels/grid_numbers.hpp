// The integers of a grid: the excess of every node, the flow and the weight of every edge.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "buffer.hpp"
#include "cuts.hpp"
#include "grid_shape.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

template <class T, int K>
struct GridNumbers {
    static constexpr int kBlock = kLanes<T>;  // rows and columns of a block that fits registers

    const GridLayout<K> layout;
    const int64_t blocks;       // columns of a row, in blocks
    const int64_t padded_rows;  // rows, rounded up to whole blocks
    Buffer<T> excess, flow[K], weight[K];
    Buffer<T> weight_columns;  // weight[0], each block transposed
    bool uniform = false;      // whether each offset has one weight, everywhere inside the grid
    T common[K] = {};          // these weights
    double scale = 1, bound = 1;

    explicit GridNumbers(const GridLayout<K>& layout)
        : layout(layout),
          blocks((layout.width + kBlock - 1) / kBlock),
          padded_rows((layout.rows + kBlock - 1) / kBlock * kBlock) {
        const int64_t size = padded_rows * layout.stride;
        const int64_t guard = layout.shape.guard_rows * layout.stride + 64;
        excess.allocate(size, guard);
        for (int k = 0; k < K; ++k) {
            flow[k].allocate(size, k ? guard : 64);
            weight[k].allocate(size, k ? guard : 64);
        }
        weight_columns.allocate(size, 64);
    }

    // weigh(k, row, range) returns the float64 weights of offset k, by column.
    template <class Weigh>
    void set_weights(const WeightRange& range, Weigh&& weigh) {
        const Quantiser<T> q(range);
        write_weights(q, [&](T* row, int k, int64_t r, ColumnRange columns) {
            const double* weights = weigh(k, r, columns);
            for (int64_t c = columns.first; c < columns.last; ++c) row[c] = q.weight(weights[c]);
        });
    }
    // `closed` are nodes whose edges weigh 0.
    void set_uniform_weights(const WeightRange& range, const double* weights,
                             const std::vector<int64_t>& closed) {
        const Quantiser<T> q(range);
        for (int k = 0; k < K; ++k) common[k] = q.weight(weights[k]);
        write_weights(q, [&](T* row, int k, int64_t, ColumnRange columns) {
            std::fill(row + columns.first, row + columns.last, common[k]);
        });
        uniform = closed.empty();
        if (uniform) return;
        for (int64_t b : closed)
            for (int k = 0; k < K; ++k) weight[k].data[b] = weight[k].data[b - layout.step(k)] = 0;
        refresh_weights();
    }
    // After weights have changed.
    void refresh_weights() {
        const int64_t stride = layout.stride;
        uniform = false;
        for (int64_t r = 0; r < layout.rows; r += kBlock) {
            poll(kBlock * stride);
            for (int64_t c = 0; c < blocks; ++c) {
                Vec<T> block[kBlock];
                load_columns(weight[0].data + r * stride + c * kBlock, stride, block);
                T* out = weight_columns.data + r * stride + c * kBlock * kBlock;
                for (int i = 0; i < kBlock; ++i) store<T>(out + i * kBlock, block[i]);
            }
        }
    }

    void clear_flow() {
        const size_t bytes = sizeof(T) * padded_rows * layout.stride;
        std::memset(excess.data, 0, bytes);
        for (auto& each : flow) std::memset(each.data, 0, bytes);
    }

    // The weight of an edge inside the grid; a uniform one is not read from memory.
    T capacity(int k, int64_t base) const { return uniform ? common[k] : weight[k].data[base]; }
    bool has_excess(int64_t b) const { return excess.data[b] != 0; }
    bool is_isolated(int64_t b) const {
        T degree = 0;
        for (int k = 0; k < K; ++k) degree |= weight[k].data[b] | weight[k].data[b - layout.step(k)];
        return !degree;
    }

   private:
    // fill(row, k, r, columns) sets the edges of offset k inside the grid; all others are 0.
    template <class Fill>
    void write_weights(const Quantiser<T>& q, Fill&& fill) {
        scale = q.scale;
        bound = q.bound;
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < layout.rows; ++r) {
                poll_at_row(r, layout.stride);
                const ColumnRange columns = layout.shape.range(k, r);
                T* row = weight[k].data + r * layout.stride;
                std::fill(row, row + columns.first, T{0});
                fill(row, k, r, columns);
                std::fill(row + columns.last, row + layout.width, T{0});
            }
        refresh_weights();
    }
};

}  // namespace LOGSUPER_ISA
