/* Opening a GGUF file: every role finds its tensor, in place. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf.h"
#include "model/open/i2s_evidence.h"
#include "quant/encoding.h"
#include "quant/foreign.h"
#include "text/tokenizer/tokenizer.h"

static tern_status check_f32(const tern_gguf_tensor *t, const char *name, tern_error *err)
{
    if (t->type == TERN_ENC_F32) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, f32 expected", name, tern_gguf_type_name(t->type));
}

const char *tern_model__factors_name(tern_rope_factors which)
{
    static const char *const names[] = {[TERN_FACTORS] = TERN_MODEL__ROPE_FACTORS,
                                        [TERN_FACTORS_LONG] = TERN_MODEL__LONG_FACTORS,
                                        [TERN_FACTORS_SHORT] = TERN_MODEL__SHORT_FACTORS};
    return names[which];
}

tern_status tern_model__find_rope_factors(const tern_model *model, const tern_gguf *g, tern_rope_factors which,
                                          const tern_gguf_tensor **t, tern_error *err)
{
    const uint32_t n = tern_config_rope_dim(&model->config) / 2;
    const char *name = tern_model__factors_name(which);
    *t = tern_gguf_find_tensor(g, name);
    if (!*t && which != TERN_FACTORS && model->config.rope[0].scaling == TERN_ROPE_LONG)
        return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", name);
    if (!*t) return TERN_OK;
    if ((*t)->rows != 1 || (*t)->cols != n)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu x %llu found, %u values expected", name,
                         (unsigned long long)(*t)->rows, (unsigned long long)(*t)->cols, n);
    return check_f32(*t, name, err);
}

/* Where they belong; [head_dim / 2]. */
static tern_status factors_place(tern_model *model, tern_rope_factors which, uint32_t n, float **out, tern_error *err)
{
    void *block = NULL;
    if (which == TERN_FACTORS_LONG) *out = model->config.long_factors;
    if (which == TERN_FACTORS_SHORT) *out = model->config.short_factors;
    if (which != TERN_FACTORS) return TERN_OK;
    TERN_TRY(tern_model__own(model, n * sizeof(float), &block, err));
    model->config.rope[0].factors = *out = block;
    return TERN_OK;
}

tern_status tern_model__set_rope_factors(tern_model *model, tern_rope_factors which, const uint8_t *data,
                                         tern_error *err)
{
    const uint32_t n = tern_config_rope_dim(&model->config) / 2;
    float *factors = NULL;
    TERN_TRY(factors_place(model, which, n, &factors, err));
    for (uint32_t i = 0; i < n; i++) {
        factors[i] = tern_load_f32(data + i * sizeof(float));
        if (!(factors[i] > 0.0f && isfinite(factors[i])))
            return tern_fail(err, TERN_MALFORMED, "%s: %g found at %u, a positive number expected",
                             tern_model__factors_name(which), (double)factors[i], i);
    }
    return TERN_OK;
}

/* "<name without .weight>.scale": what the tensor's own scales are multiplied by. */
static tern_status find_scale_tensor(const tern_gguf *g, const tern_weight *w, const tern_gguf_tensor **scales,
                                     tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES];
    tern_role__scale_name(w->name, name, sizeof name);
    const tern_gguf_tensor *t = *scales = tern_gguf_find_tensor(g, name);
    if (!t) return TERN_OK;
    uint64_t n = t->rows * t->cols;
    if (n != 1 && n != w->rows)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu values found, 1 or one for each of %u rows expected", name,
                         (unsigned long long)n, w->rows);
    if (!w->encoding->ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: found beside a tensor of %s, a ternary one expected", name,
                         w->encoding->name);
    return check_f32(t, name, err);
}

