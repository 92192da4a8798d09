/* How attention and the head make scores, from GGUF metadata. Keys: llama.cpp's (src/llama-arch.cpp). */
#include <math.h>
#include <string.h>

#include "model/config/gguf_internal.h"

/* llama.cpp's rule for files that do not say: the two models of 27B parameters, known by their layers, divide by the
 * embedding's share of a head. */
static float score_scale(const tern_config *c)
{
    const bool large = (strcmp(c->architecture, "gemma2") == 0 && c->n_layers == 46) ||
                       (strcmp(c->architecture, "gemma3") == 0 && c->n_layers == 62);
    return large ? 1.0f / sqrtf((float)c->n_embd / (float)c->n_heads) : 0.0f;
}

/* A word for each layer, whether it has a window. */
static tern_status read_window_layers(tern_config *config, const tern_gguf_kv *kv, const char *key, tern_error *err)
{
    bool full[TERN_MAX_LAYERS];
    uint32_t odd;
    if (kv->count != config->n_layers || kv->count > TERN_MAX_LAYERS)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu found, one for each of %u layers (at most %d) expected", key,
                         (unsigned long long)kv->count, config->n_layers, TERN_MAX_LAYERS);
    for (uint32_t i = 0; i < config->n_layers; i++) full[i] = !tern_gguf_array_int(kv, i);
    if (tern_config__set_full_layers(config, full, &odd)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found at %u, false only in every %u-th layer expected", key,
                     full[odd] ? "false" : "true", odd, config->full_period);
}

/* Which layers see all positions: every so-many-th, or a word for each layer. */
static tern_status read_pattern(tern_config *config, const tern_gguf *g, const tern_family *family, tern_error *err)
{
    static const char name[] = "attention.sliding_window_pattern";
    const tern_gguf_key key = tern_config__key(config, name);
    const tern_gguf_kv *kv = tern_gguf_find(g, key.text);
    if (!family->plain_full && (!kv || kv->kind != TERN_GGUF_ARRAY))
        return tern_config__maybe_u32(config, g, name, &config->full_period, err);
    TERN_TRY(tern_gguf_get_array(g, key.text, TERN_GGUF_BOOL, &kv, err));
    return read_window_layers(config, kv, key.text, err);
}

/* Where layers without a window have no RoPE, the file says which those are. */
static tern_status read_window(tern_config *config, const tern_gguf *g, const tern_family *family, tern_error *err)
{
    static const char name[] = "attention.sliding_window";
    if (family->plain_full) TERN_TRY(tern_config__need_u32(config, g, name, &config->window, err));
    else TERN_TRY(tern_config__maybe_u32(config, g, name, &config->window, err));
    TERN_TRY(read_pattern(config, g, family, err));
    if (config->window || !family->plain_full) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: no layer with a window of 1 or more found, one expected",
                     tern_config__key(config, name).text);
}

/* How attention and the head make scores: window, scale, soft caps. */
tern_status tern_config__scores_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *g,
                                          tern_error *err)
{
    config->full_period = family->full_period;
    config->score_scale = score_scale(config);
    config->score_softcap = family->score_softcap;
    config->logit_softcap = family->logit_softcap;
    TERN_TRY(read_window(config, g, family, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.freq_base_swa", &config->rope[1].base, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "attention.scale", &config->score_scale, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "attn_logit_softcapping", &config->score_softcap, err));
    return tern_config__maybe_f32(config, g, "final_logit_softcapping", &config->logit_softcap, err);
}
