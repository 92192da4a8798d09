/* Dense rows of every encoding on AVX2 with FMA and F16C. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
#include "backend/cpu/dense/quants.inc"
