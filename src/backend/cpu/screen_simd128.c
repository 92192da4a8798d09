/* The screen of the output table on WebAssembly SIMD128.
 *
 * Weights and digits are multiplied as numbers of 16 bits, those of even and of odd columns apart. A pair of products is
 * at most 2 * 62 * 128; 32 bits take them all. */
#include <wasm_simd128.h>

#include "backend/cpu/kernels.h"

typedef struct sums {
    v128_t high, low;
} sums;

static inline v128_t dot(v128_t sum, v128_t even, v128_t odd, const int8_t *x)
{
    const v128_t v = wasm_v128_load(x), x_even = wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8), x_odd = wasm_i16x8_shr(v, 8);
    return wasm_i32x4_add(wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(even, x_even)), wasm_i32x4_dot_i16x8(odd, x_odd));
}

/* 16 columns, their weights in the low six bits of bytes. */
static inline void add(sums *s, v128_t bytes, const int8_t *high, const int8_t *low)
{
    const v128_t six = wasm_i16x8_splat(0x3f);
    const v128_t even = wasm_v128_and(bytes, six), odd = wasm_v128_and(wasm_u16x8_shr(bytes, 8), six);
    s->high = dot(s->high, even, odd, high);
    s->low = dot(s->low, even, odd, low);
}

/* One quarter (16 columns of each plane) of a group. */
static inline void add_quarter(sums *s, const uint8_t *w, const int8_t *high, const int8_t *low)
{
    const v128_t top = wasm_i8x16_splat((int8_t)0xc0);
    v128_t bytes[3], last[3];
    for (int p = 0; p < 3; p++) {
        bytes[p] = wasm_v128_load(w + p * 64);
        last[p] = wasm_v128_and(bytes[p], top);
        add(s, bytes[p], high + p * 64, low + p * 64);
    }
    const v128_t middle = wasm_v128_or(wasm_u16x8_shr(last[0], 6), wasm_u16x8_shr(last[1], 4));
    add(s, wasm_v128_or(middle, wasm_u16x8_shr(last[2], 2)), high + 192, low + 192);
}

static inline int32_t total(v128_t v)
{
    const v128_t two = wasm_i32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 2, 3));
    return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
}

void tern_cpu__screen_simd128(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                              int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        sums s = {wasm_i32x4_splat(0), wasm_i32x4_splat(0)};
        for (uint32_t g = 0; g < groups; g++, w += TERN_SCREEN_BYTES)
            for (uint32_t q = 0; q < 64; q += 16)
                add_quarter(&s, w + q, high + g * TERN_SCREEN_GROUP + q, low + g * TERN_SCREEN_GROUP + q);
        dots[r] = total(s.high);
        dots[n_rows + r] = total(s.low);
    }
}
