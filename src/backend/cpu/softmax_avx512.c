/* Softmax and cross-entropy on AVX-512. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/softmax_body.h"
