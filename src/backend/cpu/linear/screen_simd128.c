/* The screen of the output table on WebAssembly SIMD128.
 *
 * Weights and digits are multiplied as numbers of 16 bits, those of even and of odd columns apart, and summed in pairs
 * to 32 bits. The digits of a few groups are laid out as such numbers once for all rows. */
#include <wasm_simd128.h>

#include "backend/cpu/kernels.h"

/* Groups laid out at once; numbers for 16 columns, which are even and odd ones of both digits. */
enum { GROUPS = 12, DIGITS = 4 * 8 };

typedef struct sums {
    v128_t high, low;
} sums;

static inline void arrange_16(const int8_t *x, int16_t *to)
{
    const v128_t v = wasm_v128_load(x);
    wasm_v128_store(to, wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8));
    wasm_v128_store(to + 8, wasm_i16x8_shr(v, 8));
}

/* In the order in which quarters of groups are added. */
static void arrange(const int8_t *high, const int8_t *low, uint32_t groups, int16_t *to)
{
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t q = 0; q < 64; q += 16)
            for (uint32_t p = 0; p < TERN_SCREEN_GROUP; p += 64, to += DIGITS) {
                arrange_16(high + g * TERN_SCREEN_GROUP + p + q, to);
                arrange_16(low + g * TERN_SCREEN_GROUP + p + q, to + 16);
            }
}

static inline v128_t dot(v128_t sum, v128_t even, v128_t odd, const int16_t *x)
{
    const v128_t s = wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(even, wasm_v128_load(x)));
    return wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(odd, wasm_v128_load(x + 8)));
}

/* 16 columns, their weights in the low six bits of bytes. */
static inline void add(sums *s, v128_t bytes, const int16_t *x)
{
    const v128_t six = wasm_i16x8_splat(0x3f);
    const v128_t even = wasm_v128_and(bytes, six), odd = wasm_v128_and(wasm_u16x8_shr(bytes, 8), six);
    s->high = dot(s->high, even, odd, x);
    s->low = dot(s->low, even, odd, x + 16);
}

/* One quarter (16 columns of each plane) of a group. */
static inline void add_quarter(sums *s, const uint8_t *w, const int16_t *x)
{
    const v128_t top = wasm_i8x16_splat((int8_t)0xc0);
    v128_t last[3];
    for (int p = 0; p < 3; p++) {
        const v128_t bytes = wasm_v128_load(w + p * 64);
        last[p] = wasm_v128_and(bytes, top);
        add(s, bytes, x + p * DIGITS);
    }
    const v128_t middle = wasm_v128_or(wasm_u16x8_shr(last[0], 6), wasm_u16x8_shr(last[1], 4));
    add(s, wasm_v128_or(middle, wasm_u16x8_shr(last[2], 2)), x + 3 * DIGITS);
}

static inline int32_t total(v128_t v)
{
    const v128_t two = wasm_i32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 2, 3));
    return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
}

void tern_cpu__screen_simd128(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                              int32_t *dots)
{
    int16_t x[GROUPS * 4 * 4 * DIGITS];
    for (uint32_t first = 0; first < groups; first += GROUPS) {
        const uint32_t n = groups - first < GROUPS ? groups - first : GROUPS, at = first * TERN_SCREEN_GROUP;
        arrange(high + at, low + at, n, x);
        for (uint32_t r = 0; r < n_rows; r++) {
            const uint8_t *row = w + ((size_t)r * groups + first) * TERN_SCREEN_BYTES;
            sums s = {wasm_i32x4_splat(0), wasm_i32x4_splat(0)};
            for (uint32_t i = 0; i < n * 4; i++)
                add_quarter(&s, row + i / 4 * TERN_SCREEN_BYTES + i % 4 * 16, x + i * 4 * DIGITS);
            dots[r] = total(s.high) + (first ? dots[r] : 0);
            dots[n_rows + r] = total(s.low) + (first ? dots[n_rows + r] : 0);
        }
    }
}
