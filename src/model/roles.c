/* The roles of tensors: their kinds, their names in both kinds of file, and their shapes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model_internal.h"

static const struct {
    const char *gguf, *hf;
    tern_role_kind kind;
} roles[TERN_ROLE_COUNT] = {
#define ROLE_ROW(name, gguf, hf, kind) [TERN_ROLE_##name] = {gguf, hf, TERN_KIND_##kind},
    TERN_ROLE_LIST(ROLE_ROW)
#undef ROLE_ROW
};

/* Names of the first public BitNet checkpoints (BitnetForCausalLM), and of BitNet embeddings; those of the norms before
 * linear layers in the list are transformers' (BitLinear with use_rms_norm). */
static const struct {
    tern_role role;
    const char *hf;
} older_names[] = {
    {TERN_ROLE_ATTN_SUB_NORM, "model.layers.%u.self_attn.inner_attn_ln.weight"},
    {TERN_ROLE_FFN_SUB_NORM, "model.layers.%u.mlp.ffn_layernorm.weight"},
    {TERN_ROLE_ATTN_Q_IN_NORM, "model.layers.%u.self_attn.q_proj.norm.weight"},
    {TERN_ROLE_ATTN_K_IN_NORM, "model.layers.%u.self_attn.k_proj.norm.weight"},
    {TERN_ROLE_ATTN_V_IN_NORM, "model.layers.%u.self_attn.v_proj.norm.weight"},
    {TERN_ROLE_ATTN_OUTPUT_IN_NORM, "model.layers.%u.self_attn.o_proj.norm.weight"},
    {TERN_ROLE_FFN_GATE_IN_NORM, "model.layers.%u.mlp.gate_proj.norm.weight"},
    {TERN_ROLE_FFN_UP_IN_NORM, "model.layers.%u.mlp.up_proj.norm.weight"},
    {TERN_ROLE_FFN_DOWN_IN_NORM, "model.layers.%u.mlp.down_proj.norm.weight"},
};

/* Names that are a family's own; NULL: that of all. */
static const struct {
    const char *architecture;
    tern_role role;
    const char *gguf, *hf;
} own_names[] = {
    {"gpt-oss", TERN_ROLE_FFN_NORM, "blk.%u.post_attention_norm.weight", NULL},
    {"qwen35", TERN_ROLE_FFN_NORM, "blk.%u.post_attention_norm.weight", NULL},
    {"qwen35moe", TERN_ROLE_FFN_NORM, "blk.%u.post_attention_norm.weight", NULL},
    {"qwen3next", TERN_ROLE_FFN_NORM, "blk.%u.post_attention_norm.weight", NULL},
    {"qwen3next", TERN_ROLE_SSM_QKV, NULL, "model.layers.%u.linear_attn.in_proj_qkvz.weight"},
    {"qwen3next", TERN_ROLE_SSM_GATE, NULL, "model.layers.%u.linear_attn.in_proj_qkvz.weight"},
    {"qwen35moe", TERN_ROLE_ROUTER, NULL, "model.layers.%u.mlp.gate.weight"},
    {"qwen3next", TERN_ROLE_ROUTER, NULL, "model.layers.%u.mlp.gate.weight"},
    {"llama", TERN_ROLE_ROUTER, NULL, "model.layers.%u.block_sparse_moe.gate.weight"},
    {"qwen3moe", TERN_ROLE_ROUTER, NULL, "model.layers.%u.mlp.gate.weight"},
    {"maple", TERN_ROLE_ROUTER, NULL, "model.layers.%u.mlp.gate.weight"},
    {"maple", TERN_ROLE_TOKEN_EMBD, NULL, "model.word_embeddings.weight"},
};

static const char *own_name(const tern_config *config, tern_role role, bool gguf)
{
    for (size_t i = 0; config && i < sizeof own_names / sizeof *own_names; i++)
        if (own_names[i].role == role && strcmp(own_names[i].architecture, config->architecture) == 0)
            return gguf ? own_names[i].gguf : own_names[i].hf;
    return NULL;
}

static const char *gguf_pattern_of(const tern_config *config, tern_role role)
{
    const char *own = own_name(config, role, true);
    return own ? own : roles[role].gguf;
}

