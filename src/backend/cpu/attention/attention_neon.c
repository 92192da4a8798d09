/* The kernels of attention on 64-bit ARM: paged with an online softmax, and the products and softmax of packed rows. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/attention/paged.inc"
#include "backend/cpu/attention/product.inc"
#include "backend/cpu/attention/softmax.inc"
