/* The inverse frequencies of rotary position embedding, with the scalings that published models use. */
#include <math.h>

#include "model/model.h"

/* Meta's rule for LLaMA 3: long waves are slowed by `factor`, short ones kept, those between blended.
 * Source: transformers modeling_rope_utils, _compute_llama3_parameters; the same f32 steps. */
static float llama3_frequency(const tern_config *c, float freq)
{
    double original = c->rope_original_ctx;
    float low_wavelength = (float)(original / (double)c->rope_low_freq_factor);
    float high_wavelength = (float)(original / (double)c->rope_high_freq_factor);
    float wavelength = 6.283185307179586f / freq;
    float scaled = wavelength > low_wavelength ? freq / c->rope_factor : freq;
    if (wavelength < high_wavelength || wavelength > low_wavelength) return scaled;
    float smooth =
        ((float)original / wavelength - c->rope_low_freq_factor) / (c->rope_high_freq_factor - c->rope_low_freq_factor);
    return (1.0f - smooth) * scaled / c->rope_factor + smooth * scaled;
}

void tern_config_rope_frequencies(const tern_config *config, float *freq)
{
    for (uint32_t i = 0; i < config->head_dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)config->head_dim;
        float f = 1.0f / (float)pow((double)config->rope_base, (double)exponent);
        if (config->rope_scaling == TERN_ROPE_LINEAR) f /= config->rope_factor;
        if (config->rope_scaling == TERN_ROPE_LLAMA3) f = llama3_frequency(config, f);
        freq[i] = config->rope_factors ? f / config->rope_factors[i] : f;
    }
}
