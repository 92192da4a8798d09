/* f32, f16, bf16, Q3_K and Q2_K rows on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
