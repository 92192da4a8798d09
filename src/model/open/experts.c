/* The tensors of experts in Hugging Face folders: one for each expert, or all in one. */
#include <string.h>

#include "model/model_internal.h"

/* Parts of a tensor that several roles share are interleaved, even rows gate and odd rows up (GPT-OSS), or halves, of
 * families that have separate tensors as well (`halves`). Sources: transformers modeling_mixtral, modeling_qwen3_moe,
 * modeling_qwen3_5_moe and modeling_gpt_oss, as their checkpoints are saved. */
static const struct {
    const char *architecture;
    tern_role role;
    const char *hf; /* "%u" is the layer, a second one the expert */
    uint32_t part, parts;
    bool transposed, halves;
} sources[] = {
    {"llama", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.block_sparse_moe.experts.%u.w1.weight", 0, 1, false},
    {"llama", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.block_sparse_moe.experts.%u.w2.weight", 0, 1, false},
    {"llama", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.block_sparse_moe.experts.%u.w3.weight", 0, 1, false},
    {"qwen3moe", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.%u.gate_proj.weight", 0, 1, false},
    {"qwen3moe", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.%u.up_proj.weight", 0, 1, false},
    {"qwen3moe", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.%u.down_proj.weight", 0, 1, false},
    {"qwen35moe", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.%u.gate_proj.weight", 0, 1, false},
    {"qwen35moe", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.%u.up_proj.weight", 0, 1, false},
    {"qwen35moe", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.%u.down_proj.weight", 0, 1, false},
    {"qwen3next", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.%u.gate_proj.weight", 0, 1, false},
    {"qwen3next", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.%u.up_proj.weight", 0, 1, false},
    {"qwen3next", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.%u.down_proj.weight", 0, 1, false},
    {"qwen35moe", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.gate_up_proj", 0, 2, false, true},
    {"qwen35moe", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.gate_up_proj", 1, 2, false, true},
    {"qwen35moe", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.down_proj", 0, 1, false, true},
    {"qwen3next", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.gate_up_proj", 0, 2, false, true},
    {"qwen3next", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.gate_up_proj", 1, 2, false, true},
    {"qwen3next", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.down_proj", 0, 1, false, true},
    {"maple", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.%u.gate_proj.weight", 0, 1, false},
    {"maple", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.%u.up_proj.weight", 0, 1, false},
    {"maple", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.%u.down_proj.weight", 0, 1, false},
    {"gpt-oss", TERN_ROLE_FFN_GATE_EXPS, "model.layers.%u.mlp.experts.gate_up_proj", 0, 2, true},
    {"gpt-oss", TERN_ROLE_FFN_UP_EXPS, "model.layers.%u.mlp.experts.gate_up_proj", 1, 2, true},
    {"gpt-oss", TERN_ROLE_FFN_DOWN_EXPS, "model.layers.%u.mlp.experts.down_proj", 0, 1, true},
    {"gpt-oss", TERN_ROLE_FFN_GATE_EXPS_BIAS, "model.layers.%u.mlp.experts.gate_up_proj_bias", 0, 2, false},
    {"gpt-oss", TERN_ROLE_FFN_UP_EXPS_BIAS, "model.layers.%u.mlp.experts.gate_up_proj_bias", 1, 2, false},
    {"gpt-oss", TERN_ROLE_FFN_DOWN_EXPS_BIAS, "model.layers.%u.mlp.experts.down_proj_bias", 0, 1, false},
};

uint32_t tern_role__expert_rows(const tern_config *config, tern_role role, uint32_t layer)
{
    uint32_t rows, cols;
    tern_role__shape(role, layer, config, &rows, &cols);
    return rows / config->n_experts;
}

/* A bias has a number for each row of its matrix: numbers are what is interleaved there. */
bool tern_role__hf_experts(const tern_config *config, tern_role role, uint32_t layer, uint32_t expert, bool halves,
                           tern_hf_experts *out)
{
    const tern_role_kind kind = tern_role__kind(role);
    if (!tern_role__of_experts(role)) return false;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (sources[i].role != role || strcmp(sources[i].architecture, config->architecture) != 0) continue;
        if (sources[i].halves != halves) continue;
        char name[TERN_MODEL__NAME_BYTES];
        uint32_t rows, cols;
        tern_role__shape(role, layer, config, &rows, &cols);
        const uint32_t n = kind == TERN_KIND_F ? cols : rows / config->n_experts;
        tern_role__name_in_layer(sources[i].hf, layer, name);
        *out = (tern_hf_experts){.single = strstr(name, "%u") != NULL,
                                 .transposed = sources[i].transposed,
                                 .first = sources[i].part * (halves ? n : 1),
                                 .step = halves ? 1 : sources[i].parts,
                                 .rows = n * sources[i].parts};
        tern_role__name_in_layer(name, expert, out->name);
        tern_role__name_in_mtp(config, out->name);
        return true;
    }
    return false;
}

/* The number between two texts; false when the name is not so made. A number that is too large becomes UINT32_MAX. */
static bool number_between(tern_span s, const char *pattern, const char *mark, uint32_t *number)
{
    const size_t before = (size_t)(mark - pattern), after = strlen(mark + 2) - strlen(".weight");
    uint64_t n = 0;
    size_t at = before;
    if (s.size <= before + after || memcmp(s.data, pattern, before) != 0) return false;
    for (; at < s.size - after; at++) {
        if (s.data[at] < '0' || s.data[at] > '9') return false;
        if (n < UINT32_MAX) n = n * 10 + (uint64_t)(s.data[at] - '0');
    }
    *number = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    return memcmp(s.data + at, mark + 2, after) == 0;
}

bool tern_role__parse_hf_expert(const tern_config *config, tern_span module, uint32_t layer, tern_role *role,
                                uint32_t *expert)
{
    const char *family = config ? config->architecture : "";
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char name[TERN_MODEL__NAME_BYTES];
        if (*family && strcmp(sources[i].architecture, family) != 0) continue;
        tern_role__name_in_layer(sources[i].hf, layer, name);
        const char *mark = strstr(name, "%u");
        if (!mark || !number_between(module, name, mark, expert)) continue;
        *role = sources[i].role;
        return true;
    }
    return false;
}
