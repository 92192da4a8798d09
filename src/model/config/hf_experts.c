/* Experts, from Hugging Face's config.json. */
#include <math.h>
#include <string.h>

#include "model/model_internal.h"

static const char *count_key(const json_t *root)
{
    return tern_json_has(root, "num_experts") ? "num_experts" : "num_local_experts";
}

/* Layers without experts among those with them, and experts of all tokens. */
static tern_status refuse_extras(const json_t *root, tern_error *err)
{
    uint32_t step = 1, shared = 0;
    const json_t *dense = NULL;
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, "decoder_sparse_step", &step, err));
    TERN_TRY_OPTIONAL(tern_json_get_array(root, "mlp_only_layers", &dense, err));
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, "num_shared_experts", &shared, err));
    if (shared) return tern_fail(err, TERN_UNSUPPORTED, "num_shared_experts: %u found, 0 expected", shared);
    if (step != 1)
        return tern_fail(err, TERN_UNSUPPORTED, "decoder_sparse_step: %u found, 1 expected (experts in every layer)",
                         step);
    if (json_array_size(dense))
        return tern_fail(err, TERN_UNSUPPORTED, "mlp_only_layers: %zu found, none expected (experts in every layer)",
                         json_array_size(dense));
    return TERN_OK;
}

static tern_status read_limit(tern_config *config, const json_t *root, tern_error *err)
{
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "swiglu_limit", &config->ffn_limit, err));
    return TERN_OK;
}

/* An expert's length, and whether the weights of those chosen sum to 1: not so by default in transformers'
 * Qwen3MoeConfig. */
static tern_status read_own(tern_config *config, const tern_family *family, const json_t *root, tern_error *err)
{
    bool normed = family->route_normed;
    TERN_TRY(tern_json_get_u32(root, "moe_intermediate_size", &config->n_ff, err));
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "norm_topk_prob", &normed, err));
    if (family->route_normed && !normed)
        return tern_fail(err, TERN_UNSUPPORTED, "norm_topk_prob: false found, true expected in models of %s",
                         config->architecture);
    config->route_rule = normed ? TERN_ROUTE_SOFTMAX_ALL_NORMED : TERN_ROUTE_SOFTMAX_ALL;
    return TERN_OK;
}

static tern_status refuse(const json_t *root, tern_error *err)
{
    const char *key = count_key(root);
    uint32_t n = 0;
    if (!tern_json_has(root, key)) return TERN_OK;
    TERN_TRY(tern_json_get_u32(root, key, &n, err));
    if (!n) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %u found, 0 expected in models of this class", key, n);
}

tern_status tern_config__experts_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                         tern_error *err)
{
    const char *class_name = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const bool mixtral = class_name && strcmp(class_name, "MixtralForCausalLM") == 0;
    const char *key = count_key(root);
    const char *used = tern_json_has(root, "experts_per_token") ? "experts_per_token" : "num_experts_per_tok";
    if (family->experts != TERN_EXPERTS_ALL && !mixtral) return refuse(root, err);
    TERN_TRY(tern_json_get_u32(root, key, &config->n_experts, err));
    TERN_TRY(tern_json_get_u32(root, used, &config->n_experts_used, err));
    if (!config->n_experts) return tern_fail(err, TERN_LIMIT, "%s: 0 found, 1 to %d expected", key, TERN_MAX_EXPERTS);
    if (config->layer_n_ff[0])
        return tern_fail(err, TERN_UNSUPPORTED, "intermediate_size: a list found, one number expected beside %s", key);
    TERN_TRY(refuse_extras(root, err));
    if (family->ffn_limit > 0) TERN_TRY(read_limit(config, root, err));
    return family->expert_ff ? read_own(config, family, root, err) : TERN_OK;
}