/* Where there are norms after the blocks, "post_attention_layernorm" is the one after attention. */
static const char *pattern_of(const tern_config *config, tern_role role)
{
    const char *own = own_name(config, role, false);
    if (own) return own;
    if (role == TERN_ROLE_FFN_NORM && config && config->post_norms)
        return "model.layers.%u.pre_feedforward_layernorm.weight";
    return roles[role].hf;
}

void tern_role__rsr_name(const char *weight_name, char *out, size_t n)
{
    snprintf(out, n, "%.*s.rsr", (int)(strlen(weight_name) - strlen(".weight")), weight_name);
}

void tern_role__scale_name(const char *weight_name, char *out, size_t n)
{
    snprintf(out, n, "%.*s.scale", (int)(strlen(weight_name) - strlen(".weight")), weight_name);
}

tern_role_kind tern_role__kind(tern_role role)
{
    return roles[role].kind;
}

bool tern_role__of_experts(tern_role role)
{
    return roles[role].kind == TERN_KIND_E || roles[role].kind == TERN_KIND_F;
}

bool tern_role__in_layer(tern_role role)
{
    return strstr(roles[role].gguf, "%u") != NULL;
}

/* A norm before one linear layer. */
static bool is_in_norm(tern_role role)
{
    return role >= TERN_ROLE_ATTN_Q_IN_NORM && role <= TERN_ROLE_FFN_DOWN_IN_NORM;
}

bool tern_role__is_rotated(tern_role role)
{
    return role == TERN_ROLE_ATTN_Q || role == TERN_ROLE_ATTN_K || role == TERN_ROLE_ATTN_Q_BIAS ||
           role == TERN_ROLE_ATTN_K_BIAS;
}

/* Roles of attention and the like, in a layer that recurs; and the other way round. */
static bool is_of_other_layers(tern_role role, bool recurs)
{
    if (role >= TERN_ROLE_SSM_QKV && role <= TERN_ROLE_SSM_OUT) return !recurs;
    const bool attention = (role >= TERN_ROLE_ATTN_Q && role <= TERN_ROLE_ATTN_SUB_NORM) ||
                           (role >= TERN_ROLE_ATTN_Q_BIAS && role <= TERN_ROLE_ATTN_K_NORM) ||
                           role == TERN_ROLE_ATTN_OUTPUT_BIAS || role == TERN_ROLE_ATTN_SINKS;
    return attention && recurs;
}

/* A block that drafts tokens has the tables of its model, and a last norm of its own. */
static bool is_outside_mtp(tern_role role)
{
    return role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
}

bool tern_role__may_lack(tern_role role, uint32_t layer, const tern_config *config)
{
    if (is_in_norm(role)) return !config->linear_norms;
    if (role >= TERN_ROLE_MTP_INPUT && role <= TERN_ROLE_MTP_NORM) return !config->mtp_at;
    if (config->mtp_at && is_outside_mtp(role)) return true;
    if (is_of_other_layers(role, tern_config_layer(config, layer).recurs)) return true;
    switch (role) {
    case TERN_ROLE_SSM_ALPHA:
    case TERN_ROLE_SSM_BETA: return config->recurrence.joint_rates;
    case TERN_ROLE_SSM_BETA_ALPHA: return !config->recurrence.joint_rates;
    case TERN_ROLE_FFN_GATE_SHEXP:
    case TERN_ROLE_FFN_UP_SHEXP:
    case TERN_ROLE_FFN_DOWN_SHEXP:
    case TERN_ROLE_ROUTER_SHEXP: return !config->n_ff_shared;
    case TERN_ROLE_OUTPUT: return config->tied_head;
    case TERN_ROLE_ATTN_SUB_NORM:
    case TERN_ROLE_FFN_SUB_NORM: return !config->sub_norms;
    case TERN_ROLE_ATTN_POST_NORM:
    case TERN_ROLE_FFN_POST_NORM: return !config->post_norms;
    case TERN_ROLE_ATTN_Q_NORM:
    case TERN_ROLE_ATTN_K_NORM: return !config->qk_norm;
    case TERN_ROLE_ATTN_Q_BIAS:
    case TERN_ROLE_ATTN_K_BIAS:
    case TERN_ROLE_ATTN_V_BIAS: return !config->qkv_bias;
    case TERN_ROLE_ATTN_OUTPUT_BIAS: return !config->o_bias;
    case TERN_ROLE_ATTN_SINKS: return !config->attn_sinks;
    case TERN_ROLE_FFN_GATE:
    case TERN_ROLE_FFN_UP:
    case TERN_ROLE_FFN_DOWN: return config->n_experts > 0;
    case TERN_ROLE_ROUTER:
    case TERN_ROLE_FFN_GATE_EXPS:
    case TERN_ROLE_FFN_UP_EXPS:
    case TERN_ROLE_FFN_DOWN_EXPS: return !config->n_experts;
    case TERN_ROLE_ROUTER_BIAS:
    case TERN_ROLE_FFN_GATE_EXPS_BIAS:
    case TERN_ROLE_FFN_UP_EXPS_BIAS:
    case TERN_ROLE_FFN_DOWN_EXPS_BIAS: return !config->n_experts || !config->expert_bias;
    default: return false;
    }
}

