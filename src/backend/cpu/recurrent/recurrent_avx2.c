/* Convolution over a kept tail, the gated delta rule, and their backward on AVX2 with FMA. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/recurrent/backward.inc"
#include "backend/cpu/recurrent/recurrent.inc"
