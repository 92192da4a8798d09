/* Attention on AVX2 with FMA and F16C. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/attention/paged.inc"
