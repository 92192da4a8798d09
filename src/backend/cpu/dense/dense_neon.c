/* Dense rows of every encoding on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/dense/codes.inc"
#include "backend/cpu/dense/floats.inc"
#include "backend/cpu/dense/k_codes.inc"
#include "backend/cpu/dense/nibbles.inc"
#include "backend/cpu/dense/quants.inc"
