// Max-flow on regular grids: chain sweeps, bit-parallel search trees, then Boykov-Kolmogorov.
//
// A grid has `rows` rows of `width` nodes (a volume of shape (Z, H, W) has Z * H rows) and one
// array of edges for each offset of its stencil: edge k of node b joins b and b + offset(k).
//  1. Sweeps. Pushing what a node has along one direction, flow' = clip(flow + excess, -w, w),
//     solves every chain of that direction exactly. Offsets between rows are vectorised along the
//     row, the offset within a row across rows (blocks are transposed in registers). One forward
//     and one backward pass over the memory sweep all directions both ways.
//  2. Bit planes, 64 nodes a word: excess > 0, excess < 0, residual arcs.
//  3. Both search trees grow 64 nodes at a time; each node keeps the direction of its parent.
//  4. Where the trees touch, augmenting paths remain: Boykov & Kolmogorov (2004) finishes, starting
//     only from the nodes in contact.
#pragma once

#include <algorithm>
#include <vector>

#include "cuts.hpp"
#include "grid_shape.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

// K offsets; K == 2 is the 4-neighbour grid (or a single row), with its steps known to the compiler.
template <class T, int K>
class GridSolver {
    static constexpr int L = kLanes<T>;
    static constexpr int kDirections = 2 * K;
    static constexpr bool kKeepColumns = sizeof(T) == sizeof(int32_t);
    static constexpr int kParentBits = K <= 1 ? 1 : K <= 2 ? 2 : K <= 4 ? 3 : 5;

    // An arc on an augmenting path: which edge, which way, and the node that hangs on it.
    struct Arc {
        int64_t base;
        int32_t node;
        int16_t k;
        bool along;  // in the direction of the offset
    };

    const GridShape& shape_;
    const int64_t S, rows_, words_, used_words_, blocks_;
    Buffer<T> excess_, flow_[K], weight_[K], across_;  // across_: weight_[0], transposed in blocks
    Buffer<uint64_t> source_, sink_, forward_[K], backward_[K], parent_[kParentBits], orphan_, queued_;
    Buffer<int32_t> stamp_, distance_;  // a distance means something only with the stamp of now
    T* columns_ = nullptr;
    std::vector<uint64_t> row_now_, row_next_;
    std::vector<uint8_t> idle_;  // blocks of rows to be passed over
    std::vector<int32_t> queue_, orphans_;
    std::vector<Arc> path_;
    size_t queue_head_ = 0, queue_size_ = 0;
    int32_t time_ = 0;
    bool complete_sink_ = false, saw_nan_ = false;
    Resolution<T> resolution_;
    bool uniform_ = false;  // one weight an offset, everywhere inside the grid
    int64_t step_[kDirections];
    T common_[K] = {};

   public:
    double scale = 1, bound = 1;

    // Of memory, about: what the constructor allocates.
    static int64_t bytes(const GridShape& shape) {
        const int64_t rows = (shape.rows + L - 1) / L * L + 2 * shape.guard_rows;
        const int64_t numbers = 2 * K + 2, planes = 2 * K + 4 + kParentBits;
        return rows * shape.stride * (numbers * static_cast<int64_t>(sizeof(T)) + 8) +
               rows * shape.words * planes * 8;
    }

    explicit GridSolver(const GridShape& shape)
        : shape_(shape),
          S(shape.stride),
          rows_(shape.rows),
          words_(shape.words),
          used_words_(shape.used_words),
          blocks_((shape.width + L - 1) / L) {
        const int64_t padded = (rows_ + L - 1) / L * L;
        const int64_t guard = shape.guard_rows * S + 64;
        excess_.allocate(padded * S, guard);
        for (int k = 0; k < K; ++k) {
            flow_[k].allocate(padded * S, k ? guard : 64);
            weight_[k].allocate(padded * S, k ? guard : 64);
            forward_[k].allocate(rows_ * words_, shape.guard_rows * words_ + 1);
            backward_[k].allocate(rows_ * words_, shape.guard_rows * words_ + 1);
            step_[2 * k] = shape.step(k);
            step_[2 * k + 1] = -shape.step(k);
        }
        across_.allocate(padded * S, 64);
        for (auto* plane : {&source_, &sink_, &orphan_, &queued_})
            plane->allocate(rows_ * words_, shape.guard_rows * words_ + 1);
        for (auto& plane : parent_) plane.allocate(rows_ * words_, 1);
        stamp_.allocate(rows_ * S, 0);
        distance_.allocate(padded * S, 0);
        if constexpr (kKeepColumns) columns_ = distance_.data;
        row_now_.resize((rows_ + 63) / 64);
        row_next_.resize((rows_ + 63) / 64);
        queue_.resize(256);
    }

