/* Products of matrices in chains on AVX-512. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/product_body.h"
