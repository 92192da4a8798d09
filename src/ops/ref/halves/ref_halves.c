/* Factors of products in 16 bits. */
#include "base/half.h"
#include "ops/ref/halves/halves.h"

/* The exponent field of 2^k. */
static uint32_t power_of(const float *x, uint32_t cols)
{
    enum { BIAS = 127, TOP = 14 };
    uint32_t top = 0;
    for (uint32_t c = 0; c < cols; c++) {
        const uint32_t bits = tern_f32_bits(x[c]) & 0x7fffffffu;
        if (bits <= 0x7f800000u && bits > top) top = bits;
    }
    const int32_t power = BIAS + TOP - ((int32_t)(top >> 23) - BIAS);
    return (uint32_t)(power > 2 * BIAS - 1 ? 2 * BIAS - 1 : power);
}

void tern_ref_round_row(tern_halves halves, const float *x, uint32_t cols, float *out)
{
    if (halves == TERN_HALVES_BF16) {
        for (uint32_t c = 0; c < cols; c++) out[c] = tern_bf16_to_f32(tern_f32_to_bf16(x[c]));
        return;
    }
    const uint32_t power = power_of(x, cols);
    const float by = tern_f32_from_bits(power << 23), back = tern_f32_from_bits((254 - power) << 23);
    for (uint32_t c = 0; c < cols; c++) out[c] = tern_f16_to_f32(tern_f32_to_f16(x[c] * by)) * back;
}

void tern_ref_round_weights(tern_halves halves, float *w, uint32_t cols)
{
    if (halves == TERN_HALVES_BF16) return;
    for (uint32_t c = 0; c < cols; c++) w[c] = tern_f16_to_f32(tern_f32_to_f16(w[c]));
}
