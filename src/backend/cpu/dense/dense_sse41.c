/* Dense rows of every encoding on SSE4.1. Those of codes.inc, nibbles.inc and k_codes.inc are decoded for the product
 * of f32 (decodes_first in cpu_internal.h). */
#define DENSE_CODES DECODE
#include "backend/cpu/floats/sse41.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
#include "backend/cpu/dense/nibbles.inc"
#include "backend/cpu/dense/quants.inc"
