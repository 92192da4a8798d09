/* Norm, quantiser, gates, addition, rotary embedding and the f16 store on AVX-512. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/vector_body.h"
