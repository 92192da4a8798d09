/* A configuration from GGUF metadata. */
#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "format/gguf.h"
#include "model/config/gguf_internal.h"

tern_gguf_key tern_config__key(const tern_config *config, const char *key)
{
    tern_gguf_key k;
    snprintf(k.text, sizeof k.text, "%s.%s", config->architecture, key);
    return k;
}

tern_status tern_config__need_u32(const tern_config *config, const tern_gguf *g, const char *key, uint32_t *out,
                                  tern_error *err)
{
    return tern_gguf_get_u32(g, tern_config__key(config, key).text, out, err);
}

tern_status tern_config__maybe_u32(const tern_config *config, const tern_gguf *g, const char *key, uint32_t *out,
                                   tern_error *err)
{
    TERN_TRY_OPTIONAL(tern_config__need_u32(config, g, key, out, err));
    return TERN_OK;
}

tern_status tern_config__maybe_f32(const tern_config *config, const tern_gguf *g, const char *key, float *out,
                                   tern_error *err)
{
    TERN_TRY_OPTIONAL(tern_gguf_get_f32(g, tern_config__key(config, key).text, out, err));
    return TERN_OK;
}

static tern_status read_family(tern_config *config, const tern_gguf *g, const tern_family **out, tern_error *err)
{
    tern_span word = {0}, type = {0};
    TERN_TRY_OPTIONAL(tern_gguf_get_string(g, "general.type", &type, err));
    if (tern_model__says(type, "adapter")) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s", TERN_MODEL__IS_ADAPTER);
    TERN_TRY(tern_gguf_get_string(g, "general.architecture", &word, err));
    if (word.size < sizeof config->architecture) memcpy(config->architecture, word.data, word.size);
    const tern_family *family = tern_family__find(config->architecture);
    if (!family || strlen(config->architecture) != word.size)
        return tern_fail(err, TERN_UNSUPPORTED, "general.architecture: \"%s\" found, %s expected", tern_show(word).text,
                         tern_family__list());
    *out = family;
    tern_family__set(config, family);
    config->rope_adjacent = family->rope_adjacent;
    return TERN_OK;
}

/* The vocabulary's size is a key of its own, else the number of rows of the embedding table. */
static tern_status read_vocabulary(tern_config *config, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_tensor *table = tern_gguf_find_tensor(g, "token_embd.weight");
    if (!table)
        return tern_fail(err, TERN_MALFORMED, "token_embd.weight: no such tensor found, the embedding table expected");
    config->n_vocab = table->rows < UINT32_MAX ? (uint32_t)table->rows : UINT32_MAX;
    return tern_config__maybe_u32(config, g, "vocab_size", &config->n_vocab, err);
}

/* The length of a head is attention.key_length, else embedding length / heads. */
static tern_status read_head_dim(tern_config *config, const tern_gguf *g, tern_error *err)
{
    if (config->n_heads == 0)
        return tern_fail(err, TERN_MALFORMED, "attention.head_count: 0 found, at least 1 expected");
    config->head_dim = config->n_embd / config->n_heads;
    TERN_TRY(tern_config__maybe_u32(config, g, "attention.key_length", &config->head_dim, err));
    uint32_t value_length = config->head_dim, rotated = config->head_dim;
    TERN_TRY(tern_config__maybe_u32(config, g, "attention.value_length", &value_length, err));
    TERN_TRY(tern_config__maybe_u32(config, g, "rope.dimension_count", &rotated, err));
    if (value_length != config->head_dim)
        return tern_fail(err, TERN_UNSUPPORTED, "attention.value_length: %u found, the key length %u expected",
                         value_length, config->head_dim);
    if (!config->rope_adjacent && rotated < config->head_dim) config->rope_dim = rotated;
    if (rotated > config->head_dim || (rotated == 0 && config->head_dim) ||
        (config->rope_adjacent && rotated != config->head_dim))
        return tern_fail(err, TERN_UNSUPPORTED, "rope.dimension_count: %u found, the head dimension %u expected",
                         rotated, config->head_dim);
    return TERN_OK;
}

