// Steps 1 and 2 of the grid solver: sweeps along all directions, then bit planes.
//
// One forward pass (right and down) and one backward pass (left and up) over the rows. Between rows a sweep
// is vectorised along the row; within a row it runs across a block of rows, transposed in registers. The
// backward pass leaves the edges of a row final, and sets its bit planes.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "grid_numbers.hpp"
#include "grid_planes.hpp"

namespace LOGSUPER_ISA {

template <class T, int K>
class GridSweeps {
    static constexpr int kBlock = GridNumbers<T, K>::kBlock;
    static constexpr bool kKeepColumns = sizeof(T) == sizeof(int32_t);

    const GridLayout<K> layout_;
    GridNumbers<T, K>& numbers_;
    GridPlanes<K>& planes_;
    T* const columns_;           // work space for the flow along the rows, if kKeepColumns
    std::vector<uint8_t> idle_;  // by block of rows: whether to skip it
    // Entries of the field by size in integer units, four at a time: below the bound, below
    // Resolution<T>::kFine, below 1/2 or NaN, and 0. All include those that are 0.
    struct Counts {
        Int64x4 within = {}, coarse = {}, lost = {}, zero = {};
    } counts_;
    Resolution<T> resolution_;

   public:
    // workspace: (padded rows, stride) numbers of 32 bits, used between forward() and backward().
    GridSweeps(GridNumbers<T, K>& numbers, GridPlanes<K>& planes, int32_t* workspace)
        : layout_(numbers.layout), numbers_(numbers), planes_(planes), columns_(columns_in(workspace)) {}

    // Starts a flow from the field theta; returns whether the integers are fine enough for it.
    bool start(const double* theta) {
        resolution_ = {};
        counts_ = {};
        forward<true>(theta);
        const auto sum = [](Int64x4 v) { return v[0] + v[1] + v[2] + v[3]; };
        const int64_t zeros = sum(counts_.zero);
        resolution_.seen += sum(counts_.within) - zeros;
        resolution_.coarse += sum(counts_.coarse) - zeros;
        if (sum(counts_.lost) > zeros) {
            for (int64_t i = 0; i < layout_.rows * layout_.width; ++i)
                if (std::isnan(theta[i])) refuse_nan();
            resolution_.lost = true;
        }
        return resolution_.enough();
    }
    // Continues the flow; skips the blocks of rows without any of the given nodes, in increasing order.
    void resume(const std::vector<int32_t>& nodes) {
        idle_.assign(numbers_.padded_rows / kBlock, 1);
        const int64_t size = layout_.stride * kBlock;
        int64_t next = 0;  // divide only at a new block
        for (int32_t b : nodes)
            if (b >= next) {
                const int64_t block = b / size;
                idle_[block] = 0;
                next = (block + 1) * size;
            }
        forward<false>(nullptr);
        backward();
        idle_.clear();
    }
    void backward() {
        const int64_t rows = layout_.rows, words = layout_.words;
        for (int64_t r = (rows - 1) / kBlock * kBlock; r >= 0; r -= kBlock) {
            poll(kBlock * layout_.stride * K);
            if (!idle_.empty() && idle_[r / kBlock]) {
                const int64_t count = (std::min(rows, r + kBlock) - r) * words;
                std::memset(planes_.source.data + r * words, 0, sizeof(uint64_t) * count);
                std::memset(planes_.sink.data + r * words, 0, sizeof(uint64_t) * count);
                continue;
            }
            sweep_left(r);
            for (int64_t i = std::min(rows, r + kBlock) - 1; i >= r; --i) {
                for (int k = 1; k < K; ++k) sweep_up(i, k);
                set_planes(i);
            }
        }
    }

   private:
    static T* columns_in(int32_t* workspace) {
        if constexpr (kKeepColumns)
            return workspace;
        else
            return nullptr;
    }

    // Rows of a large image are a page each, and hardware prefetches only within a page. An address outside
    // the array does no harm.
    static void prefetch(const void* p) { __builtin_prefetch(p, 1); }

