/* f32, f16 and bf16 rows on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/floats.inc"
