/* Backward of the norm, the gates and the rotary embedding, and dropout, on AVX2 with FMA. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/training/backward.inc"
