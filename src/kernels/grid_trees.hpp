// Step 3 of the grid solver: both search trees grow, 64 nodes at a time; each node keeps the direction of its
// parent.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "grid_planes.hpp"

namespace LOGSUPER_ISA {

template <int K>
class GridTrees {
    const GridLayout<K> layout_;
    GridPlanes<K>& planes_;
    BitPlane parent_[K <= 1 ? 1 : K <= 2 ? 2 : K <= 4 ? 3 : 5];  // the bits of the direction of the parent
    std::vector<uint64_t> rows_now_, rows_next_;  // rows to visit in this round and in the next, one bit each

   public:
    static constexpr int kParentBits = static_cast<int>(sizeof(parent_) / sizeof(parent_[0]));

    explicit GridTrees(GridPlanes<K>& planes)
        : layout_(planes.layout),
          planes_(planes),
          rows_now_((layout_.rows + 63) / 64),
          rows_next_((layout_.rows + 63) / 64) {
        for (auto& plane : parent_) plane.allocate(layout_.rows * layout_.words, 1);
    }

    int parent(int64_t b) const {
        int direction = 0;
        for (int i = 0; i < kParentBits; ++i) direction |= static_cast<int>(bit(parent_[i], b)) << i;
        return direction;
    }
    void set_parent(int64_t b, int direction) {
        for (int i = 0; i < kParentBits; ++i)
            if (direction >> i & 1)
                set_bit(parent_[i], b);
            else
                clear_bit(parent_[i], b);
    }

    // Grows both trees from their roots until no free node has a residual arc to them.
    void grow() {
        const int64_t rows = layout_.rows, width = layout_.width;
        for (auto& plane : parent_) std::memset(plane.data, 0, sizeof(uint64_t) * rows * layout_.words);
        std::fill(rows_now_.begin(), rows_now_.end(), ~uint64_t{0});
        if (rows % 64) rows_now_.back() = (uint64_t{1} << rows % 64) - 1;
        const uint64_t tail = width % 64 ? (uint64_t{1} << width % 64) - 1 : ~uint64_t{0};
        for (bool again = true; again;) {
            again = false;
            for (size_t group = 0; group < rows_now_.size(); ++group) {
                uint64_t todo = rows_now_[group];
                poll(4 * K * layout_.used_words * count_ones(todo));
                rows_now_[group] = 0;
                while (todo) {
                    const int64_t r = static_cast<int64_t>(group) * 64 + count_trailing_zeros(todo);
                    todo &= todo - 1;
                    if (grow_row(r, tail)) {
                        again = true;
                        visit_next(r);
                        for (int k = 1; k < K; ++k) {
                            const int64_t step = layout_.row_step(k);
                            if (r >= step) visit_next(r - step);
                            if (r + step < rows) visit_next(r + step);
                        }
                    }
                }
            }
            rows_now_.swap(rows_next_);
        }
    }

    // Calls found(b) for the nodes of the source tree with a residual arc into the sink tree.
    template <class Found>
    void find_contacts(Found&& found) const {
        const uint64_t *const source = planes_.source.data, *const sink = planes_.sink.data;
        polled(layout_.rows * layout_.words, 4 * K, [&](int64_t at) {
            uint64_t contact = 0;
            for (int k = 0; k < K; ++k) {
                contact |= bits_above(sink, at, planes_.step(k)) & planes_.forward[k].data[at];
                contact |= bits_below(sink, planes_.backward[k].data, at, planes_.step(k));
            }
            for (contact &= source[at]; contact; contact &= contact - 1)
                found(at * 64 + count_trailing_zeros(contact));
        });
    }

   private:
    void visit_next(int64_t r) { rows_next_[r / 64] |= uint64_t{1} << r % 64; }

    void set_parents(int64_t at, uint64_t nodes, int direction) {
        for (int b = 0; b < kParentBits; ++b)
            if (direction >> b & 1) parent_[b].data[at] |= nodes;
    }

    // tail: the bits of the last word that are inside the grid.
    bool grow_row(int64_t r, uint64_t tail) {
        bool changed = false;
        uint64_t *const source = planes_.source.data, *const sink = planes_.sink.data;
        for (int64_t word = 0; word < layout_.used_words; ++word) {
            const int64_t at = r * layout_.words + word;
            uint64_t free = ~(source[at] | sink[at]);
            if (word == layout_.used_words - 1) free &= tail;
            if (!free) continue;
            uint64_t to_source = 0, to_sink = 0;
            for (int k = 0; k < K; ++k) {
                const BitStep step = planes_.step(k);
                const uint64_t *const forward = planes_.forward[k].data, *const backward =
                                                                             planes_.backward[k].data;
                uint64_t fresh = bits_below(source, forward, at, step) & free;
                set_parents(at, fresh, 2 * k + 1);
                free ^= fresh;
                to_source |= fresh;
                fresh = bits_below(sink, backward, at, step) & free;
                set_parents(at, fresh, 2 * k + 1);
                free ^= fresh;
                to_sink |= fresh;
                fresh = bits_above(source, at, step) & backward[at] & free;
                set_parents(at, fresh, 2 * k);
                free ^= fresh;
                to_source |= fresh;
                fresh = bits_above(sink, at, step) & forward[at] & free;
                set_parents(at, fresh, 2 * k);
                free ^= fresh;
                to_sink |= fresh;
            }
            source[at] |= to_source;
            sink[at] |= to_sink;
            changed |= (to_source | to_sink) != 0;
        }
        return changed;
    }
};

}  // namespace LOGSUPER_ISA
