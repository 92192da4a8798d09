/* Norm, quantiser, gates, addition, rotary embedding, Hadamard transform and the f16 store on WebAssembly SIMD128. */
#include "backend/cpu/floats/simd128.h"

#include "backend/cpu/rows/hadamard.inc"
#include "backend/cpu/rows/rows.inc"
