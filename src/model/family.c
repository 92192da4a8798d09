/* The model families: one row for each architecture, and the Hugging Face classes that belong to them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model_internal.h"

/* Sources: bitnet.cpp (bitnet-b1.58, bitnet-25: the 2B4T graph); llama.cpp (bitnet: the SiLU-gated graph of 2024, and
 * the rest); of Gemma and Qwen transformers' modeling files as well. */
static const tern_family families[] = {
    {"bitnet-b1.58", TERN_ACT_RELU2, .ternary = true, .needs_sub_norms = true, .rope_base = 500000.0f,
     .n_ctx_train = 4096},
    {"bitnet-25", TERN_ACT_RELU2, .ternary = true, .needs_sub_norms = true, .rope_base = 500000.0f,
     .n_ctx_train = 4096},
    {"bitnet", TERN_ACT_SILU, .ternary = true, .rope_base = 10000.0f},
    {"llama", TERN_ACT_SILU, .may_bias = true, .experts = TERN_EXPERTS_MAY, .rope_adjacent = true,
     .rope_base = 10000.0f},
    {"granite", TERN_ACT_SILU, .may_bias = true, .multipliers = true, .rope_adjacent = true, .rope_base = 10000.0f},
    {"smollm3", TERN_ACT_SILU, .may_bias = true, .plain_period = 4, .window_switch = true, .rope_adjacent = true,
     .rope_base = 10000.0f},
    {"phi3", TERN_ACT_SILU, .joined = true, .long_rope = true, .any_window = true, .rope_base = 10000.0f},
    {"qwen2", TERN_ACT_SILU, .qkv_bias = true, .window_switch = true, .rope_base = 10000.0f},
    {"qwen3", TERN_ACT_SILU, .may_bias = true, .qk_norm = true, .window_switch = true, .rope_base = 10000.0f},
    {"qwen3moe", TERN_ACT_SILU, .may_bias = true, .qk_norm = true, .window_switch = true, .experts = TERN_EXPERTS_ALL,
     .expert_ff = true, .rope_base = 10000.0f},
    {"qwen35", TERN_ACT_SILU, .qk_norm = true, .norms_from_one = true, .recurs = true, .tiled_heads = true,
     .rope_base = 10000000.0f},
    {"qwen35moe", TERN_ACT_SILU, .qk_norm = true, .norms_from_one = true, .recurs = true, .tiled_heads = true,
     .shared_expert = true, .experts = TERN_EXPERTS_ALL, .expert_ff = true, .route_normed = true,
     .rope_base = 10000000.0f},
    {"qwen3next", TERN_ACT_SILU, .qk_norm = true, .norms_from_one = true, .recurs = true, .joint_rates = true,
     .shared_expert = true, .experts = TERN_EXPERTS_ALL, .expert_ff = true, .route_normed = true,
     .rope_base = 10000000.0f},
    {"maple", TERN_ACT_SWIGLU_CLAMPED, .qk_norm = true, .full_period = 4, .plain_full = true,
     .experts = TERN_EXPERTS_ALL, .expert_ff = true, .route_normed = true, .ffn_limit = 7.0f, .rope_base = 10000.0f},
    {"gpt-oss", TERN_ACT_SWIGLU_OAI, .qkv_bias = true, .o_bias = true, .attn_sinks = true, .full_period = 2,
     .yarn_between = true, .experts = TERN_EXPERTS_ALL, .expert_bias = true, .mxfp4 = true,
     .route_rule = TERN_ROUTE_SOFTMAX_TOP, .ffn_limit = 7.0f, .rope_base = 150000.0f},
    {"gemma2", TERN_ACT_GELU, .post_norms = true, .norms_from_one = true, .scaled_embd = true, .full_period = 2,
     .score_softcap = 50.0f, .logit_softcap = 30.0f, .rope_base = 10000.0f},
    {"gemma3", TERN_ACT_GELU, .post_norms = true, .qk_norm = true, .norms_from_one = true, .scaled_embd = true,
     .full_period = 6, .window_rope_base = 10000.0f, .rope_base = 1000000.0f},
};

