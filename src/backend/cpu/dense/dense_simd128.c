/* Dense rows of every encoding on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
#include "backend/cpu/dense/quants.inc"
