/* The optimiser on WebAssembly SIMD128. */
#define LEVEL simd128

#include "backend/cpu/requantize_body.h"
#include "backend/cpu/update_body.h"
