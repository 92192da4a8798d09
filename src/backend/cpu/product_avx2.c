/* Products of matrices in chains on AVX2 with FMA. */
#include "backend/cpu/floats_avx2.h"

#include "backend/cpu/product_body.h"
