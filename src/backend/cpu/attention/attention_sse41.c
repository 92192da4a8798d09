/* The kernels of attention on SSE4.1: paged with an online softmax, and the products and softmax of packed rows. */
#include "backend/cpu/floats/sse41.h"

#include "backend/cpu/attention/paged.inc"
#include "backend/cpu/attention/product.inc"
#include "backend/cpu/attention/softmax.inc"
