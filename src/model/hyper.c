/* The hyperparameters of a configuration: their names, kinds and places. */
#include "model/hyper.h"

#include <stddef.h>

#define AT(member)        offsetof(tern_config, member)
#define U32(member)       TERN_HYPER_U32, AT(member)
#define F32(member)       TERN_HYPER_F32, AT(member)
#define BOOL(member)      TERN_HYPER_BOOL, AT(member)
#define ALWAYS            .always = true
#define ALWAYS_AND_CACHED .always = true, .cached = true
#define CACHED            .cached = true

static const tern_hyper rows[] = {
    {"vocabulary", "vocabulary", "vocab_size", U32(n_vocab), ALWAYS_AND_CACHED},
    {"layers", "layers", "num_hidden_layers", U32(n_layers), ALWAYS_AND_CACHED},
    {"hidden", "embedding_length", "hidden_size", U32(n_embd), ALWAYS_AND_CACHED},
    {"feed_forward", "feed_forward_length", NULL, U32(n_ff), ALWAYS_AND_CACHED}, /* layers may differ */
    {"heads", "heads", "num_attention_heads", U32(n_heads), ALWAYS_AND_CACHED},
    {"kv_heads", "kv_heads", "num_key_value_heads", U32(n_kv_heads), ALWAYS_AND_CACHED},
    {"head_dim", "head_length", NULL, U32(head_dim), ALWAYS_AND_CACHED}, /* BitNet's classes derive it */
    {"context", "context_length", "max_position_embeddings", U32(n_ctx_train), ALWAYS},
    {"rms_eps", "rms_norm_eps", "rms_norm_eps", F32(rms_eps), ALWAYS_AND_CACHED},
    {"activation", "activation", NULL, TERN_HYPER_ACTIVATION, AT(activation), ALWAYS_AND_CACHED},
    {"int8_activations", "int8_activations", NULL, BOOL(bit_linear), CACHED},
    {"sub_norms", "sub_norms", NULL, BOOL(sub_norms), ALWAYS_AND_CACHED},
    {"tied_head", "tied_embeddings", "tie_word_embeddings", BOOL(tied_head), ALWAYS},
    {"rope_base", NULL, "rope_theta", F32(rope[0].base), ALWAYS_AND_CACHED},
    {"rope_factor", NULL, NULL, F32(rope[0].factor), CACHED},
    {"rope_original_context", NULL, NULL, U32(rope[0].original_ctx), CACHED},
    {"rope_attention_factor", NULL, NULL, F32(rope[0].size), CACHED},
    {"rope_dims", NULL, NULL, U32(rope_dim), CACHED},
    {"no_rope_every", NULL, NULL, U32(plain_period), CACHED},
    {"sliding_window", NULL, NULL, U32(window), CACHED},
    {"full_attention_every", NULL, NULL, U32(full_period), CACHED},
    {"rope_base_window", NULL, NULL, F32(rope[1].base), CACHED},
    {"attention_scale", NULL, NULL, F32(score_scale), CACHED},
    {"attention_softcap", NULL, NULL, F32(score_softcap), CACHED},
    {"logit_softcap", NULL, NULL, F32(logit_softcap), CACHED},
    {"embedding_scale", NULL, NULL, F32(embd_scale), CACHED},
    {"residual_scale", NULL, NULL, F32(residual_scale), CACHED},
    {"logit_scale", NULL, NULL, F32(logit_scale), CACHED},
    {"qk_norm", NULL, NULL, BOOL(qk_norm), CACHED},
    {"linear_norms", NULL, NULL, BOOL(linear_norms), CACHED},
    {"post_norms", NULL, NULL, BOOL(post_norms), CACHED},
    {"qkv_bias", NULL, NULL, BOOL(qkv_bias), CACHED},
    {"output_bias", NULL, NULL, BOOL(o_bias)},
    {"attention_sinks", NULL, NULL, BOOL(attn_sinks)},
    {"experts", NULL, NULL, U32(n_experts), CACHED},
    {"experts_used", NULL, NULL, U32(n_experts_used), CACHED},
    {"expert_bias", NULL, NULL, BOOL(expert_bias)},
    {"drafting_blocks", NULL, NULL, U32(n_mtp)},
};

const tern_hyper *tern_hyper_at(size_t i)
{
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

double tern_hyper_value(const tern_hyper *h, const tern_config *config)
{
    const void *at = (const char *)config + h->at;
    switch (h->kind) {
    case TERN_HYPER_U32: return *(const uint32_t *)at;
    case TERN_HYPER_F32: return (double)*(const float *)at;
    case TERN_HYPER_BOOL: return *(const bool *)at ? 1 : 0;
    case TERN_HYPER_ACTIVATION: return (double)*(const tern_activation *)at;
    }
    return 0;
}

json_t *tern_hyper_json(const tern_hyper *h, const tern_config *config)
{
    const double value = tern_hyper_value(h, config);
    switch (h->kind) {
    case TERN_HYPER_U32: return json_integer((json_int_t)value);
    case TERN_HYPER_F32: return json_real(value);
    case TERN_HYPER_BOOL: return json_boolean(value != 0);
    case TERN_HYPER_ACTIVATION: return json_string(tern_activation_name((tern_activation)value));
    }
    return json_null();
}
