/* Backward of the norm, the gates and the rotary embedding, and dropout, on AVX2 with FMA. */
#include "backend/cpu/floats_avx2.h"

#include "backend/cpu/backward_body.h"
