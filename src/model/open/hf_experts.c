/* Experts of a Hugging Face folder: the tensors of all of a layer become one weight, in memory. */
#include <stdio.h>
#include <string.h>

#include "model/open/hf_internal.h"
#include "quant/encoding.h"
#include "quant/mxfp4.h"

/* One role's way from the tensors to the weight. */
typedef struct joining {
    const tern_hf__source *source;
    tern_hf_experts at;     /* of the expert at hand */
    uint32_t n, rows, cols; /* experts; rows and columns of one (of biases: numbers, and 1) */
    size_t item;            /* bytes of a number */
    uint8_t *out;
} joining;

static const tern_st_tensor *find(const joining *j, const char *ending, char name[TERN_MODEL__NAME_BYTES + 8])
{
    char spelt[TERN_MODEL__NAME_BYTES];
    const tern_model *model = j->source->model;
    tern_role__spell(model->spelling, j->at.name, spelt);
    snprintf(name, TERN_MODEL__NAME_BYTES + 8, "%s%s", spelt, ending);
    return tern_safetensors_find(model->safetensors, name);
}

static tern_status lacks(const char *name, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", name);
}

/* "[8, 512, 8, 16]" */
static void show_dims(const uint64_t *dims, uint32_t n, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && at < room; i++) {
        const int more = snprintf(out + at, room - at, "%s%llu", i ? ", " : "[", (unsigned long long)dims[i]);
        at += more > 0 ? (size_t)more : 0;
    }
    if (at < room) snprintf(out + at, room - at, "%s", n ? "]" : "[]");
}

static tern_status check_dims(const tern_st_tensor *t, const char *name, const uint64_t *wanted, uint32_t n,
                              tern_error *err)
{
    char found[96], expected[96];
    if (t->n_dims == n && memcmp(t->dims, wanted, n * sizeof *wanted) == 0) return TERN_OK;
    show_dims(t->dims, t->n_dims, found, sizeof found);
    show_dims(wanted, n, expected, sizeof expected);
    return tern_fail(err, TERN_MALFORMED, "%s: shape %s found, %s expected", name, found, expected);
}

static tern_status check_shape(const joining *j, const tern_st_tensor *t, const char *name, tern_error *err)
{
    const bool bias = tern_role_is_vector(j->source->role);
    uint64_t dims[3];
    uint32_t n = 0;
    if (!j->at.single) dims[n++] = j->n;
    dims[n++] = j->at.transposed ? j->cols : j->at.rows;
    if (!bias) dims[n++] = j->at.transposed ? j->at.rows : j->cols;
    return check_dims(t, name, dims, n, err);
}

/* Rows of an expert, from its part of the tensor. */
static void copy(const joining *j, const uint8_t *from, uint8_t *to)
{
    const size_t row = j->cols * j->item;
    for (uint32_t r = 0; r < j->rows; r++) {
        const size_t at = j->at.first + (size_t)j->at.step * r;
        if (!j->at.transposed) memcpy(to + r * row, from + at * row, row);
        for (uint32_t c = 0; j->at.transposed && c < j->cols; c++)
            memcpy(to + r * row + c * j->item, from + (c * (size_t)j->at.rows + at) * j->item, j->item);
    }
}

/* The bytes of the weight, whose shape and encoding are there. */
static tern_status own(joining *j, tern_error *err)
{
    void *block = NULL;
    tern_weight *w = j->source->weight;
    TERN_TRY(tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err));
    TERN_TRY(tern_model__own(j->source->model, w->bytes, &block, err));
    w->data = j->out = block;
    w->mapped = false;
    return TERN_OK;
}

static tern_status join_expert(joining *j, const tern_st_tensor *like, uint32_t expert, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES + 8];
    const tern_hf__source *s = j->source;
    const size_t bytes = (size_t)j->rows * j->cols * j->item;
    tern_role__hf_experts(&s->model->config, s->role, s->layer, expert, s->model->halves, &j->at);
    const tern_st_tensor *t = find(j, "", name);
    if (!t) return lacks(name, err);
    TERN_TRY(check_shape(j, t, name, err));
    if (t->dtype != like->dtype)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, %s expected as of the layer's first expert", name,
                         tern_st_dtype_name(t->dtype), tern_st_dtype_name(like->dtype));
    const size_t part = j->at.single ? 0 : (size_t)j->at.rows * j->cols * j->item;
    copy(j, t->data + expert * part, j->out + expert * bytes);
    return TERN_OK;
}

