/* Layers that keep a state instead of keys and values, from both kinds of file. GGUF's keys: llama.cpp's
 * (src/llama-arch.cpp, src/models/qwen35.cpp). Hugging Face's: transformers' Qwen3NextConfig and Qwen3_5TextConfig. */
#include <string.h>

#include "base/show.h"
#include "model/config/gguf_internal.h"
#include "ops/ref/recurrent/recurrent.h"

enum { USUAL_PERIOD = 4, MAX_STATE_DIM = 512 };

/* All layers but every so-many-th. */
static void set_period(tern_config *config, uint32_t period)
{
    for (uint32_t i = 0; i < config->n_layers && i < TERN_MAX_LAYERS; i++)
        config->recurrence.layers[i] = period == 0 || (i + 1) % period != 0;
}

/* A flag for each layer, those of a block behind the last one included; without it every so-many-th attends. */
static tern_status layers_from_gguf(tern_config *config, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_key key = tern_config__key(config, "attention.recurrent_layers");
    const tern_gguf_kv *kv = tern_gguf_find(g, key.text);
    uint32_t period = USUAL_PERIOD;
    TERN_TRY(tern_config__maybe_u32(config, g, "full_attention_interval", &period, err));
    set_period(config, period);
    if (!kv) return TERN_OK;
    TERN_TRY(tern_gguf_get_array(g, key.text, TERN_GGUF_BOOL, &kv, err));
    if (kv->count < config->n_layers)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu found, one for each of %u layers expected", key.text,
                         (unsigned long long)kv->count, config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && i < TERN_MAX_LAYERS; i++)
        config->recurrence.layers[i] = kv->value.data[i] != 0;
    return TERN_OK;
}

tern_status tern_config__recurrence_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *g,
                                              tern_error *err)
{
    tern_recurrence *r = &config->recurrence;
    uint32_t inner = 0;
    if (!family->recurs) return TERN_OK;
    TERN_TRY(tern_config__need_u32(config, g, "ssm.conv_kernel", &r->n_taps, err));
    TERN_TRY(tern_config__need_u32(config, g, "ssm.state_size", &r->key_dim, err));
    TERN_TRY(tern_config__need_u32(config, g, "ssm.group_count", &r->n_key_heads, err));
    TERN_TRY(tern_config__need_u32(config, g, "ssm.time_step_rank", &r->n_heads, err));
    TERN_TRY(tern_config__need_u32(config, g, "ssm.inner_size", &inner, err));
    if (r->n_heads == 0 || inner % r->n_heads != 0)
        return tern_fail(err, TERN_MALFORMED, "%s: %u found, a multiple of ssm.time_step_rank = %u expected",
                         tern_config__key(config, "ssm.inner_size").text, inner, r->n_heads);
    r->value_dim = inner / r->n_heads;
    r->tiled = family->tiled_heads;
    r->joint_rates = family->joint_rates;
    if (family->shared_expert)
        TERN_TRY(tern_config__need_u32(config, g, "expert_shared_feed_forward_length", &config->n_ff_shared, err));
    return layers_from_gguf(config, g, err);
}

static tern_status read_types(tern_config *config, const json_t *types, tern_error *err)
{
    if (json_array_size(types) != config->n_layers || config->n_layers > TERN_MAX_LAYERS)
        return tern_fail(err, TERN_MALFORMED, "layer_types: %zu found, one for each of %u layers (at most %d) expected",
                         json_array_size(types), config->n_layers, TERN_MAX_LAYERS);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const char *word = json_string_value(json_array_get(types, i));
        config->recurrence.layers[i] = word && strcmp(word, "linear_attention") == 0;
        if (config->recurrence.layers[i] || (word && strcmp(word, "full_attention") == 0)) continue;
        return tern_fail(err, TERN_UNSUPPORTED,
                         "layer_types: %s found at %u, linear_attention or full_attention expected",
                         word ? tern_show_z(word).text : tern_json_kind(json_array_get(types, i)), i);
    }
    return TERN_OK;
}

static tern_status refuse_extras(const json_t *root, tern_error *err)
{
    bool gate = true;
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "attn_output_gate", &gate, err));
    return gate ? TERN_OK : tern_fail(err, TERN_UNSUPPORTED, "attn_output_gate: false found, true expected");
}

tern_status tern_config__recurrence_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                            tern_error *err)
{
    tern_recurrence *r = &config->recurrence;
    const json_t *types = NULL;
    uint32_t period = USUAL_PERIOD;
    if (!family->recurs) return TERN_OK;
    TERN_TRY(tern_json_get_u32(root, "linear_conv_kernel_dim", &r->n_taps, err));
    TERN_TRY(tern_json_get_u32(root, "linear_key_head_dim", &r->key_dim, err));
    TERN_TRY(tern_json_get_u32(root, "linear_value_head_dim", &r->value_dim, err));
    TERN_TRY(tern_json_get_u32(root, "linear_num_key_heads", &r->n_key_heads, err));
    TERN_TRY(tern_json_get_u32(root, "linear_num_value_heads", &r->n_heads, err));
    r->joint_rates = family->joint_rates;
    if (family->shared_expert)
        TERN_TRY(tern_json_get_u32(root, "shared_expert_intermediate_size", &config->n_ff_shared, err));
    TERN_TRY(refuse_extras(root, err));
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, "full_attention_interval", &period, err));
    set_period(config, period);
    TERN_TRY_OPTIONAL(tern_json_get_array(root, "layer_types", &types, err));
    return types ? read_types(config, types, err) : TERN_OK;
}

static tern_status check_range(const char *what, uint32_t value, uint32_t most, tern_error *err)
{
    if (value >= 1 && value <= most) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: %u found, 1 to %u expected", what, value, most);
}

tern_status tern_config__check_recurrence(const tern_config *config, tern_error *err)
{
    const tern_recurrence *r = &config->recurrence;
    bool any = false;
    for (uint32_t i = 0; i < config->n_layers; i++) any |= r->layers[i];
    if (!any) return TERN_OK;
    TERN_TRY(check_range("linear attention: heads of values", r->n_heads, TERN_MODEL__MAX_DIM, err));
    TERN_TRY(check_range("linear attention: heads of keys", r->n_key_heads, r->n_heads, err));
    TERN_TRY(check_range("linear attention: dimension of keys", r->key_dim, MAX_STATE_DIM, err));
    TERN_TRY(check_range("linear attention: dimension of values", r->value_dim, MAX_STATE_DIM, err));
    TERN_TRY(check_range("linear attention: taps of the convolution", r->n_taps, TERN_CONV_MAX_TAPS, err));
    if (config->n_experts && config->n_ff_shared)
        TERN_TRY(check_range("shared expert's feed-forward length", config->n_ff_shared, TERN_MODEL__MAX_DIM, err));
    const uint64_t width = (uint64_t)r->n_heads * r->value_dim + 2 * (uint64_t)r->n_key_heads * r->key_dim;
    if (width > TERN_MODEL__MAX_DIM)
        return tern_fail(err, TERN_LIMIT, "linear attention: %llu elements of q, k and v found, at most %d expected",
                         (unsigned long long)width, TERN_MODEL__MAX_DIM);
    if (r->n_heads % r->n_key_heads == 0 && r->value_dim % 8 == 0 && r->key_dim % 4 == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "linear attention: %u heads of %u values and %u of %u keys found, a whole ratio of heads, a "
                     "multiple of 8 values and of 4 keys expected",
                     r->n_heads, r->value_dim, r->n_key_heads, r->key_dim);
}
