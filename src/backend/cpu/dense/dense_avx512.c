/* Dense rows on AVX-512, but those of Q8_0, Q6_K, Q5_K and Q4_K. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