    void load_row(const double* theta, int64_t row) {
        T* e = numbers_.excess.data + row * layout_.stride;
        const double* t = theta + row * layout_.width;
        const int64_t width = layout_.width;
        const double scale = numbers_.scale, bound = numbers_.bound;
        int64_t c = 0;
#if defined(__AVX2__)
        if constexpr (sizeof(T) == 4) {
            const __m256d s = _mm256_set1_pd(scale), hi = _mm256_set1_pd(bound), lo = _mm256_set1_pd(-bound);
            const __m256d fine = _mm256_set1_pd(Resolution<T>::kFine), half = _mm256_set1_pd(0.5);
            const __m256d sign = _mm256_set1_pd(-0.0), zero = _mm256_setzero_pd();
            Counts counts = counts_;
            const auto four = [&](__m256d t) {
                const __m256d v = _mm256_mul_pd(t, s), size = _mm256_andnot_pd(sign, v);
                counts.within -= (Int64x4)_mm256_cmp_pd(size, hi, _CMP_LT_OQ);
                counts.coarse -= (Int64x4)_mm256_cmp_pd(size, fine, _CMP_LT_OQ);
                counts.lost -= (Int64x4)_mm256_cmp_pd(size, half, _CMP_NGE_UQ);
                counts.zero -= (Int64x4)_mm256_cmp_pd(size, zero, _CMP_EQ_OQ);
                return _mm256_cvtpd_epi32(_mm256_max_pd(_mm256_min_pd(v, hi), lo));
            };
            for (; c + 4 <= width; c += 4) {
                prefetch(t + c + 1024);
                _mm_storeu_si128(reinterpret_cast<__m128i*>(e + c), four(_mm256_loadu_pd(t + c)));
            }
            if (c < width) {  // what follows in the padded row is 0
                const __m256i inside =
                    _mm256_cmpgt_epi64(_mm256_set1_epi64x(width - c), _mm256_setr_epi64x(0, 1, 2, 3));
                _mm_storeu_si128(reinterpret_cast<__m128i*>(e + c), four(_mm256_maskload_pd(t + c, inside)));
                c = width;
            }
            counts_ = counts;
        }
#endif
        for (; c < width; ++c) e[c] = quantise(t[c], scale, bound, resolution_);
    }

    // First: from the field theta and no flow; else from the flow there is.
    template <bool First>
    void forward(const double* theta) {
        const int64_t rows = layout_.rows, ahead = layout_.shape.guard_rows;
        int64_t loaded = 0;
        for (int64_t r = 0; r < rows; r += kBlock) {
            poll(kBlock * layout_.stride * K);
            if (First)
                for (; loaded < std::min(rows, r + kBlock + ahead); ++loaded) load_row(theta, loaded);
            else if (idle_[r / kBlock])
                continue;
            sweep_right<First>(r);
            for (int64_t i = r; i < std::min(rows, r + kBlock); ++i)
                for (int k = 1; k < K; ++k) sweep_down<First>(i, k);
        }
    }

    template <bool First>
    void sweep_right(int64_t r) {
        const int64_t stride = layout_.stride, blocks = numbers_.blocks;
        T* const e = numbers_.excess.data + r * stride;
        const T* w = numbers_.weight_columns.data + r * stride;
        const bool uniform = numbers_.uniform;
        const Vec<T> common = Vec<T>{} + numbers_.common[0];
        const int64_t last = (blocks - 1) * kBlock;  // the only block where a uniform weight meets the border
        // Edge j wants the flow flow_j + excess_j, once edge j - 1 has sent now_(j-1) - flow_(j-1) to node j.
        Vec<T> now = {}, before = {};
        for (int64_t c = 0; c < blocks * kBlock; c += kBlock, w += kBlock * kBlock) {
            Vec<T> excess[kBlock], flow[kBlock];
            load_columns(e + c, stride, excess);
            if (!First) load_columns(numbers_.flow[0].data + r * stride + c, stride, flow);
            for (int j = 0; j < kBlock; ++j) {
                const Vec<T> limit = uniform && c < last ? common : load<T>(w + j * kBlock);
                const Vec<T> wanted = (First ? excess[j] : excess[j] + (flow[j] - before)) + now;
                if (!First) before = flow[j];
                now = vmin(vmax(wanted, -limit), limit);
                excess[j] = wanted - now;
                flow[j] = now;
            }
            store_columns(e + c, stride, excess);
            put_columns(r, c, flow);
        }
    }

