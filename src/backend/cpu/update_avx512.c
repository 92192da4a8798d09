/* The optimiser on AVX-512. */
#define LEVEL avx512

#include "backend/cpu/requantize_body.h"
#include "backend/cpu/update_body.h"
