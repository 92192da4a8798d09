/* Dense rows on AVX2 with FMA and F16C; others are in quants_avx2.c and nibbles_avx2.c. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
