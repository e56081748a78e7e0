// Bit planes of a grid, 64 nodes per word: the two search trees and the residual arcs.
#pragma once

#include <cstdint>

#include "buffer.hpp"
#include "grid_shape.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

using BitPlane = Buffer<uint64_t>;

inline bool bit(const BitPlane& plane, int64_t b) { return plane.data[b >> 6] >> (b & 63) & 1; }
inline void set_bit(BitPlane& plane, int64_t b) { plane.data[b >> 6] |= uint64_t{1} << (b & 63); }
inline void clear_bit(BitPlane& plane, int64_t b) { plane.data[b >> 6] &= ~(uint64_t{1} << (b & 63)); }

// The bits first .. last - 1 of a word, either of which may lie outside it.
inline uint64_t bits_between(int64_t first, int64_t last) {
    const uint64_t below = last >= 64 ? ~uint64_t{0} : last <= 0 ? 0 : (uint64_t{1} << last) - 1;
    return first <= 0 ? below : first >= 64 ? 0 : below & ~((uint64_t{1} << first) - 1);
}

// A step in a plane: 64 * words + column bits, |column| <= 1.
struct BitStep {
    int64_t words, column;
};

// Word `at` of the plane shifted so that bit b of the result is bit b + step of the plane.
LOGSUPER_INLINE uint64_t bits_above(const uint64_t* plane, int64_t at, BitStep step) {
    const uint64_t* p = plane + at + step.words;
    if (step.column == 0) return p[0];
    return step.column > 0 ? p[0] >> 1 | p[1] << 63 : p[0] << 1 | p[-1] >> 63;
}
// Bit b of the result is bit b - step of both planes.
LOGSUPER_INLINE uint64_t bits_below(const uint64_t* a, const uint64_t* b, int64_t at, BitStep step) {
    const uint64_t *p = a + at - step.words, *q = b + at - step.words;
    if (step.column == 0) return p[0] & q[0];
    return step.column > 0 ? (p[0] & q[0]) << 1 | (p[-1] & q[-1]) >> 63
                           : (p[0] & q[0]) >> 1 | (p[1] & q[1]) << 63;
}

template <int K>
struct GridPlanes {
    const GridLayout<K> layout;
    BitPlane source, sink;  // nodes in the search trees; at first, nodes with excess > 0 and < 0
    BitPlane forward[K], backward[K];  // residual arcs b -> b + step(k), and back

    static constexpr int64_t kPlanes = 2 * K + 2;

    explicit GridPlanes(const GridLayout<K>& layout) : layout(layout) {
        for (auto* plane : {&source, &sink}) allocate(*plane);
        for (int k = 0; k < K; ++k) {
            allocate(forward[k]);
            allocate(backward[k]);
        }
    }
    void allocate(BitPlane& plane) const {
        plane.allocate(layout.rows * layout.words, layout.shape.guard_rows * layout.words + 1);
    }

    BitStep step(int k) const { return {layout.word_step(k), layout.column_step(k)}; }

    void close_edge(int k, int64_t b) {
        clear_bit(forward[k], b);
        clear_bit(backward[k], b);
    }

    // One bit per direction, without branches: arcs out of b, arcs into b, neighbours in a plane.
    unsigned arcs_out(int64_t b) const {
        unsigned mask = 0;
        for (int k = 0; k < K; ++k) {
            mask |= static_cast<unsigned>(bit(forward[k], b)) << (2 * k);
            mask |= static_cast<unsigned>(bit(backward[k], b - layout.step(k))) << (2 * k + 1);
        }
        return mask;
    }
    unsigned arcs_in(int64_t b) const {
        unsigned mask = 0;
        for (int k = 0; k < K; ++k) {
            mask |= static_cast<unsigned>(bit(backward[k], b)) << (2 * k);
            mask |= static_cast<unsigned>(bit(forward[k], b - layout.step(k))) << (2 * k + 1);
        }
        return mask;
    }
    unsigned neighbours(const BitPlane& plane, int64_t b) const {
        unsigned mask = 0;
        for (int k = 0; k < K; ++k) {
            mask |= static_cast<unsigned>(bit(plane, b + layout.step(k))) << (2 * k);
            mask |= static_cast<unsigned>(bit(plane, b - layout.step(k))) << (2 * k + 1);
        }
        return mask;
    }

    // visit(k, at, cut): the bits of word `at` whose edges along offset k join different labels.
    template <class Visit>
    void visit_cut(Visit&& visit) const {
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < layout.rows; ++r) {
                poll_at_row(r, layout.stride / 4);
                const ColumnRange columns = layout.shape.range(k, r);
                if (columns.first >= columns.last) continue;
                for (int64_t word = 0; word < layout.used_words; ++word) {
                    const int64_t at = r * layout.words + word;
                    const uint64_t cut = source.data[at] ^ bits_above(source.data, at, step(k));
                    visit(k, at, cut & bits_between(columns.first - word * 64, columns.last - word * 64));
                }
            }
    }

    // Labels all nodes 1 that are not in the sink tree.
    void complement_sink() {
        for (int64_t r = 0; r < layout.rows; ++r)
            for (int64_t word = 0; word < layout.used_words; ++word) {
                const int64_t at = r * layout.words + word;
                source.data[at] = ~sink.data[at] & bits_between(0, layout.width - word * 64);
            }
    }
};

}  // namespace LOGSUPER_ISA
