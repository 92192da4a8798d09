/* Attention on 64-bit ARM. */
#include "backend/cpu/floats_neon.h"

#include "backend/cpu/attention_body.h"
