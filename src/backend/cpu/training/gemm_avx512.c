/* Products of f32 matrices, and weights as floats, on AVX-512. */
#include "backend/cpu/floats/avx512.h"

enum { GEMM_ROWS = 8, GEMM_VECS = 2 };

#include "backend/cpu/training/decode.inc"
#include "backend/cpu/training/gemm.inc"
