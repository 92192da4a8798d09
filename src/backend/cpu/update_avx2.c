/* The optimiser on AVX2 with FMA. */
#define LEVEL avx2

#include "backend/cpu/requantize_body.h"
#include "backend/cpu/update_body.h"
