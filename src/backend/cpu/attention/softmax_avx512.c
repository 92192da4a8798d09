/* Softmax and cross-entropy on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/attention/softmax.inc"
