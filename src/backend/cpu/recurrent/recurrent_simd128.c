/* Convolution over a kept tail and the gated delta rule on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/recurrent/recurrent.inc"
