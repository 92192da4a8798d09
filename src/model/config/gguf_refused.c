/* Keys of GGUF files that change what llama.cpp computes and that Tern's graphs do not have: refused, unless they hold
 * the value that changes nothing. Source: llama.cpp, src/llama-arch.cpp and llama-model.cpp (load_hparams). */
#include "model/config/gguf_internal.h"

typedef struct refused_key {
    const char *key;
    double neutral; /* changes nothing, as does 0 */
} refused_key;

static const refused_key always[] = {
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.shared_kv_layers", 0},
    {"attention.temperature_length", 0},
    {"attention.temperature_scale", 0},
    {"attention.output_scale", 1},
    {"altup.num_inputs", 0},
    {"dense_2_feat_out", 0},
    {"dense_3_feat_out", 0},
    {"embedding_length_per_layer_input", 0},
    {"moe_every_n_layers", 1},
    {"router_logit_softcapping", 0},
    {"swiglu_clamp_shexp", 0},
    {"use_parallel_residual", 0},
};

/* Families without layers that recur: those that have them share experts, draft by blocks behind the last layer, and
 * turn the pairs of a head by sections, which are alike for text. */
static const refused_key sections[] = {
    {"expert_shared_feed_forward_length", 0}, {"nextn_predict_layers", 0}, {"rope.dimension_sections", 0}};

/* Families without multipliers. */
static const refused_key multipliers[] = {{"embedding_scale", 1}, {"residual_scale", 1}, {"logit_scale", 1}};

/* Where positions are not scaled by YaRN or LongRoPE. */
static const refused_key yarn[] = {{"rope.scaling.attn_factor", 1}, {"rope.scaling.yarn_ext_factor", 0}};

static double value_at(const tern_gguf *g, const tern_gguf_kv *kv, const char *key, uint64_t i)
{
    float v = 0;
    bool on = false;
    if (kv->kind == TERN_GGUF_ARRAY) return (double)tern_gguf_array_int(kv, i);
    if (tern_gguf_get_bool(g, key, &on, NULL) == TERN_OK) return on;
    return tern_gguf_get_f32(g, key, &v, NULL) == TERN_OK ? (double)v : -1; /* a text: never neutral */
}

static tern_status check(const tern_config *config, const tern_gguf *g, const refused_key *row, tern_error *err)
{
    const tern_gguf_key key = tern_config__key(config, row->key);
    const tern_gguf_kv *kv = tern_gguf_find(g, key.text);
    const bool flag = kv && kv->kind == TERN_GGUF_BOOL && row->neutral > 0; /* false is not 0 then */
    for (uint64_t i = 0; kv && i < kv->count; i++) {
        const double found = value_at(g, kv, key.text, i);
        if (found == row->neutral || (found == 0 && !flag)) continue;
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %g found, %g expected: Tern does not support it", key.text, found,
                         row->neutral);
    }
    return TERN_OK;
}

static tern_status check_all(const tern_config *config, const tern_gguf *g, const refused_key *rows, size_t n,
                             tern_error *err)
{
    for (size_t i = 0; i < n; i++) TERN_TRY(check(config, g, &rows[i], err));
    return TERN_OK;
}

tern_status tern_config__refuse_from_gguf(const tern_config *config, const tern_family *family, const tern_gguf *g,
                                          tern_error *err)
{
    const bool sized = config->rope[0].scaling == TERN_ROPE_YARN || config->rope[0].scaling == TERN_ROPE_LONG;
    TERN_TRY(check_all(config, g, always, sizeof always / sizeof *always, err));
    if (!family->recurs) TERN_TRY(check_all(config, g, sections, sizeof sections / sizeof *sections, err));
    if (!family->multipliers)
        TERN_TRY(check_all(config, g, multipliers, sizeof multipliers / sizeof *multipliers, err));
    return sized ? TERN_OK : check_all(config, g, yarn, sizeof yarn / sizeof *yarn, err);
}