static tern_status join_floats(joining *j, const tern_st_tensor *first, const char *name, tern_error *err)
{
    const tern_hf__source *s = j->source;
    const tern_encoding *e = tern_hf__float_encoding(first->dtype);
    if (!e)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, F32, F16 or BF16 expected", name,
                         tern_st_dtype_name(first->dtype));
    if (s->layout.ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: experts found in a ternary model, none expected", name);
    TERN_TRY(check_shape(j, first, name, err));
    s->weight->encoding = e;
    j->item = e->block_bytes / e->block_elements;
    TERN_TRY(own(j, err));
    for (uint32_t i = 0; i < j->n; i++) TERN_TRY(join_expert(j, first, i, err));
    return tern_role_is_vector(s->role) ? tern_model__set_vector(s->model, s->weight, e, j->out, err) : TERN_OK;
}

static tern_status join_mxfp4(joining *j, const tern_st_tensor *codes, const char *name, tern_error *err)
{
    char scales_name[TERN_MODEL__NAME_BYTES + 8];
    const tern_st_tensor *scales = find(j, TERN_HF__SCALES, scales_name);
    const uint32_t n_blocks = j->cols / TERN_MXFP4_ELEMENTS;
    const uint64_t dims[4] = {j->n, j->at.rows, n_blocks, TERN_MXFP4_CODE_BYTES};
    if (!scales) return lacks(scales_name, err);
    if (j->cols % TERN_MXFP4_ELEMENTS)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: rows of %u found, a multiple of %d expected", name, j->cols,
                         TERN_MXFP4_ELEMENTS);
    if (codes->dtype != TERN_ST_U8 || scales->dtype != TERN_ST_U8)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s with scales of %s found, U8 expected of both", name,
                         tern_st_dtype_name(codes->dtype), tern_st_dtype_name(scales->dtype));
    TERN_TRY(check_dims(codes, name, dims, 4, err));
    TERN_TRY(check_dims(scales, scales_name, dims, 3, err));
    j->source->weight->encoding = tern_encoding_find(TERN_ENC_MXFP4);
    TERN_TRY(own(j, err));
    for (size_t r = 0; r < (size_t)j->n * j->rows; r++) {
        const size_t at = r / j->rows * j->at.rows + j->at.first + j->at.step * (r % j->rows);
        tern_mxfp4_join(codes->data + at * n_blocks * TERN_MXFP4_CODE_BYTES, scales->data + at * n_blocks, n_blocks,
                        j->out + r * n_blocks * TERN_MXFP4_BYTES);
    }
    return TERN_OK;
}

tern_status tern_hf__add_experts(tern_hf__source *s, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES + 8];
    tern_weight *w = s->weight;
    const tern_config *c = &s->model->config;
    joining j = {.source = s, .n = c->n_experts};
    const bool bias = tern_role_is_vector(s->role);
    tern_role__hf_name(c, s->role, s->layer, 0, w->name);
    if (!tern_role__hf_experts(c, s->role, s->layer, 0, s->model->halves, &j.at))
        return tern_fail(err, TERN_UNSUPPORTED, "%s: experts of %s found in a folder, a GGUF file expected", w->name,
                         c->architecture);
    tern_role__shape(s->role, s->layer, c, &w->rows, &w->cols);
    w->scale = 1.0f;
    j.rows = bias ? w->cols : w->rows / j.n;
    j.cols = bias ? 1 : w->cols;
    const tern_st_tensor *t = bias ? NULL : find(&j, TERN_HF__BLOCKS, name);
    if (t) TERN_TRY(join_mxfp4(&j, t, name, err));
    else {
        t = find(&j, "", name);
        if (!t) return lacks(name, err);
        TERN_TRY(join_floats(&j, t, name, err));
    }
    TERN_TRY(tern_model__check_data(s->model, w, err));
    return tern_model__added(s->model, w, err);
}
