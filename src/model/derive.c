/* A model with other weights, in memory. */
#include "model/derive.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/hadamard.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

/* A weight being made. */
typedef struct maker {
    tern_model *model;
    const tern_model *base;
    const tern_derivation *how;
    float *values; /* of the largest weight */
    tern_weight *weight;
} maker;

static tern_status own_bytes(const maker *m, const tern_encoding *e, uint8_t **out, tern_error *err)
{
    void *data = NULL;
    tern_weight *w = m->weight;
    w->encoding = e;
    TERN_TRY(tern_encoding_bytes(e, w->rows, w->cols, &w->bytes, err));
    TERN_TRY(tern_model__own(m->model, w->bytes, &data, err));
    w->data = *out = data;
    w->mapped = false;
    return TERN_OK;
}

/* The threshold rule; the scale is absmean's. */
static tern_status encode_by_threshold(const maker *m, uint8_t *out, tern_error *err)
{
    const tern_weight *w = m->weight;
    const size_t n = (size_t)w->rows * w->cols;
    float scale;
    int8_t *codes = tern_alloc(n);
    if (!codes) return tern_fail_alloc(err, n);
    tern_ternarise(m->values, n, codes, &scale);
    const float limit = m->how->threshold * scale;
    for (size_t i = 0; i < n; i++) codes[i] = (int8_t)((m->values[i] > limit) - (m->values[i] < -limit));
    tern_status status = tern_encode_codes(w->encoding, codes, scale, w->rows, w->cols, out, err);
    tern_free(codes);
    return status;
}

static tern_status make_ternary(const maker *m, tern_error *err)
{
    tern_weight *w = m->weight;
    uint8_t *out = NULL;
    w->row_scales = NULL;
    TERN_TRY(own_bytes(m, tern_encoding_find(w->cols % 128 == 0 ? TERN_ENC_I2_S : TERN_ENC_T160), &out, err));
    for (size_t i = 0; i < (size_t)w->rows * w->cols; i++)
        if (!isfinite(m->values[i]))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "element %zu is %g", i, (double)m->values[i]);
    TERN_TRY(m->how->threshold > 0 ? encode_by_threshold(m, out, err)
                                   : tern_encode(w->encoding, m->values, w->rows, w->cols, out, err));
    return tern_model__find_scales(m->model, w, err);
}

static tern_status make_dense(const maker *m, tern_error *err)
{
    uint8_t *out = NULL;
    const bool f32 = m->weight->encoding->id == TERN_ENC_F32;
    TERN_TRY(own_bytes(m, tern_encoding_find(f32 ? TERN_ENC_F32 : TERN_ENC_BF16), &out, err));
    return tern_encode(m->weight->encoding, m->values, m->weight->rows, m->weight->cols, out, err);
}

static bool has(const tern_derivation *how, tern_role role, uint32_t layer)
{
    return how->source && (!how->has || how->has(how->context, role, layer));
}

static tern_status make_weight(maker *m, tern_role role, uint32_t layer, tern_error *err)
{
    tern_weight *w = m->weight = tern_model__slot(m->model, role, layer);
    const tern_master_source *source = m->how->source;
    *w = *tern_model_weight(m->base, role, layer);
    if (has(m->how, role, layer)) {
        TERN_TRY(source->rows(source->context, role, layer, 0, w->rows, m->values, err));
        const bool ternary = w->encoding->ternary || (m->how->all_ternary && tern_role_is_linear(role));
        if ((ternary ? make_ternary(m, err) : make_dense(m, err)) != TERN_OK)
            return tern_error_prefix(err, "%s", w->name);
    }
    return tern_model__added(m->model, w, err);
}

/* The tensors that are made. */
static size_t largest_weight(const tern_model *model, const tern_derivation *how)
{
    size_t most = 0;
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &model->config)) {
        const tern_weight *w = tern_model_weight(model, walk.role, walk.layer);
        const size_t n = (size_t)w->rows * w->cols;
        if (n > most && has(how, walk.role, walk.layer)) most = n;
    }
    return most;
}

static tern_status fill(tern_model *model, const tern_model *base, const tern_derivation *how, tern_error *err)
{
    const size_t bytes = (largest_weight(base, how) + 1) * sizeof(float);
    maker m = {.model = model, .base = base, .how = how, .values = tern_alloc(bytes)};
    tern_status status = m.values ? tern_model__init_weights(model, err) : tern_fail_alloc(err, bytes);
    tern_role_walk walk = {0};
    while (status == TERN_OK && tern_role__next(&walk, &base->config))
        status = make_weight(&m, walk.role, walk.layer, err);
    tern_free(m.values);
    return status;
}

tern_status tern_model_derive(tern_model **model, const tern_model *base, const tern_derivation *how, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    const tern_model_options options = {.progress = how->progress, .progress_context = how->progress_context};
    *model = NULL;
    TERN_TRY(tern_hadamard_refuse(base->hadamard, e));
    tern_model *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(e, sizeof *made);
    made->config = base->config;
    made->config.bit_linear = base->config.bit_linear || how->all_ternary;
    made->tokenizer = base->tokenizer;
    made->derived = true;
    made->i2s_stated = base->i2s_stated;
    made->options = &options;
    made->bytes_expected = base->bytes;
    tern_status status = fill(made, base, how, e);
    made->options = NULL;
    if (status == TERN_OK) *model = made;
    else tern_model_close(made);
    return status;
}

/* The factor of codes times their scale, so that absmean gives the scale again. */
static tern_status growth_of(const tern_weight *w, float *factor, tern_error *err)
{
    int8_t *codes = tern_alloc(w->cols);
    uint64_t n_set = 0;
    tern_status status = codes ? TERN_OK : tern_fail_alloc(err, w->cols);
    if (w->row_scales)
        status =
            tern_fail(err, TERN_UNSUPPORTED,
                      "%s: a scale for each row found, one for the whole matrix expected of master weights", w->name);
    for (uint32_t r = 0; status == TERN_OK && r < w->rows; r++) {
        status = tern_decode_codes(w->encoding, w->data, w->rows, w->cols, r, 1, codes, NULL, NULL, NULL, err);
        for (uint32_t c = 0; status == TERN_OK && c < w->cols; c++) n_set += codes[c] != 0;
    }
    *factor = n_set ? (float)((double)w->rows * w->cols / (double)n_set) : 1;
    tern_free(codes);
    return status;
}

static tern_status derived_rows(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                                tern_error *err)
{
    tern_derived_masters *m = context;
    const tern_weight *w = tern_model_weight(m->base, role, layer);
    if (has(m->how, role, layer)) return m->how->source->rows(m->how->source->context, role, layer, first, n, out, err);
    TERN_TRY(tern_model_master(m->base, role, layer, first, n, out, err));
    if (!w->encoding->ternary || tern_model_has_master(m->base, role, layer)) return TERN_OK;
    if (m->weight != w) TERN_TRY(growth_of(w, &m->growth, err));
    m->weight = w;
    for (size_t i = 0; i < (size_t)n * w->cols; i++) out[i] *= m->growth;
    return TERN_OK;
}

tern_master_source tern_derived_source(tern_derived_masters *masters)
{
    return (tern_master_source){derived_rows, masters};
}
