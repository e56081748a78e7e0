// Standard logistic noise from a counter: Philox4x32-10 (Salmon et al. 2011), keyed by
// (key, problem, sample, element), so that neither threads nor order can change a draw.
//
// Element i reads output word (i / 8) % 4 of the block with counter
//     (8 * (i / 32) + i % 8, sample, low and high half of problem):
// 32 neighbouring elements are four vectors of eight blocks. A word r gives
//     z = log((r + 1/2) / (2^32 - r - 1/2)).
#pragma once

#include <cstdint>
#include <cstring>

#include "simd.hpp"

namespace LOGSUPER_ISA {

typedef double Double4 __attribute__((vector_size(32)));
typedef int64_t Long4 __attribute__((vector_size(32)));
typedef int32_t Int4 __attribute__((vector_size(16)));

// Eight Philox blocks with consecutive first counter words.
inline void philox8(uint32_t counter, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key,
                    uint32_t out[4][8]) {
    constexpr uint64_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#if defined(__AVX2__)
    // 64-bit lanes holding 32-bit words: the multiplier reads the low halves, which is what we have.
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
    for (int h = 0; h < 2; ++h) {
        const __m256i* words[4] = {&x0[h], &x1[h], &x2[h], &x3[h]};
        for (int j = 0; j < 4; ++j)
            _mm_storeu_si128(reinterpret_cast<__m128i*>(&out[j][4 * h]),
                             _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(*words[j], pick)));
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

// log(a / b) with a = r + 1/2, b = 2^32 - a: with c = 2^k b within a factor sqrt(2) of a,
// log(a / b) = k log 2 + 2 atanh((a - c) / (a + c)). Only +, -, *, / and no fused operations: the
// same bits on every machine.
inline Double4 logistic4(const uint32_t* words) {
    Int4 signed_words;
    std::memcpy(&signed_words, words, sizeof signed_words);
    signed_words ^= INT32_MIN;
    const Double4 a = __builtin_convertvector(signed_words, Double4) + 2147483648.5;
    const Double4 b = 4294967296.0 - a;
    const Long4 abits = (Long4)a, bbits = (Long4)b;
    Long4 k = (abits >> 52) - (bbits >> 52);
    Double4 c = (Double4)(bbits + (k << 52));
    const Long4 up = (Long4)(a > c * 1.4142135623730951), down = (Long4)(a < c * 0.7071067811865476);
    k += down - up;  // comparisons are 0 or -1
    c = (Double4)((Long4)c + ((down - up) << 52));
    const Double4 s = (a - c) / (a + c), q = s * s;
    Double4 p = q * (2.0 / 19) + 2.0 / 17;
    p = p * q + 2.0 / 15;
    p = p * q + 2.0 / 13;
    p = p * q + 2.0 / 11;
    p = p * q + 2.0 / 9;
    p = p * q + 2.0 / 7;
    p = p * q + 2.0 / 5;
    p = p * q + 2.0 / 3;
    const Double4 whole = (Double4)(k + 0x4338000000000000LL) - 6755399441055744.0;  // k as double
    return whole * 0.6931471805599453 + (s * 2.0 + s * q * p);
}

// out = theta + noise on the first `noisy` elements, theta on the others.
inline void perturb_field(const double* theta, int64_t n, int64_t noisy, uint64_t key, uint64_t problem,
                          uint32_t sample, double* out) {
    uint32_t words[4][8];
    int64_t i = 0;
    for (; i < noisy; i += 32) {
        philox8(static_cast<uint32_t>(i / 4), sample, static_cast<uint32_t>(problem),
                static_cast<uint32_t>(problem >> 32), key, words);
        const uint32_t* flat = &words[0][0];
        if (i + 32 <= noisy) {
            for (int j = 0; j < 32; j += 4) {
                Double4 t;
                std::memcpy(&t, theta + i + j, sizeof t);
                t += logistic4(flat + j);
                std::memcpy(out + i + j, &t, sizeof t);
            }
        } else {
            for (int j = 0; j < 32 && i + j < noisy; j += 4) {
                const Double4 z = logistic4(flat + j);
                for (int l = 0; l < 4 && i + j + l < noisy; ++l) out[i + j + l] = theta[i + j + l] + z[l];
            }
        }
    }
    for (i = noisy; i < n; ++i) out[i] = theta[i];
}

}  // namespace LOGSUPER_ISA