/* Some keys are one number, or an array of one for each layer. An array goes to each[n_layers]; *is_array tells. */
static tern_status each_u32(const tern_gguf *g, const tern_config *config, const char *name, uint32_t *out,
                            uint32_t each[TERN_MAX_LAYERS], bool *is_array, tern_error *err)
{
    const tern_gguf_key key = tern_config__key(config, name);
    const tern_gguf_kv *kv = tern_gguf_find(g, key.text);
    *is_array = kv && kv->kind == TERN_GGUF_ARRAY;
    if (!*is_array) return tern_gguf_get_u32(g, key.text, out, err);
    if (kv->element == TERN_GGUF_STRING || kv->element == TERN_GGUF_ARRAY || kv->element == TERN_GGUF_BOOL ||
        kv->element == TERN_GGUF_F32 || kv->element == TERN_GGUF_F64)
        return tern_fail(err, TERN_MALFORMED, "%s: array of %s found, of integers expected", key.text,
                         tern_gguf_kind_name(kv->element));
    if (kv->count != config->n_layers || kv->count > TERN_MAX_LAYERS)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu numbers found, one for each of %u layers (at most %d) expected",
                         key.text, (unsigned long long)kv->count, config->n_layers, TERN_MAX_LAYERS);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const int64_t value = tern_gguf_array_int(kv, i);
        if (value < 1 || value > TERN_MODEL__MAX_DIM)
            return tern_fail(err, TERN_LIMIT, "%s: %lld found in layer %u, 1 to %d expected", key.text,
                             (long long)value, i, TERN_MODEL__MAX_DIM);
        each[i] = (uint32_t)value;
    }
    return TERN_OK;
}

/* Keys that all layers have alike. */
static tern_status same_u32(const tern_gguf *g, const tern_config *config, const char *name, uint32_t *out,
                            tern_error *err)
{
    uint32_t each[TERN_MAX_LAYERS];
    bool is_array = false;
    TERN_TRY(each_u32(g, config, name, out, each, &is_array, err));
    for (uint32_t i = 1; is_array && i < config->n_layers; i++)
        if (each[i] != each[0])
            return tern_fail(err, TERN_UNSUPPORTED, "%s: %u in layer 0 and %u in layer %u found, one number expected",
                             tern_config__key(config, name).text, each[0], each[i], i);
    if (is_array && config->n_layers) *out = each[0];
    return TERN_OK;
}

static tern_status read_feed_forward(tern_config *config, const tern_gguf *g, tern_error *err)
{
    uint32_t each[TERN_MAX_LAYERS];
    bool is_array = false;
    TERN_TRY(each_u32(g, config, "feed_forward_length", &config->n_ff, each, &is_array, err));
    if (is_array) tern_config__set_feed_forward(config, each);
    return TERN_OK;
}

/* Blocks behind the last layer that draft tokens (llama.cpp's nextn_predict_layers) are none of the model's layers. */
static tern_status leave_out_drafting_blocks(tern_config *config, const tern_family *family, const tern_gguf *g,
                                             tern_error *err)
{
    uint32_t n = 0;
    if (!family->recurs) return TERN_OK;
    TERN_TRY(tern_config__maybe_u32(config, g, "nextn_predict_layers", &n, err));
    if (n < config->n_layers) config->n_layers -= n;
    else if (n)
        return tern_fail(err, TERN_MALFORMED, "%s: %u found, fewer than %u blocks expected",
                         tern_config__key(config, "nextn_predict_layers").text, n, config->n_layers);
    return TERN_OK;
}

static tern_status read_dimensions(tern_config *config, const tern_gguf *g, const tern_family *family, tern_error *err)
{
    TERN_TRY(read_vocabulary(config, g, err));
    TERN_TRY(tern_config__need_u32(config, g, "embedding_length", &config->n_embd, err));
    TERN_TRY(tern_config__need_u32(config, g, "block_count", &config->n_layers, err));
    TERN_TRY(leave_out_drafting_blocks(config, family, g, err));
    TERN_TRY(read_feed_forward(config, g, err));
    TERN_TRY(same_u32(g, config, "attention.head_count", &config->n_heads, err));
    config->n_kv_heads = config->n_heads;
    TERN_TRY_OPTIONAL(same_u32(g, config, "attention.head_count_kv", &config->n_kv_heads, err));
    config->n_ctx_train = family->n_ctx_train;
    if (family->n_ctx_train) TERN_TRY(tern_config__maybe_u32(config, g, "context_length", &config->n_ctx_train, err));
    else TERN_TRY(tern_config__need_u32(config, g, "context_length", &config->n_ctx_train, err));
    return read_head_dim(config, g, err);
}