static tern_status describe(tern_model *model, const tern_gguf *g, tern_gguf_weight *p, tern_error *err)
{
    const tern_gguf_tensor *t = p->tensor;
    tern_weight *w = p->weight;
    uint32_t rows, cols;
    const tern_encoding *e = tern_encoding_find(t->type);
    p->foreign = e || tern_role__kind(p->role) != TERN_KIND_L ? NULL : tern_foreign_find(t->type);
    if (!e && !p->foreign)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, an encoding of weights expected", w->name,
                         tern_gguf_type_name(t->type));
    tern_role__shape(p->role, p->layer, &model->config, &rows, &cols);
    if (!p->joint) TERN_TRY(tern_model__check_shape(&model->config, p->role, p->layer, w->name, t->rows, t->cols, err));
    else TERN_TRY(tern_joint__check(p->joint, t, cols, err));
    w->rows = rows;
    w->cols = cols;
    w->scale = 1.0f;
    if (p->foreign) return tern_model__describe_foreign(model, p, err);
    TERN_TRY(tern_model__check_encoding(p->role, w->name, e, err));
    w->encoding = e;
    w->bytes = t->bytes;
    if (p->joint) TERN_TRY(tern_joint__slice(p->joint, e, cols, &p->offset, err));
    if (p->joint) TERN_TRY(tern_encoding_bytes(e, rows, cols, &w->bytes, err));
    if (e->ternary && e->tail_bytes == 0) TERN_TRY(tern_model__check_exact_scales(model, w, err));
    return find_scale_tensor(g, w, &p->scales, err);
}

tern_status tern_model__describe(tern_model *model, const tern_gguf *g, tern_role role, uint32_t layer,
                                 tern_gguf_weight *found, tern_error *err)
{
    tern_weight *w = tern_model__slot(model, role, layer);
    tern_role__gguf_name(&model->config, role, layer, w->name);
    tern_joint joint;
    *found = (tern_gguf_weight){.role = role, .layer = layer, .weight = w};
    found->tensor = tern_joint__find(&model->config, g, role, layer, &joint);
    if (found->tensor) found->joint = &joint;
    else found->tensor = tern_gguf_find_tensor(g, w->name);
    if (!found->tensor) return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", w->name);
    tern_status status = describe(model, g, found, err);
    found->joint = NULL;
    return status;
}

tern_status tern_model__multiply(tern_model *model, tern_weight *w, const uint8_t *scales, size_t n, tern_error *err)
{
    if (n == 0) return TERN_OK;
    float *factors = tern_alloc(n * sizeof *factors);
    if (!factors) return tern_fail_alloc(err, n * sizeof *factors);
    for (size_t i = 0; i < n; i++) factors[i] = tern_load_f32(scales + i * sizeof *factors);
    tern_status status = tern_model__apply_scales(model, w, ".scale", factors, n, err);
    tern_free(factors);
    return status;
}

tern_status tern_model__fill(tern_model *model, tern_role role, tern_weight *w, const uint8_t *scales, size_t n,
                             tern_error *err)
{
    const tern_encoding *e = w->encoding;
    TERN_TRY(tern_model__find_scales(model, w, err));
    TERN_TRY(tern_model__check_scales(w, err)); /* before factors that could mend one sign by another */
    TERN_TRY(tern_model__multiply(model, w, scales, n, err));
    if (tern_role_is_vector(role)) TERN_TRY(tern_model__set_vector(model, w, e, w->data, err));
    TERN_TRY(tern_model__check_data(model, w, err));
    TERN_TRY(tern_i2s_evidence_see(model, w, 0, w->rows, w->data, err));
    return tern_model__added(model, w, err);
}

/* "<name without .weight>.rsr": the matrix sorted by column patterns. The user of it checks it; a model that comes
 * piece by piece does without. */
static tern_status find_rsr(const tern_gguf *g, tern_weight *w, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES + 8];
    tern_role__rsr_name(w->name, name, sizeof name);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    if (!t) return TERN_OK;
    if (t->type != TERN_MODEL__I8 || t->rows != 1 || !w->encoding->ternary)
        return tern_fail(err, TERN_MALFORMED,
                         "%s: %s in %llu rows found beside a tensor of %s, I8 in 1 row beside a ternary one expected",
                         name, tern_gguf_type_name(t->type), (unsigned long long)t->rows, w->encoding->name);
    w->rsr = t->data;
    w->rsr_bytes = t->bytes;
    return TERN_OK;
}

