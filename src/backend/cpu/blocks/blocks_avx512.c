/* Dense weights times int8 activations on AVX-512 with VNNI. */
#include "backend/cpu/blocks/dots_avx512.h"

#include "backend/cpu/blocks/blocks.inc"
#include "backend/cpu/blocks/quantize.inc"
