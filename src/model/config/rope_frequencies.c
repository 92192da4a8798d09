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

float tern_yarn_size(float factor, float share)
{
    return factor > 1.0f ? (float)(0.1 * (double)share * log((double)factor) + 1.0) : 1.0f;
}

/* The pair of dimensions, as a number between pairs, that turns so many times in the original context. */
static double yarn_pair(const tern_rope *r, uint32_t head_dim, float turns)
{
    const double waves = (double)r->original_ctx / ((double)turns * 2 * 3.141592653589793);
    return (double)head_dim * log(waves) / (2 * log((double)r->base));
}

/* Source: transformers modeling_rope_utils, _compute_yarn_parameters; the same f32 steps. */
static void yarn_frequencies(const tern_rope *r, uint32_t head_dim, float *freq)
{
    double low = yarn_pair(r, head_dim, r->beta_fast), high = yarn_pair(r, head_dim, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)head_dim - 1);
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        const float ramp = ((float)i - (float)low) / (float)(high - low);
        const float kept = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f), slow = 1.0f / (r->factor * (1.0f / freq[i]));
        freq[i] = slow * (1.0f - kept) + freq[i] * kept;
    }
}

void tern_rope_frequencies(const tern_rope *rope, uint32_t head_dim, float *freq)
{
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)head_dim;
        float f = 1.0f / (float)pow((double)rope->base, (double)exponent);
        if (rope->scaling == TERN_ROPE_LINEAR) f /= rope->factor;
        if (rope->scaling == TERN_ROPE_LLAMA3) f = llama3_frequency(rope, f);
        freq[i] = f;
    }
    if (rope->scaling == TERN_ROPE_YARN) yarn_frequencies(rope, head_dim, freq);
    for (uint32_t i = 0; rope->factors && i < head_dim / 2; i++) freq[i] /= rope->factors[i];
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
        sizes[i] = i < turned && (long_rope || rope.scaling == TERN_ROPE_YARN) ? rope.size : 1.0f;
    }
}
