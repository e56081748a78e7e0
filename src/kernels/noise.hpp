// Standard logistic noise from a counter-based generator: Philox4x32-10 (Salmon et al. 2011). A draw is a
// function of (key, problem, sample, element), hence independent of threads and of the order of draws.
//
// Element i reads output word (i / 8) % 4 of the block with counter
//     (8 * (i / 32) + i % 8, sample, low and high half of problem):
// 32 neighbouring elements are four vectors of eight blocks. A word r gives
//     z = log((r + 1/2) / (2^32 - r - 1/2)), as a float.
#pragma once

#include <cstdint>
#include <cstring>

#include "interrupt.hpp"
#include "simd.hpp"

namespace LOGSUPER_ISA {

// One stream of draws, a number per element.
struct NoiseStream {
    uint64_t key = 0, problem = 0;
    uint32_t sample = 0;
};

// Eight Philox blocks with consecutive first counter words.
inline void philox8(const NoiseStream& stream, uint32_t counter, uint32_t out[4][8]) {
    constexpr uint64_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
    const uint32_t c1 = stream.sample, c2 = static_cast<uint32_t>(stream.problem);
    const uint32_t c3 = static_cast<uint32_t>(stream.problem >> 32);
    uint32_t k0 = static_cast<uint32_t>(stream.key), k1 = static_cast<uint32_t>(stream.key >> 32);
#if defined(__AVX2__)
    // 32-bit words in 64-bit lanes: the multiplication reads the low halves only.
    __m256i x0[2], x1[2], x2[2], x3[2];
    const __m256i m0 = _mm256_set1_epi64x(kMul0), m1 = _mm256_set1_epi64x(kMul1);
    for (int h = 0; h < 2; ++h) {
        const uint32_t c = counter + 4 * h;
        x0[h] = _mm256_set_epi64x(static_cast<uint32_t>(c + 3), static_cast<uint32_t>(c + 2),
                                  static_cast<uint32_t>(c + 1), c);
        x1[h] = _mm256_set1_epi64x(c1);
        x2[h] = _mm256_set1_epi64x(c2);
        x3[h] = _mm256_set1_epi64x(c3);
    }
    for (int round = 0; round < 10; ++round) {
        const __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
        for (int h = 0; h < 2; ++h) {
            const __m256i p0 = _mm256_mul_epu32(x0[h], m0), p1 = _mm256_mul_epu32(x2[h], m1);
            x0[h] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), x1[h]), key0);
            x2[h] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), x3[h]), key1);
            x1[h] = p1;  // only the low halves are read from here on
            x3[h] = p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const __m256i pick = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    const __m256i* words[4] = {x0, x1, x2, x3};
    for (int j = 0; j < 4; ++j) {
        const __m256i first = _mm256_permutevar8x32_epi32(words[j][0], pick);
        const __m256i second = _mm256_permutevar8x32_epi32(words[j][1], pick);
        // One store of the width of the loads that follow.
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out[j]), _mm256_blend_epi32(first, second, 0xF0));
    }
#else
    uint32_t x0[8], x1[8], x2[8], x3[8];
    for (int i = 0; i < 8; ++i) {
        x0[i] = counter + i;
        x1[i] = c1;
        x2[i] = c2;
        x3[i] = c3;
    }
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 8; ++i) {
            const uint64_t p0 = kMul0 * x0[i], p1 = kMul1 * x2[i];
            x0[i] = static_cast<uint32_t>(p1 >> 32) ^ x1[i] ^ k0;
            x2[i] = static_cast<uint32_t>(p0 >> 32) ^ x3[i] ^ k1;
            x1[i] = static_cast<uint32_t>(p1);
            x3[i] = static_cast<uint32_t>(p0);
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    std::memcpy(out[0], x0, sizeof x0);
    std::memcpy(out[1], x1, sizeof x1);
    std::memcpy(out[2], x2, sizeof x2);
    std::memcpy(out[3], x3, sizeof x3);
#endif
}

// r + 1/2 rounded to a float, by halves since vector units convert only signed integers.
inline Float32x8 to_float(UInt32x8 r) {
    const Float32x8 high = __builtin_convertvector((Int32x8)(r >> 16), Float32x8);
    const Float32x8 low = __builtin_convertvector((Int32x8)(r & 0xffffu), Float32x8);
    return high * 65536.0f + (low + 0.5f);
}

// log(a / b) with a = r + 1/2, b = 2^32 - a, in single precision: the law is off by less than 1e-7,
// and eight draws fit a vector. The bits of a float are close to its logarithm: their difference,
// rounded to a whole number of octaves k, gives c = 2^k b within a factor 1.52 of a, and
//     log(a / b) = k log 2 + 2 atanh(s),  s = (a - c) / (a + c),  |s| < 0.21.
// Only +, -, *, / and no fused operations: the same bits on every machine.
inline Float32x8 logistic8(const uint32_t* words) {
    constexpr uint32_t kOctave = 1u << 23, kShift = 128 * kOctave;
    UInt32x8 r;
    std::memcpy(&r, words, sizeof r);
    const Float32x8 a = to_float(r), b = to_float(~r);
    const UInt32x8 octaves =
        (UInt32x8)a - (UInt32x8)b + (kShift + kOctave / 2);  // kept positive by the shift
    const Float32x8 c = (Float32x8)((UInt32x8)b + ((octaves & -kOctave) - kShift));
    const Float32x8 k = __builtin_convertvector((Int32x8)(octaves >> 23) - 128, Float32x8);
    const Float32x8 s = (a - c) / (a + c), q = s * s;
    const Float32x8 p = (((q * (2.0f / 11) + 2.0f / 9) * q + 2.0f / 7) * q + 2.0f / 5) * q + 2.0f / 3;
    return k * 0.693147181f + (s * 2.0f + s * q * p);
}

// The draws of the elements first .. first + 31; `first` is a multiple of 32.
LOGSUPER_INLINE void logistic32(const NoiseStream& stream, int64_t first, float* out) {
    uint32_t words[4][8];
    philox8(stream, static_cast<uint32_t>(first / 4), words);
    for (int j = 0; j < 4; ++j) {
        const Float32x8 eight = logistic8(words[j]);
        std::memcpy(out + 8 * j, &eight, sizeof eight);
    }
}

constexpr int64_t kPollInterval = int64_t{1} << 15;  // draws between two polls

// out = theta + noise on the first `noisy` elements, theta on the others.
inline void perturb_field(const NoiseStream& stream, const double* theta, int64_t n, int64_t noisy,
                          double* out) {
    float z[32];
    for (int64_t i = 0; i < noisy; i += 32) {
        if (i % kPollInterval == 0) poll(kPollInterval);
        logistic32(stream, i, z);
        if (i + 32 <= noisy) {
            for (int j = 0; j < 32; j += 4) {
                Float32x4 four;
                std::memcpy(&four, z + j, sizeof four);
                store4(out + i + j, load4(theta + i + j) + __builtin_convertvector(four, Float64x4));
            }
        } else {
            for (int64_t j = 0; i + j < noisy; ++j) out[i + j] = theta[i + j] + z[j];
        }
    }
    for (int64_t i = noisy; i < n; ++i) out[i] = theta[i];
}

}  // namespace LOGSUPER_ISA
