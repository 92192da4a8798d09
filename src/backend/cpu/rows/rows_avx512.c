/* Norm, quantiser, gates, addition, rotary embedding, Hadamard transform and the f16 store on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/rows/hadamard.inc"
#include "backend/cpu/rows/rows.inc"
