/* The optimiser on AVX-512. */
#define LEVEL avx512

#include "backend/cpu/training/requantize.inc"
#include "backend/cpu/training/update.inc"
