/* Factors of sums and scores, and layers without RoPE, from Hugging Face's config.json. */
#include <math.h>

#include "model/model_internal.h"

/* 1 is held as 0: nothing. */
static tern_status read_factor(const json_t *root, const char *key, float *out, tern_error *err)
{
    float value = 1.0f;
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, key, &value, err));
    if (!(value > 0.0f && isfinite(value)))
        return tern_fail(err, TERN_MALFORMED, "%s: %g found, a positive number expected", key, (double)value);
    *out = value == 1.0f ? 0.0f : value;
    return TERN_OK;
}

/* transformers' GraniteConfig: all are 1 by default, that of scores too. */
static tern_status read_factors(tern_config *config, const json_t *root, tern_error *err)
{
    TERN_TRY(read_factor(root, "embedding_multiplier", &config->embd_scale, err));
    TERN_TRY(read_factor(root, "residual_multiplier", &config->residual_scale, err));
    TERN_TRY(read_factor(root, "logits_scaling", &config->logit_scale, err));
    TERN_TRY(read_factor(root, "attention_multiplier", &config->score_scale, err));
    if (config->score_scale == 0) config->score_scale = 1.0f;
    return TERN_OK;
}

/* "no_rope_layers" has a number for each layer: 1 where it has RoPE. GGUF files cannot say it: llama.cpp knows the
 * family's layers. */
static tern_status read_plain_layers(const tern_config *config, const json_t *root, tern_error *err)
{
    const json_t *list = NULL;
    uint32_t period = config->plain_period;
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, "no_rope_layer_interval", &period, err));
    TERN_TRY_OPTIONAL(tern_json_get_array(root, "no_rope_layers", &list, err));
    if (!list && period != config->plain_period)
        return tern_fail(err, TERN_UNSUPPORTED, "no_rope_layer_interval: %u found, %u expected", period,
                         config->plain_period);
    if (list && json_array_size(list) != config->n_layers)
        return tern_fail(err, TERN_MALFORMED, "no_rope_layers: %zu found, one for each of %u layers expected",
                         json_array_size(list), config->n_layers);
    for (uint32_t i = 0; list && i < config->n_layers; i++) {
        int64_t found = -1;
        const int64_t wanted = !tern_config_layer(config, i).plain;
        if (tern_json_int(json_array_get(list, i), &found) && found == wanted) continue;
        return tern_fail(
            err, TERN_UNSUPPORTED, "no_rope_layers: %s %lld found at %u, %lld expected (0 only in every %u-th layer)",
            tern_json_kind(json_array_get(list, i)), (long long)found, i, (long long)wanted, config->plain_period);
    }
    return TERN_OK;
}

tern_status tern_config__factors_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                         tern_error *err)
{
    if (family->multipliers) TERN_TRY(read_factors(config, root, err));
    return family->plain_period ? read_plain_layers(config, root, err) : TERN_OK;
}
