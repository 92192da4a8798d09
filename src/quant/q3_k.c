/* Q3_K: 256 three-bit values in 16 groups of 16, a six-bit scale for each group and one f16 for all. */
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/signed_fit.h"

enum { ELEMENTS = 256, BYTES = 110, GROUP = 16, LOW_AT = 32, SCALES_AT = 96, D_AT = 108 };

static const tern_signed_fit levels = {
    .n = GROUP, .low = -4, .high = 3, .first = -3.1f, .step = -0.1f, .candidates = 19};

/* Element i's high bit is bit i / 32 of byte i % 32; its low two are a field of the 32 bytes of its half of the block,
 * of which elements l, l + 32, l + 64, l + 96 share byte l. */
static void put_level(uint8_t *out, unsigned i, unsigned q)
{
    out[i % 32] |= (uint8_t)((q >> 2) << (i / 32));
    out[LOW_AT + i / 128 * 32 + i % 32] |= (uint8_t)((q & 3) << (i % 128 / 32 * 2));
}

static int get_level(const uint8_t *in, unsigned i)
{
    unsigned low = in[LOW_AT + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    return (int)(low | (unsigned)(in[i % 32] >> (i / 32) & 1) << 2) - 4;
}

/* Twelve bytes. The low four bits of group g's scale + 32 are a nibble of byte g % 8 (low for g < 8); the high two are
 * bits 2 (g / 4) up of byte 8 + g % 4. */
static void put_multiple(uint8_t *out, unsigned g, unsigned m)
{
    out[g % 8] |= (uint8_t)((m & 15) << (g / 8 * 4));
    out[8 + g % 4] |= (uint8_t)((m >> 4) << (g / 4 * 2));
}

static int get_multiple(const uint8_t *in, unsigned g)
{
    unsigned low = in[g % 8] >> (g / 8 * 4) & 15, high = in[8 + g % 4] >> (g / 4 * 2) & 3;
    return (int)(low | high << 4) - 32;
}

static void pack_block(const float *x, const float *w, uint8_t *out)
{
    float q[ELEMENTS];
    int8_t multiples[TERN_SIGNED_GROUPS];
    memset(out, 0, BYTES);
    tern_store_u16(out + D_AT, tern_signed_fit__groups(&levels, -32, x, w, multiples, q));
    for (unsigned g = 0; g < TERN_SIGNED_GROUPS; g++) put_multiple(out + SCALES_AT, g, (unsigned)(multiples[g] + 32));
    for (unsigned i = 0; i < ELEMENTS; i++) put_level(out, i, (unsigned)((int)q[i] + 4));
}

static void unpack_block(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in + D_AT));
    for (unsigned i = 0; i < ELEMENTS; i++)
        x[i] = d * (float)get_multiple(in + SCALES_AT, i / GROUP) * (float)get_level(in, i);
}

TERN_BLOCK_ENCODING(q3_k, Q3_K, ELEMENTS, BYTES, D_AT, D_AT, pack_block, unpack_block)
