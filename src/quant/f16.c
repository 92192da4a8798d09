/* F16: little-endian IEEE binary16 values, rounded half to even. */
#include <stdbool.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/table.h"

static void pack(const float *x, size_t n_blocks, void *out)
{
    for (size_t i = 0; i < n_blocks; i++) tern_store_u16((uint8_t *)out + 2 * i, tern_f32_to_f16(x[i]));
}

/* All ones where the condition holds. */
static inline uint32_t where(bool condition)
{
    return 0u - condition;
}

/* The bits of tern_f16_to_f32(h) without a branch, so that a loop of it becomes vectors. */
static inline uint32_t widened(uint32_t h)
{
    const uint32_t magnitude = h & 0x7fff, mantissa = h & 0x3ff;
    const uint32_t small = tern_f32_bits((float)(int32_t)mantissa * 0x1p-24f),
                   normal = (magnitude << 13) + (112u << 23);
    const uint32_t special = 0x7f800000 | mantissa << 13 | (0x400000 & where(mantissa > 0));
    const uint32_t is_small = where(magnitude < 0x400), is_special = where(magnitude >= 0x7c00);
    return (h & 0x8000) << 16 | (is_small & small) | (is_special & special) | (~(is_small | is_special) & normal);
}

static void unpack(const void *in, size_t n_blocks, float *x)
{
    const uint8_t *h = in;
    for (size_t i = 0; i < n_blocks; i++) x[i] = tern_f32_from_bits(widened(h[2 * i] | (uint32_t)h[2 * i + 1] << 8));
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
