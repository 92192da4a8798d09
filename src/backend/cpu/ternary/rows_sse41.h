/* Pieces of the SSE4.1 ternary kernels: sums, and blocks of the encodings to vectors of 16 raw codes. */
#ifndef TERN_BACKEND_CPU_TERNARY_ROWS_SSE41_H
#define TERN_BACKEND_CPU_TERNARY_ROWS_SSE41_H

#include <smmintrin.h>
#include <string.h>

#include "backend/cpu/ternary/tq1_0.h"
#include "quant/t160.h"

enum { WIDTH = 16 };

typedef __m128i codes;
typedef __m128i sums;

static inline void store(uint8_t *to, codes c)
{
    _mm_storeu_si128((void *)to, c);
}

static inline sums zero(void)
{
    return _mm_setzero_si128();
}

static inline int32_t total(sums s)
{
    const __m128i two = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

static inline __m128i load_16(const void *from)
{
    return _mm_loadu_si128(from);
}

static inline __m128i all(int byte)
{
    return _mm_set1_epi8((char)byte);
}

/* Field `at` of each byte: shifts are of 16 bits, as there are none of bytes. */
static inline __m128i field(__m128i bytes, int at)
{
    return _mm_and_si128(_mm_srli_epi16(bytes, at), all(3));
}

static inline void decode_i2_s(const uint8_t *block, codes *out)
{
    for (int half = 0; half < 2; half++, block += WIDTH, out++) {
        const __m128i bytes = load_16(block);
        out[0] = field(bytes, 6);
        out[2] = field(bytes, 4);
        out[4] = field(bytes, 2);
        out[6] = field(bytes, 0);
    }
}

static inline void decode_tq2_0(const uint8_t *block, codes *out)
{
    for (int i = 0; i < 4; i++, block += WIDTH) {
        const __m128i bytes = load_16(block);
        codes *to = out + i / 2 * 8 + i % 2;
        to[0] = field(bytes, 0);
        to[2] = field(bytes, 2);
        to[4] = field(bytes, 4);
        to[6] = field(bytes, 6);
    }
}

/* The next digit of each byte: the top two bits of floor(3 * byte / 4) = byte - ceil(byte / 4). */
static inline __m128i digit(__m128i bytes)
{
    const __m128i quarter = _mm_avg_epu8(_mm_avg_epu8(bytes, all(0)), all(0));
    return field(_mm_sub_epi8(bytes, quarter), 6);
}

static inline __m128i times_3(__m128i bytes)
{
    return _mm_add_epi8(_mm_add_epi8(bytes, bytes), bytes);
}

static inline void decode_tq1_0(const uint8_t *block, codes *out)
{
    int32_t last;
    __m128i a = load_16(block), b = load_16(block + 16), c = load_16(block + TERN_TQ1_0_FIVES_16);
    for (int i = 0; i < 5; i++) {
        out[2 * i] = digit(a);
        out[2 * i + 1] = digit(b);
        out[10 + i] = digit(c);
        a = times_3(a);
        b = times_3(b);
        c = times_3(c);
    }
    memcpy(&last, block + TERN_TQ1_0_FOURS, sizeof last);
    const __m128i d = _mm_cvtsi32_si128(last), d3 = times_3(d), d9 = times_3(d3);
    out[15] = digit(_mm_unpacklo_epi64(_mm_unpacklo_epi32(d, d3), _mm_unpacklo_epi32(d9, times_3(d9))));
}

/* 16 bytes of t160: pairs are looked up by p (bits 0-2) and q (bits 3-5), the four codes of 0xc0 .. 0xef by the low
 * nibble, and those of 0xf0 .. 0xff, and their fifth, too. out[4 k]: the k-th codes. */
static inline void decode_t160_quarter(__m128i bytes, codes *out)
{
    const __m128i nibble = _mm_and_si128(bytes, all(15)), pair = load_16(tern_t160_low);
    const __m128i high = _mm_cmpeq_epi8(_mm_max_epu8(bytes, all(0xc0)), bytes);
    const __m128i last = _mm_cmpeq_epi8(_mm_max_epu8(bytes, all(0xf0)), bytes);
    const __m128i p = _mm_shuffle_epi8(pair, _mm_and_si128(bytes, all(7)));
    const __m128i q = _mm_shuffle_epi8(pair, _mm_and_si128(_mm_srli_epi16(bytes, 3), all(7)));
    __m128i four = _mm_or_si128(p, _mm_slli_epi16(q, 4));
    four = _mm_blendv_epi8(four, _mm_shuffle_epi8(load_16(tern_t160_high), nibble), high);
    four = _mm_blendv_epi8(four, _mm_shuffle_epi8(load_16(tern_t160_high + 48), nibble), last);
    __m128i fifth = _mm_blendv_epi8(_mm_srli_epi16(bytes, 6), _mm_srli_epi16(bytes, 4), high);
    fifth = _mm_blendv_epi8(fifth, _mm_shuffle_epi8(load_16(tern_t160_high_fifth + 48), nibble), last);
    for (int k = 0; k < 4; k++) out[4 * k] = field(four, 2 * k);
    out[16] = field(fifth, 0);
}

static inline void decode_t160(const uint8_t *block, codes *out)
{
    for (int i = 0; i < 4; i++) decode_t160_quarter(load_16(block + WIDTH * i), out + i);
}

#endif
