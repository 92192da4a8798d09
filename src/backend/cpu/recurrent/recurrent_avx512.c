/* Convolution over a kept tail, the gated delta rule, and their backward on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/recurrent/backward.inc"
#include "backend/cpu/recurrent/recurrent.inc"
