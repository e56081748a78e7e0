// Vector types and the operations that the kernels need, for AVX2, SSE2 and plain C++.
//
// The same sources are built twice, into two extension modules: one for the baseline of the
// platform, one with AVX2. Float64x2 shared objects, because inline functions of the standard library
// compiled for AVX2 must never be merged by the linker into code that runs on an older machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// For inner loops: inline whatever the compiler's estimate of the code size.
#define LOGSUPER_INLINE inline __attribute__((always_inline))

namespace LOGSUPER_ISA {

#if defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Vectors of a fixed length on every machine, named by what they hold.
typedef float Float32x4 __attribute__((vector_size(16)));
typedef float Float32x8 __attribute__((vector_size(32)));
typedef double Float64x2 __attribute__((vector_size(16)));
typedef double Float64x4 __attribute__((vector_size(32)));
typedef int32_t Int32x8 __attribute__((vector_size(32)));
typedef uint32_t UInt32x8 __attribute__((vector_size(32)));
typedef int64_t Int64x4 __attribute__((vector_size(32)));
typedef uint64_t UInt64x2 __attribute__((vector_size(16)));

// Vectors as long as the registers of the build.
typedef int32_t VecInt32 __attribute__((vector_size(kVectorBytes)));
typedef int64_t VecInt64 __attribute__((vector_size(kVectorBytes)));
typedef uint32_t VecUInt32 __attribute__((vector_size(kVectorBytes)));
typedef float VecFloat32 __attribute__((vector_size(kVectorBytes)));

template <class T>
struct VectorOf;
template <>
struct VectorOf<int32_t> {
    using type = VecInt32;
};
template <>
struct VectorOf<int64_t> {
    using type = VecInt64;
};
template <>
struct VectorOf<float> {
    using type = VecFloat32;
};
template <class T>
using Vec = typename VectorOf<T>::type;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

LOGSUPER_INLINE Float64x4 load4(const double* p) {
    Float64x4 v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
LOGSUPER_INLINE void store4(double* p, Float64x4 v) { std::memcpy(p, &v, sizeof v); }

template <class T>
LOGSUPER_INLINE Vec<T> load(const T* p) {
    Vec<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class T>
LOGSUPER_INLINE void store(T* p, Vec<T> v) {
    std::memcpy(p, &v, sizeof v);
}

LOGSUPER_INLINE VecInt32 vmin(VecInt32 a, VecInt32 b) {
#if defined(__AVX2__)
    return (VecInt32)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    return a < b ? a : b;
#endif
}
LOGSUPER_INLINE VecInt32 vmax(VecInt32 a, VecInt32 b) {
#if defined(__AVX2__)
    return (VecInt32)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    return a > b ? a : b;
#endif
}
LOGSUPER_INLINE VecInt64 vmin(VecInt64 a, VecInt64 b) { return a < b ? a : b; }
LOGSUPER_INLINE VecInt64 vmax(VecInt64 a, VecInt64 b) { return a > b ? a : b; }

// The results of 64 comparisons as one word: test(i) returns the lanes i .. i + kLanes - 1, each 0 or -1.
// Narrowing the lanes to bytes first takes fewer moves to scalar registers than one move per vector.
#if defined(__AVX2__)
LOGSUPER_INLINE uint32_t bits_of_32(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order)));
}
template <class T, class Test>
LOGSUPER_INLINE uint64_t bits_of_64(Test&& test) {
    const auto eight = [&](int i) {
        if constexpr (sizeof(T) == 4) return (__m256i)test(i);
        const __m256 low = _mm256_castsi256_ps((__m256i)test(i));
        const __m256 high = _mm256_castsi256_ps((__m256i)test(i + 4));
        return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)), 0xD8);
    };
    const uint32_t low = bits_of_32(eight(0), eight(8), eight(16), eight(24));
    const uint32_t high = bits_of_32(eight(32), eight(40), eight(48), eight(56));
    return static_cast<uint64_t>(high) << 32 | low;
}
#else
template <class T, class Test>
LOGSUPER_INLINE uint64_t bits_of_64(Test&& test) {
    uint64_t bits = 0;
#if defined(__SSE2__)
    if constexpr (sizeof(T) == 4) {
        for (int i = 0; i < 64; i += 16) {
            const __m128i low = _mm_packs_epi32((__m128i)test(i), (__m128i)test(i + 4));
            const __m128i high = _mm_packs_epi32((__m128i)test(i + 8), (__m128i)test(i + 12));
            bits |= static_cast<uint64_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high))) << i;
        }
        return bits;
    }