bool tern_role__next(tern_role_walk *walk, const tern_config *config)
{
    for (uint64_t end = ((uint64_t)config->n_layers + 1) * TERN_ROLE_COUNT; walk->at < end;) {
        uint64_t at = walk->at++;
        tern_role role = (tern_role)(at % TERN_ROLE_COUNT);
        bool in_layer = at >= TERN_ROLE_COUNT;
        const uint32_t layer = in_layer ? (uint32_t)(at / TERN_ROLE_COUNT - 1) : 0;
        if (tern_role__in_layer(role) != in_layer || tern_role__may_lack(role, layer, config)) continue;
        walk->role = role;
        walk->layer = layer;
        return true;
    }
    return false;
}

void tern_role__name_in_layer(const char *pattern, uint32_t layer, char *out)
{
    const char *mark = strstr(pattern, "%u");
    if (!mark) snprintf(out, TERN_MODEL__NAME_BYTES, "%s", pattern);
    else snprintf(out, TERN_MODEL__NAME_BYTES, "%.*s%u%s", (int)(mark - pattern), pattern, layer, mark + 2);
}

void tern_role__gguf_name(const tern_config *config, tern_role role, uint32_t layer, char *out)
{
    tern_role__name_in_layer(gguf_pattern_of(config, role), layer + (config ? config->mtp_at : 0), out);
}

void tern_role__name_in_mtp(const tern_config *config, char *name)
{
    static const char model[] = "model.layers.", mtp[] = "mtp.layers.";
    const size_t n = sizeof model - 1, m = sizeof mtp - 1;
    if (!config || !config->mtp_at || strncmp(name, model, n) != 0) return;
    memcpy(name, mtp, m);
    memmove(name + m, name + n, strlen(name + n) + 1);
}

bool tern_role__hf_name(const tern_config *config, tern_role role, uint32_t layer, unsigned i, char *out)
{
    if (i == 0) {
        tern_role__name_in_layer(pattern_of(config, role), layer, out);
        tern_role__name_in_mtp(config, out);
        return true;
    }
    for (size_t k = 0; k < sizeof older_names / sizeof *older_names; k++) {
        if (older_names[k].role != role || --i > 0) continue;
        tern_role__name_in_layer(older_names[k].hf, layer, out);
        return true;
    }
    return false;
}

/* The prefix in place of "model." in models that are not text alone. */
static const char *const text_prefixes[TERN_HF_SPELLINGS] = {[TERN_HF_ALONE] = "model.",
                                                             [TERN_HF_BEFORE] = "language_model.model.",
                                                             [TERN_HF_WITHIN] = "model.language_model.",
                                                             [TERN_HF_BARE] = ""};

void tern_role__spell(tern_hf_spelling spelling, const char *name, char *out)
{
    static const char own[] = "model.";
    const size_t n = strlen(own);
    const bool within = strncmp(name, own, n) == 0;
    const bool beside = spelling == TERN_HF_BEFORE && strncmp(name, "mtp.", 4) != 0;
    const char *before = within ? text_prefixes[spelling] : beside ? "language_model." : "";
    snprintf(out, TERN_MODEL__NAME_BYTES, "%s%s", before, within ? name + n : name);
}

const char *tern_role__layers_prefix(tern_hf_spelling spelling)
{
    static const char *const prefixes[TERN_HF_SPELLINGS] = {[TERN_HF_ALONE] = "model.layers.",
                                                            [TERN_HF_BEFORE] = "language_model.model.layers.",
                                                            [TERN_HF_WITHIN] = "model.language_model.layers.",
                                                            [TERN_HF_BARE] = "layers."};
    return prefixes[spelling];
}

