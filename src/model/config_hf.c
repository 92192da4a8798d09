/* A configuration from Hugging Face's config.json. */
#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "model/model_internal.h"

static bool says(tern_span s, const char *word)
{
    return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

static tern_status read_activation(const json_t *root, tern_activation *out, tern_error *err)
{
    tern_span word = {0};
    TERN_TRY(tern_json_get_string(root, "hidden_act", &word, err));
    if (says(word, "relu2")) *out = TERN_ACT_RELU2;
    else if (says(word, "silu") || says(word, "swish")) *out = TERN_ACT_SILU;
    else
        return tern_fail(err, TERN_UNSUPPORTED, "hidden_act: \"%s\" found, silu or relu2 expected",
                         tern_show(word).text);
    return TERN_OK;
}

/* The first of "architectures", e.g. "LlamaForCausalLM". */
static tern_status read_class(const json_t *root, tern_span *out, tern_error *err)
{
    const json_t *list = NULL;
    TERN_TRY(tern_json_get_array(root, "architectures", &list, err));
    const json_t *first = json_array_get(list, 0);
    if (!json_is_string(first))
        return tern_fail(err, TERN_MALFORMED, "architectures: %s found as its first, a string expected",
                         tern_json_kind(first));
    *out = (tern_span){(const uint8_t *)json_string_value(first), json_string_length(first)};
    return TERN_OK;
}

static tern_status read_family(tern_config *config, const json_t *root, const tern_family **out, tern_error *err)
{
    tern_span class_name = {0};
    TERN_TRY(read_class(root, &class_name, err));
    TERN_TRY(read_activation(root, &config->activation, err));
    const tern_family *family = tern_family__of_hf(class_name, config->activation);
    if (!family)
        return tern_fail(
            err, TERN_UNSUPPORTED,
            "architectures: %s with %s found; BitNetForCausalLM, LlamaForCausalLM or MistralForCausalLM expected",
            tern_show(class_name).text, config->activation == TERN_ACT_RELU2 ? "relu2" : "silu");
    snprintf(config->architecture, sizeof config->architecture, "%s", family->architecture);
    *out = family;
    return TERN_OK;
}

static tern_status read_dimensions(tern_config *config, const json_t *root, tern_error *err)
{
    TERN_TRY(tern_json_get_u32(root, "vocab_size", &config->n_vocab, err));
    TERN_TRY(tern_json_get_u32(root, "hidden_size", &config->n_embd, err));
    TERN_TRY(tern_json_get_u32(root, "num_hidden_layers", &config->n_layers, err));
    TERN_TRY(tern_json_get_u32(root, "num_attention_heads", &config->n_heads, err));
    TERN_TRY(tern_json_get_u32(root, "intermediate_size", &config->n_ff, err));
    TERN_TRY(tern_json_get_u32(root, "max_position_embeddings", &config->n_ctx_train, err));
    config->n_kv_heads = config->n_heads;
    TERN_TRY_OPTIONAL(tern_json_get_u32(root, "num_key_value_heads", &config->n_kv_heads, err));
    if (tern_json_has(root, "head_dim")) return tern_json_get_u32(root, "head_dim", &config->head_dim, err);
    if (config->n_heads == 0 || config->n_embd % config->n_heads != 0)
        return tern_fail(err, TERN_MALFORMED, "num_attention_heads: %u found, a divisor of hidden_size = %u expected",
                         config->n_heads, config->n_embd);
    config->head_dim = config->n_embd / config->n_heads;
    return TERN_OK;
}

/* "rope_type", or "type" as older files spell it; "default" when there is neither. */
static tern_status read_rope_type(tern_config *config, const json_t *rope, tern_error *err)
{
    tern_span type = {(const uint8_t *)"default", 7};
    TERN_TRY_OPTIONAL(tern_json_get_string(rope, "type", &type, err));
    TERN_TRY_OPTIONAL(tern_json_get_string(rope, "rope_type", &type, err));
    if (says(type, "default")) config->rope[0].scaling = TERN_ROPE_PLAIN;
    else if (says(type, "linear")) config->rope[0].scaling = TERN_ROPE_LINEAR;
    else if (says(type, "llama3")) config->rope[0].scaling = TERN_ROPE_LLAMA3;
    else
        return tern_fail(err, TERN_UNSUPPORTED, "rope_type: \"%s\" found, default, linear or llama3 expected",
                         tern_show(type).text);
    return TERN_OK;
}

static tern_status read_rope_scaling(tern_config *config, const json_t *rope, tern_error *err)
{
    TERN_TRY(read_rope_type(config, rope, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "rope_theta", &config->rope[0].base, err));
    float part = 1.0f;
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "partial_rotary_factor", &part, err));
    if (!(part == 1.0f))
        return tern_fail(err, TERN_UNSUPPORTED, "partial_rotary_factor: %g found, 1 expected", (double)part);
    if (config->rope[0].scaling == TERN_ROPE_PLAIN) return TERN_OK;
    TERN_TRY(tern_json_get_f32(rope, "factor", &config->rope[0].factor, err));
    if (config->rope[0].scaling == TERN_ROPE_LINEAR) return TERN_OK;
    TERN_TRY(tern_json_get_f32(rope, "low_freq_factor", &config->rope[0].low_freq_factor, err));
    TERN_TRY(tern_json_get_f32(rope, "high_freq_factor", &config->rope[0].high_freq_factor, err));
    return tern_json_get_u32(rope, "original_max_position_embeddings", &config->rope[0].original_ctx, err);
}

