/* Q2_K: 256 two-bit values in 16 groups of 16, with a four-bit scale and minimum for each group. */
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/line_fit.h"

enum { ELEMENTS = 256, BYTES = 84, GROUP = 16, N_GROUPS = 16, LEVELS_AT = 16, D_AT = 80, D_MIN_AT = 82 };

static const tern_line_fit levels = {
    .n = GROUP, .top = 3, .first = 1.6f, .step = 0.15f, .candidates = 20, .positive = true, .most_multiple = 15};

/* Byte g: the scale of group g in the low nibble, its minimum in the high one. Each half of the block has 32 bytes of
 * levels: elements l, l + 32, l + 64, l + 96 of it share byte l, the first in the lowest bits. */
static void pack_block(const float *x, const float *w, uint8_t *out)
{
    float q[ELEMENTS];
    uint8_t scales[N_GROUPS], mins[N_GROUPS];
    uint16_t halves[2];
    memset(out, 0, BYTES);
    tern_line_fit__block(&levels, x, w, halves, scales, mins, q);
    tern_store_u16(out + D_AT, halves[0]);
    tern_store_u16(out + D_MIN_AT, halves[1]);
    for (unsigned g = 0; g < N_GROUPS; g++) out[g] = (uint8_t)(scales[g] | mins[g] << 4);
    for (unsigned i = 0; i < ELEMENTS; i++)
        out[LEVELS_AT + i / 128 * 32 + i % 32] |= (uint8_t)((unsigned)q[i] << (i % 128 / 32 * 2));
}

static void unpack_block(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in + D_AT)), d_min = tern_f16_to_f32(tern_load_u16(in + D_MIN_AT));
    for (unsigned i = 0; i < ELEMENTS; i++) {
        unsigned both = in[i / GROUP], level = in[LEVELS_AT + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        x[i] = d * (float)(both & 15) * (float)level - d_min * (float)(both >> 4);
    }
}

TERN_BLOCK_ENCODING(q2_k, Q2_K, ELEMENTS, BYTES, D_AT, D_MIN_AT, pack_block, unpack_block)
