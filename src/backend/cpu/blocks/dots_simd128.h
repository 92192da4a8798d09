/* Integers for blocks.inc on WebAssembly SIMD128: its one product that adds is of pairs of 16-bit numbers. */
#ifndef TERN_BACKEND_CPU_BLOCKS_DOTS_SIMD128_H
#define TERN_BACKEND_CPU_BLOCKS_DOTS_SIMD128_H

#include <stdbool.h>
#include <string.h>

#include "backend/cpu/blocks/unpack.h"
#include "backend/cpu/floats/simd128.h"

/* For products and sums that are exact in f32. */
#define exact_fma(a, b, c) vec_add(c, vec_mul(a, b))

typedef int16_t code;
typedef int16_t x_code;
enum { COLS = 2, TILE_VECS = 2, TILE_TOKENS = 4, SCALED_TOKENS = 4, UNSIGNED_CODES = false, SHORT_SCALES = false };

/* 16 columns as 16-bit numbers. */
typedef struct row_vec {
    v128_t low, high;
} row_vec;

static inline ivec ivec_load(const void *p)
{
    return wasm_v128_load(p);
}

static inline ivec ivec_set(int32_t v)
{
    return wasm_i32x4_splat(v);
}

static inline ivec ivec_sub(ivec a, ivec b)
{
    return wasm_i32x4_sub(a, b);
}

static inline vec ivec_to_vec(ivec v)
{
    return wasm_f32x4_convert_i32x4(v);
}

static inline ivec ivec_repeat(const int16_t *p)
{
    return wasm_v128_load32_splat(p);
}

static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    (void)is_signed;
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(w, x));
}

static inline ivec ivec_scale_add(ivec total, ivec dot, ivec scale, bool fits_16_bits)
{
    (void)fits_16_bits;
    return wasm_i32x4_add(total, wasm_i32x4_mul(dot, scale));
}

static inline row_vec row_x(const int8_t *x, uint32_t elements)
{
    (void)elements;
    return (row_vec){wasm_i16x8_load8x8(x), wasm_i16x8_load8x8(x + 8)};
}

static inline row_vec row_set(uint8_t v)
{
    return (row_vec){wasm_i16x8_splat(v), wasm_i16x8_splat(v)};
}

static inline row_vec row_codes(const codes_32 *codes, uint32_t i, bool is_signed)
{
    const v128_t in = wasm_v128_load((const uint8_t *)&codes[i / 2] + 16 * (i % 2));
    if (is_signed) return (row_vec){wasm_i16x8_extend_low_i8x16(in), wasm_i16x8_extend_high_i8x16(in)};
    return (row_vec){wasm_u16x8_extend_low_u8x16(in), wasm_u16x8_extend_high_u8x16(in)};
}

static inline ivec row_dot(ivec sum, row_vec w, row_vec x, bool is_signed)
{
    return ivec_dot(ivec_dot(sum, w.low, x.low, is_signed), w.high, x.high, is_signed);
}

/* The scale of the run of 16 columns. */
static inline ivec row_scales(words_16 scales, uint32_t i)
{
    return wasm_i32x4_splat(scales[i]);
}

/* Lanes whose sum is that of the 16 products. */
static inline ivec ivec_dot_words(words_16 a, words_16 b)
{
    row_vec first, second;
    memcpy(&first, &a, sizeof first);
    memcpy(&second, &b, sizeof second);
    return row_dot(wasm_i32x4_splat(0), first, second, true);
}

/* dots[r] = the sum of the lanes of rows[r] */
static inline __attribute__((always_inline)) void ivec_sum_16(const ivec *rows, int32_t *dots)
{
    for (int i = 0; i < 16; i += 4) {
        const v128_t a = wasm_i32x4_shuffle(rows[i], rows[i + 1], 0, 4, 1, 5),
                     b = wasm_i32x4_shuffle(rows[i], rows[i + 1], 2, 6, 3, 7),
                     c = wasm_i32x4_shuffle(rows[i + 2], rows[i + 3], 0, 4, 1, 5),
                     d = wasm_i32x4_shuffle(rows[i + 2], rows[i + 3], 2, 6, 3, 7);
        const v128_t ab = wasm_i32x4_add(a, b), cd = wasm_i32x4_add(c, d);
        wasm_v128_store(dots + i,
                        wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7)));
    }
}

#endif
