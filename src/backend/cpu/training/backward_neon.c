/* Backward of the norm, the gates and the rotary embedding, and dropout, on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/training/backward.inc"
