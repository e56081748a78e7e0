// The first two steps of the grid solver: sweeps along all directions, then bit planes.
//
// One forward pass (right and down) and one backward pass (left and up) over the rows. Between rows a
// sweep is vectorised along the row; within a row it runs across a block of rows, transposed in
// registers. The backward pass leaves a row final, and its planes are set at once.
#pragma once

#include "grid.hpp"

namespace LOGSUPER_ISA {

template <class T, int K>
void GridSolver<T, K>::load_row(const double* theta, int64_t row) {
    T* e = excess_.data + row * S;
    const double* t = theta + row * shape_.width;
    const int64_t W = shape_.width;
    int64_t c = 0;
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
        const __m256d s = _mm256_set1_pd(scale), hi = _mm256_set1_pd(bound), lo = _mm256_set1_pd(-bound);
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
    for (; c < W; ++c) e[c] = quantise(t[c], scale, bound, resolution_);
}

template <class T, int K>
template <bool First>
void GridSolver<T, K>::sweep_forward(const double* theta) {
    const int64_t ahead = shape_.guard_rows;
    int64_t loaded = 0;
    for (int64_t r = 0; r < rows_; r += L) {
        poll(L * S * K);
        if (First)
            for (; loaded < std::min(rows_, r + L + ahead); ++loaded) load_row(theta, loaded);
        else if (idle_[r / L])
            continue;
        sweep_right<First>(r);
        for (int64_t i = r; i < std::min(rows_, r + L); ++i)
            for (int k = 1; k < K; ++k) sweep_down<First>(i, k);
    }
}

template <class T, int K>
template <bool First>
void GridSolver<T, K>::sweep_right(int64_t r) {
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
template <class T, int K>
void GridSolver<T, K>::put_columns(int64_t r, int64_t c, const Vec<T>* F) {
    if constexpr (kKeepColumns) {
        T* out = columns_ + r * S + c * L;
        for (int j = 0; j < L; ++j) store<T>(out + j * L, F[j]);
    } else {
        store_columns(flow_[0].data + r * S + c, S, F);
    }
}

template <class T, int K>
void GridSolver<T, K>::get_columns(int64_t r, int64_t c, Vec<T>* F) const {
    if constexpr (kKeepColumns) {
        const T* in = columns_ + r * S + c * L;
        for (int j = 0; j < L; ++j) F[j] = load<T>(in + j * L);
    } else {
        load_columns(flow_[0].data + r * S + c, S, F);
    }
}

// Do all edges of offset k from row r have one weight? Then memory need not be read for it. The
// padding beside the row has no excess, so that no weight there can move any.
template <class T, int K>
bool GridSolver<T, K>::one_weight(int64_t r, int k, Vec<T>& weight) const {
    int64_t first, last;
    shape_.range(k, r, first, last);
    weight = Vec<T>{} + (first < last ? common_[k] : T{0});
    return uniform_ && column_of(k) == 0;
}

template <class T, int K>
template <bool First>
void GridSolver<T, K>::sweep_down(int64_t r, int k) {
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

template <class T, int K>
void GridSolver<T, K>::sweep_backward() {
    const int64_t last = (rows_ - 1) / L * L;
    for (int64_t r = last; r >= 0; r -= L) {
        poll(L * S * K);
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

template <class T, int K>
void GridSolver<T, K>::sweep_left(int64_t r) {
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

// edges whose upper end is one step above row r
template <class T, int K>
void GridSolver<T, K>::sweep_up(int64_t r, int k) {
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
        const Vec<T> limit = known ? common : load<T>(w + c), E = load<T>(up + step + c),
                     old = load<T>(f + c);
        const Vec<T> now = vmin(vmax(old - E, -limit), limit);
        const Vec<T> moved = old - now;
        store<T>(f + c, now);
        store<T>(up + step + c, E - moved);
        store<T>(up + c, load<T>(up + c) + moved);
    }
}

template <class T, int K>
void GridSolver<T, K>::set_planes(int64_t r) {
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

}  // namespace LOGSUPER_ISA
