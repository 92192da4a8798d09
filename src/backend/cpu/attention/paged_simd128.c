/* Attention on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/attention/paged.inc"
