/* Opening a GGUF file: every role finds its tensor, in place. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "model/parts.h"

/* The graph has no biases: a file with some means something else. */
static tern_status refuse_biases(const tern_gguf *g, tern_error *err)
{
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        tern_span name = tern_gguf_tensor_at(g, i)->name;
        if (tern_model__is_bias((const char *)name.data, name.size))
            return tern_fail(err, TERN_UNSUPPORTED, "%s: found, a model without biases expected", tern_show(name).text);
    }
    return TERN_OK;
}

static tern_status read_f32(const tern_gguf_tensor *t, const char *name, float *out, size_t n, tern_error *err)
{
    if (t->type != TERN_ENC_F32)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, f32 expected", name, tern_gguf_type_name(t->type));
    for (size_t i = 0; i < n; i++) out[i] = tern_load_f32(t->data + i * sizeof(float));
    return TERN_OK;
}

/* rope_freqs.weight: what each frequency is divided by. */
static tern_status read_rope_factors(tern_model *model, const tern_gguf *g, tern_error *err)
{
    static const char name[] = "rope_freqs.weight";
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    if (!t) return TERN_OK;
    uint32_t n = model->config.head_dim / 2;
    if (t->rows != 1 || t->cols != n)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu x %llu found, %u values expected", name,
                         (unsigned long long)t->rows, (unsigned long long)t->cols, n);
    void *factors = NULL;
    TERN_TRY(tern_model__own(model, n * sizeof(float), &factors, err));
    TERN_TRY(read_f32(t, name, factors, n, err));
    model->config.rope_factors = factors;
    for (uint32_t i = 0; i < n; i++)
        if (!(model->config.rope_factors[i] > 0.0f && isfinite(model->config.rope_factors[i])))
            return tern_fail(err, TERN_MALFORMED, "%s: %g found at %u, a positive number expected", name,
                             (double)model->config.rope_factors[i], i);
    return TERN_OK;
}

/* "<name without .weight>.scale": what the tensor's own scales are multiplied by. */
static tern_status read_scale_tensor(tern_model *model, const tern_gguf *g, tern_weight *w, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES];
    snprintf(name, sizeof name, "%.*s.scale", (int)(strlen(w->name) - strlen(".weight")), w->name);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    if (!t) return TERN_OK;
    uint64_t n = t->rows * t->cols;
    if (n != 1 && n != w->rows)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu values found, 1 or one for each of %u rows expected", name,
                         (unsigned long long)n, w->rows);
    if (!w->encoding->ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: found beside a tensor of %s, a ternary one expected", name,
                         w->encoding->name);
    float *factors = tern_alloc(n * sizeof *factors);
    if (!factors) return tern_fail_alloc(err, n * sizeof *factors);
    tern_status status = read_f32(t, name, factors, n, err);
    if (status == TERN_OK) status = tern_model__apply_scales(model, w, factors, n, err);
    tern_free(factors);
    return status;
}

static tern_status add_tensor(tern_model *model, const tern_gguf *g, tern_role role, const tern_gguf_tensor *t,
                              tern_weight *w, tern_error *err)
{
    const tern_encoding *e = tern_encoding_find(t->type);
    if (!e)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, an encoding of weights expected", w->name,
                         tern_gguf_type_name(t->type));
    TERN_TRY(tern_model__check_shape(&model->config, role, w->name, t->rows, t->cols, err));
    TERN_TRY(tern_model__check_encoding(role, w->name, e, err));
    w->encoding = e;
    w->rows = (uint32_t)t->rows;
    w->cols = (uint32_t)t->cols;
    w->data = t->data;
    w->bytes = t->bytes;
    TERN_TRY(tern_model__find_scales(model, w, err));
    TERN_TRY(read_scale_tensor(model, g, w, err));
    if (tern_role__kind(role) == TERN_KIND_N) TERN_TRY(tern_model__set_norm(model, w, e, t->data, err));
    TERN_TRY(tern_model__check_data(model, w, err));
    return tern_model__added(model, w, err);
}

static tern_status add_role(tern_model *model, const tern_gguf *g, tern_role role, uint32_t layer, tern_error *err)
{
    if (tern_role__may_lack(role, &model->config)) return TERN_OK;
    tern_weight *w = tern_model__slot(model, role, layer);
    tern_role__gguf_name(role, layer, w->name);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, w->name);
    if (!t) return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", w->name);
    return add_tensor(model, g, role, t, w, err);
}

static tern_status add_roles(tern_model *model, const tern_gguf *g, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &model->config)) TERN_TRY(add_role(model, g, walk.role, walk.layer, err));
    return TERN_OK;
}

static tern_status open_tokenizer(tern_model *model, const tern_gguf *g, tern_error *err)
{
    if (model->options->no_tokenizer || !tern_gguf_find(g, "tokenizer.ggml.model")) return TERN_OK;
    TERN_TRY(tern_tokenizer_open_gguf(&model->tokenizer, g, err));
    return tern_model__check_tokenizer(model, err);
}

static tern_status read_model(tern_model *model, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(tern_config__from_gguf(&model->config, g, err));
    TERN_TRY(refuse_biases(g, err));
    TERN_TRY(tern_model__init_weights(model, err));
    TERN_TRY(read_rope_factors(model, g, err));
    TERN_TRY(add_roles(model, g, err));
    return open_tokenizer(model, g, err);
}

tern_status tern_model__open_gguf(tern_model *model, const void *data, size_t size, tern_error *err)
{
    tern_gguf *g = NULL;
    TERN_TRY(tern_gguf_parse(&g, data, size, err));
    model->bytes_expected = size;
    tern_status status = read_model(model, g, err);
    tern_gguf_close(g);
    return status;
}
