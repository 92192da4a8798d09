/* Backward of the norm, the gates and the rotary embedding, and dropout, on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/training/backward.inc"
