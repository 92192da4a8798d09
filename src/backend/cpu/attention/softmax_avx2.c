/* Softmax and cross-entropy on AVX2 with FMA. */
#include "backend/cpu/floats/avx2.h"

#include "backend/cpu/attention/softmax.inc"