const char *tern_role__text_prefix(tern_hf_spelling spelling)
{
    return spelling == TERN_HF_ALONE ? "" : text_prefixes[spelling]; /* "": all are its */
}

/* Roles of layers that recur; false of other roles. */
static bool shape_recurrent(tern_role role, const tern_config *config, uint32_t *rows, uint32_t *cols)
{
    const tern_recurrence *c = &config->recurrence;
    const uint32_t values = c->n_heads * c->value_dim, mixed = 2 * c->n_key_heads * c->key_dim + values;
    *rows = 1;
    *cols = config->n_embd;
    switch (role) {
    case TERN_ROLE_SSM_QKV: *rows = mixed; return true;
    case TERN_ROLE_SSM_GATE: *rows = values; return true;
    case TERN_ROLE_SSM_ALPHA:
    case TERN_ROLE_SSM_BETA: *rows = c->n_heads; return true;
    case TERN_ROLE_SSM_BETA_ALPHA: *rows = 2 * c->n_heads; return true;
    case TERN_ROLE_SSM_CONV: *rows = mixed, *cols = c->n_taps; return true;
    case TERN_ROLE_SSM_DECAY:
    case TERN_ROLE_SSM_DT: *cols = c->n_heads; return true;
    case TERN_ROLE_SSM_NORM: *cols = c->value_dim; return true;
    case TERN_ROLE_SSM_OUT: *rows = config->n_embd, *cols = values; return true;
    default: return false;
    }
}

void tern_role__shape(tern_role role, uint32_t layer, const tern_config *config, uint32_t *rows, uint32_t *cols)
{
    const tern_config *c = config;
    uint32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    const uint32_t ff = tern_config_layer(c, layer).n_ff;
    uint32_t r = 1, n = c->n_embd;
    if (shape_recurrent(role, c, rows, cols)) return;
    switch (role) {
    case TERN_ROLE_TOKEN_EMBD:
    case TERN_ROLE_OUTPUT: r = c->n_vocab; break;
    case TERN_ROLE_ATTN_Q: r = c->q_gate ? 2 * q : q; break;
    case TERN_ROLE_ATTN_K:
    case TERN_ROLE_ATTN_V: r = kv; break;
    case TERN_ROLE_ATTN_OUTPUT: r = c->n_embd, n = q; break;
    case TERN_ROLE_ATTN_Q_BIAS:
    case TERN_ROLE_ATTN_OUTPUT_IN_NORM:
    case TERN_ROLE_ATTN_SUB_NORM: n = q; break;
    case TERN_ROLE_ATTN_K_BIAS:
    case TERN_ROLE_ATTN_V_BIAS: n = kv; break;
    case TERN_ROLE_ATTN_Q_NORM:
    case TERN_ROLE_ATTN_K_NORM: n = c->head_dim; break;
    case TERN_ROLE_FFN_GATE:
    case TERN_ROLE_FFN_UP: r = ff; break;
    case TERN_ROLE_FFN_DOWN: r = c->n_embd, n = ff; break;
    case TERN_ROLE_FFN_DOWN_IN_NORM:
    case TERN_ROLE_FFN_SUB_NORM: n = ff; break;
    case TERN_ROLE_ATTN_SINKS: n = c->n_heads; break;
    case TERN_ROLE_FFN_GATE_SHEXP:
    case TERN_ROLE_FFN_UP_SHEXP: r = c->n_ff_shared; break;
    case TERN_ROLE_FFN_DOWN_SHEXP: r = c->n_embd, n = c->n_ff_shared; break;
    case TERN_ROLE_ROUTER: r = c->n_experts; break;
    case TERN_ROLE_ROUTER_BIAS: n = c->n_experts; break;
    case TERN_ROLE_FFN_GATE_EXPS:
    case TERN_ROLE_FFN_UP_EXPS: r = c->n_experts * ff; break;
    case TERN_ROLE_FFN_DOWN_EXPS: r = c->n_experts * c->n_embd, n = ff; break;
    case TERN_ROLE_FFN_GATE_EXPS_BIAS:
    case TERN_ROLE_FFN_UP_EXPS_BIAS: r = c->n_experts, n = ff; break;
    case TERN_ROLE_FFN_DOWN_EXPS_BIAS: r = c->n_experts; break;
    case TERN_ROLE_MTP_INPUT: r = c->n_embd, n = 2 * c->n_embd; break;
    default: break;
    }
    *rows = r;
    *cols = n;
}

