/* Ternary rows times many tokens on WebAssembly SIMD128: four columns of two rows in a vector of 16-bit numbers, tiles
 * of eight rows by two tokens. */
#include <wasm_simd128.h>

#include "backend/cpu/ternary.h"

enum { LANES = 2, VECTORS = 4, TOKENS = 2, RUN = TERN_PANEL_COLS_MAX };
#define TERN_GEMM     tern_cpu__ternary_gemm_simd128
#define TERN_TILES(X) X(1) X(2)

typedef v128_t vector, sum;

static inline vector load(const uint8_t *codes)
{
    return wasm_u16x8_load8x8(codes);
}

static inline vector broadcast(const int8_t *x)
{
    return wasm_i16x8_extend_low_i8x16(wasm_v128_load32_splat(x));
}

static inline sum zero(void)
{
    return wasm_i32x4_splat(0);
}

static inline sum add_step(sum s, vector codes, vector x)
{
    return wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(codes, x));
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    const int32_t rows[LANES] = {wasm_i32x4_extract_lane(s, 0) + wasm_i32x4_extract_lane(s, 1),
                                 wasm_i32x4_extract_lane(s, 2) + wasm_i32x4_extract_lane(s, 3)};
    for (uint32_t i = 0; i < n && i < LANES; i++) dots[i] = rows[i] + (first ? start : dots[i]);
}

static inline void interleave(uint8_t rows[2][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][2 * VECTORS][4])
{
    const v128_t a = wasm_v128_load(rows[0] + c), b = wasm_v128_load(rows[1] + c);
    const v128_t low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    wasm_v128_store64_lane(out[0], low, 0);
    wasm_v128_store64_lane(out[1], low, 1);
    wasm_v128_store64_lane(out[2], high, 0);
    wasm_v128_store64_lane(out[3], high, 1);
}

#include "backend/cpu/ternary_gemm.h"
