/* F32: little-endian binary32 values. */
#include "base/bytes.h"
#include "base/half.h"
#include "quant/table.h"

static void pack(const float *x, size_t n_blocks, void *out)
{
    for (size_t i = 0; i < n_blocks; i++) tern_store_f32((uint8_t *)out + 4 * i, x[i]);
}

static void unpack(const void *in, size_t n_blocks, float *x)
{
    for (size_t i = 0; i < n_blocks; i++) x[i] = tern_load_f32((const uint8_t *)in + 4 * i);
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++)
        if ((tern_load_u32((const uint8_t *)in + 4 * i) & 0x7f800000u) == 0x7f800000u) return i;
    return n_blocks;
}

const tern_encoding tern_encoding__f32 = {
    .name = "f32",
    .id = TERN_ENC_F32,
    .block_elements = 1,
    .block_bytes = 4,
    .pack = pack,
    .unpack = unpack,
    .find_nonfinite = find_nonfinite,
};
