/* Products of matrices in chains on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/attention/product.inc"
