/* Norm, quantiser, gates, addition, rotary embedding and the f16 store on AVX2 with FMA and F16C. */
#include "backend/cpu/floats_avx2.h"

#include "backend/cpu/vector_body.h"
