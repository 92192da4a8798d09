/* Integers for blocks.inc in vectors of 256 bits; ivec_dot and ivec_add_words are left to the level. */
#ifndef TERN_BACKEND_CPU_BLOCKS_DOTS_256_H
#define TERN_BACKEND_CPU_BLOCKS_DOTS_256_H

#include <stdbool.h>
#include <string.h>

#include "backend/cpu/blocks/nibbles_avx2.h"
#include "backend/cpu/blocks/unpack.h"
#include "backend/cpu/floats/avx2.h"

#define exact_fma vec_fma

typedef uint8_t code;
typedef int8_t x_code;
typedef ivec row_vec;
enum { COLS = 4, TILE_VECS = 2, TILE_TOKENS = 4, SCALED_TOKENS = 4, SHORT_SCALES = false };

static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed);

/* sum, and in each lane the products of two words. */
static inline ivec ivec_add_words(ivec sum, ivec a, ivec b);

static inline ivec ivec_load(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline ivec ivec_set(int32_t v)
{
    return _mm256_set1_epi32(v);
}

static inline ivec ivec_sub(ivec a, ivec b)
{
    return _mm256_sub_epi32(a, b);
}

static inline vec ivec_to_vec(ivec v)
{
    return _mm256_cvtepi32_ps(v);
}

static inline ivec ivec_repeat(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline ivec ivec_scale_add(ivec total, ivec dot, ivec scale, bool fits_16_bits)
{
    (void)fits_16_bits;
    return _mm256_add_epi32(total, _mm256_mullo_epi32(dot, scale));
}

static inline ivec row_x(const int8_t *x, uint32_t elements)
{
    (void)elements;
    return _mm256_loadu_si256((const void *)x);
}

static inline ivec row_set(uint8_t v)
{
    return _mm256_set1_epi8((char)v);
}

static inline ivec row_codes(const codes_32 *codes, uint32_t i, bool is_signed)
{
    return is_signed && UNSIGNED_CODES ? (__m256i)(codes[i] ^ 0x80) : (__m256i)codes[i];
}

static inline ivec row_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    return ivec_dot(sum, w, x, is_signed);
}

#define BLOCK_START(e, x, offset) ((e).scaled ? pair_start(x, offset) : ROW_START(x, offset))
#define ROW_SCALED                row_scaled

/* Minus the pairs of products with the offset of codes. */
static inline ivec pair_start(ivec x, uint8_t offset)
{
    return _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_maddubs_epi16(row_set(offset), x));
}

/* The scales of the two runs of 32 columns, each in eight words. */
static inline ivec scale_words(words_16 scales, uint32_t i)
{
    const ivec half = i < 4 ? _mm256_permute2x128_si256((__m256i)scales, (__m256i)scales, 0x00)
                            : _mm256_permute2x128_si256((__m256i)scales, (__m256i)scales, 0x11);
    const int first = (int)(i % 4) * 0x0404 + 0x0100, second = first + 0x0202;
    const int low = first | first << 16, high = second | second << 16;
    return _mm256_shuffle_epi8(half, _mm256_setr_epi32(low, low, low, low, high, high, high, high));
}

/* Pairs are at most 2 * 63 * 127 before the offset is taken away and after it. Scaled before they become lanes: scales
 * of lanes would have to widen, and a product of lanes is two multiplications of words. */
static inline ivec row_scaled(ivec total, ivec start, ivec w, ivec x, words_16 scales, uint32_t i, bool is_short)
{
    (void)is_short;
    const ivec pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w, x), start);
    return ivec_add_words(total, pairs, scale_words(scales, i));
}

/* Lanes whose sum is that of the 16 products. */
static inline ivec ivec_dot_words(words_16 a, words_16 b)
{
    return _mm256_madd_epi16((__m256i)a, (__m256i)b);
}

/* Sums of neighbouring lanes, those of a first in each half: two shuffles are half of what vphaddd costs. */
static inline ivec add_neighbours(ivec a, ivec b)
{
    const vec x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
    return _mm256_add_epi32(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)),
                            _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd)));
}

/* Eight vectors to one: the sum of the lanes of each. */
static inline __attribute__((always_inline)) ivec sum_lanes_8(const ivec *v)
{
    const ivec a = add_neighbours(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3])),
               b = add_neighbours(add_neighbours(v[4], v[5]), add_neighbours(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* dots[r] = the sum of the lanes of rows[r] */
static inline __attribute__((always_inline)) void ivec_sum_16(const ivec *rows, int32_t *dots)
{
    _mm256_storeu_si256((void *)dots, sum_lanes_8(rows));
    _mm256_storeu_si256((void *)(dots + 8), sum_lanes_8(rows + 8));
}

#endif
