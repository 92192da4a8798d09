/* Convolution over a kept tail, the gated delta rule, and their backward on SSE4.1. */
#include "backend/cpu/floats/sse41.h"

#include "backend/cpu/recurrent/backward.inc"
#include "backend/cpu/recurrent/recurrent.inc"
