/* A configuration as config.json of transformers. */
#include <math.h>

#include "model/hyper.h"
#include "model/model_internal.h"
#include "model/write/hf_internal.h"
#include "text/tokenizer/tokenizer.h"

/* Weights and inputs of the linear layers are quantised. */
static bool is_ternary(const tern_config *c)
{
    const tern_family *family = tern_family__find(c->architecture);
    return c->bit_linear || (family && family->ternary);
}

/* A float as people write it: the shortest decimal that reads back to it. */
static json_t *number(float value)
{
    char text[32];
    for (int digits = 6; digits < 10; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return json_real(strtod(text, NULL));
}

static json_t *factors(const float *values, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, number(values[i]));
    return list;
}

static void add_long_rope(json_t *out, const tern_config *c)
{
    const uint32_t n = tern_config_rope_dim(c) / 2;
    json_object_set_new(out, "long_factor", factors(c->long_factors, n));
    json_object_set_new(out, "short_factor", factors(c->short_factors, n));
    json_object_set_new(out, "attention_factor", number(c->rope[0].size));
    json_object_set_new(out, "original_max_position_embeddings", json_integer(c->rope[0].original_ctx));
}

static void add_yarn(json_t *out, const tern_rope *r)
{
    json_object_set_new(out, "beta_fast", number(r->beta_fast));
    json_object_set_new(out, "beta_slow", number(r->beta_slow));
    json_object_set_new(out, "truncate", json_boolean(r->truncate));
    json_object_set_new(out, "attention_factor", number(r->size));
    json_object_set_new(out, "original_max_position_embeddings", json_integer(r->original_ctx));
}

static json_t *rope(const tern_config *c, const tern_rope *r)
{
    static const char *const types[] = {[TERN_ROPE_PLAIN] = "default",
                                        [TERN_ROPE_LINEAR] = "linear",
                                        [TERN_ROPE_LLAMA3] = "llama3",
                                        [TERN_ROPE_LONG] = "longrope",
                                        [TERN_ROPE_YARN] = "yarn"};
    json_t *out = json_pack("{s:s, s:o}", "rope_type", types[r->scaling], "rope_theta", number(r->base));
    if (c->recurrence.n_heads && c->rope_dim)
        json_object_set_new(out, "partial_rotary_factor", number((float)c->rope_dim / (float)c->head_dim));
    if (r->scaling == TERN_ROPE_LONG) add_long_rope(out, c);
    else if (r->scaling != TERN_ROPE_PLAIN) json_object_set_new(out, "factor", number(r->factor));
    if (r->scaling == TERN_ROPE_YARN) add_yarn(out, r);
    if (r->scaling != TERN_ROPE_LLAMA3) return out;
    json_object_set_new(out, "low_freq_factor", number(r->low_freq_factor));
    json_object_set_new(out, "high_freq_factor", number(r->high_freq_factor));
    json_object_set_new(out, "original_max_position_embeddings", json_integer(r->original_ctx));
    return out;
}

/* As transformers 5 writes it, and as older versions read it. */
static void add_ropes(json_t *root, const tern_config *c)
{
    const bool two = c->rope[1].base > 0;
    json_object_set_new(
        root, "rope_parameters",
        two ? json_pack("{s:o, s:o}", "full_attention", rope(c, &c->rope[0]), "sliding_attention", rope(c, &c->rope[1]))
            : rope(c, &c->rope[0]));
    if (c->rope_dim)
        json_object_set_new(root, "partial_rotary_factor", number((float)c->rope_dim / (float)c->head_dim));
    if (c->rope[0].scaling == TERN_ROPE_LONG)
        json_object_set_new(root, "original_max_position_embeddings", json_integer(c->rope[0].original_ctx));
    if (two) json_object_set_new(root, "rope_local_base_freq", number(c->rope[1].base));
    if (c->rope[0].scaling != TERN_ROPE_PLAIN) json_object_set_new(root, "rope_scaling", rope(c, &c->rope[0]));
}

