/* Dense rows of every encoding on WebAssembly SIMD128. Those of codes.inc, nibbles.inc and k_codes.inc are decoded for
 * the product of f32 (decodes_first in cpu_internal.h): products of their own are a tenth of what a page downloads. */
#define DENSE_CODES DECODE
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
#include "backend/cpu/dense/nibbles.inc"
#include "backend/cpu/dense/quants.inc"
