/* Backward of the norm, the gates and the rotary embedding, and dropout, on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/training/backward.inc"
