/* How positions become angles, from GGUF metadata. Keys: llama.cpp's (src/llama-arch.cpp). */
#include <string.h>

#include "base/show.h"
#include "model/config/gguf_internal.h"

/* LongRoPE: which tensors say, with two numbers here. */
static tern_status read_long_rope(tern_config *config, const tern_gguf *g, tern_error *err)
{
    tern_rope *rope = &config->rope[0];
    rope->scaling = TERN_ROPE_LONG;
    rope->size = 1.0f;
    rope->original_ctx = config->n_ctx_train;
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scaling.attn_factor", &rope->size, err));
    return tern_config__maybe_u32(config, g, "rope.scaling.original_context_length", &rope->original_ctx, err);
}

/* Numbers that llama.cpp lets files change beyond the paper's rule. */
static tern_status refuse_yarn_extras(const tern_config *config, const tern_gguf *g, tern_error *err)
{
    static const struct {
        const char *key;
        float wanted;
    } rows[] = {{"rope.scaling.yarn_ext_factor", 1.0f},
                {"rope.scaling.yarn_attn_factor", 1.0f},
                {"rope.scaling.yarn_log_multiplier", 0.0f}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float found = rows[i].wanted;
        TERN_TRY(tern_config__maybe_f32(config, g, rows[i].key, &found, err));
        if (!(found == rows[i].wanted))
            return tern_fail(err, TERN_UNSUPPORTED, "%s: %g found, %g expected",
                             tern_config__key(config, rows[i].key).text, (double)found, (double)rows[i].wanted);
    }
    return TERN_OK;
}

/* llama.cpp's files do not say whether the bounds are whole pairs: that is the family's. */
static tern_status read_yarn(tern_config *config, const tern_family *family, const tern_gguf *g, tern_error *err)
{
    tern_rope *rope = &config->rope[0];
    float share = 1.0f;
    rope->scaling = TERN_ROPE_YARN;
    rope->factor = 1.0f;
    rope->beta_fast = 32.0f;
    rope->beta_slow = 1.0f;
    rope->truncate = !family->yarn_between;
    rope->original_ctx = config->n_ctx_train;
    TERN_TRY(refuse_yarn_extras(config, g, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scaling.factor", &rope->factor, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scaling.yarn_beta_fast", &rope->beta_fast, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scaling.yarn_beta_slow", &rope->beta_slow, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scaling.attn_factor", &share, err));
    TERN_TRY_OPTIONAL(tern_gguf_get_bool(g, TERN_MODEL__YARN_TRUNCATE, &rope->truncate, err));
    rope->size = tern_yarn_size(rope->factor, 1.0f) * share;
    return tern_config__maybe_u32(config, g, "rope.scaling.original_context_length", &rope->original_ctx, err);
}

/* The factor, by its key or by the one that files of 2023 have; without either, or with 0, positions are as they are.
 */
static tern_status read_linear(tern_config *config, const tern_gguf *g, tern_error *err)
{
    float factor = 0;
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scale_linear", &factor, err));
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.scaling.factor", &factor, err));
    if (factor == 0 || factor == 1.0f) return TERN_OK;
    config->rope[0].scaling = TERN_ROPE_LINEAR;
    config->rope[0].factor = factor;
    return TERN_OK;
}

/* llama3 scaling comes as the tensor rope_freqs.weight. A file without a type has linear scaling (llama.cpp,
 * llama-model.cpp, load_hparams). */
tern_status tern_config__rope_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *g,
                                        tern_error *err)
{
    TERN_TRY(tern_config__maybe_f32(config, g, "rope.freq_base", &config->rope[0].base, err));
    tern_span type = {0};
    TERN_TRY_OPTIONAL(tern_gguf_get_string(g, tern_config__key(config, "rope.scaling.type").text, &type, err));
    const bool long_rope = tern_gguf_find_tensor(g, TERN_MODEL__LONG_FACTORS) != NULL;
    if (long_rope && (!type.data || tern_model__says(type, "none") || tern_model__says(type, "longrope")))
        return read_long_rope(config, g, err);
    if (!type.data || tern_model__says(type, "linear")) return read_linear(config, g, err);
    if (tern_model__says(type, "none")) return TERN_OK;
    if (tern_model__says(type, "yarn")) return read_yarn(config, family, g, err);
    return tern_fail(err, TERN_UNSUPPORTED, "rope.scaling.type: \"%s\" found, none, linear or yarn%s expected",
                     tern_show(type).text, tern_model__says(type, "longrope") ? ", or " TERN_MODEL__LONG_FACTORS : "");
}
