/* The optimiser on AVX2 with FMA. */
#define LEVEL avx2

#include "backend/cpu/training/requantize.inc"
#include "backend/cpu/training/update.inc"