    // weigh(k, row, first, last) gives the weights in float64, by column.
    template <class Weigh>
    void set_weights(const WeightRange& range, Weigh&& weigh) {
        const Quantiser<T> q(range);
        write_weights(q, [&](T* row, int k, int64_t r, int64_t first, int64_t last) {
            const double* weights = weigh(k, r, first, last);
            for (int64_t c = first; c < last; ++c) row[c] = q.weight(weights[c]);
        });
    }
    void set_uniform_weights(const WeightRange& range, const double* weight) {
        const Quantiser<T> q(range);
        for (int k = 0; k < K; ++k) common_[k] = q.weight(weight[k]);
        write_weights(q, [&](T* row, int k, int64_t, int64_t first, int64_t last) {
            std::fill(row + first, row + last, common_[k]);
        });
        uniform_ = true;
    }
    void refresh_weights() {
        uniform_ = false;  // an edge may have been erased
        for (int64_t r = 0; r < rows_; r += L) {
            poll(L * S);
            for (int64_t c = 0; c < blocks_; ++c) {
                Vec<T> block[L];
                load_columns(weight_[0].data + r * S + c * L, S, block);
                T* out = across_.data + r * S + c * L * L;
                for (int i = 0; i < L; ++i) store<T>(out + i * L, block[i]);
            }
        }
    }

    // Nodes without an edge never meet the flow; their label is the sign of theta, however small.
    void label_isolated(const double* theta, Tie tie) {
        for (int64_t r = 0; r < rows_; ++r) {
            poll_at_row(r, shape_.width * 4 * K);
            for (int64_t c = 0; c < shape_.width; ++c) {
                const int64_t b = r * S + c;
                T degree = 0;
                for (int k = 0; k < K; ++k) degree |= weight_[k].data[b] | weight_[k].data[b - step(k)];
                if (degree) continue;
                const double t = theta[r * shape_.width + c];
                if (std::isnan(t)) refuse_nan();
                if (label_of(t, tie))
                    set(source_, b);
                else
                    clear(source_, b);
            }
        }
    }

    // Labels as bits, in words as the shape has them.
    const uint64_t* labels() const { return source_.data; }
    T excess(int64_t b) const { return excess_.data[b]; }
    T weight(int k, int64_t b) const { return weight_[k].data[b]; }
    void erase(int k, int64_t b) {
        weight_[k].data[b] = flow_[k].data[b] = 0;
        clear(forward_[k], b);  // rows that are passed over keep their planes
        clear(backward_[k], b);
    }

    // Call found(k, b) for every edge (b, b + offset k) between different labels.
    template <class Found>
    void visit_cut(Found&& found) const {
        visit_cut_words([&](int k, int64_t at, uint64_t cut) {
            for (; cut; cut &= cut - 1) found(k, at * 64 + count_trailing_zeros(cut));
        });
    }
    void count_cut(int64_t* counts) const {
        std::fill(counts, counts + K, 0);
        visit_cut_words([&](int k, int64_t, uint64_t cut) { counts[k] += count_ones(cut); });
    }

    // False, and no labels, if the integers are too coarse for this field (unless `force`).
    bool solve(const double* theta, Tie tie, bool force) {
        saw_nan_ = false;
        resolution_ = {};
        sweep_forward<true>(theta);
        if (saw_nan_) refuse_nan();
        if (!force && !resolution_.enough()) return false;
        sweep_backward();
        finish(tie);
        return true;
    }

    // ---- A flow that goes on: clear it, add to the excess, make it maximal, and again. ------
    void clear_flow() {
        const int64_t padded = (rows_ + L - 1) / L * L;
        std::memset(excess_.data, 0, sizeof(T) * padded * S);
        for (auto& flow : flow_) std::memset(flow.data, 0, sizeof(T) * padded * S);
        idle_.assign((rows_ + L - 1) / L, 0);
    }
    void add(int64_t b, T amount) { excess_.data[b] += amount; }
    // Only rows with one of the nodes listed are looked at; elsewhere no excess is left.
    void resume(const std::vector<int32_t>& nodes) {
        std::fill(idle_.begin(), idle_.end(), 1);
        int64_t next = 0;  // the nodes come in increasing order: divide only at a new block
        for (int32_t b : nodes)
            if (b >= next) {
                const int64_t block = b / (S * L);
                idle_[block] = 0;
                next = (block + 1) * S * L;
            }
        sweep_forward<false>(nullptr);
        sweep_backward();
        finish(Tie::kMinimal);
        std::fill(idle_.begin(), idle_.end(), 0);
    }

