/* F16: little-endian IEEE binary16 values, rounded half to even. */
#include "base/bytes.h"
#include "base/half.h"
#include "quant/table.h"

static void pack(const float *x, size_t n_blocks, void *out)
{
    for (size_t i = 0; i < n_blocks; i++) tern_store_u16((uint8_t *)out + 2 * i, tern_f32_to_f16(x[i]));
}

static void unpack(const void *in, size_t n_blocks, float *x)
{
    for (size_t i = 0; i < n_blocks; i++) x[i] = tern_f16_to_f32(tern_load_u16((const uint8_t *)in + 2 * i));
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    return tern_f16__find_nonfinite_packed(in, n_blocks);
}

const tern_encoding tern_encoding__f16 = {
    .name = "f16",
    .id = TERN_ENC_F16,
    .block_elements = 1,
    .block_bytes = 2,
    .pack = pack,
    .unpack = unpack,
    .find_nonfinite = find_nonfinite,
};
