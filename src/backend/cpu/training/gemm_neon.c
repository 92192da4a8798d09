/* Products of f32 matrices, and weights as floats, on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

enum { GEMM_ROWS = 8, GEMM_VECS = 3 };

#include "backend/cpu/training/decode.inc"
#include "backend/cpu/training/gemm.inc"
