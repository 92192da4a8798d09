/* Softmax and cross-entropy on WebAssembly SIMD128. */
#include "backend/cpu/floats_simd128.h"

#include "backend/cpu/softmax_body.h"
