/* Experts, from GGUF metadata. Keys: llama.cpp's (src/llama-arch.cpp). */
#include "model/config/gguf_internal.h"

/* Features that the graph does not have. */
static tern_status refuse_extras(const tern_config *config, const tern_gguf *g, tern_error *err)
{
    static const struct {
        const char *key;
        uint32_t most;
    } rows[] = {{"expert_shared_count", 0},
                {"expert_group_count", 1},
                {"leading_dense_block_count", 0},
                {"interleave_moe_layer_step", 1}};
    float scale = 1.0f;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t found = 0;
        TERN_TRY(tern_config__maybe_u32(config, g, rows[i].key, &found, err));
        if (found > rows[i].most)
            return tern_fail(err, TERN_UNSUPPORTED, "%s: %u found, at most %u expected",
                             tern_config__key(config, rows[i].key).text, found, rows[i].most);
    }
    TERN_TRY(tern_config__maybe_f32(config, g, "expert_weights_scale", &scale, err));
    if (scale == 1.0f || scale == 0.0f) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %g found, 1 expected",
                     tern_config__key(config, "expert_weights_scale").text, (double)scale);
}

/* llama.cpp's numbers: 1 softmax over all, 3 over those chosen. Its families have a default of their own. */
static tern_status read_rule(tern_config *config, const tern_family *family, const tern_gguf *g, tern_error *err)
{
    enum { SOFTMAX = 1, SOFTMAX_CHOSEN = 3 };
    const bool of_chosen = config->route_rule == TERN_ROUTE_SOFTMAX_TOP;
    const uint32_t wanted = of_chosen ? SOFTMAX_CHOSEN : SOFTMAX;
    uint32_t found = wanted;
    bool normed = config->route_rule == TERN_ROUTE_SOFTMAX_ALL_NORMED;
    TERN_TRY(tern_config__maybe_u32(config, g, "expert_gating_func", &found, err));
    if (found != wanted && found != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %u found, %u expected",
                         tern_config__key(config, "expert_gating_func").text, found, wanted);
    TERN_TRY_OPTIONAL(tern_gguf_get_bool(g, tern_config__key(config, "expert_weights_norm").text, &normed, err));
    if (family->route_normed && !normed)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: false found, true expected",
                         tern_config__key(config, "expert_weights_norm").text);
    if (!of_chosen) config->route_rule = normed ? TERN_ROUTE_SOFTMAX_ALL_NORMED : TERN_ROUTE_SOFTMAX_ALL;
    return TERN_OK;
}

/* The value must be the same in all layers; one number stands for all. llama.cpp has 7 where a file does not say, as
 * its family does. */
static tern_status read_limits(tern_config *config, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_key key = tern_config__key(config, "swiglu_clamp_exp");
    const tern_gguf_kv *kv = tern_gguf_find(g, key.text);
    if (!kv) return TERN_OK;
    if (kv->kind != TERN_GGUF_ARRAY) return tern_gguf_get_f32(g, key.text, &config->ffn_limit, err);
    TERN_TRY(tern_gguf_get_array(g, key.text, TERN_GGUF_F32, &kv, err));
    if (kv->count != config->n_layers || kv->count == 0)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu numbers found, one for each of %u layers expected", key.text,
                         (unsigned long long)kv->count, config->n_layers);
    config->ffn_limit = tern_load_f32(kv->value.data);
    for (uint32_t i = 1; i < config->n_layers; i++) {
        const float limit = tern_load_f32(kv->value.data + i * sizeof(float));
        if (!(limit == config->ffn_limit))
            return tern_fail(err, TERN_UNSUPPORTED, "%s: %g in layer 0 and %g in layer %u found, one number expected",
                             key.text, (double)config->ffn_limit, (double)limit, i);
    }
    return TERN_OK;
}

static tern_status read_all(tern_config *config, const tern_family *family, const tern_gguf *g, tern_error *err)
{
    if (config->layer_n_ff[0])
        return tern_fail(err, TERN_UNSUPPORTED, "%s: several numbers found, one expected beside experts",
                         tern_config__key(config, "feed_forward_length").text);
    TERN_TRY(tern_gguf_get_u32(g, tern_config__key(config, "expert_used_count").text, &config->n_experts_used, err));
    TERN_TRY(tern_config__maybe_u32(config, g, "expert_feed_forward_length", &config->n_ff, err));
    if (config->activation == TERN_ACT_SWIGLU_CLAMPED) TERN_TRY(read_limits(config, g, err));
    else TERN_TRY_OPTIONAL(tern_gguf_get_f32(g, TERN_MODEL__SWIGLU_LIMIT, &config->ffn_limit, err));
    TERN_TRY(read_rule(config, family, g, err));
    return refuse_extras(config, g, err);
}

tern_status tern_config__experts_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *g,
                                           tern_error *err)
{
    uint32_t *n = &config->n_experts;
    TERN_TRY(tern_config__maybe_u32(config, g, "expert_count", n, err));
    if (*n && family->experts == TERN_EXPERTS_NONE)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %u found, 0 expected",
                         tern_config__key(config, "expert_count").text, *n);
    if (!*n && family->experts == TERN_EXPERTS_ALL)
        return tern_fail(err, TERN_LIMIT, "%s: 0 found, 1 to %d expected",
                         tern_config__key(config, "expert_count").text, TERN_MAX_EXPERTS);
    return *n ? read_all(config, family, g, err) : TERN_OK;
}
