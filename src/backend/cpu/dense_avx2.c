/* Dense rows of every encoding on AVX2 with FMA and F16C. */
#include "backend/cpu/floats_avx2.h"

#include "backend/cpu/floats_plain.h"
#include "backend/cpu/quants_plain.h"
