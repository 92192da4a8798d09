/* The metadata and the tensor list of the GGUF files that we write. */
#include <stdio.h>
#include <string.h>

#include "format/gguf.h"
#include "model/write/export_internal.h"
#include "quant/encoding.h"
#include "quant/mix.h"

static const struct {
    tern_encoding_id encoding;
    uint32_t file_type;
} file_types[] = {
#define FILE_TYPE(name, NAME, id, file_type) {TERN_ENC_##NAME, file_type},
    TERN_ENCODING_LIST(FILE_TYPE)
#undef FILE_TYPE
};

uint32_t tern_export__file_type(const tern_export_options *options, const tern_encoding *kept)
{
    const tern_encoding *e = options->linear ? options->linear : kept;
    if (options->mix) return options->mix->file_type;
    for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++)
        if (file_types[i].encoding == e->id) return file_types[i].file_type;
    return 0;
}

static tern_status add_text(tern_gguf_writer *w, const char *key, const char *text, tern_error *err)
{
    return tern_gguf_add_string(w, key, text, strlen(text), err);
}

static tern_status add_general(const tern_config *c, uint32_t file_type, tern_gguf_writer *w, tern_error *err)
{
    TERN_TRY(add_text(w, "general.architecture", c->architecture, err));
    TERN_TRY(add_text(w, "general.type", "model", err));
    TERN_TRY(add_text(w, "general.name", c->name, err));
    TERN_TRY(tern_gguf_add_u32(w, "general.file_type", file_type, err));
    return tern_gguf_add_u32(w, "general.quantization_version", 2, err);
}

