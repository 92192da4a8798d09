/* Convolution over a kept tail and the gated delta rule on AVX2 with FMA. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/recurrent/recurrent.inc"
