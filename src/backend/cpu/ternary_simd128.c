/* The ternary encodings on WebAssembly SIMD128. */
#include "backend/cpu/ternary_rows_simd128.h"

#define TERN_LEVEL simd128
#define TERN_GEMM  tern_cpu__ternary_gemm_simd128

/* Products are of 16 bits, those of even and of odd columns apart, and summed in pairs to 32 bits. */
static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    for (int i = 0; i < n; i++) {
        const v128_t xs = wasm_v128_load(x + WIDTH * i);
        const v128_t even = wasm_i16x8_shr(wasm_i16x8_shl(xs, 8), 8), odd = wasm_i16x8_shr(xs, 8);
        s = wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(wasm_v128_and(c[i], wasm_i16x8_splat(3)), even));
        s = wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(wasm_u16x8_shr(c[i], 8), odd));
    }
    return s;
}

#include "backend/cpu/ternary_rows.h"
