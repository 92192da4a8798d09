/* Backward of the norm, the gates and the rotary embedding, and dropout, on WebAssembly SIMD128. */
#include "backend/cpu/floats_simd128.h"

#include "backend/cpu/backward_body.h"
