/* The screen of the output table on WebAssembly SIMD128.
 *
 * Codes and digits are multiplied as numbers of 16 bits, those of even and of odd columns apart, and summed in pairs to
 * 32 bits. The digits of a few groups are laid out as such numbers once for all rows. */
#include <wasm_simd128.h>

#include "backend/cpu/kernels.h"

/* Halves laid out at once (an even number); numbers for 16 columns, which are even and odd ones of both digits. */
enum { HALVES = 12, DIGITS = 4 * 8 };

/* 16 columns of each vector of a group: their digits, and the sums. */
typedef struct part {
    const int16_t *x;
    v128_t high, low;
    bool both; /* digits */
} part;

static inline void arrange_16(const int8_t *x, int16_t *to)
{
    const v128_t v = wasm_v128_load(x);
    wasm_v128_store(to, wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8));
    wasm_v128_store(to + 8, wasm_i16x8_shr(v, 8));
}

static uint32_t columns_of(uint32_t halves, uint32_t first)
{
    return halves - first < 2 ? 32 : 64;
}

/* In the order in which parts of groups are added. */
static void arrange(const int8_t *high, const int8_t *low, uint32_t halves, int16_t *to)
{
    for (uint32_t i = 0; i < halves; i += 2) {
        const uint32_t n = columns_of(halves, i), at = i * TERN_SCREEN_HALF;
        for (uint32_t q = 0; q < n; q += 16)
            for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++, to += DIGITS) {
                arrange_16(high + at + v * n + q, to);
                if (low) arrange_16(low + at + v * n + q, to + 16);
            }
    }
}

static inline v128_t dot(v128_t sum, v128_t even, v128_t odd, const int16_t *x)
{
    const v128_t s = wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(even, wasm_v128_load(x)));
    return wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(odd, wasm_v128_load(x + 8)));
}

/* Column v's codes, the bits `mask` of bytes above `shift`. */
static inline void add(part *g, uint32_t v, v128_t bytes, uint32_t shift, int16_t mask)
{
    const v128_t bits = wasm_i16x8_splat(mask);
    const v128_t even = wasm_v128_and(wasm_u16x8_shr(bytes, shift), bits),
                 odd = wasm_v128_and(wasm_u16x8_shr(bytes, 8 + shift), bits);
    g->high = dot(g->high, even, odd, g->x + v * DIGITS);
    if (g->both) g->low = dot(g->low, even, odd, g->x + v * DIGITS + 16);
}

static inline v128_t down(v128_t bytes, uint32_t shift, int8_t mask)
{
    return wasm_v128_and(wasm_u8x16_shr(bytes, shift), wasm_i8x16_splat(mask));
}

static inline void add_3(part *g, const uint8_t *w, uint32_t n)
{
    v128_t bytes[3];
    for (uint32_t p = 0; p < 3; p++) {
        bytes[p] = wasm_v128_load(w + p * n);
        add(g, p, bytes[p], 0, 7);
        add(g, 3 + p, bytes[p], 3, 7);
    }
    add(g, 6, wasm_v128_or(down(bytes[0], 6, 3), down(bytes[2], 4, 4)), 0, 7);
    add(g, 7, wasm_v128_or(down(bytes[1], 6, 3), down(bytes[2], 5, 4)), 0, 7);
}

static inline void add_2(part *g, const uint8_t *w, uint32_t n)
{
    for (uint32_t p = 0; p < 2; p++) {
        const v128_t bytes = wasm_v128_load(w + p * n);
        for (uint32_t k = 0; k < 4; k++) add(g, 4 * p + k, bytes, 2 * k, 3);
    }
}

static inline void add_1(part *g, const uint8_t *w)
{
    const v128_t bytes = wasm_v128_load(w);
    for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++) add(g, v, bytes, v, 1);
}

static inline int32_t total(v128_t v)
{
    const v128_t two = wasm_i32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 2, 3));
    return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
}

/* One row of n halves with the digits as they were laid out. */
static inline void row(const uint8_t *w, uint32_t halves, uint32_t bits, const int16_t *x, int32_t sums[2])
{
    part g = {x, wasm_i32x4_splat(0), wasm_i32x4_splat(0), bits == 3};
    for (uint32_t i = 0; i < halves; i += 2) {
        const uint32_t n = columns_of(halves, i);
        for (uint32_t q = 0; q < n; q += 16, g.x += TERN_SCREEN_VECTORS * DIGITS) {
            if (bits == 3) add_3(&g, w + q, n);
            else if (bits == 2) add_2(&g, w + q, n);
            else add_1(&g, w + q);
        }
        w += (size_t)n * bits;
    }
    sums[0] = total(g.high);
    sums[1] = total(g.low);
}

void tern_cpu__screen_simd128(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                              const int8_t *low, int32_t *dots)
{
    int16_t x[HALVES * 2 * TERN_SCREEN_VECTORS * DIGITS];
    for (uint32_t first = 0; first < halves; first += HALVES) {
        const uint32_t n = halves - first < HALVES ? halves - first : HALVES, at = first * TERN_SCREEN_HALF;
        arrange(high + at, bits == 3 ? low + at : NULL, n, x);
        for (uint32_t r = 0; r < n_rows; r++) {
            int32_t sums[2];
            row(w + ((size_t)r * halves + first) * 32 * bits, n, bits, x, sums);
            dots[r] = sums[0] + (first ? dots[r] : 0);
            if (bits == 3) dots[n_rows + r] = sums[1] + (first ? dots[n_rows + r] : 0);
        }
    }
}
