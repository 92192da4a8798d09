/* How positions become angles, from Hugging Face's config.json. */
#include <string.h>

#include "base/show.h"
#include "model/model_internal.h"

/* "rope_type", or "type" as older files spell it; "default" when there is neither. */
static tern_status read_rope_type(tern_rope *out, const json_t *rope, bool long_rope, tern_error *err)
{
    tern_span type = {(const uint8_t *)"default", 7};
    TERN_TRY_OPTIONAL(tern_json_get_string(rope, "type", &type, err));
    TERN_TRY_OPTIONAL(tern_json_get_string(rope, "rope_type", &type, err));
    if (tern_model__says(type, "default")) out->scaling = TERN_ROPE_PLAIN;
    else if (tern_model__says(type, "linear")) out->scaling = TERN_ROPE_LINEAR;
    else if (tern_model__says(type, "llama3")) out->scaling = TERN_ROPE_LLAMA3;
    else if (tern_model__says(type, "yarn")) out->scaling = TERN_ROPE_YARN;
    else if (long_rope && (tern_model__says(type, "longrope") || tern_model__says(type, "su")))
        out->scaling = TERN_ROPE_LONG;
    else
        return tern_fail(err, TERN_UNSUPPORTED, "rope_type: \"%s\" found, default, linear, yarn%s or llama3 expected",
                         tern_show(type).text, long_rope ? ", longrope" : "");
    return TERN_OK;
}

/* The factor of cosines and sines where the file has none: more than one number of the paper's rule, of files that give
 * its factors. Source: transformers modeling_rope_utils, _compute_yarn_parameters. */
static tern_status read_yarn_size(tern_rope *out, const json_t *rope, tern_error *err)
{
    float mscale = 0, all = 0;
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "mscale", &mscale, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "mscale_all_dim", &all, err));
    out->size = tern_yarn_size(out->factor, 1.0f);
    if (mscale != 0 && all != 0) out->size = tern_yarn_size(out->factor, mscale) / tern_yarn_size(out->factor, all);
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "attention_factor", &out->size, err));
    return TERN_OK;
}

static tern_status read_yarn(tern_rope *out, const json_t *rope, uint32_t n_ctx_train, tern_error *err)
{
    out->beta_fast = 32.0f;
    out->beta_slow = 1.0f;
    out->truncate = true;
    out->original_ctx = n_ctx_train;
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "beta_fast", &out->beta_fast, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "beta_slow", &out->beta_slow, err));
    TERN_TRY_OPTIONAL(tern_json_get_bool(rope, "truncate", &out->truncate, err));
    TERN_TRY_OPTIONAL(tern_json_get_u32(rope, "original_max_position_embeddings", &out->original_ctx, err));
    if (tern_json_has(rope, "factor")) TERN_TRY(tern_json_get_f32(rope, "factor", &out->factor, err));
    else out->factor = (float)n_ctx_train / (float)(out->original_ctx ? out->original_ctx : 1);
    return read_yarn_size(out, rope, err);
}

static tern_status read_rope_scaling(tern_rope *out, const json_t *rope, bool long_rope, uint32_t n_ctx_train,
                                     tern_error *err)
{
    TERN_TRY(read_rope_type(out, rope, long_rope, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(rope, "rope_theta", &out->base, err));
    if (out->scaling == TERN_ROPE_PLAIN || out->scaling == TERN_ROPE_LONG) return TERN_OK;
    if (out->scaling == TERN_ROPE_YARN) return read_yarn(out, rope, n_ctx_train, err);
    TERN_TRY(tern_json_get_f32(rope, "factor", &out->factor, err));
    if (out->scaling == TERN_ROPE_LINEAR) return TERN_OK;
    TERN_TRY(tern_json_get_f32(rope, "low_freq_factor", &out->low_freq_factor, err));
    TERN_TRY(tern_json_get_f32(rope, "high_freq_factor", &out->high_freq_factor, err));
    return tern_json_get_u32(rope, "original_max_position_embeddings", &out->original_ctx, err);
}

/* Which part of a head is turned. GGUF files of families with adjacent pairs cannot say it. */
static tern_status read_part(tern_config *config, const tern_family *family, const json_t *object, tern_error *err)
{
    float part = 1.0f;
    TERN_TRY_OPTIONAL(tern_json_get_f32(object, "partial_rotary_factor", &part, err));
    if (part == 1.0f) return TERN_OK;
    if (family->rope_adjacent)
        return tern_fail(err, TERN_UNSUPPORTED, "partial_rotary_factor: %g found, 1 expected", (double)part);
    if (!(part > 0.0f && part < 1.0f) || (uint32_t)(part * (float)config->head_dim) < 1)
        return tern_fail(err, TERN_MALFORMED, "partial_rotary_factor: %g found, more than 0 and at most 1 expected",
                         (double)part);
    config->rope_dim = (uint32_t)(part * (float)config->head_dim);
    return TERN_OK;
}

/* One set of parameters, or one for each type of layer. */
static tern_status read_rope_parameters(tern_config *config, const tern_family *family, const json_t *all,
                                        const json_t *root, tern_error *err)
{
    const json_t *full = NULL, *window = NULL;
    const bool long_rope = family->long_rope;
    TERN_TRY_OPTIONAL(tern_json_get_object(all, "full_attention", &full, err));
    TERN_TRY_OPTIONAL(tern_json_get_object(all, "sliding_attention", &window, err));
    TERN_TRY(read_rope_scaling(&config->rope[0], full ? full : all, long_rope, config->n_ctx_train, err));
    TERN_TRY(read_part(config, family, full ? full : all, err));
    if (config->rope[0].scaling == TERN_ROPE_LONG) return tern_config__long_rope_from_hf(config, all, root, err);
    return window ? read_rope_scaling(&config->rope[1], window, false, config->n_ctx_train, err) : TERN_OK;
}

/* transformers 5 writes "rope_parameters", older versions "rope_theta", "rope_local_base_freq" and "rope_scaling". */
tern_status tern_config__rope_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                      tern_error *err)
{
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rope_theta", &config->rope[0].base, err));
    TERN_TRY_OPTIONAL(tern_json_get_f32(root, "rope_local_base_freq", &config->rope[1].base, err));
    if (tern_json_has(root, "rope_local_base_freq") && !(config->rope[1].base > 0)) /* 0 is held as: as all layers */
        return tern_fail(err, TERN_MALFORMED, "rope_local_base_freq: %g found, a positive number expected",
                         (double)config->rope[1].base);
    TERN_TRY(read_part(config, family, root, err));
    const json_t *rope = NULL;
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "rope_scaling", &rope, err));
    TERN_TRY_OPTIONAL(tern_json_get_object(root, "rope_parameters", &rope, err));
    if (!rope && family->yarn_between) /* its class would scale it all the same */
        return tern_fail(err, TERN_NOT_FOUND, "rope_parameters: not found, expected in models of %s",
                         config->architecture);
    if (!rope) return TERN_OK;
    tern_status status = read_rope_parameters(config, family, rope, root, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "RoPE parameters");
}
