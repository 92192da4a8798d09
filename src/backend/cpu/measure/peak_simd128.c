/* Peaks on WebAssembly SIMD128: of pairs of 16-bit products summed to 32 bits, and of f32 multiply-adds, each rounded
 * once. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_simd128(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 8;
    v128_t sums[SUMS];
    for (int i = 0; i < SUMS; i++) sums[i] = wasm_i32x4_splat(i);
    for (v128_t b = wasm_i16x8_splat((int16_t)n); n > 0; n--, b = wasm_i16x8_add(b, wasm_i16x8_splat(1)))
        for (int i = 0; i < SUMS; i++) sums[i] = wasm_i32x4_add(sums[i], wasm_i32x4_dot_i16x8(sums[i], b));
    for (int i = 1; i < SUMS; i++) sums[0] = wasm_i32x4_add(sums[0], sums[i]);
    return (uint64_t)(uint32_t)ivec_sum(sums[0]);
}

/* The sums converge: neither infinite nor denormal. */
uint64_t tern_cpu__fma_peak_simd128(uint64_t n)
{
    enum { SUMS = 8 };
    if (n == 0) return SUMS * VEC;
    vec sums[SUMS];
    const vec a = vec_set(0.5f), b = vec_set((float)(n % 1000) + 1);
    for (int i = 0; i < SUMS; i++) sums[i] = vec_set((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = vec_fma(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = vec_add(sums[0], sums[i]);
    return (uint64_t)wasm_f32x4_extract_lane(sums[0], 0);
}
