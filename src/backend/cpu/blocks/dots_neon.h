/* Integers for blocks.inc on NEON; ivec_dot is left to the level. Codes are at most 63, or signed bytes. */
#ifndef TERN_BACKEND_CPU_BLOCKS_DOTS_NEON_H
#define TERN_BACKEND_CPU_BLOCKS_DOTS_NEON_H

#include <stdbool.h>
#include <string.h>

#include "backend/cpu/blocks/unpack.h"
#include "backend/cpu/floats/neon.h"

#define exact_fma vec_fma

typedef uint8_t code;
typedef int8_t x_code;
typedef ivec row_vec;
enum { COLS = 4, TILE_VECS = 4, TILE_TOKENS = 4, SCALED_TOKENS = 4, UNSIGNED_CODES = false, SHORT_SCALES = false };

static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed);

static inline ivec ivec_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}

static inline ivec ivec_set(int32_t v)
{
    return vdupq_n_s32(v);
}

static inline ivec ivec_sub(ivec a, ivec b)
{
    return vsubq_s32(a, b);
}

static inline vec ivec_to_vec(ivec v)
{
    return vcvtq_f32_s32(v);
}

static inline ivec ivec_repeat(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vdupq_n_s32(four);
}

static inline ivec ivec_scale_add(ivec total, ivec dot, ivec scale, bool fits_16_bits)
{
    (void)fits_16_bits;
    return vmlaq_s32(total, dot, scale);
}

static inline row_vec row_x(const int8_t *x, uint32_t elements)
{
    (void)elements;
    return ivec_load(x);
}

static inline ivec row_set(uint8_t v)
{
    return vreinterpretq_s32_u8(vdupq_n_u8(v));
}

static inline ivec row_codes(const codes_32 *codes, uint32_t i, bool is_signed)
{
    (void)is_signed;
    return ivec_load((const uint8_t *)&codes[i / 2] + 16 * (i % 2));
}

static inline ivec row_dot(ivec sum, ivec w, row_vec x, bool is_signed)
{
    return ivec_dot(sum, w, x, is_signed);
}

/* The scale of the run of 16 columns. */
static inline ivec row_scales(words_16 scales, uint32_t i)
{
    return vdupq_n_s32(scales[i]);
}

/* Lanes whose sum is that of the 16 products. */
static inline ivec ivec_dot_words(words_16 a, words_16 b)
{
    int16x8_t first[2], second[2];
    memcpy(first, &a, sizeof first);
    memcpy(second, &b, sizeof second);
    ivec sum = vmull_s16(vget_low_s16(first[0]), vget_low_s16(second[0]));
    sum = vmlal_s16(sum, vget_high_s16(first[0]), vget_high_s16(second[0]));
    sum = vmlal_s16(sum, vget_low_s16(first[1]), vget_low_s16(second[1]));
    return vmlal_s16(sum, vget_high_s16(first[1]), vget_high_s16(second[1]));
}

/* dots[r] = the sum of the lanes of rows[r] */
static inline __attribute__((always_inline)) void ivec_sum_16(const ivec *rows, int32_t *dots)
{
    for (int i = 0; i < 16; i += 4)
        vst1q_s32(dots + i, vpaddq_s32(vpaddq_s32(rows[i], rows[i + 1]), vpaddq_s32(rows[i + 2], rows[i + 3])));
}

#endif
