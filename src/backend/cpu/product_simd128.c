/* Products of matrices in chains on WebAssembly SIMD128. */
#include "backend/cpu/floats_simd128.h"

#include "backend/cpu/product_body.h"
