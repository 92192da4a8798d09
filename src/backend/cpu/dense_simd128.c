/* Dense rows of every encoding on WebAssembly SIMD128. */
#include "backend/cpu/floats_simd128.h"

#include "backend/cpu/floats_plain.h"
#include "backend/cpu/quants_plain.h"
