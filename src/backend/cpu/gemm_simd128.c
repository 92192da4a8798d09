/* Products of f32 matrices, and weights as floats, on WebAssembly SIMD128. */
#include "backend/cpu/floats_simd128.h"

enum { GEMM_ROWS = 4, GEMM_VECS = 2 };

#include "backend/cpu/decode_body.h"
#include "backend/cpu/gemm_body.h"
