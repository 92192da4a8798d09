/* Convolution over a kept tail and the gated delta rule on SSE4.1. */
#include "backend/cpu/floats/sse41.h"

#include "backend/cpu/recurrent/recurrent.inc"
