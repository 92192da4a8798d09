/* A configuration from Hugging Face's config.json. */
#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "model/model_internal.h"

static bool says(tern_span s, const char *word)
{
    return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

/* Gemma's files call it "hidden_activation", beside an older "hidden_act" that counts for nothing. */
static tern_status read_activation(const json_t *root, tern_activation *out, tern_error *err)
{
    tern_span word = {0};
    const char *key = tern_json_has(root, "hidden_activation") ? "hidden_activation" : "hidden_act";
    TERN_TRY(tern_json_get_string(root, key, &word, err));
    if (says(word, "relu2")) *out = TERN_ACT_RELU2;
    else if (says(word, "silu") || says(word, "swish")) *out = TERN_ACT_SILU;
    else if (says(word, "gelu_pytorch_tanh")) *out = TERN_ACT_GELU;
    else
        return tern_fail(err, TERN_UNSUPPORTED, "%s: \"%s\" found, silu, relu2 or gelu_pytorch_tanh expected", key,
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
        return tern_fail(err, TERN_UNSUPPORTED, "architectures: %s with %s found; %s expected",
                         tern_show(class_name).text, tern_activation_name(config->activation), tern_family__classes());
    tern_family__set(config, family);
    *out = family;
    return TERN_OK;
}

/* One number, or one for each layer. */
static tern_status read_feed_forward(tern_config *config, const json_t *root, tern_error *err)
{
    const json_t *found = json_object_get(root, "intermediate_size");
    uint32_t each[TERN_MAX_LAYERS];
    if (!json_is_array(found)) return tern_json_get_u32(root, "intermediate_size", &config->n_ff, err);
    const size_t n = json_array_size(found);
    if (n != config->n_layers || n > TERN_MAX_LAYERS)
        return tern_fail(err, TERN_MALFORMED,
                         "intermediate_size: %zu numbers found, one for each of %u layers (at most %d) expected", n,
                         config->n_layers, TERN_MAX_LAYERS);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        int64_t value = 0;
        if (!tern_json_int(json_array_get(found, i), &value) || value < 1 || value > TERN_MODEL__MAX_DIM)
            return tern_fail(err, TERN_LIMIT, "intermediate_size: %s %lld found in layer %u, 1 to %d expected",
                             tern_json_kind(json_array_get(found, i)), (long long)value, i, TERN_MODEL__MAX_DIM);
        each[i] = (uint32_t)value;
    }
    tern_config__set_feed_forward(config, each);
    return TERN_OK;
}

static tern_status read_dimensions(tern_config *config, const json_t *root, tern_error *err)
{
    TERN_TRY(tern_json_get_u32(root, "vocab_size", &config->n_vocab, err));
    TERN_TRY(tern_json_get_u32(root, "hidden_size", &config->n_embd, err));
    TERN_TRY(tern_json_get_u32(root, "num_hidden_layers", &config->n_layers, err));
    TERN_TRY(tern_json_get_u32(root, "num_attention_heads", &config->n_heads, err));
    TERN_TRY(read_feed_forward(config, root, err));
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
static tern_status read_rope_type(tern_rope *out, const json_t *rope, bool long_rope, tern_error *err)
{
    tern_span type = {(const uint8_t *)"default", 7};
    TERN_TRY_OPTIONAL(tern_json_get_string(rope, "type", &type, err));
    TERN_TRY_OPTIONAL(tern_json_get_string(rope, "rope_type", &type, err));
    if (says(type, "default")) out->scaling = TERN_ROPE_PLAIN;
    else if (says(type, "linear")) out->scaling = TERN_ROPE_LINEAR;
    else if (says(type, "llama3")) out->scaling = TERN_ROPE_LLAMA3;
    else if (long_rope && (says(type, "longrope") || says(type, "su"))) out->scaling = TERN_ROPE_LONG;
    else
        return tern_fail(err, TERN_UNSUPPORTED, "rope_type: \"%s\" found, default, linear%s or llama3 expected",
                         tern_show(type).text, long_rope ? ", longrope" : "");
    return TERN_OK;
}

static tern_status read_rope_scaling(tern_rope *out, const json_t *rope, bool long_rope, tern_error *err)
{
    TERN_TRY(read_rope_type(out, rope, long_rope, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "rope_theta", &out->base, err));
    if (out->scaling == TERN_ROPE_PLAIN || out->scaling == TERN_ROPE_LONG) return TERN_OK;
    TERN_TRY(tern_json_get_f32(rope, "factor", &out->factor, err));
    if (out->scaling == TERN_ROPE_LINEAR) return TERN_OK;
    TERN_TRY(tern_json_get_f32(rope, "low_freq_factor", &out->low_freq_factor, err));
    TERN_TRY(tern_json_get_f32(rope, "high_freq_factor", &out->high_freq_factor, err));
    return tern_json_get_u32(rope, "original_max_position_embeddings", &out->original_ctx, err);
}

/* Which part of a head is turned. GGUF files of families with adjacent pairs cannot say it. */
static tern_status read_part(tern_config *config, const tern_family *family, const json_t *object, tern_error *err)
{
    float part = 1.0f;
    TERN_TRY_OPTIONAL(tern_json_get_f32(object, "partial_rotary_factor", &part, err));
    if (part == 1.0f) return TERN_OK;
    if (family->rope_adjacent)
        return tern_fail(err, TERN_UNSUPPORTED, "partial_rotary_factor: %g found, 1 expected", (double)part);
    if (!(part > 0.0f && part < 1.0f) || (uint32_t)(part * (float)config->head_dim) < 1)
        return tern_fail(err, TERN_MALFORMED, "partial_rotary_factor: %g found, more than 0 and at most 1 expected",
                         (double)part);
    config->rope_dim = (uint32_t)(part * (float)config->head_dim);
    return TERN_OK;
}

/* One set of parameters, or one for each type of layer. */
static tern_status read_rope_parameters(tern_config *config, const tern_family *family, const json_t *all,
                                        const json_t *root, tern_error *err)
{
    const json_t *full = NULL, *window = NULL;
    const bool long_rope = family->long_rope;
    TERN_TRY_OPTIONAL(tern_json_get_object(all, "full_attention", &full, err));
    TERN_TRY_OPTIONAL(tern_json_get_object(all, "sliding_attention", &window, err));
    TERN_TRY(read_rope_scaling(&config->rope[0], full ? full : all, long_rope, err));
    TERN_TRY(read_part(config, family, full ? full : all, err));
    if (config->rope[0].scaling == TERN_ROPE_LONG) return tern_config__long_rope_from_hf(config, all, root, err);
    return window ? read_rope_scaling(&config->rope[1], window, false, err) : TERN_OK;
}

/* transformers 5 writes "rope_parameters", older versions "rope_theta", "rope_local_base_freq" and "rope_scaling". */
static tern_status read_rope(tern_config *config, const tern_family *family, const json_t *root, tern_error *err)
{
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rope_theta", &config->rope[0].base, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rope_local_base_freq", &config->rope[1].base, err));
    TERN_TRY(read_part(config, family, root, err));
    const json_t *rope = NULL;
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "rope_scaling", &rope, err));
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "rope_parameters", &rope, err));
    if (!rope) return TERN_OK;
    tern_status status = read_rope_parameters(config, family, rope, root, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "RoPE parameters");
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

