/* Attention on AVX-512. */
#include "backend/cpu/floats_avx512.h"

#include "backend/cpu/attention_body.h"