static tern_status add_dimensions(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    const struct {
        const char *key;
        uint32_t value;
    } rows[] = {
        {"vocab_size", c->n_vocab},
        {"context_length", c->n_ctx_train},
        {"embedding_length", c->n_embd},
        {"block_count", c->n_layers + c->n_mtp},
        {"attention.head_count", c->n_heads},
        {"attention.head_count_kv", c->n_kv_heads},
        {"attention.key_length", c->head_dim},
        {"attention.value_length", c->head_dim},
        {"rope.dimension_count", tern_config_rope_dim(c)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", c->architecture, rows[i].key);
        TERN_TRY(tern_gguf_add_u32(w, key, rows[i].value, err));
    }
    return TERN_OK;
}

static tern_status add_f32(const tern_config *c, const char *name, float value, tern_gguf_writer *w, tern_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", c->architecture, name);
    return tern_gguf_add_f32(w, key, value, err);
}

static tern_status add_u32(const tern_config *c, const char *name, uint32_t value, tern_gguf_writer *w, tern_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", c->architecture, name);
    return tern_gguf_add_u32(w, key, value, err);
}

static tern_status add_factors(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    if (!tern_family__find(c->architecture)->multipliers) return TERN_OK;
    if (c->embd_scale > 0) TERN_TRY(add_f32(c, "embedding_scale", c->embd_scale, w, err));
    if (c->residual_scale > 0) TERN_TRY(add_f32(c, "residual_scale", c->residual_scale, w, err));
    return c->logit_scale > 0 ? add_f32(c, "logit_scale", c->logit_scale, w, err) : TERN_OK;
}

/* Whether each layer has a window. */
static tern_status add_window_layers(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    char key[96];
    uint8_t each[TERN_MAX_LAYERS];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", c->architecture);
    for (uint32_t i = 0; i < c->n_layers; i++) each[i] = tern_config_layer(c, i).window > 0;
    return tern_gguf_add_array(w, key, TERN_GGUF_BOOL, each, c->n_layers, err);
}

/* Keys that only some models have. Where a family has a value of its own, 0 is written as well. */
static tern_status add_scores(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    const tern_family *family = tern_family__find(c->architecture);
    /* llama.cpp tells Phi-4 from Phi-3 by a window of 0 */
    if (c->window || family->any_window) TERN_TRY(add_u32(c, "attention.sliding_window", c->window, w, err));
    if (family->plain_full) TERN_TRY(add_window_layers(c, w, err));
    else if (c->full_period != family->full_period)
        TERN_TRY(add_u32(c, "attention.sliding_window_pattern", c->full_period, w, err));
    if (c->pooling) TERN_TRY(add_u32(c, "pooling_type", (uint32_t)c->pooling, w, err));
    if (c->score_scale > 0) TERN_TRY(add_f32(c, "attention.scale", c->score_scale, w, err));
    if (c->score_softcap > 0 || family->score_softcap > 0)
        TERN_TRY(add_f32(c, "attn_logit_softcapping", c->score_softcap, w, err));
    if (c->logit_softcap > 0 || family->logit_softcap > 0)
        TERN_TRY(add_f32(c, "final_logit_softcapping", c->logit_softcap, w, err));
    return TERN_OK;
}

/* Keys of layers that recur, by llama.cpp's names for state space models; for text the sections of a head's pairs are
 * alike. */
static tern_status add_recurrence(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    const tern_recurrence *r = &c->recurrence;
    const uint32_t pairs = tern_config_rope_dim(c) / 2;
    const uint32_t sections[] = {pairs - pairs / 3 - pairs / 3, pairs / 3, pairs / 3, 0};
    char key[96];
    uint8_t each[TERN_MAX_LAYERS + 1] = {0}, numbers[sizeof sections];
    if (!r->n_heads) return TERN_OK;
    if (c->n_mtp) TERN_TRY(add_u32(c, "nextn_predict_layers", c->n_mtp, w, err));
    TERN_TRY(add_u32(c, "ssm.conv_kernel", r->n_taps, w, err));
    TERN_TRY(add_u32(c, "ssm.state_size", r->key_dim, w, err));
    TERN_TRY(add_u32(c, "ssm.group_count", r->n_key_heads, w, err));
    TERN_TRY(add_u32(c, "ssm.time_step_rank", r->n_heads, w, err));
    TERN_TRY(add_u32(c, "ssm.inner_size", r->n_heads * r->value_dim, w, err));
    if (c->n_ff_shared) TERN_TRY(add_u32(c, "expert_shared_feed_forward_length", c->n_ff_shared, w, err));
    for (uint32_t i = 0; i < 4; i++) tern_store_u32(numbers + 4 * i, sections[i]);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", c->architecture);
    if (!r->joint_rates) TERN_TRY(tern_gguf_add_array(w, key, TERN_GGUF_I32, numbers, 4, err));
    for (uint32_t i = 0; i < c->n_layers; i++) each[i] = r->layers[i];
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", c->architecture);
    return tern_gguf_add_array(w, key, TERN_GGUF_BOOL, each, c->n_layers + c->n_mtp, err);
}

/* The value of each layer, as llama.cpp has it. */
static tern_status add_limits(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    char key[96];
    uint8_t each[TERN_MAX_LAYERS * sizeof(float)];
    snprintf(key, sizeof key, "%s.swiglu_clamp_exp", c->architecture);
    for (uint32_t i = 0; i < c->n_layers; i++) tern_store_f32(each + i * sizeof(float), c->ffn_limit);
    return tern_gguf_add_array(w, key, TERN_GGUF_F32, each, c->n_layers, err);
}

/* llama.cpp's files of Mixtral have one length; those of other families name an expert's. */
static tern_status add_experts(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    const tern_family *family = tern_family__find(c->architecture);
    if (!c->n_experts) return TERN_OK;
    TERN_TRY(add_u32(c, "expert_count", c->n_experts, w, err));
    TERN_TRY(add_u32(c, "expert_used_count", c->n_experts_used, w, err));
    if (family->experts == TERN_EXPERTS_ALL) TERN_TRY(add_u32(c, "expert_feed_forward_length", c->n_ff, w, err));
    if (c->route_rule == TERN_ROUTE_SOFTMAX_ALL) {
        char key[96];
        snprintf(key, sizeof key, "%s.expert_weights_norm", c->architecture);
        TERN_TRY(tern_gguf_add_bool(w, key, false, err));
    }
    if (c->activation == TERN_ACT_SWIGLU_CLAMPED) return add_limits(c, w, err);
    return c->ffn_limit == family->ffn_limit ? TERN_OK
                                             : tern_gguf_add_f32(w, TERN_MODEL__SWIGLU_LIMIT, c->ffn_limit, err);
}

/* One number, or where layers differ one for each. */
static tern_status add_feed_forward(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    char key[96];
    uint8_t each[TERN_MAX_LAYERS * sizeof(uint32_t)];
    snprintf(key, sizeof key, "%s.feed_forward_length", c->architecture);
    if (!c->layer_n_ff[0]) return tern_gguf_add_u32(w, key, c->n_ff, err);
    for (uint32_t i = 0; i < c->n_layers; i++) tern_store_u32(each + i * sizeof(uint32_t), c->layer_n_ff[i]);
    return tern_gguf_add_array(w, key, TERN_GGUF_U32, each, c->n_layers, err);
}

static tern_status add_scaling_type(const tern_config *c, const char *type, tern_gguf_writer *w, tern_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.rope.scaling.type", c->architecture);
    TERN_TRY(add_text(w, key, type, err));
    return add_f32(c, "rope.scaling.factor", c->rope[0].factor, w, err);
}

static tern_status add_yarn(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    const tern_rope *r = &c->rope[0];
    const float usual = tern_yarn_size(r->factor, 1.0f);
    TERN_TRY(add_scaling_type(c, "yarn", w, err));
    TERN_TRY(add_u32(c, "rope.scaling.original_context_length", r->original_ctx, w, err));
    if (r->beta_fast != 32.0f) TERN_TRY(add_f32(c, "rope.scaling.yarn_beta_fast", r->beta_fast, w, err));
    if (r->beta_slow != 1.0f) TERN_TRY(add_f32(c, "rope.scaling.yarn_beta_slow", r->beta_slow, w, err));
    if (r->size != usual) TERN_TRY(add_f32(c, "rope.scaling.attn_factor", r->size / usual, w, err));
    if (r->truncate == !tern_family__find(c->architecture)->yarn_between) return TERN_OK;
    return tern_gguf_add_bool(w, TERN_MODEL__YARN_TRUNCATE, r->truncate, err);
}

static tern_status add_rope(const tern_config *c, tern_gguf_writer *w, tern_error *err)
{
    TERN_TRY(add_f32(c, "rope.freq_base", c->rope[0].base, w, err));
    if (c->rope[1].base > 0) TERN_TRY(add_f32(c, "rope.freq_base_swa", c->rope[1].base, w, err));
    if (c->rope[0].scaling == TERN_ROPE_LONG) {
        TERN_TRY(add_u32(c, "rope.scaling.original_context_length", c->rope[0].original_ctx, w, err));
        return add_f32(c, "rope.scaling.attn_factor", c->rope[0].size, w, err);
    }
    if (c->rope[0].scaling == TERN_ROPE_YARN) return add_yarn(c, w, err);
    return c->rope[0].scaling == TERN_ROPE_LINEAR ? add_scaling_type(c, "linear", w, err) : TERN_OK;
}

tern_status tern_export__config(const tern_config *config, uint32_t file_type, tern_gguf_writer *w, tern_error *err)
{
    TERN_TRY(add_general(config, file_type, w, err));
    TERN_TRY(add_dimensions(config, w, err));
    TERN_TRY(add_feed_forward(config, w, err));
    TERN_TRY(add_experts(config, w, err));
    TERN_TRY(add_recurrence(config, w, err));
    TERN_TRY(add_f32(config, "attention.layer_norm_rms_epsilon", config->rms_eps, w, err));
    TERN_TRY(add_scores(config, w, err));
    TERN_TRY(add_factors(config, w, err));
    if (config->bit_linear && !tern_family__find(config->architecture)->ternary)
        TERN_TRY(add_text(w, TERN_MODEL__ACTIVATIONS, "int8", err));
    return add_rope(config, w, err);
}

tern_status tern_export__tensor(tern_gguf_writer *w, tern_role role, uint32_t layer, const tern_config *config,
                                const tern_encoding *e, bool joined, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES];
    uint32_t rows, cols;
    tern_joint joint;
    tern_role__gguf_name(config, role, layer, name);
    tern_role__shape(role, layer, config, &rows, &cols);
    if (joined && tern_role__joint(config, role, layer, &joint)) {
        if (role != joint.first) return TERN_OK;
        memcpy(name, joint.gguf, sizeof name);
        rows = joint.rows;
    }
    uint64_t dims[3] = {cols, rows, 0};
    uint32_t n_dims = (tern_role_is_vector(role) || role == TERN_ROLE_ROUTER_SHEXP) && rows == 1 ? 1 : 2;
    if (tern_role__kind(role) == TERN_KIND_E) {
        n_dims = 3;
        dims[1] = tern_role__expert_rows(config, role, layer);
        dims[2] = config->n_experts;
    }
    if (tern_role__kind(role) == TERN_KIND_F) n_dims = 2;
    return tern_gguf_add_tensor(w, name, (uint32_t)e->id, dims, n_dims, err);
}