#endif
    for (int i = 0; i < 64; i += kLanes<T>) {
        const Vec<T> v = test(i);
        for (int j = 0; j < kLanes<T>; ++j) bits |= static_cast<uint64_t>(v[j] & 1) << (i + j);
    }
    return bits;
}
#endif

// Load and store the columns of a block of kLanes x kLanes numbers whose rows are `stride` apart. With AVX2
// the two halves of a vector are loaded and stored separately, so that only halves need transposing: two
// thirds of the shuffles of the textbook algorithm.
#if defined(__AVX2__)
LOGSUPER_INLINE void transpose_halves(__m256i* r) {
    const __m256i a0 = _mm256_unpacklo_epi32(r[0], r[1]), a1 = _mm256_unpackhi_epi32(r[0], r[1]);
    const __m256i a2 = _mm256_unpacklo_epi32(r[2], r[3]), a3 = _mm256_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm256_unpacklo_epi64(a0, a2);
    r[1] = _mm256_unpackhi_epi64(a0, a2);
    r[2] = _mm256_unpacklo_epi64(a1, a3);
    r[3] = _mm256_unpackhi_epi64(a1, a3);
}
LOGSUPER_INLINE __m256i load_halves(const void* low, const void* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(low))),
                                   _mm_loadu_si128(static_cast<const __m128i*>(high)), 1);
}
LOGSUPER_INLINE void store_halves(void* low, void* high, __m256i v) {
    _mm_storeu_si128(static_cast<__m128i*>(low), _mm256_castsi256_si128(v));
    _mm_storeu_si128(static_cast<__m128i*>(high), _mm256_extracti128_si256(v, 1));
}
LOGSUPER_INLINE void load_columns(const int32_t* p, int64_t stride, VecInt32* columns) {
    for (int half = 0; half < 2; ++half) {
        __m256i r[4];
        for (int i = 0; i < 4; ++i)
            r[i] = load_halves(p + i * stride + 4 * half, p + (i + 4) * stride + 4 * half);
        transpose_halves(r);
        for (int i = 0; i < 4; ++i) columns[4 * half + i] = (VecInt32)r[i];
    }
}
LOGSUPER_INLINE void store_columns(int32_t* p, int64_t stride, const VecInt32* columns) {
    for (int half = 0; half < 2; ++half) {
        __m256i r[4];
        for (int i = 0; i < 4; ++i) r[i] = (__m256i)columns[4 * half + i];
        transpose_halves(r);
        for (int i = 0; i < 4; ++i)
            store_halves(p + i * stride + 4 * half, p + (i + 4) * stride + 4 * half, r[i]);
    }
}
LOGSUPER_INLINE void load_columns(const int64_t* p, int64_t stride, VecInt64* columns) {
    for (int half = 0; half < 2; ++half) {
        const __m256i a = load_halves(p + 2 * half, p + 2 * stride + 2 * half);
        const __m256i b = load_halves(p + stride + 2 * half, p + 3 * stride + 2 * half);
        columns[2 * half] = (VecInt64)_mm256_unpacklo_epi64(a, b);
        columns[2 * half + 1] = (VecInt64)_mm256_unpackhi_epi64(a, b);
    }
}
LOGSUPER_INLINE void store_columns(int64_t* p, int64_t stride, const VecInt64* columns) {
    for (int half = 0; half < 2; ++half) {
        const __m256i a = (__m256i)columns[2 * half], b = (__m256i)columns[2 * half + 1];
        store_halves(p + 2 * half, p + 2 * stride + 2 * half, _mm256_unpacklo_epi64(a, b));
        store_halves(p + stride + 2 * half, p + 3 * stride + 2 * half, _mm256_unpackhi_epi64(a, b));
    }
}
#else
#if defined(__SSE2__)
LOGSUPER_INLINE void transpose(VecInt32* r) {
    const __m128i a0 = _mm_unpacklo_epi32((__m128i)r[0], (__m128i)r[1]);
    const __m128i a1 = _mm_unpackhi_epi32((__m128i)r[0], (__m128i)r[1]);
    const __m128i a2 = _mm_unpacklo_epi32((__m128i)r[2], (__m128i)r[3]);
    const __m128i a3 = _mm_unpackhi_epi32((__m128i)r[2], (__m128i)r[3]);
    r[0] = (VecInt32)_mm_unpacklo_epi64(a0, a2);
    r[1] = (VecInt32)_mm_unpackhi_epi64(a0, a2);
    r[2] = (VecInt32)_mm_unpacklo_epi64(a1, a3);
    r[3] = (VecInt32)_mm_unpackhi_epi64(a1, a3);
}
#else
LOGSUPER_INLINE void transpose(VecInt32* r) {
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < i; ++j) {
            const int32_t swap = r[i][j];
            r[i][j] = r[j][i];
            r[j][i] = swap;
        }
}
#endif
LOGSUPER_INLINE void transpose(VecInt64* r) {
    const VecInt64 a = r[0], b = r[1];
    r[0] = VecInt64{a[0], b[0]};
    r[1] = VecInt64{a[1], b[1]};
}
template <class T, class V>
LOGSUPER_INLINE void load_columns(const T* p, int64_t stride, V* columns) {
    for (int i = 0; i < kLanes<T>; ++i) columns[i] = load<T>(p + i * stride);
    transpose(columns);
}
template <class T, class V>
LOGSUPER_INLINE void store_columns(T* p, int64_t stride, const V* columns) {
    V rows[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) rows[i] = columns[i];
    transpose(rows);
    for (int i = 0; i < kLanes<T>; ++i) store<T>(p + i * stride, rows[i]);
}
#endif

