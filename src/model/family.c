/* The model families: one row for each architecture, and the Hugging Face classes that belong to them. */
#include <string.h>

#include "model/model_internal.h"

/* Sources: bitnet.cpp (bitnet-b1.58, bitnet-25: the 2B4T graph); llama.cpp (bitnet: the SiLU-gated graph of 2024,
 * llama). */
static const tern_family families[] = {
    {"bitnet-b1.58", TERN_ACT_RELU2, .ternary = true, .needs_sub_norms = true, .rope_base = 500000.0f,
     .n_ctx_train = 4096},
    {"bitnet-25", TERN_ACT_RELU2, .ternary = true, .needs_sub_norms = true, .rope_base = 500000.0f,
     .n_ctx_train = 4096},
    {"bitnet", TERN_ACT_SILU, .ternary = true, .rope_base = 10000.0f},
    {"llama", TERN_ACT_SILU, .rope_adjacent = true, .rope_base = 10000.0f},
};

static const struct {
    const char *class_name;
    tern_activation activation;
    const char *architecture;
} hf_classes[] = {
    {"BitNetForCausalLM", TERN_ACT_RELU2, "bitnet-b1.58"}, {"BitNetForCausalLM", TERN_ACT_SILU, "bitnet"},
    {"BitnetForCausalLM", TERN_ACT_RELU2, "bitnet-b1.58"}, {"BitnetForCausalLM", TERN_ACT_SILU, "bitnet"},
    {"LlamaForCausalLM", TERN_ACT_SILU, "llama"},          {"MistralForCausalLM", TERN_ACT_SILU, "llama"},
};

const tern_family *tern_family__find(const char *architecture)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].architecture, architecture) == 0) return &families[i];
    return NULL;
}

const tern_family *tern_family__of_hf(tern_span class_name, tern_activation activation)
{
    for (size_t i = 0; i < sizeof hf_classes / sizeof *hf_classes; i++) {
        const char *name = hf_classes[i].class_name;
        bool same = class_name.size == strlen(name) && memcmp(class_name.data, name, class_name.size) == 0;
        if (same && hf_classes[i].activation == activation) return tern_family__find(hf_classes[i].architecture);
    }
    return NULL;
}

const char *tern_family__list(void)
{
    return "bitnet-b1.58, bitnet-25, bitnet or llama";
}
