/* Products of f32 matrices, and weights as floats, on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

enum { GEMM_ROWS = 4, GEMM_VECS = 2 };

#include "backend/cpu/training/decode.inc"
#include "backend/cpu/training/gemm.inc"
