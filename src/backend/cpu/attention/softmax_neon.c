/* Softmax and cross-entropy on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/attention/softmax.inc"
