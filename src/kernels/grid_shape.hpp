// What a grid looks like in memory: its shape, the weights of its functions, padded arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "interrupt.hpp"

namespace LOGSUPER_ISA {

constexpr int kMaxOffsets = 13;

// A weight array of one function on one offset: `value` everywhere, or one number a node.
struct GridPlane {
    int function;
    int offset;
    double value;
    std::vector<double> array;  // empty: uniform
};

struct GridShape {
    int64_t depth = 1, height = 1, width = 1;
    int64_t rows = 0;
    int64_t used_words = 0;  // words that hold a row's bits
    int64_t words = 0;       // from one row's first word to the next one's
    int64_t stride = 0;      // 64 * words: from one row's first node to the next one's
    int offsets = 0;
    int64_t row_step[kMaxOffsets] = {}, column_step[kMaxOffsets] = {};
    int64_t depth_step[kMaxOffsets] = {}, height_step[kMaxOffsets] = {};
    int64_t guard_rows = 1;

    int64_t size() const { return rows * width; }
    int64_t step(int k) const { return row_step[k] * stride + column_step[k]; }

    // Columns [first, last) of row r from which offset k stays inside the grid.
    void range(int k, int64_t row, int64_t& first, int64_t& last) const {
        const int64_t layer = depth == 1 ? 0 : row / height;
        const int64_t z = layer + depth_step[k], y = row - layer * height + height_step[k];
        if (z < 0 || z >= depth || y < 0 || y >= height) {
            first = last = 0;
            return;
        }
        first = column_step[k] < 0 ? 1 : 0;
        last = column_step[k] > 0 ? width - 1 : width;
    }
};

// Zeroed memory with a guard on both sides, so that vector and neighbour reads stay inside.
template <class T>
struct Buffer {
    struct Free {
        void operator()(void* p) const { std::free(p); }
    };
    std::unique_ptr<void, Free> memory;
    T* data = nullptr;

    void allocate(int64_t n, int64_t guard) {
        constexpr size_t kHuge = size_t{2} << 20;
        const size_t bytes = static_cast<size_t>(n + 2 * guard) * sizeof(T);
        const size_t unit = bytes >= kHuge ? kHuge : 64;
        void* p = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
        if (!p) throw std::bad_alloc();
        memory.reset(p);
#if defined(__linux__)
        // Neighbouring rows of a large image lie on different small pages: ask for large ones.
        if (unit == kHuge) madvise(p, (bytes + unit - 1) / unit * unit, MADV_HUGEPAGE);
#endif
        constexpr size_t kPiece = size_t{8} << 20;
        for (size_t at = 0; at < bytes; at += kPiece) {
            const size_t piece = std::min(kPiece, bytes - at);
            std::memset(static_cast<char*>(p) + at, 0, piece);
            poll(static_cast<int64_t>(piece / 4));
        }
        data = static_cast<T*>(p) + guard;
    }
};

}  // namespace LOGSUPER_ISA
