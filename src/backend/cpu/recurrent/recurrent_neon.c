/* Convolution over a kept tail and the gated delta rule on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/recurrent/recurrent.inc"
