/* LongRoPE (arXiv:2402.13753) from Hugging Face's config.json: "longrope", or "su" as the first files spell it. */
#include <math.h>

#include "model/model_internal.h"

/* One positive number for each pair of dimensions that is turned. */
static tern_status read_factors(const json_t *rope, const char *key, uint32_t n, float *out, tern_error *err)
{
    const json_t *list = NULL;
    TERN_TRY(tern_json_get_array(rope, key, &list, err));
    if (json_array_size(list) != n || n > TERN_MAX_PAIRS)
        return tern_fail(err, TERN_MALFORMED, "%s: %zu found, one for each of %u pairs of dimensions expected", key,
                         json_array_size(list), n);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *found = json_array_get(list, i);
        out[i] = json_is_number(found) ? (float)json_number_value(found) : 0.0f;
        if (!(out[i] > 0.0f && isfinite(out[i])))
            return tern_fail(err, TERN_MALFORMED, "%s: %s %g found at %u, a positive number expected", key,
                             tern_json_kind(found), (double)out[i], i);
    }
    return TERN_OK;
}

/* Source: transformers modeling_rope_utils, _compute_longrope_parameters. */
static float size_of(const tern_config *c)
{
    const double original = c->rope[0].original_ctx, factor = (double)c->n_ctx_train / original;
    return factor > 1.0 && original > 1.0 ? (float)sqrt(1.0 + log(factor) / log(original)) : 1.0f;
}

tern_status tern_config__long_rope_from_hf(tern_config *config, const json_t *rope, const json_t *root, tern_error *err)
{
    static const char original[] = "original_max_position_embeddings";
    const uint32_t n = tern_config_rope_dim(config) / 2;
    tern_rope *out = &config->rope[0];
    out->original_ctx = config->n_ctx_train;
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, original, &out->original_ctx, err));
    TERN_TRY_OPTIONAL(tern_json_get_u32(rope, original, &out->original_ctx, err));
    if (out->original_ctx < 1)
        return tern_fail(err, TERN_MALFORMED, "%s: %u found, at least 1 expected", original, out->original_ctx);
    TERN_TRY(read_factors(rope, "long_factor", n, config->long_factors, err));
    TERN_TRY(read_factors(rope, "short_factor", n, config->short_factors, err));
    out->size = size_of(config);
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "attention_factor", &out->size, err));
    return TERN_OK;
}
