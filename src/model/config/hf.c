/* A configuration from Hugging Face's config.json. */
#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "model/model_internal.h"

#define DEFAULT_NORM_EPS 1e-6f /* transformers' BitNetQuantConfig */

/* Gemma's files call it "hidden_activation", beside an older "hidden_act" that counts for nothing. */
static tern_status read_activation(const json_t *root, tern_activation *out, tern_error *err)
{
    tern_span word = {0};
    const char *key = tern_json_has(root, "hidden_activation") ? "hidden_activation" : "hidden_act";
    TERN_TRY(tern_json_get_string(root, key, &word, err));
    if (tern_model__says(word, "relu2")) *out = TERN_ACT_RELU2;
    else if (tern_model__says(word, "silu") || tern_model__says(word, "swish")) *out = TERN_ACT_SILU;
    else if (tern_model__says(word, "gelu_pytorch_tanh")) *out = TERN_ACT_GELU;
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
    if (!tern_family__has_class(class_name))
        return tern_fail(err, TERN_UNSUPPORTED, "%s is not supported (architectures); %s expected",
                         tern_show(class_name).text, tern_family__classes());
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

/* Features of these classes that the graph does not have, or cannot do without. */
static tern_status refuse_extras(const tern_family *family, const json_t *root, tern_error *err)
{
    const struct {
        const char *key;
        bool wanted;
    } switches[] = {{"mlp_bias", false},
                    {"use_bidirectional_attention", false},
                    {"use_qk_norm", family->qk_norm},
                    {"nope_on_global_attention", family->plain_full}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool on = switches[i].wanted;
        TERN_TRY_OPTIONAL(tern_json_get_bool(root, switches[i].key, &on, err));
        if (on != switches[i].wanted)
            return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, %s expected", switches[i].key, on ? "true" : "false",
                             on ? "false" : "true");
    }
    return TERN_OK;
}

/* attention_bias: whether q, k, v and o have biases; of a family that has no choice its own value. */
static tern_status read_biases(tern_config *config, const tern_family *family, const json_t *root, tern_error *err)
{
    bool on = config->o_bias;
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "attention_bias", &on, err));
    if (on != config->o_bias && !family->may_bias)
        return tern_fail(err, TERN_UNSUPPORTED, "attention_bias: %s found, %s expected", on ? "true" : "false",
                         on ? "false" : "true");
    if (family->may_bias) config->qkv_bias = config->o_bias = on;
    return TERN_OK;
}

/* Norms before the linear layers; all of a model have one epsilon. */
static tern_status read_norms(tern_hf_layout *layout, const json_t *quant, float rms_eps, tern_error *err)
{
    float eps = DEFAULT_NORM_EPS;
    TERN_TRY_OPTIONAL(tern_json_get_bool(quant, "use_rms_norm", &layout->norms, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(quant, "rms_norm_eps", &eps, err));
    if (!layout->norms || eps == rms_eps) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "quantization_config: rms_norm_eps %g found, that of the model, %g, expected", (double)eps,
                     (double)rms_eps);
}

/* linear_class and quantization_mode default as in transformers' BitNetQuantConfig: "bitlinear", "offline". */
static tern_status read_quantization(tern_hf_layout *layout, const tern_family *family, const json_t *root,
                                     float rms_eps, tern_error *err)
{
    const json_t *quant = NULL;
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "quantization_config", &quant, err));
    if (!quant) return TERN_OK;
    tern_span method = {0}, linear = {(const uint8_t *)"bitlinear", 9};
    TERN_TRY(tern_json_get_string(quant, "quant_method", &method, err));
    if (family->mxfp4 && tern_model__says(method, "mxfp4")) return TERN_OK; /* names of tensors tell */
    if (!tern_model__says(method, "bitnet"))
        return tern_fail(err, TERN_UNSUPPORTED, "quant_method: \"%s\" found, bitnet expected", tern_show(method).text);
    TERN_TRY_OPTIONAL(tern_json_get_string(quant, "linear_class", &linear, err));
    if (!tern_model__says(linear, "bitlinear") && !tern_model__says(linear, "autobitlinear"))
        return tern_fail(err, TERN_UNSUPPORTED, "linear_class: \"%s\" found, bitlinear or autobitlinear expected",
                         tern_show(linear).text);
    TERN_TRY(read_norms(layout, quant, rms_eps, err));
    layout->ternary = layout->packed = true;
    layout->reciprocal = tern_model__says(linear, "bitlinear");
    return TERN_OK;
}

static tern_status from_text(tern_config *config, tern_hf_layout *layout, const json_t *root, const char *name,
                             tern_error *err)
{
    tern_config c = {.rms_eps = 1e-5f};
    tern_hf_layout l = {0};
    const tern_family *family = NULL;
    TERN_TRY(read_family(&c, root, &family, err));
    TERN_TRY(refuse_extras(family, root, err));
    TERN_TRY(read_biases(&c, family, root, err));
    TERN_TRY(read_dimensions(&c, root, err));
    TERN_TRY(tern_config__experts_from_hf(&c, family, root, err));
    TERN_TRY(tern_config__recurrence_from_hf(&c, family, root, err));
    TERN_TRY(tern_config__scores_from_hf(&c, family, root, err));
    TERN_TRY(tern_config__factors_from_hf(&c, family, root, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rms_norm_eps", &c.rms_eps, err));
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "tie_word_embeddings", &c.tied_head, err));
    TERN_TRY(tern_config__rope_from_hf(&c, family, root, err));
    TERN_TRY(read_quantization(&l, family, root, c.rms_eps, err));
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
