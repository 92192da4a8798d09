/* Pieces of the WebAssembly SIMD128 ternary kernels: sums, and blocks of the encodings to vectors of 16 raw codes. */
#ifndef TERN_BACKEND_CPU_TERNARY_ROWS_SIMD128_H
#define TERN_BACKEND_CPU_TERNARY_ROWS_SIMD128_H

#include <wasm_simd128.h>

#include "backend/cpu/ternary/tq1_0.h"
#include "quant/t160.h"

enum { WIDTH = 16 };

typedef v128_t codes;
typedef v128_t sums;

static inline void store(uint8_t *to, codes c)
{
    wasm_v128_store(to, c);
}

static inline sums zero(void)
{
    return wasm_i32x4_splat(0);
}

static inline int32_t total(sums s)
{
    const v128_t two = wasm_i32x4_add(s, wasm_i32x4_shuffle(s, s, 2, 3, 2, 3));
    return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
}

/* Field `at` of each byte: shifts are of 16 bits, as there are none of bytes. */
static inline v128_t field(v128_t bytes, uint32_t at)
{
    return wasm_v128_and(wasm_u16x8_shr(bytes, at), wasm_i8x16_splat(3));
}

static inline void decode_i2_s(const uint8_t *block, codes *out)
{
    for (int half = 0; half < 2; half++, block += WIDTH, out++) {
        const v128_t bytes = wasm_v128_load(block);
        out[0] = field(bytes, 6);
        out[2] = field(bytes, 4);
        out[4] = field(bytes, 2);
        out[6] = field(bytes, 0);
    }
}

static inline void decode_tq2_0(const uint8_t *block, codes *out)
{
    for (int i = 0; i < 4; i++, block += WIDTH) {
        const v128_t bytes = wasm_v128_load(block);
        codes *to = out + i / 2 * 8 + i % 2;
        to[0] = field(bytes, 0);
        to[2] = field(bytes, 2);
        to[4] = field(bytes, 4);
        to[6] = field(bytes, 6);
    }
}

/* The next digit of each byte: the top two bits of floor(3 * byte / 4) = byte - ceil(byte / 4). */
static inline v128_t digit(v128_t bytes)
{
    const v128_t none = wasm_i8x16_splat(0);
    return field(wasm_i8x16_sub(bytes, wasm_u8x16_avgr(wasm_u8x16_avgr(bytes, none), none)), 6);
}

static inline v128_t times_3(v128_t bytes)
{
    return wasm_i8x16_add(wasm_i8x16_add(bytes, bytes), bytes);
}

static inline void decode_tq1_0(const uint8_t *block, codes *out)
{
    v128_t a = wasm_v128_load(block), b = wasm_v128_load(block + 16), c = wasm_v128_load(block + TERN_TQ1_0_FIVES_16);
    for (int i = 0; i < 5; i++) {
        out[2 * i] = digit(a);
        out[2 * i + 1] = digit(b);
        out[10 + i] = digit(c);
        a = times_3(a);
        b = times_3(b);
        c = times_3(c);
    }
    const v128_t d = wasm_v128_load32_zero(block + TERN_TQ1_0_FOURS), d3 = times_3(d), d9 = times_3(d3);
    const v128_t first = wasm_i32x4_shuffle(d, d3, 0, 4, 0, 4), last = wasm_i32x4_shuffle(d9, times_3(d9), 0, 4, 0, 4);
    out[15] = digit(wasm_i64x2_shuffle(first, last, 0, 2));
}

/* The first four codes of 16 bytes of t160, c0 lowest, and the fifth in bits that a mask of 3 leaves. Pairs are looked
 * up by p (bits 0-2) and q (bits 3-5), those of 0xc0 .. 0xef by the low nibble, and of 0xf0 .. 0xff everything. */
static inline void fields_t160(v128_t bytes, v128_t *four, v128_t *fifth)
{
    const v128_t pair = wasm_v128_load(tern_t160_low), nibble = wasm_v128_and(bytes, wasm_i8x16_splat(15));
    const v128_t high = wasm_u8x16_ge(bytes, wasm_i8x16_splat((int8_t)0xc0));
    const v128_t last = wasm_u8x16_ge(bytes, wasm_i8x16_splat((int8_t)0xf0));
    const v128_t p = wasm_i8x16_swizzle(pair, wasm_v128_and(bytes, wasm_i8x16_splat(7)));
    const v128_t q = wasm_i8x16_swizzle(pair, wasm_v128_and(wasm_u16x8_shr(bytes, 3), wasm_i8x16_splat(7)));
    v128_t f = wasm_v128_or(p, wasm_i16x8_shl(q, 4));
    f = wasm_v128_bitselect(wasm_i8x16_swizzle(wasm_v128_load(tern_t160_high), nibble), f, high);
    *four = wasm_v128_bitselect(wasm_i8x16_swizzle(wasm_v128_load(tern_t160_high + 48), nibble), f, last);
    f = wasm_v128_bitselect(wasm_u16x8_shr(bytes, 4), wasm_u16x8_shr(bytes, 6), high);
    *fifth = wasm_v128_bitselect(wasm_i8x16_swizzle(wasm_v128_load(tern_t160_high_fifth + 48), nibble), f, last);
}

static inline void decode_t160(const uint8_t *block, codes *out)
{
    for (int i = 0; i < 4; i++, out++) {
        v128_t four, fifth;
        fields_t160(wasm_v128_load(block + WIDTH * i), &four, &fifth);
        for (uint32_t k = 0; k < 4; k++) out[4 * k] = field(four, 2 * k);
        out[16] = field(fifth, 0);
    }
}

#endif
