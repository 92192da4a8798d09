/* Dense weights times int8 activations on NEON. */
#include "backend/cpu/blocks/dots_neon.h"

/* Pairs of products do not pass 16 bits: no magnitude of w is over 128, none of x over 127. */
static inline ivec ivec_dot(ivec sum, ivec w, ivec x, bool is_signed)
{
    (void)is_signed;
    const int8x16_t a = vreinterpretq_s8_s32(w), b = vreinterpretq_s8_s32(x);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_s8(vget_high_s8(a), vget_high_s8(b));
    return vpadalq_s16(sum, vpaddq_s16(low, high));
}

#include "backend/cpu/blocks/blocks.inc"
#include "backend/cpu/blocks/quantize.inc"
