/* Convolution over a kept tail and the gated delta rule on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/recurrent/recurrent.inc"
