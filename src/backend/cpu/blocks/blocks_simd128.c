/* Dense weights times int8 activations on WebAssembly SIMD128. */
#include "backend/cpu/blocks/dots_simd128.h"

#define WITHOUT_SMALL_BLOCKS /* a page downloads what is here */

#include "backend/cpu/blocks/blocks.inc"
#include "backend/cpu/blocks/quantize.inc"
