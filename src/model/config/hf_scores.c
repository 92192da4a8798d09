/* How attention and the head make scores, from Hugging Face's config.json. */
#include <math.h>
#include <string.h>

#include "base/show.h"
#include "model/model_internal.h"

/* Classes that have the key, whose value counts only where `use_sliding_window` does not say otherwise. */
static tern_status read_window(tern_config *config, const tern_family *family, const json_t *root, tern_error *err)
{
    const char *first = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const bool mistral =
        first && (strcmp(first, "MistralForCausalLM") == 0 || strcmp(first, "MixtralForCausalLM") == 0);
    bool used = !family->window_switch;
    if (!tern_json_has(root, "sliding_window") && !family->plain_full) return TERN_OK;
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "use_sliding_window", &used, err));
    if (!used) return TERN_OK;
    if (family->window_switch)
        return tern_fail(err, TERN_UNSUPPORTED, "use_sliding_window: true found, false expected");
    if (!mistral && !family->full_period && !family->any_window)
        return tern_fail(err, TERN_UNSUPPORTED, "sliding_window: %s found, null expected",
                         tern_json_kind(json_object_get(root, "sliding_window")));
    TERN_TRY(tern_json_get_u32(root, "sliding_window", &config->window, err));
    if (config->window >= 1) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "sliding_window: 0 found, at least 1 or null expected");
}

/* Whether layer i of "layer_types" sees all positions. */
static tern_status read_type(const json_t *types, size_t i, bool *full, tern_error *err)
{
    const char *word = json_string_value(json_array_get(types, i));
    *full = word && strcmp(word, "full_attention") == 0;
    if (*full || (word && strcmp(word, "sliding_attention") == 0)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "layer_types: %s found at %zu, full_attention or sliding_attention expected",
                     word ? tern_show_z(word).text : tern_json_kind(json_array_get(types, i)), i);
}

/* "layer_types" has a word for each layer: every so-many-th sees all positions. */
static tern_status read_types(tern_config *config, const json_t *types, tern_error *err)
{
    const size_t n = json_array_size(types);
    bool full[TERN_MAX_LAYERS];
    uint32_t odd;
    if (n != config->n_layers || n > TERN_MAX_LAYERS)
        return tern_fail(err, TERN_MALFORMED, "layer_types: %zu found, one for each of %u layers (at most %d) expected",
                         n, config->n_layers, TERN_MAX_LAYERS);
    for (size_t i = 0; i < n; i++) TERN_TRY(read_type(types, i, &full[i], err));
    if (tern_config__set_full_layers(config, full, &odd)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "layer_types: %s found at %u, full_attention only in every %u-th layer expected",
                     full[odd] ? "full_attention" : "sliding_attention", odd, config->full_period);
}

static tern_status read_layers(tern_config *config, const tern_family *family, const json_t *root, tern_error *err)
{
    const json_t *types = NULL;
    config->full_period = family->full_period;
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, "sliding_window_pattern", &config->full_period, err));
    if (family->plain_full) TERN_TRY(tern_json_get_array(root, "layer_types", &types, err));
    else TERN_TRY_OPTIONAL(tern_json_get_array(root, "layer_types", &types, err));
    if (types && config->window) TERN_TRY(read_types(config, types, err));
    if (config->window || !family->plain_full) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "layer_types: no sliding_attention found, one expected in models of %s",
                     config->architecture);
}

/* 1 / sqrt(query_pre_attn_scalar) */
static tern_status read_scale(tern_config *config, const json_t *root, tern_error *err)
{
    float scalar = (float)config->head_dim;
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "query_pre_attn_scalar", &scalar, err));
    if (scalar == (float)config->head_dim) return TERN_OK;
    if (!(scalar > 0 && isfinite(scalar)))
        return tern_fail(err, TERN_MALFORMED, "query_pre_attn_scalar: %g found, a positive number expected",
                         (double)scalar);
    config->score_scale = 1.0f / sqrtf(scalar);
    return TERN_OK;
}

tern_status tern_config__scores_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                        tern_error *err)
{
    TERN_TRY(read_window(config, family, root, err));
    TERN_TRY(read_layers(config, family, root, err));
    TERN_TRY(read_scale(config, root, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "attn_logit_softcapping", &config->score_softcap, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "final_logit_softcapping", &config->logit_softcap, err));
    return TERN_OK;
}
