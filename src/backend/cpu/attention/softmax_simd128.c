/* Softmax and cross-entropy on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/attention/softmax.inc"
