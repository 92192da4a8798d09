/* The table of weights while a model is opened: memory, shapes, and the check of what the tensors hold. */
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "model/model_internal.h"
#include "quant/encoding.h"
#include "text/tokenizer/tokenizer.h"

tern_status tern_model__init_weights(tern_model *model, tern_error *err)
{
    size_t n = (size_t)model->config.n_layers * TERN_ROLE_COUNT;
    model->weights = tern_calloc(n, sizeof *model->weights);
    return model->weights ? TERN_OK : tern_fail_alloc(err, n * sizeof *model->weights);
}

tern_weight *tern_model__slot(tern_model *model, tern_role role, uint32_t layer)
{
    return &model->weights[(size_t)layer * TERN_ROLE_COUNT + role];
}

tern_status tern_model__own(tern_model *model, size_t bytes, void **out, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&model->owned, &model->cap_owned, model->n_owned + 1, sizeof *model->owned, err));
    void *block = tern_alloc_aligned(bytes, 64);
    if (!block) return tern_fail_alloc(err, bytes);
    model->owned[model->n_owned++] = block;
    *out = block;
    return TERN_OK;
}

tern_status tern_model__adopt(tern_model *model, void *block, tern_error *err)
{
    if (!block) return TERN_OK;
    const tern_status status =
        tern_grow((void **)&model->owned, &model->cap_owned, model->n_owned + 1, sizeof *model->owned, err);
    if (status == TERN_OK) model->owned[model->n_owned++] = block;
    else tern_free_aligned(block);
    return status;
}

tern_status tern_model__added(tern_model *model, const tern_weight *weight, tern_error *err)
{
    model->bytes += weight->bytes;
    model->parameters += (uint64_t)weight->rows * weight->cols;
    const tern_model_options *o = model->options;
    if (!o->progress || model->bytes_expected == 0) return TERN_OK;
    float done = (float)((double)model->bytes / (double)model->bytes_expected);
    if (o->progress(o->progress_context, done < 1.0f ? done : 1.0f)) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "opening the model was cancelled");
}

tern_status tern_model__check_shape(const tern_config *config, tern_role role, uint32_t layer, const char *name,
                                    uint64_t rows, uint64_t cols, tern_error *err)
{
    uint32_t want_rows, want_cols;
    tern_role__shape(role, layer, config, &want_rows, &want_cols);
    if (rows == want_rows && cols == want_cols) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: %llu rows of %llu found, %u rows of %u expected", name,
                     (unsigned long long)rows, (unsigned long long)cols, want_rows, want_cols);
}

tern_status tern_model__check_encoding(tern_role role, const char *name, const tern_encoding *e, tern_error *err)
{
    const bool plain = e->id == TERN_ENC_F32 || e->id == TERN_ENC_F16 || e->id == TERN_ENC_BF16;
    const bool vector = tern_role_is_vector(role);
    if (tern_role_is_matrix(role) || (vector ? plain : !e->ternary)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, %s expected", name, e->name,
                     vector ? "f32, f16 or bf16" : "an encoding that is not ternary");
}

tern_status tern_model__check_data(tern_model *model, const tern_weight *weight, tern_error *err)
{
    enum { LARGE = 4 << 20 }; /* bytes that are worth the start of threads */
    TERN_TRY(tern_model__check_scales(weight, err));
    const bool later = model->options->n_stages > 1 && !model->stages.n; /* it may be another's */
    if (model->options->no_check || later) return TERN_OK;
    if (!model->options->pool && !model->own_pool && weight->bytes >= LARGE)
        TERN_TRY(tern_pool_open(&model->own_pool, model->options->n_threads, false, err));
    if (tern_model__check_own_rows(model, weight, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", weight->name);
}

tern_status tern_model__set_vector(tern_model *model, tern_weight *weight, const tern_encoding *e, const uint8_t *data,
                                   tern_error *err)
{
    void *values = NULL;
    size_t bytes;
    TERN_TRY(tern_encoding_bytes(tern_encoding_find(TERN_ENC_F32), weight->rows, weight->cols, &bytes, err));
    TERN_TRY(tern_model__own(model, bytes, &values, err));
    TERN_TRY(tern_decode_rows(e, data, weight->rows, weight->cols, 0, weight->rows, values, err));
    weight->encoding = tern_encoding_find(TERN_ENC_F32);
    weight->data = values;
    weight->bytes = bytes;
    weight->mapped = false;
    return TERN_OK;
}

tern_status tern_model__check_tokenizer(const tern_model *model, tern_error *err)
{
    uint32_t n = tern_tokenizer_size(model->tokenizer);
    if (n <= model->config.n_vocab) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED,
                     "tokenizer: %u tokens found, at most the %u rows of the embedding table expected", n,
                     model->config.n_vocab);
}