static tern_status from_text(tern_config *config, tern_hf_layout *layout, const json_t *root, const char *name,
                             tern_error *err)
{
    tern_config c = {.rms_eps = 1e-5f};
    tern_hf_layout l = {0};
    const tern_family *family = NULL;
    TERN_TRY(read_family(&c, root, &family, err));
    TERN_TRY(refuse_extras(root, err));
    TERN_TRY(read_dimensions(&c, root, err));
    TERN_TRY(tern_config__scores_from_hf(&c, family, root, err));
    TERN_TRY(tern_config__factors_from_hf(&c, family, root, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rms_norm_eps", &c.rms_eps, err));
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "tie_word_embeddings", &c.tied_head, err));
    TERN_TRY(read_rope(&c, family, root, err));
    TERN_TRY(read_quantization(&l, root, err));
    l.ternary = l.ternary || family->ternary;
    l.packed = l.packed || family->ternary;
    tern_config__set_name(&c, (tern_span){(const uint8_t *)name, strlen(name)});
    tern_family__finish(&c, family);
    TERN_TRY(tern_config__check(&c, err));
    *config = c;
    *layout = l;
    return TERN_OK;
}

tern_status tern_config__from_hf(tern_config *config, tern_hf_layout *layout, const json_t *root, const char *name,
                                 tern_error *err)
{
    json_t *text = NULL;
    TERN_TRY(tern_config__text_of_hf(&text, root, err));
    tern_status status = from_text(config, layout, text, name, err);
    tern_json_free(text);
    return status;
}