static tern_status regroup(tern_model *model, tern_weight *w, tern_error *err)
{
    void *memory;
    TERN_TRY(tern_model__regroup(w, &memory, err));
    return tern_model__adopt(model, memory, err);
}

static tern_status add_roles(tern_model *model, const tern_gguf *g, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &model->config)) {
        tern_gguf_weight p = {0};
        TERN_TRY(tern_model__describe(model, g, walk.role, walk.layer, &p, err));
        if (p.foreign) {
            TERN_TRY(tern_model__take_foreign(model, &p, err));
            continue;
        }
        p.weight->data = p.tensor->data + p.offset;
        if (!p.scales) TERN_TRY(regroup(model, p.weight, err));
        TERN_TRY(find_rsr(g, p.weight, err));
        TERN_TRY(tern_model__fill(model, p.role, p.weight, p.scales ? p.scales->data : NULL,
                                  p.scales ? p.scales->bytes / sizeof(float) : 0, err));
    }
    return TERN_OK;
}

tern_status tern_model__open_tokenizer(tern_model *model, const tern_gguf *g, tern_error *err)
{
    tern_span kind = {0};
    TERN_TRY_OPTIONAL(tern_gguf_get_string(g, "tokenizer.ggml.model", &kind, err));
    const bool none = !kind.size || (kind.size == 8 && memcmp(kind.data, "no_vocab", 8) == 0);
    if (model->options->no_tokenizer || none) return TERN_OK;
    TERN_TRY(tern_tokenizer_open_gguf(&model->tokenizer, g, err));
    return tern_model__check_tokenizer(model, err);
}

tern_status tern_model__read_header(tern_model *model, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(tern_gguf_check_whole(g, err));
    TERN_TRY(tern_config__from_gguf(&model->config, g, err));
    TERN_TRY(tern_model__init_weights(model, err));
    TERN_TRY(tern_model__find_mtp_gguf(model, g, err));
    TERN_TRY(tern_model__read_i2s_order(model, g, err));
    TERN_TRY(tern_model__read_hadamard(model, g, err));
    TERN_TRY(tern_model__note_unused_gguf(model, g, err));
    return tern_model__read_exact_scales(model, g, err);
}

/* The block that drafts tokens, in the model's own layout. */
static tern_status read_mtp(tern_model *model, const tern_gguf *g, tern_error *err)
{
    tern_model *mtp = model->mtp;
    if (!mtp) return TERN_OK;
    TERN_TRY(tern_model__read_hadamard(mtp, g, err));
    TERN_TRY(tern_model__read_exact_scales(mtp, g, err));
    TERN_TRY(add_roles(mtp, g, err));
    tern_model__count_mtp(model);
    return TERN_OK;
}

static tern_status read_model(tern_model *model, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(tern_model__read_header(model, g, err));
    for (unsigned i = 0; i < TERN_FACTORS_KINDS; i++) {
        const tern_gguf_tensor *factors;
        TERN_TRY(tern_model__find_rope_factors(model, g, (tern_rope_factors)i, &factors, err));
        if (factors) TERN_TRY(tern_model__set_rope_factors(model, (tern_rope_factors)i, factors->data, err));
    }
    TERN_TRY(add_roles(model, g, err));
    TERN_TRY(tern_model__read_classifier(model, g, err));
    TERN_TRY(read_mtp(model, g, err));
    TERN_TRY(tern_model__settle_i2s_order(model, err));
    return tern_model__open_tokenizer(model, g, err);
}

tern_status tern_model__open_gguf(tern_model *model, const tern_gguf *g, tern_error *err)
{
    model->bytes_expected = tern_gguf_bytes(g);
    return read_model(model, g, err);
}
