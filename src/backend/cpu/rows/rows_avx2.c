/* Norm, quantiser, gates, addition, rotary embedding, Hadamard transform and the f16 store on AVX2 with FMA and
 * F16C. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/rows/hadamard.inc"
#include "backend/cpu/rows/rows.inc"
