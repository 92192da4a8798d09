/* Softmax and cross-entropy on 64-bit ARM. */
#include "backend/cpu/floats_neon.h"

#include "backend/cpu/softmax_body.h"
