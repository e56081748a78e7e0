// Vector types and the few operations the kernels need, for AVX2, SSE2 and plain C++.
//
// The same sources are built twice, into two extension modules: one for the baseline of the
// platform, one with AVX2. Two shared objects, because inline functions of the standard library
// compiled for AVX2 must never be merged by the linker into code that runs on an older machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace LOGSUPER_ISA {

#if defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

typedef int32_t VecInt __attribute__((vector_size(kVectorBytes)));
typedef int64_t VecLong __attribute__((vector_size(kVectorBytes)));

template <class T>
struct VectorOf;
template <>
struct VectorOf<int32_t> {
    using type = VecInt;
};
template <>
struct VectorOf<int64_t> {
    using type = VecLong;
};
template <class T>
using Vec = typename VectorOf<T>::type;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
inline Vec<T> load(const T* p) {
    Vec<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class T>
inline void store(T* p, Vec<T> v) {
    std::memcpy(p, &v, sizeof v);
}

inline VecInt vmin(VecInt a, VecInt b) {
#if defined(__AVX2__)
    return (VecInt)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    return a < b ? a : b;
#endif
}
inline VecInt vmax(VecInt a, VecInt b) {
#if defined(__AVX2__)
    return (VecInt)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    return a > b ? a : b;
#endif
}
inline VecLong vmin(VecLong a, VecLong b) { return a < b ? a : b; }
inline VecLong vmax(VecLong a, VecLong b) { return a > b ? a : b; }

// One bit a lane: is a > b?
inline unsigned greater(VecInt a, VecInt b) {
#if defined(__AVX2__)
    return static_cast<unsigned>(
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32((__m256i)a, (__m256i)b))));
#elif defined(__SSE2__)
    return static_cast<unsigned>(
        _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32((__m128i)a, (__m128i)b))));
#else
    unsigned m = 0;
    for (int i = 0; i < kLanes<int32_t>; ++i) m |= static_cast<unsigned>(a[i] > b[i]) << i;
    return m;
#endif
}
inline unsigned greater(VecLong a, VecLong b) {
#if defined(__AVX2__)
    return static_cast<unsigned>(
        _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64((__m256i)a, (__m256i)b))));
#else
    unsigned m = 0;
    for (int i = 0; i < kLanes<int64_t>; ++i) m |= static_cast<unsigned>(a[i] > b[i]) << i;
    return m;
#endif
}

// Transpose a square block of kLanes x kLanes numbers held in kLanes vectors.
inline void transpose(VecInt* r) {
#if defined(__AVX2__)
    __m256i a[8], b[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi32((__m256i)r[2 * i], (__m256i)r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32((__m256i)r[2 * i], (__m256i)r[2 * i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = (VecInt)_mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        r[i + 4] = (VecInt)_mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
#elif defined(__SSE2__)
    __m128i a0 = _mm_unpacklo_epi32((__m128i)r[0], (__m128i)r[1]);
    __m128i a1 = _mm_unpackhi_epi32((__m128i)r[0], (__m128i)r[1]);
    __m128i a2 = _mm_unpacklo_epi32((__m128i)r[2], (__m128i)r[3]);
    __m128i a3 = _mm_unpackhi_epi32((__m128i)r[2], (__m128i)r[3]);
    r[0] = (VecInt)_mm_unpacklo_epi64(a0, a2);
    r[1] = (VecInt)_mm_unpackhi_epi64(a0, a2);
    r[2] = (VecInt)_mm_unpacklo_epi64(a1, a3);
    r[3] = (VecInt)_mm_unpackhi_epi64(a1, a3);
#else
    VecInt c[kLanes<int32_t>];
    for (int i = 0; i < kLanes<int32_t>; ++i)
        for (int j = 0; j < kLanes<int32_t>; ++j) c[i][j] = r[j][i];
    for (int i = 0; i < kLanes<int32_t>; ++i) r[i] = c[i];
#endif
}
inline void transpose(VecLong* r) {
#if defined(__AVX2__)
    __m256i a0 = _mm256_unpacklo_epi64((__m256i)r[0], (__m256i)r[1]);
    __m256i a1 = _mm256_unpackhi_epi64((__m256i)r[0], (__m256i)r[1]);
    __m256i a2 = _mm256_unpacklo_epi64((__m256i)r[2], (__m256i)r[3]);
    __m256i a3 = _mm256_unpackhi_epi64((__m256i)r[2], (__m256i)r[3]);
    r[0] = (VecLong)_mm256_permute2x128_si256(a0, a2, 0x20);
    r[1] = (VecLong)_mm256_permute2x128_si256(a1, a3, 0x20);
    r[2] = (VecLong)_mm256_permute2x128_si256(a0, a2, 0x31);
    r[3] = (VecLong)_mm256_permute2x128_si256(a1, a3, 0x31);
#else
    VecLong a = r[0], b = r[1];
    r[0] = VecLong{a[0], b[0]};
    r[1] = VecLong{a[1], b[1]};
#endif
}

inline int count_trailing_zeros(uint64_t x) { return __builtin_ctzll(x); }
inline int count_ones(uint64_t x) { return __builtin_popcountll(x); }

}  // namespace LOGSUPER_ISA
