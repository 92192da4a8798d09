/* Products of f32 matrices, and weights as floats, on AVX2 with FMA. */
#include "backend/cpu/floats_avx2.h"

enum { GEMM_ROWS = 6, GEMM_VECS = 2 };

#include "backend/cpu/decode_body.h"
#include "backend/cpu/gemm_body.h"
