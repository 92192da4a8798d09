/* Convolution over a kept tail, the gated delta rule, and their backward on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/recurrent/backward.inc"
#include "backend/cpu/recurrent/recurrent.inc"
