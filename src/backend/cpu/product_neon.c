/* Products of matrices in chains on 64-bit ARM. */
#include "backend/cpu/floats_neon.h"

#include "backend/cpu/product_body.h"
