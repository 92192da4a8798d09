/* Dense weights times int8 activations on SSE4.1. */
#include "backend/cpu/blocks/dots_sse41.h"

#define WITHOUT_SMALL_BLOCKS /* those of 128 columns and fewer but Q8_0 and MXFP4 are left to the definitions */

#include "backend/cpu/blocks/blocks.inc"
#include "backend/cpu/blocks/quantize.inc"
