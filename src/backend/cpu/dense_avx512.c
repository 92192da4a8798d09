/* f32, f16, bf16 and q8_0 rows on AVX-512. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/dense_plain.h"
