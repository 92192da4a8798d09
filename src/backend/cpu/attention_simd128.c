/* Attention on WebAssembly SIMD128. */
#include "backend/cpu/floats_simd128.h"

#include "backend/cpu/attention_body.h"