/* Where a family may have biases, the first layer tells. */
static void read_biases(tern_config *config, const tern_gguf *g, const tern_family *family)
{
    if (!family->may_bias) return;
    config->qkv_bias = tern_gguf_find_tensor(g, "blk.0.attn_q.bias") != NULL;
    config->o_bias = tern_gguf_find_tensor(g, "blk.0.attn_output.bias") != NULL;
}

/* Granite's. Other families have none of these keys. */
static tern_status read_factors(tern_config *config, const tern_gguf *g, const tern_family *family, tern_error *err)
{
    if (!family->multipliers) return TERN_OK;
    TERN_TRY(tern_config__maybe_f32(config, g, "embedding_scale", &config->embd_scale, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "residual_scale", &config->residual_scale, err));
    return tern_config__maybe_f32(config, g, "logit_scale", &config->logit_scale, err);
}

/* Layers of a ternary family always have int8 inputs; of others the file says it. */
static tern_status read_activations(tern_config *config, const tern_gguf *g, const tern_family *family, tern_error *err)
{
    tern_span word = {0};
    config->bit_linear = family->ternary;
    TERN_TRY_OPTIONAL(tern_gguf_get_string(g, TERN_MODEL__ACTIVATIONS, &word, err));
    if (!word.data) return TERN_OK;
    if (!tern_model__says(word, "int8"))
        return tern_fail(err, TERN_UNSUPPORTED, TERN_MODEL__ACTIVATIONS ": \"%s\" found, int8 expected",
                         tern_show(word).text);
    config->bit_linear = true;
    return TERN_OK;
}

static tern_status read_name(tern_config *config, const tern_gguf *g, tern_error *err)
{
    tern_span name = {(const uint8_t *)config->architecture, strlen(config->architecture)};
    TERN_TRY_OPTIONAL(tern_gguf_get_string(g, "general.name", &name, err));
    tern_config__set_name(config, name);
    return TERN_OK;
}

tern_status tern_config__from_gguf(tern_config *config, const tern_gguf *g, tern_error *err)
{
    tern_config c = {.rms_eps = 1e-5f};
    const tern_family *family = NULL;
    TERN_TRY(read_family(&c, g, &family, err));
    TERN_TRY(read_dimensions(&c, g, family, err));
    read_biases(&c, g, family);
    TERN_TRY(tern_config__experts_from_gguf(&c, family, g, err));
    TERN_TRY(tern_config__recurrence_from_gguf(&c, family, g, err));
    TERN_TRY(tern_config__maybe_f32(&c, g, "attention.layer_norm_rms_epsilon", &c.rms_eps, err));
    TERN_TRY(tern_config__rope_from_gguf(&c, family, g, err));
    TERN_TRY(tern_config__scores_from_gguf(&c, family, g, err));
    TERN_TRY(read_factors(&c, g, family, err));
    TERN_TRY(tern_config__refuse_from_gguf(&c, family, g, err));
    TERN_TRY(read_name(&c, g, err));
    TERN_TRY(tern_config__pooling_from_gguf(&c, g, err));
    c.tied_head = !tern_gguf_find_tensor(g, "output.weight");
    TERN_TRY(read_activations(&c, g, family, err));
    c.sub_norms = family->needs_sub_norms || tern_gguf_find_tensor(g, "blk.0.attn_sub_norm.weight");
    c.linear_norms = tern_gguf_find_tensor(g, "blk.0.attn_q_norm_in.weight");
    tern_family__finish(&c, family);
    TERN_TRY(tern_config__check(&c, err));
    *config = c;
    return TERN_OK;
}
