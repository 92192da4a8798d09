/* Convolution over a kept tail, the gated delta rule, and their backward on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/recurrent/backward.inc"
#include "backend/cpu/recurrent/recurrent.inc"