    // The flow along the rows between the sweep to the right and the one to the left. Narrow integers stay as
    // columns, in memory that the search needs only later.
    void put_columns(int64_t r, int64_t c, const Vec<T>* flow) {
        const int64_t stride = layout_.stride;
        if constexpr (kKeepColumns) {
            T* out = columns_ + r * stride + c * kBlock;
            for (int j = 0; j < kBlock; ++j) store<T>(out + j * kBlock, flow[j]);
        } else {
            store_columns(numbers_.flow[0].data + r * stride + c, stride, flow);
        }
    }
    void get_columns(int64_t r, int64_t c, Vec<T>* flow) const {
        const int64_t stride = layout_.stride;
        if constexpr (kKeepColumns) {
            const T* in = columns_ + r * stride + c * kBlock;
            for (int j = 0; j < kBlock; ++j) flow[j] = load<T>(in + j * kBlock);
        } else {
            load_columns(numbers_.flow[0].data + r * stride + c, stride, flow);
        }
    }

    // Whether all edges of offset k from row r have one weight, which then need not be read from memory. The
    // padding beside the row has no excess, so that no weight there can move any.
    bool one_weight(int64_t r, int k, Vec<T>& weight) const {
        const ColumnRange columns = layout_.shape.range(k, r);
        weight = Vec<T>{} + (columns.first < columns.last ? numbers_.common[k] : T{0});
        return numbers_.uniform && layout_.column_step(k) == 0;
    }

    template <bool First>
    void sweep_down(int64_t r, int k) {
        const int64_t stride = layout_.stride, step = layout_.step_down(k), width = numbers_.blocks * kBlock;
        if (r + layout_.row_step(k) >= layout_.rows) {
            if (First) std::memset(numbers_.flow[k].data + r * stride, 0, sizeof(T) * width);
            return;
        }
        T* const e = numbers_.excess.data + r * stride;
        T* const f = numbers_.flow[k].data + r * stride;
        const T* const w = numbers_.weight[k].data + r * stride;
        Vec<T> common;
        const bool known = one_weight(r, k, common);
        for (int64_t c = 0; c < width; c += kBlock) {
            prefetch(f + 4 * stride + c);
            const Vec<T> limit = known ? common : load<T>(w + c), excess = load<T>(e + c);
            Vec<T> moved;
            if (First) {
                moved = vmin(vmax(excess, -limit), limit);
                store<T>(f + c, moved);
            } else {
                const Vec<T> old = load<T>(f + c);
                const Vec<T> now = vmin(vmax(old + excess, -limit), limit);
                store<T>(f + c, now);
                moved = now - old;
            }
            store<T>(e + c, excess - moved);
            store<T>(e + step + c, load<T>(e + step + c) + moved);
        }
    }

