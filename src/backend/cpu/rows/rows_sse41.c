/* Norm, quantiser, gates, addition, rotary embedding, Hadamard transform and the f16 store on SSE4.1. */
#include "backend/cpu/floats/sse41.h"

#include "backend/cpu/rows/hadamard.inc"
#include "backend/cpu/rows/rows.inc"
