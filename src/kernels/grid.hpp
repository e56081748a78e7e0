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

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cuts.hpp"
#include "simd.hpp"

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
        std::memset(p, 0, bytes);
        data = static_cast<T*>(p) + guard;
    }
};

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
        scale = q.scale;
        bound = q.bound;
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < rows_; ++r) {
                int64_t first, last;
                shape_.range(k, r, first, last);
                const double* weights = weigh(k, r, first, last);
                T* row = weight_[k].data + r * S;
                std::fill(row, row + first, T{0});
                for (int64_t c = first; c < last; ++c) row[c] = q.weight(weights[c]);
                std::fill(row + last, row + shape_.width, T{0});
            }
        refresh_weights();
        uniform_ = false;
    }
    void set_uniform_weights(const WeightRange& range, const double* weight) {
        const Quantiser<T> q(range);
        T rounded[K];
        for (int k = 0; k < K; ++k) rounded[k] = q.weight(weight[k]);
        scale = q.scale;
        bound = q.bound;
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < rows_; ++r) {
                int64_t first, last;
                shape_.range(k, r, first, last);
                T* row = weight_[k].data + r * S;
                std::fill(row, row + first, T{0});
                std::fill(row + first, row + last, rounded[k]);
                std::fill(row + last, row + shape_.width, T{0});
            }
        refresh_weights();
        uniform_ = true;
        for (int k = 0; k < K; ++k) common_[k] = rounded[k];
    }
    void refresh_weights() {
        uniform_ = false;  // an edge may have been erased
        for (int64_t r = 0; r < rows_; r += L)
            for (int64_t c = 0; c < blocks_; ++c) {
                Vec<T> block[L];
                load_columns(weight_[0].data + r * S + c * L, S, block);
                T* out = across_.data + r * S + c * L * L;
                for (int i = 0; i < L; ++i) store<T>(out + i * L, block[i]);
            }
    }

    // Nodes without an edge never meet the flow; their label is the sign of theta, however small.
    void label_isolated(const double* theta, Tie tie) {
        for (int64_t r = 0; r < rows_; ++r)
            for (int64_t c = 0; c < shape_.width; ++c) {
                const int64_t b = r * S + c;
                T degree = 0;
                for (int k = 0; k < K; ++k) degree |= weight_[k].data[b] | weight_[k].data[b - step(k)];
                if (degree) continue;
                const double t = theta[r * shape_.width + c];
                if (std::isnan(t)) refuse_nan();
                if (t > 0 || (t == 0 && tie == Tie::kMaximal))
                    set(source_, b);
                else
                    clear(source_, b);
            }
    }

    // Labels as bits: words() words a row.
    const uint64_t* labels() const { return source_.data; }
    int64_t words() const { return words_; }
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
        const uint64_t* const y = source_.data;
        for (int k = 0; k < K; ++k)
            for (int64_t r = 0; r < rows_; ++r) {
                int64_t first, last;
                shape_.range(k, r, first, last);
                if (first >= last) continue;
                for (int64_t word = 0; word < used_words_; ++word) {
                    const int64_t at = r * words_ + word;
                    uint64_t cut = y[at] ^ from_above(y, at, words_of(k), column_of(k));
                    cut &= between(first - word * 64, last - word * 64);
                    for (; cut; cut &= cut - 1) found(k, at * 64 + count_trailing_zeros(cut));
                }
            }
    }
    void count_cut(int64_t* counts) const {
        const uint64_t* const y = source_.data;
        for (int k = 0; k < K; ++k) {
            counts[k] = 0;
            for (int64_t r = 0; r < rows_; ++r) {
                int64_t first, last;
                shape_.range(k, r, first, last);
                if (first >= last) continue;
                for (int64_t word = 0; word < used_words_; ++word) {
                    const int64_t at = r * words_ + word;
                    const uint64_t cut = y[at] ^ from_above(y, at, words_of(k), column_of(k));
                    counts[k] += count_ones(cut & between(first - word * 64, last - word * 64));
                }
            }
        }
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
    // Rows of a large image are a page each, and hardware looks ahead only within a page. An address
    // beyond the array does no harm.
    static void prefetch(const void* p) { __builtin_prefetch(p, 1); }

    // Bits [first, last), either of which may lie outside the word.
    static uint64_t between(int64_t first, int64_t last) {
        const uint64_t below = last >= 64 ? ~uint64_t{0} : last <= 0 ? 0 : (uint64_t{1} << last) - 1;
        return first <= 0 ? below : first >= 64 ? 0 : below & ~((uint64_t{1} << first) - 1);
    }

    // ---- 1. sweeps -------------------------------------------------------------------------
    void load_row(const double* theta, int64_t row) {
        T* e = excess_.data + row * S;
        const double* t = theta + row * shape_.width;
        const int64_t W = shape_.width;
        int64_t c = 0;
#if defined(__AVX2__)
        if constexpr (sizeof(T) == 4) {
            const __m256d s = _mm256_set1_pd(scale), hi = _mm256_set1_pd(bound),
                          lo = _mm256_set1_pd(-bound);
            const __m256d fine = _mm256_set1_pd(Resolution<T>::kFine), zero = _mm256_setzero_pd();
            const __m256d sign = _mm256_set1_pd(-0.0), half = _mm256_set1_pd(0.5);
            __m256d odd = zero, lost = zero;
            __m256i seen = _mm256_setzero_si256(), coarse = seen;
            for (; c + 4 <= W; c += 4) {
                prefetch(t + c + 1024);
                __m256d v = _mm256_mul_pd(_mm256_loadu_pd(t + c), s);
                odd = _mm256_or_pd(odd, _mm256_cmp_pd(v, v, _CMP_UNORD_Q));
                const __m256d size = _mm256_andnot_pd(sign, v), some = _mm256_cmp_pd(v, zero, _CMP_NEQ_UQ);
                const __m256d counts = _mm256_and_pd(some, _mm256_cmp_pd(size, hi, _CMP_LT_OQ));
                const __m256d small = _mm256_and_pd(some, _mm256_cmp_pd(size, fine, _CMP_LT_OQ));
                lost = _mm256_or_pd(lost, _mm256_and_pd(some, _mm256_cmp_pd(size, half, _CMP_LT_OQ)));
                seen = _mm256_sub_epi64(seen, _mm256_castpd_si256(counts));
                coarse = _mm256_sub_epi64(coarse, _mm256_castpd_si256(small));
                v = _mm256_max_pd(_mm256_min_pd(v, hi), lo);
                _mm_storeu_si128(reinterpret_cast<__m128i*>(e + c), _mm256_cvtpd_epi32(v));
            }
            saw_nan_ |= _mm256_movemask_pd(odd) != 0;
            resolution_.lost |= _mm256_movemask_pd(lost) != 0;
            const Long4 s4 = (Long4)seen, c4 = (Long4)coarse;
            resolution_.seen += s4[0] + s4[1] + s4[2] + s4[3];
            resolution_.coarse += c4[0] + c4[1] + c4[2] + c4[3];
        }
#endif
        for (; c < W; ++c) {
            const bool nan = std::isnan(t[c]);
            saw_nan_ |= nan;
            const double scaled = nan ? 0 : t[c] * scale;
            resolution_.note(scaled, bound);
            e[c] = static_cast<T>(std::nearbyint(std::clamp(scaled, -bound, bound)));
        }
    }

    template <bool First>
    void sweep_forward(const double* theta) {
        const int64_t ahead = shape_.guard_rows;
        int64_t loaded = 0;
        for (int64_t r = 0; r < rows_; r += L) {
            if (First)
                for (; loaded < std::min(rows_, r + L + ahead); ++loaded) load_row(theta, loaded);
            else if (idle_[r / L])
                continue;
            sweep_right<First>(r);
            for (int64_t i = r; i < std::min(rows_, r + L); ++i)
                for (int k = 1; k < K; ++k) sweep_down<First>(i, k);
        }
    }

    template <bool First>
    void sweep_right(int64_t r) {
        T* const e = excess_.data + r * S;
        const T* w = across_.data + r * S;
        const int64_t last = (blocks_ - 1) * L;  // only there a uniform weight meets the border
        Vec<T> carry = {};
        for (int64_t c = 0; c < blocks_ * L; c += L, w += L * L) {
            Vec<T> E[L], F[L];
            load_columns(e + c, S, E);
            if (!First) load_columns(flow_[0].data + r * S + c, S, F);
            for (int j = 0; j < L; ++j) {
                const Vec<T> limit = uniform_ && c < last ? Vec<T>{} + common_[0] : load<T>(w + j * L);
                E[j] += carry;
                if (First) {
                    F[j] = vmin(vmax(E[j], -limit), limit);
                    carry = F[j];
                } else {
                    const Vec<T> moved = vmin(vmax(F[j] + E[j], -limit), limit);
                    carry = moved - F[j];
                    F[j] = moved;
                }
                E[j] -= carry;
            }
            store_columns(e + c, S, E);
            put_columns(r, c, F);
        }
    }

    // The flow along the rows between the sweep to the right and the one to the left. Narrow ones
    // stay as columns, in memory that the search needs only later.
    void put_columns(int64_t r, int64_t c, const Vec<T>* F) {
        if constexpr (kKeepColumns) {
            T* out = columns_ + r * S + c * L;
            for (int j = 0; j < L; ++j) store<T>(out + j * L, F[j]);
        } else {
            store_columns(flow_[0].data + r * S + c, S, F);
        }
    }
    void get_columns(int64_t r, int64_t c, Vec<T>* F) const {
        if constexpr (kKeepColumns) {
            const T* in = columns_ + r * S + c * L;
            for (int j = 0; j < L; ++j) F[j] = load<T>(in + j * L);
        } else {
            load_columns(flow_[0].data + r * S + c, S, F);
        }
    }

    // Do all edges of offset k from row r have one weight? Then memory need not be read for it. The
    // padding beside the row has no excess, so that no weight there can move any.
    bool one_weight(int64_t r, int k, Vec<T>& weight) const {
        int64_t first, last;
        shape_.range(k, r, first, last);
        weight = Vec<T>{} + (first < last ? common_[k] : T{0});
        return uniform_ && column_of(k) == 0;
    }

    template <bool First>
    void sweep_down(int64_t r, int k) {
        const int64_t step = K == 2 ? S : step_[2 * k];
        if (r + (K == 2 ? 1 : shape_.row_step[k]) >= rows_) {
            if (First) std::memset(flow_[k].data + r * S, 0, sizeof(T) * blocks_ * L);
            return;
        }
        T* const e = excess_.data + r * S;
        T* const f = flow_[k].data + r * S;
        const T* const w = weight_[k].data + r * S;
        Vec<T> common;
        const bool known = one_weight(r, k, common);
        for (int64_t c = 0; c < blocks_ * L; c += L) {
            prefetch(f + 4 * S + c);
            const Vec<T> limit = known ? common : load<T>(w + c), E = load<T>(e + c);
            Vec<T> moved;
            if (First) {
                moved = vmin(vmax(E, -limit), limit);
                store<T>(f + c, moved);
            } else {
                const Vec<T> old = load<T>(f + c);
                const Vec<T> now = vmin(vmax(old + E, -limit), limit);
                store<T>(f + c, now);
                moved = now - old;
            }
            store<T>(e + c, E - moved);
            store<T>(e + step + c, load<T>(e + step + c) + moved);
        }
    }

    void sweep_backward() {
        const int64_t last = (rows_ - 1) / L * L;
        for (int64_t r = last; r >= 0; r -= L) {
            if (!idle_.empty() && idle_[r / L]) {
                const int64_t words = (std::min(rows_, r + L) - r) * words_;
                std::memset(source_.data + r * words_, 0, sizeof(uint64_t) * words);
                std::memset(sink_.data + r * words_, 0, sizeof(uint64_t) * words);
                continue;
            }
            sweep_left(r);
            for (int64_t i = std::min(rows_, r + L) - 1; i >= r; --i) {
                for (int k = 1; k < K; ++k) sweep_up(i, k);
                set_planes(i);
            }
        }
    }

    void sweep_left(int64_t r) {
        T* const e = excess_.data + r * S;
        const int64_t last = (blocks_ - 1) * L;
        Vec<T> right[L] = {};  // the block to the right, its first column not yet final
        for (int64_t c = last; c >= 0; c -= L) {
            Vec<T> E[L], F[L];
            const T* w = across_.data + r * S + c * L;
            for (int i = 1; i <= L; ++i) {
                prefetch(e - i * S + c);
                prefetch(flow_[0].data + (r - i) * S + c);
            }
            if constexpr (kKeepColumns)
                for (int i = 0; i < L; i += 2) prefetch(columns_ + (r - L) * S + c * L + i * L);
            load_columns(e + c, S, E);
            get_columns(r, c, F);
            for (int j = L - 1; j >= 0; --j) {
                const Vec<T> limit = uniform_ && c < last ? Vec<T>{} + common_[0] : load<T>(w + j * L);
                Vec<T>& from = j == L - 1 ? right[0] : E[j + 1];
                const Vec<T> now = vmin(vmax(F[j] - from, -limit), limit);
                const Vec<T> moved = F[j] - now;
                F[j] = now;
                from -= moved;
                E[j] += moved;
            }
            if (c + L < blocks_ * L) store_columns(e + c + L, S, right);
            store_columns(flow_[0].data + r * S + c, S, F);
            for (int i = 0; i < L; ++i) right[i] = E[i];
        }
        store_columns(e, S, right);
    }

    void sweep_up(int64_t r, int k) {  // edges whose upper end is one step above row r
        const int64_t step = K == 2 ? S : step_[2 * k];
        const int64_t above = r - (K == 2 ? 1 : shape_.row_step[k]);
        if (above < 0) return;
        T* const up = excess_.data + above * S;
        T* const f = flow_[k].data + above * S;
        const T* const w = weight_[k].data + above * S;
        Vec<T> common;
        const bool known = one_weight(above, k, common);
        for (int64_t c = 0; c < blocks_ * L; c += L) {
            prefetch(f - 4 * S + c);
            const Vec<T> limit = known ? common : load<T>(w + c), E = load<T>(up + step + c), old = load<T>(f + c);
            const Vec<T> now = vmin(vmax(old - E, -limit), limit);
            const Vec<T> moved = old - now;
            store<T>(f + c, now);
            store<T>(up + step + c, E - moved);
            store<T>(up + c, load<T>(up + c) + moved);
        }
    }

    // ---- 2. bit planes ---------------------------------------------------------------------
    void set_planes(int64_t r) {
        // The edges between row r and a row above are final once row r has swept up.
        for (int64_t word = 0; word < used_words_; ++word) {
            const int64_t at = r * words_ + word;
            const T* const e = excess_.data + at * 64;
            const Vec<T> zero = {};
            source_.data[at] = bits_of_64<T>([&](int i) { return load<T>(e + i) > zero; });
            sink_.data[at] = bits_of_64<T>([&](int i) { return load<T>(e + i) < zero; });
            for (int k = 0; k < K; ++k) {
                const int64_t base = at - words_of(k);
                if (base < 0) continue;
                const T *const f = flow_[k].data + base * 64, *const w = weight_[k].data + base * 64;
                if (uniform_ && (k == 0 || column_of(k) == 0)) {
                    int64_t first, last;
                    shape_.range(k, K == 2 ? r - k : r - shape_.row_step[k], first, last);
                    const uint64_t inside = between(first - word * 64, last - word * 64);
                    const Vec<T> common = Vec<T>{} + common_[k];
                    forward_[k].data[base] =
                        inside & bits_of_64<T>([&](int i) { return common > load<T>(f + i); });
                    backward_[k].data[base] =
                        inside & bits_of_64<T>([&](int i) { return common > -load<T>(f + i); });
                    continue;
                }
                forward_[k].data[base] = bits_of_64<T>([&](int i) { return load<T>(w + i) > load<T>(f + i); });
                backward_[k].data[base] = bits_of_64<T>([&](int i) { return load<T>(w + i) > -load<T>(f + i); });
            }
        }
    }

    // ---- 3. trees --------------------------------------------------------------------------
    // Bit b of the result is bit b - step of the plane (step = 64 * words + column, |column| <= 1).
    static uint64_t from_below(const uint64_t* plane, int64_t at, int64_t words, int64_t column) {
        const uint64_t* p = plane + at - words;
        if (column == 0) return p[0];
        return column > 0 ? p[0] << 1 | p[-1] >> 63 : p[0] >> 1 | p[1] << 63;
    }
    static uint64_t from_above(const uint64_t* plane, int64_t at, int64_t words, int64_t column) {
        const uint64_t* p = plane + at + words;
        if (column == 0) return p[0];
        return column > 0 ? p[0] >> 1 | p[1] << 63 : p[0] << 1 | p[-1] >> 63;
    }
    // The same for the AND of two planes.
    static uint64_t from_below(const uint64_t* a, const uint64_t* b, int64_t at, int64_t words,
                               int64_t column) {
        const uint64_t *p = a + at - words, *q = b + at - words;
        if (column == 0) return p[0] & q[0];
        return column > 0 ? (p[0] & q[0]) << 1 | (p[-1] & q[-1]) >> 63
                          : (p[0] & q[0]) >> 1 | (p[1] & q[1]) << 63;
    }
    int64_t words_of(int k) const { return K == 2 ? (k ? words_ : 0) : shape_.row_step[k] * words_; }
    int64_t column_of(int k) const { return K == 2 ? 1 - k : shape_.column_step[k]; }

    void adopt_bits(int64_t at, uint64_t fresh, int direction) {
        for (int b = 0; b < kParentBits; ++b)
            if (direction >> b & 1) parent_[b].data[at] |= fresh;
    }

    void grow_trees() {
        const int64_t n_words = rows_ * words_;
        for (auto& plane : parent_) std::memset(plane.data, 0, sizeof(uint64_t) * n_words);
        std::fill(row_now_.begin(), row_now_.end(), ~uint64_t{0});
        if (rows_ % 64) row_now_.back() = (uint64_t{1} << rows_ % 64) - 1;
        const uint64_t tail = shape_.width % 64 ? (uint64_t{1} << shape_.width % 64) - 1 : ~uint64_t{0};
        for (bool again = true; again;) {
            again = false;
            for (size_t group = 0; group < row_now_.size(); ++group) {
                uint64_t todo = row_now_[group];
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
    void mark_row(int64_t r) { row_next_[r / 64] |= uint64_t{1} << r % 64; }

    bool grow_row(int64_t r, uint64_t tail) {
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

    bool find_contacts() {
        bool any = false;
        for (int64_t at = 0; at < rows_ * words_; ++at) {
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
        }
        return any;
    }

    // ---- 4. Boykov-Kolmogorov --------------------------------------------------------------
    static bool bit(const Buffer<uint64_t>& plane, int64_t b) { return plane.data[b >> 6] >> (b & 63) & 1; }
    static void set(Buffer<uint64_t>& plane, int64_t b) { plane.data[b >> 6] |= uint64_t{1} << (b & 63); }
    static void clear(Buffer<uint64_t>& plane, int64_t b) { plane.data[b >> 6] &= ~(uint64_t{1} << (b & 63)); }

    // Is there residual capacity from b in direction d (2k: along offset k, 2k + 1: against it)?
    bool open(int64_t b, int d) const {
        return d & 1 ? bit(backward_[d >> 1], b + step_[d]) : bit(forward_[d >> 1], b);
    }
    // One bit a direction, without branches: arcs out of b, arcs into b, neighbours in a plane.
    unsigned open_out(int64_t b) const {
        unsigned mask = 0;
        for (int k = 0; k < K; ++k) {
            mask |= static_cast<unsigned>(bit(forward_[k], b)) << (2 * k);
            mask |= static_cast<unsigned>(bit(backward_[k], b - step(k))) << (2 * k + 1);
        }
        return mask;
    }
    unsigned open_in(int64_t b) const {
        unsigned mask = 0;
        for (int k = 0; k < K; ++k) {
            mask |= static_cast<unsigned>(bit(backward_[k], b)) << (2 * k);
            mask |= static_cast<unsigned>(bit(forward_[k], b - step(k))) << (2 * k + 1);
        }
        return mask;
    }
    unsigned neighbours(const Buffer<uint64_t>& plane, int64_t b) const {
        unsigned mask = 0;
        for (int k = 0; k < K; ++k) {
            mask |= static_cast<unsigned>(bit(plane, b + step(k))) << (2 * k);
            mask |= static_cast<unsigned>(bit(plane, b - step(k))) << (2 * k + 1);
        }
        return mask;
    }
    int64_t step(int k) const { return K == 2 && k == 0 ? 1 : step_[2 * k]; }

    // The weight of an edge inside the grid; a uniform one needs no memory to be read.
    T capacity(int k, int64_t base) const { return uniform_ ? common_[k] : weight_[k].data[base]; }
    T residual(int64_t b, int d) const {
        const int k = d >> 1;
        if (d & 1) {
            const int64_t base = b + step_[d];
            return capacity(k, base) + flow_[k].data[base];
        }
        return capacity(k, b) - flow_[k].data[b];
    }
    // Push along d; true if the arc is now full.
    bool push(int64_t b, int d, T amount) {
        const int k = d >> 1;
        if (d & 1) {
            const int64_t base = b + step_[d];
            T& f = flow_[k].data[base];
            f -= amount;
            set(forward_[k], base);
            if (f != -capacity(k, base)) return false;
            clear(backward_[k], base);
            return true;
        }
        T& f = flow_[k].data[b];
        f += amount;
        set(backward_[k], b);
        if (f != capacity(k, b)) return false;
        clear(forward_[k], b);
        return true;
    }
    int parent(int64_t b) const {
        int d = 0;
        for (int i = 0; i < kParentBits; ++i) d |= static_cast<int>(bit(parent_[i], b)) << i;
        return d;
    }
    void set_parent(int64_t b, int d) {
        for (int i = 0; i < kParentBits; ++i)
            if (d >> i & 1)
                set(parent_[i], b);
            else
                clear(parent_[i], b);
    }
    bool is_root(int64_t b) const { return excess_.data[b] != 0; }

    void push_active(int64_t b) {
        if (bit(queued_, b)) return;
        set(queued_, b);
        if (queue_size_ == queue_.size()) {  // ring buffer: unroll into twice the space
            std::vector<int32_t> larger(queue_.size() * 2);
            for (size_t i = 0; i < queue_size_; ++i)
                larger[i] = queue_[(queue_head_ + i) & (queue_.size() - 1)];
            queue_.swap(larger);
            queue_head_ = 0;
        }
        queue_[(queue_head_ + queue_size_++) & (queue_.size() - 1)] = static_cast<int32_t>(b);
    }
    int64_t pop_active() {
        const int64_t b = queue_[queue_head_];
        queue_head_ = (queue_head_ + 1) & (queue_.size() - 1);
        --queue_size_;
        clear(queued_, b);
        return b;
    }

    void finish(Tie tie) {
        complete_sink_ = tie == Tie::kMaximal;
        grow_trees();
        if (find_contacts()) search();
        if (tie == Tie::kMaximal) {
            for (int64_t r = 0; r < rows_; ++r)
                for (int64_t word = 0; word < used_words_; ++word)
                    source_.data[r * words_ + word] =
                        ~sink_.data[r * words_ + word] & between(0, shape_.width - word * 64);
        }
    }

    void search() {
        if (time_ > std::numeric_limits<int32_t>::max() / 2) {
            time_ = 0;
            std::memset(stamp_.data, 0, sizeof(int32_t) * rows_ * S);
        }
        while (queue_size_) {
            const int64_t p = pop_active();
            if (bit(source_, p))
                extend<true>(p);
            else if (bit(sink_, p))
                extend<false>(p);
        }
    }

    // Scan the residual arcs of p: augment where the other tree is met, adopt free nodes.
    template <bool Source>
    void extend(int64_t p) {
        auto& mine = Source ? source_ : sink_;
        auto& other = Source ? sink_ : source_;
        for (;;) {
            const unsigned contact = (Source ? open_out(p) : open_in(p)) & neighbours(other, p);
            if (!contact) break;
            const int d = __builtin_ctz(contact);
            const int64_t q = p + step_[d];
            if (Source)
                augment(p, d, q);
            else
                augment(q, d ^ 1, p);
            adopt();
            if (!bit(mine, p)) return;
        }
        unsigned fresh = (Source ? open_out(p) : open_in(p)) & ~neighbours(mine, p);
        for (; fresh; fresh &= fresh - 1) {
            const int d = __builtin_ctz(fresh);
            const int64_t q = p + step_[d];
            set(mine, q);
            set_parent(q, d ^ 1);
            stamp_.data[q] = stamp_.data[p];
            distance_.data[q] = static_cast<int32_t>(static_cast<uint32_t>(distance_.data[p]) + 1);
            push_active(q);
        }
    }

    void make_orphan(int64_t b) {
        set(orphan_, b);
        orphans_.push_back(static_cast<int32_t>(b));
    }

    // Climb from b to its root, noting the arcs; what the narrowest of them lets through.
    template <bool Source>
    T climb(int64_t& b, T amount) {
        while (!is_root(b)) {
            const int up = parent(b), k = up >> 1;
            const int64_t above = b + step_[up];
            const bool against = up & 1;  // the parent is the lower end of the edge
            const int64_t base = against ? above : b;
            const bool along = Source == against;  // flow comes down the source tree, goes up the sink's
            const T w = capacity(k, base), f = flow_[k].data[base];
            amount = std::min(amount, static_cast<T>(along ? w - f : w + f));
            path_.push_back({base, static_cast<int32_t>(b), static_cast<int16_t>(k), along});
            b = above;
        }
        return amount;
    }

    // Send what fits from the root above p, over p -> q, to the root above q.
    void augment(int64_t p, int d, int64_t q) {
        path_.clear();
        int64_t from = p, to = q;
        T amount = climb<true>(from, residual(p, d));
        amount = climb<false>(to, amount);
        amount = std::min(amount, std::min(excess_.data[from], static_cast<T>(-excess_.data[to])));

        push(p, d, amount);
        for (const Arc& arc : path_) {
            T& f = flow_[arc.k].data[arc.base];
            const T w = capacity(arc.k, arc.base);
            f += arc.along ? amount : -amount;
            set(arc.along ? backward_[arc.k] : forward_[arc.k], arc.base);
            if (f == (arc.along ? w : -w)) {
                clear(arc.along ? forward_[arc.k] : backward_[arc.k], arc.base);
                make_orphan(arc.node);
            }
        }
        if ((excess_.data[from] -= amount) == 0) make_orphan(from);
        if ((excess_.data[to] += amount) == 0) make_orphan(to);
    }

    void adopt() {
        ++time_;
        for (size_t i = 0; i < orphans_.size(); ++i) {
            const int64_t b = orphans_[i];
            if (bit(source_, b))
                adopt<true>(b);
            else
                adopt<false>(b);
        }
        orphans_.clear();
    }

    // Distance of b from its root, or -1 if its tree has lost the root. Marks the path.
    int32_t depth(int64_t b) {
        int32_t length = 0;
        int64_t x = b;
        for (;;) {
            if (stamp_.data[x] == time_) {
                length += distance_.data[x];
                break;
            }
            if (is_root(x)) {
                stamp_.data[x] = time_;
                distance_.data[x] = 0;
                break;
            }
            if (bit(orphan_, x)) return -1;
            x += step_[parent(x)];
            ++length;
        }
        for (int32_t left = length; stamp_.data[b] != time_; b += step_[parent(b)]) {
            stamp_.data[b] = time_;
            distance_.data[b] = left--;
        }
        return length;
    }

    template <bool Source>
    void adopt(int64_t b) {
        auto& mine = Source ? source_ : sink_;
        const unsigned towards = Source ? open_in(b) : open_out(b);  // arcs a parent could use
        const unsigned kin = neighbours(mine, b);
        int best = -1;
        int32_t shortest = std::numeric_limits<int32_t>::max();
        for (unsigned rest = towards & kin; rest; rest &= rest - 1) {
            const int d = __builtin_ctz(rest);
            const int32_t length = depth(b + step_[d]);
            if (length >= 0 && length < shortest) {
                shortest = length;
                best = d;
            }
        }
        clear(orphan_, b);
        if (best >= 0) {
            set_parent(b, best);
            stamp_.data[b] = time_;
            distance_.data[b] = shortest + 1;
            return;
        }
        clear(mine, b);
        // Contacts were queued by their source end only. That is enough for a maximal source tree;
        // a maximal sink tree must also be told of the nodes that the source tree gives up.
        if (Source && complete_sink_)
            for (unsigned rest = open_out(b) & neighbours(sink_, b); rest; rest &= rest - 1)
                push_active(b + step_[__builtin_ctz(rest)]);
        // A neighbour across the border has both arcs closed; else at least one is open.
        for (unsigned rest = (towards | (Source ? open_out(b) : open_in(b))) & kin; rest;
             rest &= rest - 1) {
            const int d = __builtin_ctz(rest);
            const int64_t q = b + step_[d];
            if (towards >> d & 1) push_active(q);
            if (!is_root(q) && !bit(orphan_, q) && parent(q) == (d ^ 1)) make_orphan(q);
        }
    }
};

}  // namespace LOGSUPER_ISA