    void sweep_left(int64_t r) {
        const int64_t stride = layout_.stride, blocks = numbers_.blocks;
        T* const e = numbers_.excess.data + r * stride;
        T* const f = numbers_.flow[0].data + r * stride;
        const bool uniform = numbers_.uniform;
        const Vec<T> common = Vec<T>{} + numbers_.common[0];
        const int64_t last = (blocks - 1) * kBlock;
        Vec<T> right[kBlock] = {};  // the block to the right; its first column still contains the old flow
        // Edge j wants the flow flow_j - excess_(j+1), once edge j + 1 has given flow_(j+1) - now_(j+1) back
        // to node j + 1: (flow_j - (excess_(j+1) + flow_(j+1))) + now_(j+1), of which only the last term
        // waits.
        Vec<T> now = {};
        for (int64_t c = last; c >= 0; c -= kBlock) {
            Vec<T> excess[kBlock], flow[kBlock];
            const T* w = numbers_.weight_columns.data + r * stride + c * kBlock;
            for (int i = 1; i <= kBlock; ++i) {
                prefetch(e - i * stride + c);
                prefetch(f - i * stride + c);
            }
            if constexpr (kKeepColumns)
                for (int i = 0; i < kBlock; i += 2)
                    prefetch(columns_ + (r - kBlock) * stride + c * kBlock + i * kBlock);
            load_columns(e + c, stride, excess);
            get_columns(r, c, flow);
            for (int j = kBlock - 1; j >= 0; --j) {
                const Vec<T> limit = uniform && c < last ? common : load<T>(w + j * kBlock);
                Vec<T>& next = j == kBlock - 1 ? right[0] : excess[j + 1];
                const Vec<T> wanted = (flow[j] - next) + now;
                now = vmin(vmax(wanted, -limit), limit);
                next = now - wanted;
                excess[j] += flow[j];
                flow[j] = now;
            }
            if (c + kBlock < blocks * kBlock) store_columns(e + c + kBlock, stride, right);
            store_columns(f + c, stride, flow);
            for (int i = 0; i < kBlock; ++i) right[i] = excess[i];
        }
        right[0] -= now;
        store_columns(e, stride, right);
    }

    // The edges whose upper end is one step above row r.
    void sweep_up(int64_t r, int k) {
        const int64_t stride = layout_.stride, step = layout_.step_down(k), above = r - layout_.row_step(k);
        if (above < 0) return;
        T* const up = numbers_.excess.data + above * stride;
        T* const f = numbers_.flow[k].data + above * stride;
        const T* const w = numbers_.weight[k].data + above * stride;
        Vec<T> common;
        const bool known = one_weight(above, k, common);
        for (int64_t c = 0; c < numbers_.blocks * kBlock; c += kBlock) {
            prefetch(f - 4 * stride + c);
            const Vec<T> limit = known ? common : load<T>(w + c), excess = load<T>(up + step + c);
            const Vec<T> old = load<T>(f + c);
            const Vec<T> now = vmin(vmax(old - excess, -limit), limit);
            const Vec<T> moved = old - now;
            store<T>(f + c, now);
            store<T>(up + step + c, excess - moved);
            store<T>(up + c, load<T>(up + c) + moved);
        }
    }

    // The edges between row r and a row above are final once row r has swept up.
    void set_planes(int64_t r) {
        for (int64_t word = 0; word < layout_.used_words; ++word) {
            const int64_t at = r * layout_.words + word;
            const T* const e = numbers_.excess.data + at * 64;
            const Vec<T> zero = {};
            planes_.source.data[at] = bits_of_64<T>([&](int i) { return load<T>(e + i) > zero; });
            planes_.sink.data[at] = bits_of_64<T>([&](int i) { return load<T>(e + i) < zero; });
            for (int k = 0; k < K; ++k) {
                const int64_t base = at - layout_.word_step(k);
                if (base < 0) continue;
                const T *const f = numbers_.flow[k].data + base * 64, *const w =
                                                                          numbers_.weight[k].data + base * 64;
                uint64_t &forward = planes_.forward[k].data[base], &backward = planes_.backward[k].data[base];
                if (numbers_.uniform && (k == 0 || layout_.column_step(k) == 0)) {
                    const ColumnRange columns = layout_.shape.range(k, r - layout_.row_step(k));
                    const uint64_t inside = bits_between(columns.first - word * 64, columns.last - word * 64);
                    const Vec<T> common = Vec<T>{} + numbers_.common[k];
                    forward = inside & bits_of_64<T>([&](int i) { return common > load<T>(f + i); });
                    backward = inside & bits_of_64<T>([&](int i) { return common > -load<T>(f + i); });
                } else {
                    forward = bits_of_64<T>([&](int i) { return load<T>(w + i) > load<T>(f + i); });
                    backward = bits_of_64<T>([&](int i) { return load<T>(w + i) > -load<T>(f + i); });
                }
            }
        }
    }
};

}  // namespace LOGSUPER_ISA
