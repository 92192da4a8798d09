/* Products of f32 matrices, and weights as floats, on AVX2 with FMA. */
#include "backend/cpu/floats/avx2.h"

enum { GEMM_ROWS = 6, GEMM_VECS = 2 };

#include "backend/cpu/training/decode.inc"
#include "backend/cpu/training/gemm.inc"