   private:
    // fill(row, k, r, first, last) sets the edges of offset k inside the grid; all others are 0.
    template <class Fill>
    void write_weights(const Quantiser<T>& q, Fill&& fill) {
        scale = q.scale;
        bound = q.bound;
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < rows_; ++r) {
                int64_t first, last;
                poll_at_row(r, S);
                shape_.range(k, r, first, last);
                T* row = weight_[k].data + r * S;
                std::fill(row, row + first, T{0});
                fill(row, k, r, first, last);
                std::fill(row + last, row + shape_.width, T{0});
            }
        refresh_weights();
    }

    // visit(k, at, cut): the bits of word `at` whose edges along offset k join different labels.
    template <class Visit>
    void visit_cut_words(Visit&& visit) const {
        const uint64_t* const y = source_.data;
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < rows_; ++r) {
                int64_t first, last;
                poll_at_row(r, S / 4);
                shape_.range(k, r, first, last);
                if (first >= last) continue;
                for (int64_t word = 0; word < used_words_; ++word) {
                    const int64_t at = r * words_ + word;
                    const uint64_t cut = y[at] ^ from_above(y, at, words_of(k), column_of(k));
                    visit(k, at, cut & between(first - word * 64, last - word * 64));
                }
            }
    }

    // Rows of a large image are a page each, and hardware looks ahead only within a page. An address
    // beyond the array does no harm.
    static void prefetch(const void* p) { __builtin_prefetch(p, 1); }

    // Bits [first, last), either of which may lie outside the word.
    static uint64_t between(int64_t first, int64_t last) {
        const uint64_t below = last >= 64 ? ~uint64_t{0} : last <= 0 ? 0 : (uint64_t{1} << last) - 1;
        return first <= 0 ? below : first >= 64 ? 0 : below & ~((uint64_t{1} << first) - 1);
    }

    // Bits of a plane.
    static bool bit(const Buffer<uint64_t>& plane, int64_t b) { return plane.data[b >> 6] >> (b & 63) & 1; }
    static void set(Buffer<uint64_t>& plane, int64_t b) { plane.data[b >> 6] |= uint64_t{1} << (b & 63); }
    static void clear(Buffer<uint64_t>& plane, int64_t b) {
        plane.data[b >> 6] &= ~(uint64_t{1} << (b & 63));
    }

    // Steps of the stencil, in words and columns of the planes and in nodes.
    int64_t words_of(int k) const { return K == 2 ? (k ? words_ : 0) : shape_.row_step[k] * words_; }
    int64_t column_of(int k) const { return K == 2 ? 1 - k : shape_.column_step[k]; }
    int64_t step(int k) const { return K == 2 && k == 0 ? 1 : step_[2 * k]; }

    // Bit b of the result is bit b + step of the plane (step = 64 * words + column, |column| <= 1).
    static uint64_t from_above(const uint64_t* plane, int64_t at, int64_t words, int64_t column) {
        const uint64_t* p = plane + at + words;
        if (column == 0) return p[0];
        return column > 0 ? p[0] >> 1 | p[1] << 63 : p[0] << 1 | p[-1] >> 63;
    }
    // Bit b of the result is bit b - step of both planes.
    static uint64_t from_below(const uint64_t* a, const uint64_t* b, int64_t at, int64_t words,
                               int64_t column) {
        const uint64_t *p = a + at - words, *q = b + at - words;
        if (column == 0) return p[0] & q[0];
        return column > 0 ? (p[0] & q[0]) << 1 | (p[-1] & q[-1]) >> 63
                          : (p[0] & q[0]) >> 1 | (p[1] & q[1]) << 63;
    }

    // ---- 1. Sweeps: grid_sweeps.hpp
    void load_row(const double* theta, int64_t row);
    template <bool First>
    void sweep_forward(const double* theta);
    template <bool First>
    void sweep_right(int64_t r);
    void put_columns(int64_t r, int64_t c, const Vec<T>* F);
    void get_columns(int64_t r, int64_t c, Vec<T>* F) const;
    bool one_weight(int64_t r, int k, Vec<T>& weight) const;
    template <bool First>
    void sweep_down(int64_t r, int k);
    void sweep_backward();
    void sweep_left(int64_t r);
    void sweep_up(int64_t r, int k);

    // ---- 2. Bit planes: grid_sweeps.hpp
    void set_planes(int64_t r);

    // ---- 3. Trees: grid_trees.hpp
    void adopt_bits(int64_t at, uint64_t fresh, int direction);
    void grow_trees();
    bool grow_row(int64_t r, uint64_t tail);
    bool find_contacts();
    void mark_row(int64_t r) { row_next_[r / 64] |= uint64_t{1} << r % 64; }

    // ---- 4. Boykov-Kolmogorov: grid_search.hpp
    unsigned open_out(int64_t b) const;
    unsigned open_in(int64_t b) const;
    unsigned neighbours(const Buffer<uint64_t>& plane, int64_t b) const;
    T residual(int64_t b, int d) const;
    bool push(int64_t b, int d, T amount);
    int parent(int64_t b) const;
    void set_parent(int64_t b, int d);
    void push_active(int64_t b);
    int64_t pop_active();
    void finish(Tie tie);
    void search();
    template <bool Source>
    void extend(int64_t p);
    void make_orphan(int64_t b);
    template <bool Source>
    T climb(int64_t& b, T amount);
    void augment(int64_t p, int d, int64_t q);
    void adopt();
    int32_t depth(int64_t b);
    template <bool Source>
    void adopt(int64_t b);
    // The weight of an edge inside the grid; a uniform one needs no memory to be read.
    T capacity(int k, int64_t base) const { return uniform_ ? common_[k] : weight_[k].data[base]; }
    bool is_root(int64_t b) const { return excess_.data[b] != 0; }
};

}  // namespace LOGSUPER_ISA

#include "grid_search.hpp"
#include "grid_sweeps.hpp"
#include "grid_trees.hpp"
