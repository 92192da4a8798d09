/* I2_S: 128 codes in 32 bytes, linear over the tensor, one f32 scale in the tail (as bitnet.cpp's x86 packer writes
 * it). */
#include <string.h>

#include "quant/table.h"
#include "quant/ternary.h"

enum { ELEMENTS = 128, BYTES = 32 };

/* Byte b holds elements b, b + 32, b + 64, b + 96, the first in the top two bits. */
static void pack_block(const int8_t *codes, float scale, void *block)
{
    uint8_t *out = block;
    (void)scale;
    memset(out, 0, BYTES);
    for (unsigned i = 0; i < ELEMENTS; i++) out[i % 32] |= (uint8_t)((codes[i] + 1) << (6 - i / 32 * 2));
}

static void unpack_block(const void *block, uint8_t *raw)
{
    const uint8_t *in = block;
    for (unsigned part = 0; part < 4; part++)
        for (unsigned b = 0; b < 32; b++) raw[part * 32 + b] = in[b] >> (6 - 2 * part) & 3;
}

static bool any_invalid(const void *in, size_t n_blocks)
{
    return tern_bits__any_11(in, n_blocks * BYTES);
}

static const tern_ternary codec = {.pack = pack_block, .unpack = unpack_block, .any_invalid = any_invalid};

TERN_TERNARY_FUNCTIONS(tern_encoding__i2_s)

const tern_encoding tern_encoding__i2_s = {
    .name = "i2_s",
    .id = TERN_ENC_I2_S,
    .block_elements = ELEMENTS,
    .block_bytes = BYTES,
    .tail_bytes = 32,
    .linear = true,
    .ternary = true,
    .pack = pack,
    .unpack = unpack,
    .pack_codes = pack_codes,
    .unpack_codes = unpack_codes,
    .codec = &codec,
};
