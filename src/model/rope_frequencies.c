/* The inverse frequencies of rotary position embedding, with the scalings that published models use. */
#include <math.h>

#include "model/model.h"

/* Meta's rule for LLaMA 3: long waves are slowed by `factor`, short ones kept, those between blended.
 * Source: transformers modeling_rope_utils, _compute_llama3_parameters; the same f32 steps. */
static float llama3_frequency(const tern_rope *r, float freq)
{
    double original = r->original_ctx;
    float low_wavelength = (float)(original / (double)r->low_freq_factor);
    float high_wavelength = (float)(original / (double)r->high_freq_factor);
    float wavelength = 6.283185307179586f / freq;
    float scaled = wavelength > low_wavelength ? freq / r->factor : freq;
    if (wavelength < high_wavelength || wavelength > low_wavelength) return scaled;
    float smooth = ((float)original / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1.0f - smooth) * scaled / r->factor + smooth * scaled;
}

void tern_rope_frequencies(const tern_rope *rope, uint32_t head_dim, float *freq)
{
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)head_dim;
        float f = 1.0f / (float)pow((double)rope->base, (double)exponent);
        if (rope->scaling == TERN_ROPE_LINEAR) f /= rope->factor;
        if (rope->scaling == TERN_ROPE_LLAMA3) f = llama3_frequency(rope, f);
        freq[i] = rope->factors ? f / rope->factors[i] : f;
    }
}

void tern_rope_pairs(const tern_config *config, uint32_t which, uint32_t n_ctx, float *frequencies, float *sizes)
{
    const uint32_t turned = tern_config_rope_dim(config) / 2;
    tern_rope rope = config->rope[which];
    const bool long_rope = rope.scaling == TERN_ROPE_LONG;
    if (long_rope) rope.factors = n_ctx > rope.original_ctx ? config->long_factors : config->short_factors;
    tern_rope_frequencies(&rope, 2 * turned, frequencies);
    for (uint32_t i = 0; i < config->head_dim / 2; i++) {
        if (i >= turned) frequencies[i] = 0.0f;
        sizes[i] = i < turned && long_rope ? rope.size : 1.0f;
    }
}
