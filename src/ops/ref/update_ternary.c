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
                               .factor = by_threshold ? 1 : tern_held_div(1, scale),
                               .bound = by_threshold ? tern_held_mul(threshold, scale) : 0.5f};
}

static int code_of(float w, tern_ternary_rule rule)
{
    const float v = tern_held(w) * rule.factor;
    return (v > rule.bound) - (v < -rule.bound);
}

void tern_ref_requantize_i2_s(const float *w, size_t n, tern_ternary_rule rule, uint8_t *packed)
{
    memset(packed, 0, n / 4);
    for (size_t i = 0; i < n; i++)
        packed[i / GROUP * 32 + i % 32] |= (uint8_t)((code_of(w[i], rule) + 1) << (6 - i % GROUP / 32 * 2));
}

void tern_ref_requantize_blend(const float *w, size_t n, tern_ternary_rule rule, float blend, float *out)
{
    for (size_t i = 0; i < n; i++) {
        const float wi = tern_held(w[i]), ternary = (float)code_of(wi, rule) * rule.scale;
        const float moved = tern_held_add(wi, tern_held_mul(blend, tern_held_sub(ternary, wi)));
        out[i] = blend >= 1 ? ternary : moved;
    }
}

void tern_ref_requantize_clamp(float *w, size_t n, float most)
{
    for (size_t i = 0; i < n; i++) {
        const float wi = tern_held(w[i]);
        w[i] = wi > most ? most : wi < -most ? -most : wi;
    }
}
