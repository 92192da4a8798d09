/* Integers for blocks.inc on SSE4.1. Codes are at most 63, or signed bytes. */
#ifndef TERN_BACKEND_CPU_BLOCKS_DOTS_SSE41_H
#define TERN_BACKEND_CPU_BLOCKS_DOTS_SSE41_H

#include <stdbool.h>
#include <string.h>

#include "backend/cpu/blocks/unpack.h"
#include "backend/cpu/floats/sse41.h"

/* For products and sums that are exact in f32. */
#define exact_fma(a, b, c) vec_add(c, vec_mul(a, b))

typedef uint8_t code;
typedef int8_t x_code;
typedef ivec row_vec;
enum { COLS = 4, TILE_VECS = 2, TILE_TOKENS = 4, SCALED_TOKENS = 4, UNSIGNED_CODES = false, SHORT_SCALES = false };

static inline ivec ivec_load(const void *p)
{
    return _mm_loadu_si128(p);
}

static inline ivec ivec_set(int32_t v)
{
    return _mm_set1_epi32(v);
}

static inline ivec ivec_sub(ivec a, ivec b)
{
    return _mm_sub_epi32(a, b);
}

static inline vec ivec_to_vec(ivec v)
{
    return _mm_cvtepi32_ps(v);
}

static inline ivec ivec_repeat(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm_set1_epi32(four);
}

/* Pairs of products do not pass 16 bits: unsigned codes are at most 63, the magnitude of signed ones is at most 128,
 * that of x 127. */
static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    const ivec pairs = is_signed ? _mm_maddubs_epi16(_mm_abs_epi8(w), _mm_sign_epi8(x, w)) : _mm_maddubs_epi16(w, x);
    return _mm_add_epi32(sum, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

static inline ivec ivec_scale_add(ivec total, ivec dot, ivec scale, bool fits_16_bits)
{
    (void)fits_16_bits;
    return _mm_add_epi32(total, _mm_mullo_epi32(dot, scale));
}

static inline row_vec row_x(const int8_t *x, uint32_t elements)
{
    (void)elements;
    return ivec_load(x);
}

static inline row_vec row_set(uint8_t v)
{
    return _mm_set1_epi8((char)v);
}

static inline row_vec row_codes(const codes_32 *codes, uint32_t i, bool is_signed)
{
    (void)is_signed;
    return ivec_load((const uint8_t *)&codes[i / 2] + 16 * (i % 2));
}

static inline ivec row_dot(ivec sum, row_vec w, row_vec x, bool is_signed)
{
    return ivec_dot(sum, w, x, is_signed);
}

/* The scale of the run of 16 columns. */
static inline ivec row_scales(words_16 scales, uint32_t i)
{
    return ivec_set(scales[i]);
}

/* Lanes whose sum is that of the 16 products. */
static inline ivec ivec_dot_words(words_16 a, words_16 b)
{
    ivec first[2], second[2];
    memcpy(first, &a, sizeof first);
    memcpy(second, &b, sizeof second);
    return _mm_add_epi32(_mm_madd_epi16(first[0], second[0]), _mm_madd_epi16(first[1], second[1]));
}

/* dots[r] = the sum of the lanes of rows[r] */
static inline __attribute__((always_inline)) void ivec_sum_16(const ivec *rows, int32_t *dots)
{
    for (int i = 0; i < 16; i += 4)
        _mm_storeu_si128((void *)(dots + i), _mm_hadd_epi32(_mm_hadd_epi32(rows[i], rows[i + 1]),
                                                            _mm_hadd_epi32(rows[i + 2], rows[i + 3])));
}

#endif
