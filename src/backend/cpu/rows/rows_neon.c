/* Norm, quantiser, gates, addition, rotary embedding, Hadamard transform and the f16 store on 64-bit ARM. */
#include "backend/cpu/floats/neon.h"

#include "backend/cpu/rows/hadamard.inc"
#include "backend/cpu/rows/rows.inc"
