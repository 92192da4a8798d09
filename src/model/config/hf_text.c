/* The part of a Hugging Face config.json that the text model is read from. */
#include <string.h>

#include "model/model_internal.h"

/* Classes of text and images together: the text model has a configuration of its own inside. */
static const char *const classes_of_parts[] = {"Gemma3ForConditionalGeneration", "Qwen3_5ForConditionalGeneration",
                                               "Qwen3_5MoeForConditionalGeneration"};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Keys that files may leave out, because transformers' Gemma2Config has defaults. The published ones leave out that the
 * head is tied. */
static const char gemma2_defaults[] =
    "{\"vocab_size\": 256000, \"hidden_size\": 2304, \"intermediate_size\": 9216, \"num_hidden_layers\": 26, "
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"head_dim\": 256, \"max_position_embeddings\": 8192, "
    "\"sliding_window\": 4096, \"hidden_activation\": \"gelu_pytorch_tanh\", \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 1e4, \"query_pre_attn_scalar\": 256, \"attn_logit_softcapping\": 50, "
    "\"final_logit_softcapping\": 30, \"tie_word_embeddings\": true}";

/* As above for Gemma3TextConfig. The published files of 4B, 12B and 27B leave much out. */
static const char gemma3_defaults[] =
    "{\"vocab_size\": 262208, \"hidden_size\": 2304, \"intermediate_size\": 9216, \"num_hidden_layers\": 26, "
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"head_dim\": 256, \"max_position_embeddings\": 131072, "
    "\"sliding_window\": 4096, \"hidden_activation\": \"gelu_pytorch_tanh\", \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 1e6, \"rope_local_base_freq\": 1e4, \"query_pre_attn_scalar\": 256, "
    "\"tie_word_embeddings\": true}";

static const struct {
    const char *class_name, *text;
} defaults_of_classes[] = {{"Gemma2ForCausalLM", gemma2_defaults},
                           {"Gemma3ForCausalLM", gemma3_defaults},
                           {"Gemma3TextModel", gemma3_defaults},
                           {"Gemma3ForConditionalGeneration", gemma3_defaults}};

/* NULL where files must say everything. */
static const char *defaults_of(const char *class_name)
{
    for (size_t i = 0; class_name && i < sizeof defaults_of_classes / sizeof *defaults_of_classes; i++)
        if (strcmp(defaults_of_classes[i].class_name, class_name) == 0) return defaults_of_classes[i].text;
    return NULL;
}

static tern_status fill_in(json_t *out, const json_t *root, const char *class_name, tern_error *err)
{
    /* shared by both parts */
    static const char *const outer[] = {"architectures", "quantization_config"};
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        if (tern_json_has(root, outer[i]) && json_object_set(out, outer[i], json_object_get(root, outer[i])) != 0)
            return tern_fail_alloc(err, strlen(outer[i]));
    const char *text = defaults_of(class_name);
    if (!text) return TERN_OK;
    json_t *defaults = NULL;
    TERN_TRY(tern_json_parse(&defaults, text, strlen(text), "defaults", err));
    const bool done = json_object_update_missing(out, defaults) == 0;
    tern_json_free(defaults);
    return done ? TERN_OK : tern_fail_alloc(err, json_object_size(out));
}

tern_status tern_config__text_of_hf(json_t **text, const json_t *root, tern_error *err)
{
    const json_t *part = root;
    const char *class_name = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    if (is_one_of(class_name, classes_of_parts, sizeof classes_of_parts / sizeof *classes_of_parts))
        TERN_TRY(tern_json_get_object(root, "text_config", &part, err));
    tern_json_use_allocator();
    json_t *out = json_object();
    tern_status status = out && json_object_update(out, (json_t *)(uintptr_t)part) == 0
                             ? fill_in(out, root, class_name, err)
                             : tern_fail_alloc(err, json_object_size(part));
    if (status == TERN_OK) *text = out;
    else tern_json_free(out);
    return status;
}
