/* Attention on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/attention/paged.inc"
