/* Dense weights times int8 activations on NEON with dot products. */
#include "backend/cpu/blocks/dots_neon.h"

#undef LEVEL
#define LEVEL dotprod

static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    (void)is_signed;
    return vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x));
}

#include "backend/cpu/blocks/blocks.inc"
