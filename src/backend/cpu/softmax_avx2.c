/* Softmax and cross-entropy on AVX2 with FMA. */
#include "backend/cpu/floats_avx2.h"

#include "backend/cpu/softmax_body.h"