// Adds the finite numbers among theta[0 .. count - 1] whose bit is set (at most 64), four at a time: the
// order of the additions is the same on every machine. No bit from `count` on is set.
inline void add_chosen(const double* theta, uint64_t bits, int64_t count, Float64x4& sum) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    if (!bits) return;
    // A fixed number of steps: the highest bit of a row is not predictable.
    const int64_t last = count < 64 ? count : 64;
#if defined(__AVX2__)
    const __m256i to_sign = _mm256_setr_epi64x(63, 62, 61, 60);
    __m256i rest = _mm256_set1_epi64x(static_cast<int64_t>(bits));
    for (int64_t i = 0; i < last; i += 4, rest = _mm256_srli_epi64(rest, 4)) {
        const Float64x4 t = (Float64x4)_mm256_maskload_pd(theta + i, _mm256_sllv_epi64(rest, to_sign));
        sum += (Float64x4)((Int64x4)t & (Int64x4)(t <= kLargest));
    }
#else
    alignas(32) static const int64_t kMasks[16][4] = {
        {0, 0, 0, 0},   {-1, 0, 0, 0},   {0, -1, 0, 0},   {-1, -1, 0, 0},  {0, 0, -1, 0},  {-1, 0, -1, 0},
        {0, -1, -1, 0}, {-1, -1, -1, 0}, {0, 0, 0, -1},   {-1, 0, 0, -1},  {0, -1, 0, -1}, {-1, -1, 0, -1},
        {0, 0, -1, -1}, {-1, 0, -1, -1}, {0, -1, -1, -1}, {-1, -1, -1, -1}};
    for (int64_t i = 0; i < last; i += 4, bits >>= 4) {
        Float64x4 t = {};
        Int64x4 mask;
        if (i + 4 <= last)
            std::memcpy(&t, theta + i, sizeof t);
        else
            std::memcpy(&t, theta + i, sizeof(double) * static_cast<size_t>(last - i));
        std::memcpy(&mask, kMasks[bits & 15], sizeof mask);
        sum += (Float64x4)((Int64x4)t & mask & (Int64x4)(t <= kLargest));
    }
#endif
}
inline double total(Float64x4 sum) { return (sum[0] + sum[1]) + (sum[2] + sum[3]); }

inline int count_trailing_zeros(uint64_t x) { return __builtin_ctzll(x); }
inline int count_ones(uint64_t x) { return __builtin_popcountll(x); }

}  // namespace LOGSUPER_ISA
