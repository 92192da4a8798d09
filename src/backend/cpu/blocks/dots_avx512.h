/* Integers for blocks.inc on AVX-512 with VNNI. */
#ifndef TERN_BACKEND_CPU_BLOCKS_DOTS_AVX512_H
#define TERN_BACKEND_CPU_BLOCKS_DOTS_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define SET_BITS(word) (codes_32) _mm256_movm_epi8(word)

#include "backend/cpu/blocks/nibbles_avx2.h"
#include "backend/cpu/blocks/unpack.h"
#include "backend/cpu/floats/avx512.h"
#include "backend/cpu/floats/floats.h"

#define exact_fma       vec_fma
#define OWN_PAIRS       true
#define PAIR_X          pair_x
#define PAIR_BLOCK      pair_block
#define IVEC_SUM_HALVES ivec_sum_halves
#define TRANSPOSE_16    transpose_16

typedef uint8_t code;
typedef int8_t x_code;
typedef ivec row_vec;
enum { COLS = 4, TILE_VECS = 2, TILE_TOKENS = 8, SCALED_TOKENS = 4, UNSIGNED_CODES = true, SHORT_SCALES = true };

static inline ivec ivec_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline ivec ivec_set(int32_t v)
{
    return _mm512_set1_epi32(v);
}

static inline ivec ivec_sub(ivec a, ivec b)
{
    return _mm512_sub_epi32(a, b);
}

static inline vec ivec_to_vec(ivec v)
{
    return _mm512_cvtepi32_ps(v);
}

static inline ivec ivec_repeat(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    (void)is_signed;
    return _mm512_dpbusd_epi32(sum, w, x);
}

/* total + dot * scale; where dots fit 16 bits, scales are 16 bits as well, in dwords whose high halves are 0. */
static inline ivec ivec_scale_add(ivec total, ivec dot, ivec scale, bool fits_16_bits)
{
    if (fits_16_bits) return _mm512_dpwssd_epi32(total, dot, scale);
    return _mm512_add_epi32(total, _mm512_mullo_epi32(dot, scale));
}

/* The dwords of 16 rows of 64 bytes: dword c of row r goes to out + c * out_stride + 4 * r. */
static inline __attribute__((always_inline)) void transpose_16(const void *in, size_t in_stride, void *out,
                                                               size_t out_stride)
{
    ivec a[16], b[16];
    UNROLL
    for (int r = 0; r < 16; r++) a[r] = ivec_load((const uint8_t *)in + (size_t)r * in_stride);
    UNROLL
    for (int r = 0; r < 16; r += 2)
        b[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]), b[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
    UNROLL
    for (int r = 0; r < 16; r += 4) { /* a[r + k]: dword k of each 128-bit part, of rows r .. r + 3 */
        a[r] = _mm512_unpacklo_epi64(b[r], b[r + 2]), a[r + 1] = _mm512_unpackhi_epi64(b[r], b[r + 2]);
        a[r + 2] = _mm512_unpacklo_epi64(b[r + 1], b[r + 3]), a[r + 3] = _mm512_unpackhi_epi64(b[r + 1], b[r + 3]);
    }
    UNROLL
    for (int k = 0; k < 4; k++) { /* parts i of four vectors become one */
        const ivec x = _mm512_shuffle_i32x4(a[k], a[k + 4], 0x88), y = _mm512_shuffle_i32x4(a[k], a[k + 4], 0xdd);
        const ivec z = _mm512_shuffle_i32x4(a[k + 8], a[k + 12], 0x88),
                   w = _mm512_shuffle_i32x4(a[k + 8], a[k + 12], 0xdd);
        uint8_t *to = (uint8_t *)out + (size_t)k * out_stride;
        _mm512_storeu_si512(to, _mm512_shuffle_i32x4(x, z, 0x88));
        _mm512_storeu_si512(to + 4 * out_stride, _mm512_shuffle_i32x4(y, w, 0x88));
        _mm512_storeu_si512(to + 8 * out_stride, _mm512_shuffle_i32x4(x, z, 0xdd));
        _mm512_storeu_si512(to + 12 * out_stride, _mm512_shuffle_i32x4(y, w, 0xdd));
    }
}

/* 64 columns of the token; 32 of them twice where a block has no more. */
static inline ivec row_x(const int8_t *x, uint32_t elements)
{
    if (elements == 32) return _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)x));
    return _mm512_loadu_si512(x);
}

static inline ivec row_set(uint8_t v)
{
    return _mm512_set1_epi8((char)v);
}

static inline ivec row_codes(const codes_32 *codes, uint32_t i, bool is_signed)
{
    const ivec v = _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)codes[2 * i]), (__m256i)codes[2 * i + 1], 1);
    return is_signed ? _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80)) : v;
}

static inline ivec row_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    return ivec_dot(sum, w, x, is_signed);
}

/* The scales of the four runs of 64 columns, each in four lanes. */
static inline ivec row_scales(words_16 scales, uint32_t i)
{
    const __m512i all = _mm512_cvtepu16_epi32((__m256i)scales);
    const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(first, _mm512_set1_epi32((int32_t)(4 * i))), all);
}

