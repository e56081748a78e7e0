// The memory layout of a grid: padded rows of nodes, words of bits, steps to neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace LOGSUPER_ISA {

constexpr int kMaxOffsets = 13;

// The weights of one function on the edges of one offset.
struct GridPlane {
    int function;
    int offset;
    double value;               // of all edges, if `array` is empty
    std::vector<double> array;  // one weight per node
};

struct ColumnRange {
    int64_t first, last;  // columns first .. last - 1
};

struct GridShape {
    int64_t depth = 1, height = 1, width = 1;
    int64_t rows = 0;        // depth * height
    int64_t used_words = 0;  // words that hold the bits of a row
    int64_t words = 0;       // from the first word of a row to that of the next
    int64_t stride = 0;      // 64 * words: from the first node of a row to that of the next
    int offsets = 0;
    int64_t row_step[kMaxOffsets] = {}, column_step[kMaxOffsets] = {};
    int64_t depth_step[kMaxOffsets] = {}, height_step[kMaxOffsets] = {};
    int64_t guard_rows = 1;  // the largest row_step

    GridShape() = default;
    // steps: (depth, height, width) of each offset; the first one is (0, 0, 1).
    GridShape(int64_t depth, int64_t height, int64_t width, const int64_t* steps, int offsets)
        : depth(depth), height(height), width(width), rows(depth * height), offsets(offsets) {
        used_words = (width + 63) / 64;
        // Rows at distances of a power of two would share lines of the cache.
        words = used_words % 8 ? used_words : used_words + 1;
        stride = words * 64;
        for (int k = 0; k < offsets; ++k) {
            depth_step[k] = steps[3 * k];
            height_step[k] = steps[3 * k + 1];
            column_step[k] = steps[3 * k + 2];
            row_step[k] = depth_step[k] * height + height_step[k];
            guard_rows = std::max(guard_rows, row_step[k]);
        }
    }

    int64_t size() const { return rows * width; }
    int64_t step(int k) const { return row_step[k] * stride + column_step[k]; }

    // Columns of a row from which offset k stays inside the grid.
    ColumnRange range(int k, int64_t row) const {
        const int64_t layer = depth == 1 ? 0 : row / height;
        const int64_t z = layer + depth_step[k], y = row - layer * height + height_step[k];
        if (z < 0 || z >= depth || y < 0 || y >= height) return {0, 0};
        return {column_step[k] < 0 ? 1 : 0, column_step[k] > 0 ? width - 1 : width};
    }
};

// The layout of a grid with K offsets, small enough for each step of the solver to have a copy. K = 2 is the
// 4-neighbour grid (or a single row), whose steps are known to the compiler. A direction d < 2 K is offset d
// / 2, along it if d is even, against it if d is odd.
template <int K>
struct GridLayout {
    const GridShape& shape;
    const int64_t rows, width, stride, words, used_words;
    int64_t row_steps[K], word_steps[K], column_steps[K], step_by_direction[2 * K];

    explicit GridLayout(const GridShape& shape)
        : shape(shape),
          rows(shape.rows),
          width(shape.width),
          stride(shape.stride),
          words(shape.words),
          used_words(shape.used_words) {
        for (int k = 0; k < K; ++k) {
            row_steps[k] = shape.row_step[k];
            word_steps[k] = shape.row_step[k] * words;
            column_steps[k] = shape.column_step[k];
            step_by_direction[2 * k] = shape.step(k);
            step_by_direction[2 * k + 1] = -shape.step(k);
        }
    }

    // Steps of offset k: in rows, in words and columns of bits, and in nodes.
    int64_t row_step(int k) const { return K == 2 ? k : row_steps[k]; }
    int64_t word_step(int k) const { return K == 2 ? (k ? words : 0) : word_steps[k]; }
    int64_t column_step(int k) const { return K == 2 ? 1 - k : column_steps[k]; }
    int64_t step(int k) const { return K == 2 && k == 0 ? 1 : step_by_direction[2 * k]; }
    int64_t step_down(int k) const { return K == 2 ? stride : step_by_direction[2 * k]; }  // k > 0
};

}  // namespace LOGSUPER_ISA