/* transformers 5 writes "rope_parameters", older versions "rope_theta" and "rope_scaling". */
static tern_status read_rope(tern_config *config, const json_t *root, tern_error *err)
{
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rope_theta", &config->rope[0].base, err));
    const json_t *rope = NULL;
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "rope_scaling", &rope, err));
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "rope_parameters", &rope, err));
    if (!rope) return TERN_OK;
    tern_status status = read_rope_scaling(config, rope, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "RoPE parameters");
}

/* Mistral's window; the other classes have none. */
static tern_status read_window(tern_config *config, const json_t *root, tern_error *err)
{
    tern_span class_name = {0};
    if (!tern_json_has(root, "sliding_window")) return TERN_OK;
    TERN_TRY(read_class(root, &class_name, err));
    if (!says(class_name, "MistralForCausalLM"))
        return tern_fail(err, TERN_UNSUPPORTED, "sliding_window: %s found, null expected",
                         tern_json_kind(json_object_get(root, "sliding_window")));
    TERN_TRY(tern_json_get_u32(root, "sliding_window", &config->window, err));
    if (config->window >= 1) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "sliding_window: 0 found, at least 1 or null expected");
}

/* Features of these classes that the graph does not have. */
static tern_status refuse_extras(const json_t *root, tern_error *err)
{
    static const char *const switches[] = {"attention_bias", "mlp_bias"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool on = false;
        TERN_TRY_OPTIONAL(tern_json_get_bool(root, switches[i], &on, err));
        if (on) return tern_fail(err, TERN_UNSUPPORTED, "%s: true found, false expected", switches[i]);
    }
    return TERN_OK;
}

/* linear_class and quantization_mode default as in transformers' BitNetQuantConfig: "bitlinear", "offline". */
static tern_status read_quantization(tern_hf_layout *layout, const json_t *root, tern_error *err)
{
    const json_t *quant = NULL;
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "quantization_config", &quant, err));
    if (!quant) return TERN_OK;
    tern_span method = {0}, linear = {(const uint8_t *)"bitlinear", 9};
    TERN_TRY(tern_json_get_string(quant, "quant_method", &method, err));
    if (!says(method, "bitnet"))
        return tern_fail(err, TERN_UNSUPPORTED, "quant_method: \"%s\" found, bitnet expected", tern_show(method).text);
    TERN_TRY_OPTIONAL(tern_json_get_string(quant, "linear_class", &linear, err));
    if (!says(linear, "bitlinear") && !says(linear, "autobitlinear"))
        return tern_fail(err, TERN_UNSUPPORTED, "linear_class: \"%s\" found, bitlinear or autobitlinear expected",
                         tern_show(linear).text);
    bool norms = false;
    TERN_TRY_OPTIONAL(tern_json_get_bool(quant, "use_rms_norm", &norms, err));
    if (norms) return tern_fail(err, TERN_UNSUPPORTED, "use_rms_norm: true found, false expected");
    layout->ternary = layout->packed = true;
    layout->reciprocal = says(linear, "bitlinear");
    return TERN_OK;
}

tern_status tern_config__from_hf(tern_config *config, tern_hf_layout *layout, const json_t *root, const char *name,
                                 tern_error *err)
{
    tern_config c = {.rms_eps = 1e-5f};
    tern_hf_layout l = {0};
    const tern_family *family = NULL;
    TERN_TRY(read_family(&c, root, &family, err));
    TERN_TRY(refuse_extras(root, err));
    TERN_TRY(read_window(&c, root, err));
    TERN_TRY(read_dimensions(&c, root, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rms_norm_eps", &c.rms_eps, err));
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "tie_word_embeddings", &c.tied_head, err));
    c.rope[0].base = family->rope_base;
    TERN_TRY(read_rope(&c, root, err));
    TERN_TRY(read_quantization(&l, root, err));
    l.ternary = l.ternary || family->ternary;
    l.packed = l.packed || family->ternary;
    tern_config__set_name(&c, (tern_span){(const uint8_t *)name, strlen(name)});
    TERN_TRY(tern_config__check(&c, err));
    *config = c;
    *layout = l;
    return TERN_OK;
}