tern_head_order tern_role__head_order(const tern_config *config, tern_role role, bool tiled)
{
    const tern_recurrence *c = &config->recurrence;
    tern_head_order o = {.run = c->value_dim, .n = c->n_key_heads, .columns = role == TERN_ROLE_SSM_OUT};
    if (!c->n_heads || c->tiled == tiled) return (tern_head_order){0};
    o.m = c->n_heads / c->n_key_heads;
    if (!tiled) o = (tern_head_order){.run = o.run, .n = o.m, .m = o.n, .columns = o.columns};
    switch (role) {
    case TERN_ROLE_SSM_QKV:
    case TERN_ROLE_SSM_CONV: o.first = 2 * c->n_key_heads * c->key_dim; return o;
    case TERN_ROLE_SSM_ALPHA:
    case TERN_ROLE_SSM_BETA:
    case TERN_ROLE_SSM_DECAY:
    case TERN_ROLE_SSM_DT: o.run = 1; return o;
    case TERN_ROLE_SSM_GATE:
    case TERN_ROLE_SSM_OUT: return o;
    default: return (tern_head_order){0};
    }
}

void tern_head_order_columns(const tern_head_order *order, void *rows, uint32_t n, uint32_t cols, size_t item,
                             void *room)
{
    for (uint32_t r = 0; order->run && order->columns && r < n; r++) {
        uint8_t *row = (uint8_t *)rows + (size_t)r * cols * item;
        memcpy(room, row, cols * item);
        for (uint32_t c = 0; c < cols; c += order->run)
            memcpy(row + c * item, (uint8_t *)room + tern_head_order_source(order, c) * item, order->run * item);
    }
}

void tern_role__mixed_row(const tern_config *config, uint32_t i, tern_role *role, uint32_t *row)
{
    const tern_recurrence *c = &config->recurrence;
    const uint32_t keys = c->key_dim, values = c->n_heads / c->n_key_heads * c->value_dim;
    const uint32_t head = i / (2 * keys + 2 * values), at = i % (2 * keys + 2 * values);
    const uint32_t all = c->n_key_heads * keys;
    *role = at < 2 * keys + values ? TERN_ROLE_SSM_QKV : TERN_ROLE_SSM_GATE;
    if (at < keys) *row = head * keys + at;
    else if (at < 2 * keys) *row = all + head * keys + at - keys;
    else if (at < 2 * keys + values) *row = 2 * all + head * values + at - 2 * keys;
    else *row = head * values + at - 2 * keys - values;
}

static float hf_offset(const tern_config *config, tern_role role)
{
    const tern_family *family = tern_family__find(config->architecture);
    const bool stored_whole = is_in_norm(role) || role == TERN_ROLE_SSM_NORM;
    return family && family->norms_from_one && tern_role_is_norm(role) && !stored_whole ? 1.0f : 0.0f;
}

float tern_role_to_trained(tern_role role, float value)
{
    return role == TERN_ROLE_SSM_DECAY ? (float)log(-(double)value) : value;
}

float tern_role_from_trained(tern_role role, float value)
{
    return role == TERN_ROLE_SSM_DECAY ? (float)-exp((double)value) : value;
}

float tern_role__from_hf(const tern_config *config, tern_role role, float value)
{
    return tern_role_from_trained(role, value) + hf_offset(config, role);
}

float tern_role__to_hf(const tern_config *config, tern_role role, float value)
{
    return tern_role_to_trained(role, value - hf_offset(config, role));
}

void tern_role_hf_name(const tern_config *config, tern_role role, uint32_t layer, char *out)
{
    tern_role__hf_name(config, role, layer, 0, out);
}

bool tern_role_is_linear(tern_role role)
{
    return roles[role].kind == TERN_KIND_L;
}

bool tern_role_is_matrix(tern_role role)
{
    return roles[role].kind == TERN_KIND_L || roles[role].kind == TERN_KIND_E;
}

bool tern_role_is_norm(tern_role role)
{
    return roles[role].kind == TERN_KIND_N;
}

bool tern_role_is_vector(tern_role role)
{
    return tern_role_is_norm(role) || roles[role].kind == TERN_KIND_B || roles[role].kind == TERN_KIND_F;
}
