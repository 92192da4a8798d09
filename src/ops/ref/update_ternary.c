/* Requantisation of shadow weights to packed ternary codes. */
#include <math.h>
#include <string.h>

#include "ops/ref/update.h"
#include "quant/absmean.h"

enum { GROUP = 128 };

float tern_ref_absmean(const float *w, size_t n)
{
    return tern_absmean(w, n);
}

tern_ternary_rule tern_ref_ternary_rule(float scale, float threshold)
{
    const bool by_threshold = threshold > 0;
    return (tern_ternary_rule){.scale = scale,
                               .factor = by_threshold ? 1 : tern_flush_div(1, scale),
                               .bound = by_threshold ? tern_flush_mul(threshold, scale) : 0.5f};
}

static float master(tern_dtype dtype, const void *w, size_t i)
{
    return tern_flush(dtype == TERN_DTYPE_BF16 ? tern_bf16_to_f32(((const uint16_t *)w)[i]) : ((const float *)w)[i]);
}

static void cut(tern_dtype dtype, void *w, size_t i, float most)
{
    const float x = master(dtype, w, i), cut = x > most ? most : x < -most ? -most : x;
    if (dtype == TERN_DTYPE_BF16) ((uint16_t *)w)[i] = tern_f32_to_bf16(cut);
    else ((float *)w)[i] = cut;
}

uint32_t tern_ref_requantize_exponent(tern_dtype dtype, void *w, size_t n, float most)
{
    uint32_t exponent = 0;
    for (size_t i = 0; i < n; i++) {
        if (most > 0) cut(dtype, w, i, most);
        const float x = master(dtype, w, i);
        const uint32_t e = tern_absmean_exponent(&x, 1);
        exponent = e > exponent ? e : exponent;
    }
    return exponent;
}

uint64_t tern_ref_requantize_units(tern_dtype dtype, const void *w, size_t n, uint32_t exponent)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += tern_absmean_units(tern_f32_bits(master(dtype, w, i)), exponent);
    return sum;
}

static int code_of(float w, tern_ternary_rule rule)
{
    const float v = w * rule.factor;
    return (v > rule.bound) - (v < -rule.bound);
}

void tern_ref_requantize_codes(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, uint8_t *packed)
{
    const size_t n_groups = (n + GROUP - 1) / GROUP;
    memset(packed, 0, n_groups * 32);
    for (size_t i = 0; i < n_groups * GROUP; i++) {
        const int code = i < n ? code_of(master(dtype, w, i), rule) : 0;
        packed[i / GROUP * 32 + i % 32] |= (uint8_t)((code + 1) << (6 - i % GROUP / 32 * 2));
    }
}

void tern_ref_requantize_blend(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, float blend,
                               float *out)
{
    blend = tern_flush(blend);
    for (size_t i = 0; i < n; i++) {
        const float x = master(dtype, w, i), ternary = (float)code_of(x, rule) * rule.scale;
        const float moved = tern_flush_add(x, tern_flush_mul(blend, tern_flush_sub(ternary, x)));
        out[i] = blend >= 1 ? ternary : moved;
    }
}
