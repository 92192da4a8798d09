/* A configuration as config.json of transformers. */
#include "model/model_internal.h"
#include "model/write_hf_internal.h"

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

static json_t *rope(const tern_config *c)
{
    static const char *const types[] = {
        [TERN_ROPE_PLAIN] = "default", [TERN_ROPE_LINEAR] = "linear", [TERN_ROPE_LLAMA3] = "llama3"};
    json_t *r = json_pack("{s:s, s:o}", "rope_type", types[c->rope[0].scaling], "rope_theta", number(c->rope[0].base));
    if (c->rope[0].scaling != TERN_ROPE_PLAIN) json_object_set_new(r, "factor", number(c->rope[0].factor));
    if (c->rope[0].scaling != TERN_ROPE_LLAMA3) return r;
    json_object_set_new(r, "low_freq_factor", number(c->rope[0].low_freq_factor));
    json_object_set_new(r, "high_freq_factor", number(c->rope[0].high_freq_factor));
    json_object_set_new(r, "original_max_position_embeddings", json_integer(c->rope[0].original_ctx));
    return r;
}

static json_t *id(int32_t token)
{
    return token >= 0 ? json_integer(token) : json_null();
}

static void add_dimensions(json_t *root, const tern_config *c)
{
    json_object_set_new(root, "vocab_size", json_integer(c->n_vocab));
    json_object_set_new(root, "hidden_size", json_integer(c->n_embd));
    json_object_set_new(root, "intermediate_size", json_integer(c->n_ff));
    json_object_set_new(root, "num_hidden_layers", json_integer(c->n_layers));
    json_object_set_new(root, "num_attention_heads", json_integer(c->n_heads));
    json_object_set_new(root, "num_key_value_heads", json_integer(c->n_kv_heads));
    json_object_set_new(root, "max_position_embeddings", json_integer(c->n_ctx_train));
    if (c->head_dim * c->n_heads != c->n_embd || !c->sub_norms)
        json_object_set_new(root, "head_dim", json_integer(c->head_dim));
}

static json_t *document(const tern_config *c, const tern_tokenizer *tokenizer, bool f32)
{
    bool bitnet = c->sub_norms; /* of the three classes the one that has them */
    const char *other = c->window ? "MistralForCausalLM" : "LlamaForCausalLM";
    json_t *root = json_pack(
        "{s:[s], s:s, s:s, s:s}", "architectures", bitnet ? "BitNetForCausalLM" : other, "model_type",
        bitnet      ? "bitnet"
        : c->window ? "mistral"
                    : "llama",
        "hidden_act", c->activation == TERN_ACT_RELU2 ? "relu2" : "silu", "torch_dtype", f32 ? "float32" : "bfloat16");
    add_dimensions(root, c);
    json_object_set_new(root, "rms_norm_eps", number(c->rms_eps));
    json_object_set_new(root, "tie_word_embeddings", json_boolean(c->tied_head));
    json_object_set_new(root, "attention_bias", json_false());
    if (c->window) json_object_set_new(root, "sliding_window", json_integer(c->window));
    json_object_set_new(root, "attention_dropout", json_real(0));
    json_object_set_new(root, "rope_theta", number(c->rope[0].base));
    json_object_set_new(root, "rope_parameters", rope(c));
    if (c->rope[0].scaling != TERN_ROPE_PLAIN) json_object_set_new(root, "rope_scaling", rope(c));
    json_object_set_new(root, "bos_token_id", id(tokenizer ? tern_tokenizer_bos(tokenizer) : -1));
    json_object_set_new(root, "eos_token_id", id(tokenizer ? tern_tokenizer_eos(tokenizer) : -1));
    json_object_set_new(root, "pad_token_id", json_null());
    json_object_set_new(root, "use_cache", json_true());
    if (is_ternary(c))
        json_object_set_new(root, "quantization_config",
                            json_pack("{s:s, s:s, s:s}", "quant_method", "bitnet", "linear_class", "autobitlinear",
                                      "quantization_mode", "online"));
    return root;
}

/* What these classes of transformers cannot say. */
static tern_status check(const tern_config *c, tern_error *err)
{
    if (c->rope[0].factors && c->rope[0].scaling != TERN_ROPE_LLAMA3)
        return tern_fail(err, TERN_UNSUPPORTED, "config.json: frequencies given one by one; a rope_type expected");
    if (c->window && c->sub_norms)
        return tern_fail(err, TERN_UNSUPPORTED, "config.json: a window of %u in a BitNet model; none expected",
                         c->window);
    if (c->activation == TERN_ACT_GELU)
        return tern_fail(err, TERN_UNSUPPORTED, "config.json: GELU; relu2 or silu expected");
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
