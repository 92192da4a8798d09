/* Pieces of the 256-bit ternary kernels: sums, and blocks of the encodings to vectors of 32 raw codes. */
#ifndef TERN_BACKEND_CPU_TERNARY_ROWS_256_H
#define TERN_BACKEND_CPU_TERNARY_ROWS_256_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/ternary/tq1_0.h"
#include "quant/t160.h"

enum { WIDTH = 32 };

typedef __m256i codes;

static inline void store(uint8_t *to, codes c)
{
    _mm256_storeu_si256((void *)to, c);
}

typedef __m256i sums;

static inline sums zero(void)
{
    return _mm256_setzero_si256();
}

static inline int32_t total(sums s)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

static inline __m256i load_32(const void *from)
{
    return _mm256_loadu_si256(from);
}

static inline __m256i twice_16(const void *from)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(from));
}

static inline __m256i all(int byte)
{
    return _mm256_set1_epi8((char)byte);
}

static inline void decode_i2_s(const uint8_t *block, codes *out)
{
    const __m256i bytes = load_32(block);
    out[0] = _mm256_and_si256(_mm256_srli_epi16(bytes, 6), all(3));
    out[1] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), all(3));
    out[2] = _mm256_and_si256(_mm256_srli_epi16(bytes, 2), all(3));
    out[3] = _mm256_and_si256(bytes, all(3));
}

static inline void decode_tq2_0(const uint8_t *block, codes *out)
{
    for (int group = 0; group < 2; group++, block += 32, out += 4) {
        const __m256i bytes = load_32(block);
        out[0] = _mm256_and_si256(bytes, all(3));
        out[1] = _mm256_and_si256(_mm256_srli_epi16(bytes, 2), all(3));
        out[2] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), all(3));
        out[3] = _mm256_and_si256(_mm256_srli_epi16(bytes, 6), all(3));
    }
}

/* Each byte times the i-th vector of powers, modulo 256. */
static inline __m256i times_power(__m256i bytes, int i)
{
    const __m256i odd = _mm256_set1_epi16((int16_t)0xff00);
    const __m256i power = _mm256_load_si256((const void *)(tern_cpu__tq1_0_powers + 16 * i));
    const __m256i evens = _mm256_mullo_epi16(bytes, power);
    const __m256i odds = _mm256_mullo_epi16(_mm256_and_si256(bytes, odd), power);
    return _mm256_or_si256(_mm256_andnot_si256(odd, evens), odds);
}

/* The next digit of each byte: the top two bits of floor(3 * byte / 4) = byte - ceil(byte / 4). */
static inline __m256i digit(__m256i bytes)
{
    const __m256i quarter = _mm256_avg_epu8(_mm256_avg_epu8(bytes, all(0)), all(0));
    return _mm256_and_si256(_mm256_srli_epi16(_mm256_sub_epi8(bytes, quarter), 6), all(3));
}

static inline void decode_tq1_0(const uint8_t *block, codes *out)
{
    int32_t last;
    memcpy(&last, block + TERN_TQ1_0_FOURS, sizeof last);
    const __m256i fives_32 = load_32(block), fives_16 = twice_16(block + TERN_TQ1_0_FIVES_16);
    for (int i = 0; i < 5; i++) out[i] = digit(times_power(fives_32, i));
    out[5] = digit(times_power(fives_16, 5));
    out[6] = digit(times_power(fives_16, 6));
    out[7] = digit(times_power(_mm256_blend_epi32(fives_16, _mm256_set1_epi32(last), 0xf0), 7));
}

/* 32 bytes of t160: pairs are looked up by p (bits 0-2) and q (bits 3-5), the four codes of 0xc0 .. 0xef by the low
 * nibble, and those of 0xf0 .. 0xff, and their fifth, too. out[2 k]: the k-th codes. */
static inline void decode_t160_half(__m256i bytes, codes *out)
{
    const __m256i nibble = _mm256_and_si256(bytes, all(15)), top = all(0xc0), last_row = all(0xf0);
    const __m256i high = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, top), bytes);
    const __m256i last = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, last_row), bytes);
    const __m256i pair = twice_16(tern_t160_low);
    const __m256i p = _mm256_shuffle_epi8(pair, _mm256_and_si256(bytes, all(7)));
    const __m256i q = _mm256_shuffle_epi8(pair, _mm256_and_si256(_mm256_srli_epi16(bytes, 3), all(7)));
    __m256i four = _mm256_or_si256(p, _mm256_slli_epi16(q, 4));
    four = _mm256_blendv_epi8(four, _mm256_shuffle_epi8(twice_16(tern_t160_high), nibble), high);
    four = _mm256_blendv_epi8(four, _mm256_shuffle_epi8(twice_16(tern_t160_high + 48), nibble), last);
    __m256i fifth = _mm256_blendv_epi8(_mm256_srli_epi16(bytes, 6), _mm256_srli_epi16(bytes, 4), high);
    fifth = _mm256_blendv_epi8(fifth, _mm256_shuffle_epi8(twice_16(tern_t160_high_fifth + 48), nibble), last);
    out[0] = _mm256_and_si256(four, all(3));
    out[2] = _mm256_and_si256(_mm256_srli_epi16(four, 2), all(3));
    out[4] = _mm256_and_si256(_mm256_srli_epi16(four, 4), all(3));
    out[6] = _mm256_and_si256(_mm256_srli_epi16(four, 6), all(3));
    out[8] = _mm256_and_si256(fifth, all(3));
}

static inline void decode_t160(const uint8_t *block, codes *out)
{
    decode_t160_half(load_32(block), out);
    decode_t160_half(load_32(block + 32), out + 1);
}

#endif