/* Where several classes are one family, the first is what its models are written as, unless class_of knows better. */
static const tern_family_class classes[] = {
    {"BitNetForCausalLM", TERN_ACT_RELU2, "bitnet-b1.58", "bitnet"},
    {"BitNetForCausalLM", TERN_ACT_SILU, "bitnet", "bitnet"},
    {"BitnetForCausalLM", TERN_ACT_RELU2, "bitnet-b1.58", "bitnet"},
    {"BitnetForCausalLM", TERN_ACT_SILU, "bitnet", "bitnet"},
    {"LlamaForCausalLM", TERN_ACT_SILU, "llama", "llama"},
    {"LlamaModel", TERN_ACT_SILU, "llama", "llama"},
    {"MistralForCausalLM", TERN_ACT_SILU, "llama", "mistral"},
    {"MistralModel", TERN_ACT_SILU, "llama", "mistral"},
    {"MixtralForCausalLM", TERN_ACT_SILU, "llama", "mixtral"},
    {"GraniteForCausalLM", TERN_ACT_SILU, "granite", "granite"},
    {"SmolLM3ForCausalLM", TERN_ACT_SILU, "smollm3", "smollm3"},
    {"Phi3ForCausalLM", TERN_ACT_SILU, "phi3", "phi3"},
    {"Qwen2ForCausalLM", TERN_ACT_SILU, "qwen2", "qwen2"},
    {"Qwen2Model", TERN_ACT_SILU, "qwen2", "qwen2"},
    {"Qwen3ForCausalLM", TERN_ACT_SILU, "qwen3", "qwen3"},
    {"Qwen3Model", TERN_ACT_SILU, "qwen3", "qwen3"},
    {"Qwen3MoeForCausalLM", TERN_ACT_SILU, "qwen3moe", "qwen3_moe"},
    {"Qwen3_5ForCausalLM", TERN_ACT_SILU, "qwen35", "qwen3_5_text"},
    {"Qwen3_5ForConditionalGeneration", TERN_ACT_SILU, "qwen35", "qwen3_5"},
    {"Qwen3_5MoeForCausalLM", TERN_ACT_SILU, "qwen35moe", "qwen3_5_moe_text"},
    {"Qwen3_5MoeForConditionalGeneration", TERN_ACT_SILU, "qwen35moe", "qwen3_5_moe"},
    {"Qwen3NextForCausalLM", TERN_ACT_SILU, "qwen3next", "qwen3_next"},
    {"MapleForCausalLM", TERN_ACT_SILU, "maple", "maple"},
    {"GptOssForCausalLM", TERN_ACT_SILU, "gpt-oss", "gpt_oss"},
    {"Gemma2ForCausalLM", TERN_ACT_GELU, "gemma2", "gemma2"},
    {"Gemma3ForCausalLM", TERN_ACT_GELU, "gemma3", "gemma3_text"},
    {"Gemma3TextModel", TERN_ACT_GELU, "gemma3", "gemma3_text"},
    {"Gemma3ForConditionalGeneration", TERN_ACT_GELU, "gemma3", "gemma3"},
};

const tern_family *tern_family__find(const char *architecture)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].architecture, architecture) == 0) return &families[i];
    return NULL;
}

const tern_family *tern_family__of_hf(tern_span class_name, tern_activation activation)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const bool same = tern_model__says(class_name, classes[i].name);
        if (same && classes[i].activation == activation) return tern_family__find(classes[i].architecture);
    }
    return NULL;
}

bool tern_family__has_class(tern_span class_name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (tern_model__says(class_name, classes[i].name)) return true;
    return false;
}

const char *tern_activation_name(tern_activation activation)
{
    static const char *const names[] = {[TERN_ACT_RELU2] = "relu2",
                                        [TERN_ACT_SILU] = "silu",
                                        [TERN_ACT_GELU] = "gelu_pytorch_tanh",
                                        [TERN_ACT_SWIGLU_OAI] = "swiglu_oai",
                                        [TERN_ACT_SWIGLU_CLAMPED] = "swiglu_clamped"};
    return names[activation];
}

const char *tern_family__list(void)
{
    return "bitnet-b1.58, bitnet-25, bitnet, llama, granite, smollm3, phi3, qwen2, qwen3, qwen3moe, qwen35, "
           "qwen35moe, qwen3next, maple, gpt-oss, gemma2 or gemma3";
}

const char *tern_family__classes(void)
{
    return "BitNetForCausalLM, LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, GraniteForCausalLM, "
           "SmolLM3ForCausalLM, Phi3ForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, "
           "Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5MoeForCausalLM, "
           "Qwen3_5MoeForConditionalGeneration, Qwen3NextForCausalLM, MapleForCausalLM, GptOssForCausalLM, "
           "Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3ForConditionalGeneration, "
           "or without a head LlamaModel, MistralModel, Qwen2Model, Qwen3Model or Gemma3TextModel";
}

static const tern_family_class *class_named(const char *name)
{
    size_t i = 0;
    while (strcmp(classes[i].name, name) != 0) i++;
    return &classes[i];
}

const tern_family_class *tern_family__class_of(const tern_config *config)
{
    if (config->sub_norms) return class_named("BitNetForCausalLM"); /* of all classes the one that has them */
    if (strcmp(config->architecture, "llama") == 0 && config->n_experts) return class_named("MixtralForCausalLM");
    if (strcmp(config->architecture, "llama") == 0 && config->window) return class_named("MistralForCausalLM");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].architecture, config->architecture) == 0 && strncmp(classes[i].name, "Bit", 3) != 0)
            return &classes[i];
    return class_named("LlamaForCausalLM");
}

void tern_family__set(tern_config *config, const tern_family *family)
{
    snprintf(config->architecture, sizeof config->architecture, "%s", family->architecture);
    config->activation = family->activation;
    config->post_norms = family->post_norms;
    config->qk_norm = family->qk_norm;
    config->qkv_bias = family->qkv_bias;
    config->plain_period = family->plain_period;
    config->o_bias = family->o_bias;
    config->q_gate = family->recurs;
    config->attn_sinks = family->attn_sinks;
    config->expert_bias = family->expert_bias;
    config->route_rule = family->route_rule;
    config->ffn_limit = family->ffn_limit;
    config->rope[0].base = family->rope_base;
}

void tern_family__finish(tern_config *config, const tern_family *family)
{
    if (family->scaled_embd) config->embd_scale = sqrtf((float)config->n_embd);
    if (family->plain_full) config->plain_period = config->full_period;
    if (config->window == 0) return;
    if (config->rope[1].base == 0) config->rope[1].base = family->window_rope_base;
}
