/* Q6_K: 256 six-bit values in 16 groups of 16, an int8 scale for each group and one f16 for all. */
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/signed_fit.h"

enum { ELEMENTS = 256, BYTES = 210, GROUP = 16, QH_AT = 128, SCALES_AT = 192, D_AT = 208 };

static const tern_signed_fit levels = {
    .n = GROUP, .low = -32, .high = 31, .first = -30, .step = -0.5f, .candidates = 9};

/* Where element i's six bits lie: low four in a nibble of ql, high two in a field of qh. Each half of the block has 64
 * bytes of ql and 32 of qh; elements l, l + 32, l + 64, l + 96 of a half (l < 32) share qh[l]. */
static void put_half(const float *q, uint8_t *ql, uint8_t *qh)
{
    uint8_t c[ELEMENTS / 2];
    for (unsigned i = 0; i < sizeof c; i++) c[i] = (uint8_t)((int)q[i] + 32);
    for (unsigned l = 0; l < 64; l++) ql[l] = (uint8_t)((c[l] & 15) | (c[64 + l] & 15) << 4);
    for (unsigned l = 0; l < 32; l++)
        qh[l] = (uint8_t)(c[l] >> 4 | c[32 + l] >> 4 << 2 | c[64 + l] >> 4 << 4 | c[96 + l] >> 4 << 6);
}

static int get_level(const uint8_t *in, unsigned i)
{
    unsigned half = i / 128, part = i % 128 / 32, l = i % 32;
    unsigned low = in[half * 64 + part % 2 * 32 + l] >> (part / 2 * 4) & 15;
    unsigned high = in[QH_AT + half * 32 + l] >> (part * 2) & 3;
    return (int)(low | high << 4) - 32;
}

static void pack_block(const float *x, const float *w, uint8_t *out)
{
    float q[ELEMENTS];
    int8_t multiples[TERN_SIGNED_GROUPS];
    tern_store_u16(out + D_AT, tern_signed_fit__groups(&levels, -128, x, w, multiples, q));
    memcpy(out + SCALES_AT, multiples, sizeof multiples);
    for (unsigned half = 0; half < 2; half++)
        put_half(q + half * (ELEMENTS / 2), out + half * 64, out + QH_AT + half * 32);
}

static void unpack_block(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in + D_AT));
    for (unsigned i = 0; i < ELEMENTS; i++)
        x[i] = d * (float)(int8_t)in[SCALES_AT + i / GROUP] * (float)get_level(in, i);
}

TERN_BLOCK_ENCODING(q6_k, Q6_K, ELEMENTS, BYTES, D_AT, D_AT, pack_block, unpack_block)
