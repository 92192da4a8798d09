/* BF16: the top halves of binary32 values, little-endian, rounded half to even. */
#include "base/bytes.h"
#include "base/half.h"
#include "quant/table.h"

static void pack(const float *x, size_t n_blocks, void *out)
{
    for (size_t i = 0; i < n_blocks; i++) tern_store_u16((uint8_t *)out + 2 * i, tern_f32_to_bf16(x[i]));
}

static void unpack(const void *in, size_t n_blocks, float *x)
{
    for (size_t i = 0; i < n_blocks; i++) x[i] = tern_bf16_to_f32(tern_load_u16((const uint8_t *)in + 2 * i));
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++)
        if ((tern_load_u16((const uint8_t *)in + 2 * i) & 0x7f80u) == 0x7f80u) return i;
    return n_blocks;
}

const tern_encoding tern_encoding__bf16 = {
    .name = "bf16",
    .id = TERN_ENC_BF16,
    .block_elements = 1,
    .block_bytes = 2,
    .pack = pack,
    .unpack = unpack,
    .find_nonfinite = find_nonfinite,
};
