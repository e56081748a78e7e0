// The third step of the grid solver: both search trees grow 64 nodes at a time.
#pragma once

#include "grid.hpp"

namespace LOGSUPER_ISA {

template <class T, int K>
void GridSolver<T, K>::adopt_bits(int64_t at, uint64_t fresh, int direction) {
    for (int b = 0; b < kParentBits; ++b)
        if (direction >> b & 1) parent_[b].data[at] |= fresh;
}

template <class T, int K>
void GridSolver<T, K>::grow_trees() {
    const int64_t n_words = rows_ * words_;
    for (auto& plane : parent_) std::memset(plane.data, 0, sizeof(uint64_t) * n_words);
    std::fill(row_now_.begin(), row_now_.end(), ~uint64_t{0});
    if (rows_ % 64) row_now_.back() = (uint64_t{1} << rows_ % 64) - 1;
    const uint64_t tail = shape_.width % 64 ? (uint64_t{1} << shape_.width % 64) - 1 : ~uint64_t{0};
    for (bool again = true; again;) {
        again = false;
        for (size_t group = 0; group < row_now_.size(); ++group) {
            uint64_t todo = row_now_[group];
            poll(4 * K * used_words_ * count_ones(todo));
            row_now_[group] = 0;
            while (todo) {
                const int64_t r = static_cast<int64_t>(group) * 64 + count_trailing_zeros(todo);
                todo &= todo - 1;
                if (grow_row(r, tail)) {
                    again = true;
                    mark_row(r);
                    for (int k = 1; k < K; ++k) {
                        const int64_t d = K == 2 ? 1 : shape_.row_step[k];
                        if (r >= d) mark_row(r - d);
                        if (r + d < rows_) mark_row(r + d);
                    }
                }
            }
        }
        row_now_.swap(row_next_);
    }
}

template <class T, int K>
bool GridSolver<T, K>::grow_row(int64_t r, uint64_t tail) {
    bool changed = false;
    uint64_t *const source = source_.data, *const sink = sink_.data;
    for (int64_t word = 0; word < used_words_; ++word) {
        const int64_t at = r * words_ + word;
        uint64_t free = ~(source[at] | sink[at]);
        if (word == used_words_ - 1) free &= tail;
        if (!free) continue;
        uint64_t to_source = 0, to_sink = 0;
        for (int k = 0; k < K; ++k) {
            const int64_t d = words_of(k), column = column_of(k);
            const uint64_t *const forward = forward_[k].data, *const backward = backward_[k].data;
            uint64_t fresh = from_below(source, forward, at, d, column) & free;
            adopt_bits(at, fresh, 2 * k + 1);
            free ^= fresh;
            to_source |= fresh;
            fresh = from_below(sink, backward, at, d, column) & free;
            adopt_bits(at, fresh, 2 * k + 1);
            free ^= fresh;
            to_sink |= fresh;
            fresh = from_above(source, at, d, column) & backward[at] & free;
            adopt_bits(at, fresh, 2 * k);
            free ^= fresh;
            to_source |= fresh;
            fresh = from_above(sink, at, d, column) & forward[at] & free;
            adopt_bits(at, fresh, 2 * k);
            free ^= fresh;
            to_sink |= fresh;
        }
        source[at] |= to_source;
        sink[at] |= to_sink;
        changed |= (to_source | to_sink) != 0;
    }
    return changed;
}

template <class T, int K>
bool GridSolver<T, K>::find_contacts() {
    bool any = false;
    polled(rows_ * words_, 4 * K, [&](int64_t at) {
        uint64_t contact = 0;  // nodes of the source tree that see the sink tree
        for (int k = 0; k < K; ++k) {
            const int64_t d = words_of(k), column = column_of(k);
            contact |= from_above(sink_.data, at, d, column) & forward_[k].data[at];
            contact |= from_below(sink_.data, backward_[k].data, at, d, column);
        }
        contact &= source_.data[at];
        while (contact) {
            any = true;
            push_active(at * 64 + count_trailing_zeros(contact));
            contact &= contact - 1;
        }
    });
    return any;
}

}  // namespace LOGSUPER_ISA
