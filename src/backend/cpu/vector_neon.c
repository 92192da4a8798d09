/* Norm, quantiser, gates, addition, rotary embedding and the f16 store on 64-bit ARM. */
#include "backend/cpu/floats_neon.h"

#include "backend/cpu/vector_body.h"
