/* Adapters of Hugging Face PEFT: adapter_config.json and the tensors beside it. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "model/adapter/internal.h"

#define PREFIX "base_model.model."

/* Settings that change what an adapter computes, or add other tensors to it. Unset they are absent, null, false, "none"
 * or empty. Source: peft's LoraConfig. */
static const char *const refused[] = {
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "lora_bias",
    "bias",
    "modules_to_save",
    "fan_in_fan_out",
    "layer_replication",
    "arrow_config",
    "target_parameters",
    "trainable_token_indices",
    "kasa_config",
    "alora_invocation_tokens",
};

static bool is_unset(const json_t *v)
{
    if (!v || json_is_null(v) || json_is_false(v)) return true;
    if (json_is_object(v)) return json_object_size(v) == 0;
    if (json_is_array(v)) return json_array_size(v) == 0;
    return json_is_string(v) && strcmp(json_string_value(v), "none") == 0;
}

static tern_status check_plain(const json_t *root, tern_error *err)
{
    tern_span type = {0};
    tern_status status = tern_json_get_string(root, "peft_type", &type, err);
    if (status == TERN_NOT_FOUND) return tern_fail(err, TERN_MALFORMED, "peft_type: not found, \"LORA\" expected");
    TERN_TRY(status);
    if (type.size != 4 || memcmp(type.data, "LORA", 4) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "peft_type: \"%s\" found, \"LORA\" expected", tern_show(type).text);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = json_object_get(root, refused[i]);
        if (is_unset(v)) continue;
        const char *found = json_is_string(v) ? json_string_value(v) : tern_json_kind(v);
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, a plain LoRA without it expected", refused[i],
                         tern_show_z(found).text);
    }
    return TERN_OK;
}

/* Initialisations that leave the base as it is. Others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) take the product of A and
 * B off the base when PEFT loads them, so that A and B alone are not a change of the published base. Source: PEFT,
 * LoraConfig.init_lora_weights. */
static tern_status check_start(const json_t *root, tern_error *err)
{
    static const char *const plain[] = {"gaussian", "eva", "orthogonal"};
    const json_t *start = json_object_get(root, "init_lora_weights");
    if (!start || json_is_null(start) || json_is_boolean(start)) return TERN_OK;
    const char *name = json_string_value(start);
    for (size_t i = 0; name && i < sizeof plain / sizeof *plain; i++)
        if (strcmp(name, plain[i]) == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "init_lora_weights: %s found, which changes the base model: save the adapter with PEFT's "
                     "path_initial_model_for_weight_conversion, which makes a plain LoRA of it",
                     name ? tern_show_z(name).text : tern_json_kind(start));
}

static tern_status need(const char *key, tern_status status, tern_error *err)
{
    return status == TERN_NOT_FOUND ? tern_fail(err, TERN_MALFORMED, "%s: not found, a number expected", key) : status;
}

static tern_status read_config(tern_adapter *adapter, const json_t *root, tern_error *err)
{
    tern_adapter_info *info = &adapter->info;
    tern_span base = {0};
    if (!json_is_object(root))
        return tern_fail(err, TERN_MALFORMED, "adapter_config.json: %s found, an object expected",
                         tern_json_kind(root));
    TERN_TRY(check_plain(root, err));
    TERN_TRY(check_start(root, err));
    TERN_TRY(need("r", tern_json_get_u32(root, "r", &info->rank, err), err));
    TERN_TRY(need("lora_alpha", tern_json_get_f32(root, "lora_alpha", &info->alpha, err), err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "lora_dropout", &info->dropout, err));
    TERN_TRY_OPTIONAL(tern_json_get_bool(root, "use_rslora", &info->rslora, err));
    TERN_TRY_OPTIONAL(tern_json_get_string(root, "base_model_name_or_path", &base, err));
    TERN_TRY(tern_adapter__set_base(adapter, "base_model_name_or_path", base, err));
    return tern_adapter__check_info(info, err);
}

static tern_status parse_name(const tern_config *config, const char *name, tern_adapter_half *half, tern_error *err)
{
    tern_span shown = {(const uint8_t *)name, strlen(name)}, module = shown;
    bool is_a = tern_adapter__cut(&module, ".lora_A.weight") || tern_adapter__cut(&module, ".lora_A.default.weight");
    half->is_b =
        !is_a && (tern_adapter__cut(&module, ".lora_B.weight") || tern_adapter__cut(&module, ".lora_B.default.weight"));
    size_t n = strlen(PREFIX);
    if ((!is_a && !half->is_b) || module.size < n || memcmp(module.data, PREFIX, n) != 0)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: found, \"" PREFIX
                         "\" and a layer's matrix with .lora_A.weight or .lora_B.weight expected",
                         tern_show(shown).text);
    return tern_adapter__parse_module(config, (tern_span){module.data + n, module.size - n}, "model.layers.", true,
                                      shown, half, err);
}

