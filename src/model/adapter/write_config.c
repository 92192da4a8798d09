/* Writing adapter_config.json, as PEFT does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/adapter/internal.h"

/* The shortest decimal that reads back as the same f32. */
static tern_status add_number(tern_buf *out, float v, tern_error *err)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v) break;
    }
    return tern_buf_addf(out, err, "%s", text);
}

static const char mixed_target[] = "in_proj_qkvz";

static bool has_target(const tern_adapter *ad, tern_role role)
{
    for (uint32_t layer = 0; layer < ad->info.n_layers; layer++)
        if (tern_adapter_find(ad, role, layer)) return true;
    return false;
}

/* The last part of the module's name: "q_proj", and of experts what the family calls it, "w1". */
static void name_target(const tern_adapter *ad, tern_role role, char out[TERN_MODEL__NAME_BYTES])
{
    tern_hf_experts named;
    snprintf(out, TERN_MODEL__NAME_BYTES, "%s",
             tern_adapter__is_mixed(ad, role) ? mixed_target : tern_adapter_target(role));
    if (!tern_role__hf_experts(&ad->config, role, 0, 0, false, &named)) return;
    named.name[strlen(named.name) - strlen(".weight")] = 0;
    snprintf(out, TERN_MODEL__NAME_BYTES, "%s", strrchr(named.name, '.') + 1);
}

/* Whether a role before this one has its name: then it is there. */
static bool is_named(const tern_adapter *ad, tern_role role, const char *name)
{
    for (int before = 0; before < (int)role; before++) {
        char other[TERN_MODEL__NAME_BYTES];
        if (!has_target(ad, (tern_role)before)) continue;
        name_target(ad, (tern_role)before, other);
        if (strcmp(name, other) == 0) return true;
    }
    return false;
}

static tern_status add_targets(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    const char *before = "[";
    for (int role = 0; role < TERN_ROLE_COUNT; role++) {
        if (!has_target(ad, (tern_role)role)) continue;
        char name[TERN_MODEL__NAME_BYTES];
        name_target(ad, (tern_role)role, name);
        if (is_named(ad, (tern_role)role, name)) continue;
        TERN_TRY(tern_buf_addf(out, err, "%s\"%s\"", before, name));
        before = ", ";
    }
    return tern_buf_addf(out, err, "]");
}

static tern_status add_base(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    const char *base = ad->info.base;
    return *base ? tern_json_add_string(out, base, strlen(base), err) : tern_buf_addf(out, err, "null");
}

static tern_status add_alpha(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    return add_number(out, ad->info.alpha, err);
}

static tern_status add_dropout(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    return add_number(out, ad->info.dropout, err);
}

static tern_status add_rank(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    return tern_buf_addf(out, err, "%u", ad->info.rank);
}

/* Where two pairs are written as one of twice the rank, alpha grows so that the scale stays. */
static bool is_wider(const tern_adapter *ad)
{
    return ad->config.recurrence.joint_rates && tern_adapter__mixed_rank(ad) > ad->info.rank;
}

static tern_status add_rank_pattern(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    if (!is_wider(ad)) return tern_buf_addf(out, err, "{}");
    return tern_buf_addf(out, err, "{\"%s\": %u}", mixed_target, tern_adapter__mixed_rank(ad));
}

static tern_status add_alpha_pattern(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    if (!is_wider(ad)) return tern_buf_addf(out, err, "{}");
    TERN_TRY(tern_buf_addf(out, err, "{\"%s\": ", mixed_target));
    TERN_TRY(add_number(out, ad->info.alpha * (ad->info.rslora ? sqrtf(2.0f) : 2.0f), err));
    return tern_buf_addf(out, err, "}");
}

static tern_status add_rslora(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    return tern_buf_addf(out, err, "%s", ad->info.rslora ? "true" : "false");
}

/* All keys of PEFT 0.21.0's LoraConfig, sorted as it sorts them: a value that is always the same, or what adds it.
 * Older versions leave out what they do not know, and say so. peft_version says who wrote the file: not PEFT. */
static const struct {
    const char *key, *value;
    tern_status (*add)(const tern_adapter *ad, tern_buf *out, tern_error *err);
} config_keys[] = {
    {"alora_invocation_tokens", "null", NULL},
    {"alpha_pattern", NULL, add_alpha_pattern},
    {"arrow_config", "null", NULL},
    {"auto_mapping", "null", NULL},
    {"base_model_name_or_path", NULL, add_base},
    {"bias", "\"none\"", NULL},
    {"corda_config", "null", NULL},
    {"ensure_weight_tying", "false", NULL},
    {"eva_config", "null", NULL},
    {"exclude_modules", "null", NULL},
    {"fan_in_fan_out", "false", NULL},
    {"inference_mode", "true", NULL},
    {"init_lora_weights", "true", NULL},
    {"kasa_config", "null", NULL},
    {"layer_replication", "null", NULL},
    {"layers_pattern", "null", NULL},
    {"layers_to_transform", "null", NULL},
    {"loftq_config", "{}", NULL},
    {"lora_alpha", NULL, add_alpha},
    {"lora_bias", "false", NULL},
    {"lora_dropout", NULL, add_dropout},
    {"lora_ga_config", "null", NULL},
    {"megatron_config", "null", NULL},
    {"megatron_core", "\"megatron.core\"", NULL},
    {"modules_to_save", "null", NULL},
    {"monteclora_config", "null", NULL},
    {"peft_type", "\"LORA\"", NULL},
    {"peft_version", "null", NULL},
    {"qalora_group_size", "16", NULL},
    {"r", NULL, add_rank},
    {"rank_pattern", NULL, add_rank_pattern},
    {"revision", "null", NULL},
    {"target_modules", NULL, add_targets},
    {"target_parameters", "null", NULL},
    {"task_type", "\"CAUSAL_LM\"", NULL},
    {"trainable_token_indices", "null", NULL},
    {"use_bdlora", "null", NULL},
    {"use_dora", "false", NULL},
    {"use_qalora", "false", NULL},
    {"use_rslora", NULL, add_rslora},
    {"velora_config", "null", NULL},
};

tern_status tern_adapter__add_peft_config(const tern_adapter *ad, tern_buf *out, tern_error *err)
{
    const size_t n = sizeof config_keys / sizeof *config_keys;
    for (size_t i = 0; i < n; i++) {
        TERN_TRY(tern_buf_addf(out, err, "%s  \"%s\": ", i ? ",\n" : "{\n", config_keys[i].key));
        if (config_keys[i].add) TERN_TRY(config_keys[i].add(ad, out, err));
        else TERN_TRY(tern_buf_addf(out, err, "%s", config_keys[i].value));
    }
    return tern_buf_addf(out, err, "\n}\n");
}