/* Windows, scale and soft caps of models that have such. */
static void add_scores(json_t *root, const tern_config *c)
{
    const tern_family *family = tern_family__find(c->architecture);
    if (c->window) json_object_set_new(root, "sliding_window", json_integer(c->window));
    if (!family->full_period) return;
    json_t *types = json_array();
    for (uint32_t i = 0; i < c->n_layers; i++)
        json_array_append_new(types,
                              json_string(tern_config_layer(c, i).window ? "sliding_attention" : "full_attention"));
    json_object_set_new(root, "layer_types", types);
    if (family->plain_full) json_object_set_new(root, "nope_on_global_attention", json_true());
    if (!family->scaled_embd) return;
    json_object_set_new(root, "query_pre_attn_scalar",
                        c->score_scale > 0 ? number(1.0f / (c->score_scale * c->score_scale))
                                           : json_integer(c->head_dim));
    json_object_set_new(root, "attn_logit_softcapping", c->score_softcap > 0 ? number(c->score_softcap) : json_null());
    json_object_set_new(root, "final_logit_softcapping", c->logit_softcap > 0 ? number(c->logit_softcap) : json_null());
}

static json_t *factor(float value)
{
    return number(value > 0 ? value : 1.0f);
}

/* Granite's multipliers; the layers of SmolLM3 that have RoPE. */
static void add_factors(json_t *root, const tern_config *c)
{
    if (tern_family__find(c->architecture)->multipliers) {
        json_object_set_new(root, "embedding_multiplier", factor(c->embd_scale));
        json_object_set_new(root, "residual_multiplier", factor(c->residual_scale));
        json_object_set_new(root, "logits_scaling", factor(c->logit_scale));
        json_object_set_new(root, "attention_multiplier",
                            number(c->score_scale > 0 ? c->score_scale : 1.0f / sqrtf((float)c->head_dim)));
    }
    if (!tern_family__find(c->architecture)->plain_period) return;
    json_t *list = json_array();
    for (uint32_t i = 0; i < c->n_layers; i++)
        json_array_append_new(list, json_integer(!tern_config_layer(c, i).plain));
    json_object_set_new(root, "no_rope_layers", list);
    json_object_set_new(root, "no_rope_layer_interval", json_integer(c->plain_period));
}

static json_t *id(int32_t token)
{
    return token >= 0 ? json_integer(token) : json_null();
}

/* One number, or where layers differ one for each. */
static json_t *feed_forward(const tern_config *c)
{
    if (!c->layer_n_ff[0]) return json_integer(c->n_ff);
    json_t *each = json_array();
    for (uint32_t i = 0; i < c->n_layers; i++) json_array_append_new(each, json_integer(c->layer_n_ff[i]));
    return each;
}

/* Those that all classes spell the same, then those that they do not. */
static void add_dimensions(json_t *root, const tern_config *c)
{
    const tern_hyper *h;
    for (size_t i = 0; (h = tern_hyper_at(i)) != NULL; i++) {
        if (!h->hf) continue;
        json_t *value = h->kind == TERN_HYPER_F32 ? number((float)tern_hyper_value(h, c)) : tern_hyper_json(h, c);
        json_object_set_new(root, h->hf, value);
    }
    json_object_set_new(root, "intermediate_size", feed_forward(c));
    if (c->head_dim * c->n_heads != c->n_embd || !c->sub_norms)
        json_object_set_new(root, "head_dim", json_integer(c->head_dim));
}

static void add_experts(json_t *root, const tern_config *c)
{
    const tern_family *family = tern_family__find(c->architecture);
    if (!c->n_experts) return;
    json_object_set_new(root, family->expert_ff ? "num_experts" : "num_local_experts", json_integer(c->n_experts));
    json_object_set_new(root, "num_experts_per_tok", json_integer(c->n_experts_used));
    if (family->ffn_limit > 0) json_object_set_new(root, "swiglu_limit", number(c->ffn_limit));
    if (!family->expert_ff) return;
    json_object_set_new(root, "moe_intermediate_size", json_integer(c->n_ff));
    json_object_set_new(root, "norm_topk_prob", json_boolean(c->route_rule == TERN_ROUTE_SOFTMAX_ALL_NORMED));
    json_object_set_new(root, "decoder_sparse_step", json_integer(1));
    json_object_set_new(root, "mlp_only_layers", json_array());
}