static tern_status read_half(const tern_config *config, const tern_st_tensor *t, tern_adapter_half *half,
                             tern_error *err)
{
    TERN_TRY(parse_name(config, t->name, half, err));
    if (t->dtype != TERN_ST_F32 && t->dtype != TERN_ST_F16 && t->dtype != TERN_ST_BF16)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, F32, F16 or BF16 expected", tern_show_z(t->name).text,
                         tern_st_dtype_name(t->dtype));
    if (t->n_dims != 2)
        return tern_fail(err, TERN_MALFORMED, "%s: %u dimensions found, 2 expected", tern_show_z(t->name).text,
                         t->n_dims);
    half->rows = t->dims[0];
    half->cols = t->dims[1];
    half->values = *t;
    return TERN_OK;
}

/* A target is the end of a module's name: "q_proj", "self_attn.q_proj", "model.layers.0.self_attn.q_proj". */
static bool target_fits(const char *target, const tern_adapter_half *half)
{
    const tern_span name = half->module;
    size_t n = name.size, m = strlen(target);
    if (m > n || memcmp(name.data + n - m, target, m) != 0) return false;
    return m == n || (m > 0 && name.data[n - m - 1] == '.');
}

static tern_status check_target(const json_t *target, const tern_adapter_half *halves, size_t n, tern_error *err)
{
    if (!json_is_string(target))
        return tern_fail(err, TERN_MALFORMED, "target_modules: %s found, a name expected", tern_json_kind(target));
    const char *name = json_string_value(target);
    for (size_t i = 0; i < n; i++)
        if (target_fits(name, &halves[i])) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "target_modules: \"%s\" found, but no tensor belongs to it",
                     tern_show_z(name).text);
}

/* A text instead of a list is a pattern or "all-linear": then the tensors say it alone. */
static tern_status check_targets(const json_t *root, const tern_adapter_half *halves, size_t n, tern_error *err)
{
    const json_t *targets = json_object_get(root, "target_modules"), *target;
    size_t i;
    if (!targets || json_is_null(targets) || json_is_string(targets)) return TERN_OK;
    if (!json_is_array(targets))
        return tern_fail(err, TERN_MALFORMED, "target_modules: %s found, names expected", tern_json_kind(targets));
    if (json_array_size(targets) > 4096)
        return tern_fail(err, TERN_LIMIT, "target_modules: %zu names found, at most 4096 expected",
                         json_array_size(targets));
    json_array_foreach(targets, i, target) TERN_TRY(check_target(target, halves, n, err));
    return TERN_OK;
}

/* Makes a half of each role of a mixed one: both have its A, and the rows of B that are theirs. */
static tern_status split_mixed(const tern_config *config, tern_adapter_half *half, tern_adapter_half *other,
                               tern_error *err)
{
    uint32_t n[2], cols;
    *other = *half;
    other->role = TERN_ROLE_SSM_GATE;
    tern_role__shape(half->role, half->layer, config, &n[0], &cols);
    tern_role__shape(other->role, other->layer, config, &n[1], &cols);
    if (!half->is_b) return TERN_OK;
    if (half->rows != (uint64_t)n[0] + n[1])
        return tern_fail(err, TERN_MALFORMED, "%s: %llu rows found, %u of q, k, v and z expected",
                         tern_show(half->name).text, (unsigned long long)half->rows, n[0] + n[1]);
    half->rows = n[0];
    other->rows = n[1];
    return TERN_OK;
}

/* halves: room for two of each tensor. */
static tern_status read_tensors(tern_adapter *adapter, const json_t *root, const tern_safetensors *st,
                                tern_adapter_half *halves, tern_error *err)
{
    size_t n = tern_safetensors_count(st), n_all = n;
    for (size_t i = 0; i < n; i++) TERN_TRY(read_half(&adapter->config, tern_safetensors_at(st, i), &halves[i], err));
    TERN_TRY(tern_adapter__apply_patterns(&adapter->info, root, halves, n, err));
    for (size_t i = 0; i < n; i++)
        if (halves[i].mixed) TERN_TRY(split_mixed(&adapter->config, &halves[i], &halves[n_all++], err));
    TERN_TRY(tern_adapter__fill(adapter, halves, n_all, err));
    return check_targets(root, halves, n, err);
}

tern_status tern_adapter__read_peft(tern_adapter *adapter, const json_t *root, const tern_safetensors *st,
                                    tern_error *err)
{
    adapter->info.format = "PEFT";
    adapter->form = (tern_adapter_form){0};
    TERN_TRY(read_config(adapter, root, err));
    size_t n = tern_safetensors_count(st);
    tern_adapter_half *halves = tern_calloc(n, 2 * sizeof *halves);
    if (!halves) return tern_fail_alloc(err, 2 * n * sizeof *halves);
    tern_status status = read_tensors(adapter, root, st, halves, err);
    tern_free(halves);
    return status;
}
