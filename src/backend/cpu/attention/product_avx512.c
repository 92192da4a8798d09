/* Products of matrices in chains on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/attention/product.inc"