/* Layers that recur. */
static void add_recurrence(json_t *root, const tern_config *c)
{
    const tern_recurrence *r = &c->recurrence;
    if (!r->n_heads) return;
    json_object_set_new(root, "linear_conv_kernel_dim", json_integer(r->n_taps));
    json_object_set_new(root, "linear_key_head_dim", json_integer(r->key_dim));
    json_object_set_new(root, "linear_value_head_dim", json_integer(r->value_dim));
    json_object_set_new(root, "linear_num_key_heads", json_integer(r->n_key_heads));
    json_object_set_new(root, "linear_num_value_heads", json_integer(r->n_heads));
    if (c->n_mtp) json_object_set_new(root, "mtp_num_hidden_layers", json_integer(c->n_mtp));
    if (c->n_ff_shared) json_object_set_new(root, "shared_expert_intermediate_size", json_integer(c->n_ff_shared));
    json_t *types = json_array();
    for (uint32_t i = 0; i < c->n_layers; i++)
        json_array_append_new(types, json_string(r->layers[i] ? "linear_attention" : "full_attention"));
    json_object_set_new(root, "layer_types", types);
}

static json_t *quantization(const tern_config *c)
{
    json_t *out = json_pack("{s:s, s:s, s:s}", "quant_method", "bitnet", "linear_class", "autobitlinear",
                            "quantization_mode", "online");
    if (!c->linear_norms) return out;
    json_object_set_new(out, "use_rms_norm", json_true());
    json_object_set_new(out, "rms_norm_eps", number(c->rms_eps));
    return out;
}

static json_t *document(const tern_config *c, const tern_tokenizer *tokenizer, bool f32)
{
    const tern_family_class *class = tern_family__class_of(c);
    json_t *root = json_pack("{s:[s], s:s, s:s, s:s}", "architectures", class->name, "model_type", class->model_type,
                             c->activation == TERN_ACT_GELU ? "hidden_activation" : "hidden_act",
                             tern_activation_name(class->activation), "torch_dtype", f32 ? "float32" : "bfloat16");
    add_dimensions(root, c);
    json_object_set_new(root, "attention_bias", json_boolean(c->o_bias));
    json_object_set_new(root, "attention_dropout", json_real(0));
    add_ropes(root, c);
    add_scores(root, c);
    add_factors(root, c);
    add_experts(root, c);
    add_recurrence(root, c);
    json_object_set_new(root, "bos_token_id", id(tokenizer ? tern_tokenizer_bos(tokenizer) : -1));
    json_object_set_new(root, "eos_token_id", id(tokenizer ? tern_tokenizer_eos(tokenizer) : -1));
    json_object_set_new(root, "pad_token_id", json_null());
    json_object_set_new(root, "use_cache", json_true());
    if (is_ternary(c)) json_object_set_new(root, "quantization_config", quantization(c));
    return root;
}

/* Properties that these classes of transformers cannot express. */
static tern_status check(const tern_config *c, tern_error *err)
{
    if (c->rope[0].factors && c->rope[0].scaling != TERN_ROPE_LLAMA3)
        return tern_fail(err, TERN_UNSUPPORTED, "config.json: frequencies given one by one; a rope_type expected");
    if (c->window && c->sub_norms)
        return tern_fail(err, TERN_UNSUPPORTED, "config.json: a window of %u in a BitNet model; none expected",
                         c->window);
    return TERN_OK;
}

tern_status tern_hf__write_config(const char *dir, const tern_config *config, const tern_tokenizer *tokenizer, bool f32,
                                  tern_error *err)
{
    TERN_TRY(check(config, err));
    tern_json_use_allocator();
    return tern_json_write_in(document(config, tokenizer, f32), dir, "config.json",
                              JSON_INDENT(2) | JSON_REAL_PRECISION(9), err);
}
