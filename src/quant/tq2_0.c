/* TQ2_0: 256 two-bit codes in 64 bytes, then one f16 scale. */
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/table.h"
#include "quant/ternary.h"

enum { ELEMENTS = 256, BYTES = 66, SCALE_AT = 64 };

/* Each 32-byte half holds 128 codes: its byte b has elements b, b + 32, b + 64, b + 96, the first in the lowest two
 * bits. */
static void pack_block(const int8_t *codes, float scale, void *block)
{
    uint8_t *out = block;
    memset(out, 0, SCALE_AT);
    for (unsigned i = 0; i < ELEMENTS; i++)
        out[i / 128 * 32 + i % 32] |= (uint8_t)((codes[i] + 1) << (i % 128 / 32 * 2));
    tern_store_u16(out + SCALE_AT, tern_f32_to_f16(scale));
}

static void unpack_block(const void *block, uint8_t *raw)
{
    const uint8_t *in = block;
    for (unsigned half = 0; half < 2; half++)
        for (unsigned part = 0; part < 4; part++)
            for (unsigned b = 0; b < 32; b++) raw[half * 128 + part * 32 + b] = in[half * 32 + b] >> (2 * part) & 3;
}

static float scale_of(const void *block)
{
    return tern_f16_to_f32(tern_load_u16((const uint8_t *)block + SCALE_AT));
}

static bool any_invalid(const void *in, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++)
        if (tern_bits__any_11((const uint8_t *)in + b * BYTES, SCALE_AT)) return true;
    return false;
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    return tern_f16__find_nonfinite((const uint8_t *)in + SCALE_AT, BYTES, n_blocks);
}

static const tern_ternary codec = {
    .pack = pack_block, .unpack = unpack_block, .scale = scale_of, .any_invalid = any_invalid};

TERN_TERNARY_FUNCTIONS(tern_encoding__tq2_0)

const tern_encoding tern_encoding__tq2_0 = {
    .name = "tq2_0",
    .id = TERN_ENC_TQ2_0,
    .block_elements = ELEMENTS,
    .block_bytes = BYTES,
    .ternary = true,
    .pack = pack,
    .unpack = unpack,
    .pack_codes = pack_codes,
    .unpack_codes = unpack_codes,
    .find_nonfinite = find_nonfinite,
    .codec = &codec,
};
