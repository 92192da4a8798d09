/* The kernels of attention on AVX2 with FMA and F16C: paged with an online softmax, and the products and softmax of
 * packed rows. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/attention/paged.inc"
#include "backend/cpu/attention/product.inc"
#include "backend/cpu/attention/softmax.inc"
