/* The optimiser on WebAssembly SIMD128. */
#define LEVEL simd128

#include "backend/cpu/training/requantize.inc"
#include "backend/cpu/training/update.inc"