/* Lanes whose sum is that of the 16 products. */
static inline ivec ivec_dot_words(words_16 a, words_16 b)
{
    return _mm512_zextsi256_si512(_mm256_madd_epi16((__m256i)a, (__m256i)b));
}

/* Q4_K and Q5_K: 64 bytes are the nibbles of columns 128 k .. 128 k + 127, the low ones of columns 0..31 and 64..95.
 * Vector i of the token has the columns of nibble i % 2 of bytes 64 (i / 2). */
static inline ivec pair_x(const int8_t *x, uint32_t i)
{
    const int8_t *at = x + 128 * (i / 2) + 32 * (i % 2);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)at)),
                              _mm256_loadu_si256((const void *)(at + 64)), 1);
}

/* The scales of vector i in dwords, from eight bytes everywhere. */
static inline ivec pair_scales(ivec bytes, int i)
{
    const int first = 4 * (i / 2) + i % 2;
    const __m512i low = _mm512_set1_epi32((int)0x80808000u | first),
                  high = _mm512_set1_epi32((int)0x80808000u | (first + 2));
    return _mm512_shuffle_epi8(bytes, _mm512_mask_mov_epi32(low, 0xff00, high));
}

/* Adds the fifth bits of vector i, one bit of each of 32 bytes in both halves of `high`. */
static inline ivec fifth_bits(ivec codes, ivec high, int i)
{
    const int bit = 4 * (i / 2) + i % 2;
    const __m512i low_bit = _mm512_set1_epi8((char)(1 << bit)), high_bit = _mm512_set1_epi8((char)(4 << bit));
    return _mm512_mask_add_epi8(codes, _mm512_test_epi8_mask(high, _mm512_mask_mov_epi32(low_bit, 0xff00, high_bit)),
                                codes, _mm512_set1_epi8(16));
}

/* The lanes of a block's A, and of its M in *minima. */
static inline __attribute__((always_inline)) ivec pair_block(const uint8_t *block, bool five, const ivec *x,
                                                             words_16 sums, ivec *minima)
{
    uint64_t scales, lows;
    ivec total = _mm512_setzero_si512(), high = total;
    k_scales(block, &scales, &lows);
    const ivec all = _mm512_set1_epi64((long long)scales), nibble = _mm512_set1_epi8(15);
    if (five) high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(block + 16)));
    for (int i = 0; i < 4; i++) {
        const ivec bytes = _mm512_loadu_si512(block + (five ? 48 : 16) + 64 * (i / 2));
        ivec codes = _mm512_and_si512(i % 2 ? _mm512_srli_epi16(bytes, 4) : bytes, nibble);
        if (five) codes = fifth_bits(codes, high, i);
        total =
            _mm512_dpwssd_epi32(total, _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, x[i]), pair_scales(all, i));
    }
    const __m128i m = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)lows));
    *minima = _mm512_zextsi128_si512(_mm_madd_epi16(m, _mm256_castsi256_si128((__m256i)sums)));
    return total;
}

#define AS_FLOATS(v) _mm512_castsi512_ps(v)
#define FOLD(shuffle, a, b)                                                                                            \
    ivec_add(_mm512_castps_si512(shuffle(AS_FLOATS(a), AS_FLOATS(b), 0x88)),                                           \
             _mm512_castps_si512(shuffle(AS_FLOATS(a), AS_FLOATS(b), 0xdd)))

/* Four vectors to one: of each 128-bit part, the sums of its four lanes, in the order of the vectors. */
static inline __attribute__((always_inline)) ivec sum_lanes_4(const ivec *v)
{
    return FOLD(_mm512_shuffle_ps, FOLD(_mm512_shuffle_ps, v[0], v[1]), FOLD(_mm512_shuffle_ps, v[2], v[3]));
}

/* dots[r] = the sum of the lanes of rows[r] */
static inline __attribute__((always_inline)) void ivec_sum_16(const ivec *rows, int32_t *dots)
{
    const ivec a = sum_lanes_4(rows), b = sum_lanes_4(rows + 4), c = sum_lanes_4(rows + 8), d = sum_lanes_4(rows + 12);
    const ivec low = FOLD(_mm512_shuffle_f32x4, a, b), high = FOLD(_mm512_shuffle_f32x4, c, d);
    _mm512_storeu_si512(dots, FOLD(_mm512_shuffle_f32x4, low, high));
}

/* dots[r] = the sum of the low half of pairs[r], dots[r + 8] of the high half, r < 8 */
static inline __attribute__((always_inline)) void ivec_sum_halves(const ivec *pairs, int32_t *dots)
{
    const ivec a = sum_lanes_4(pairs), b = sum_lanes_4(pairs + 4);
    const __m512i order = _mm512_setr_epi64(0, 1, 4, 5, 2, 3, 6, 7);
    _mm512_storeu_si512(dots, _mm512_permutexvar_epi64(order, FOLD(_mm512_shuffle_f32x4, a, b)));
}

#endif
