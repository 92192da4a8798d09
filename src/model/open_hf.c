/* Opening a Hugging Face folder: dense matrices in place, ternary ones packed in memory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "model/model_internal.h"
#include "quant/foreign.h"

enum { MAX_CONFIG_BYTES = 1 << 24 };

/* What adding one tensor needs. */
typedef struct source {
    tern_model *model;
    tern_hf_layout layout;
    tern_role role;
    uint32_t layer;
    const tern_st_tensor *tensor;
    tern_weight *weight;
    uint64_t lsb_stride; /* of packed codes: bytes of a row with four neighbours in a byte; 0: four rows in a byte */
} source;

static const tern_encoding *float_encoding(tern_st_dtype dtype)
{
    switch (dtype) {
    case TERN_ST_F32: return tern_encoding_find(TERN_ENC_F32);
    case TERN_ST_F16: return tern_encoding_find(TERN_ENC_F16);
    case TERN_ST_BF16: return tern_encoding_find(TERN_ENC_BF16);
    default: return NULL;
    }
}

/* Rows and columns of a tensor of one or two dimensions; more have the product of all but the last as rows. */
static void shape_of(const tern_st_tensor *t, uint64_t *rows, uint64_t *cols)
{
    *cols = t->n_dims ? t->dims[t->n_dims - 1] : 1;
    *rows = *cols ? t->n_elements / *cols : 0;
}

/* Rows of whole i2_s blocks where they fit, else the encoding that takes any row. */
static const tern_encoding *ternary_encoding(uint64_t cols)
{
    return tern_encoding_find(cols % 128 == 0 ? TERN_ENC_I2_S : TERN_ENC_T160);
}

/* The weight becomes a tensor in memory of the model's own. */
static tern_status own_ternary(const source *s, uint8_t **out, tern_error *err)
{
    tern_weight *w = s->weight;
    void *data = NULL;
    w->encoding = ternary_encoding(w->cols);
    TERN_TRY(tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err));
    TERN_TRY(tern_model__own(s->model, w->bytes, &data, err));
    w->data = *out = data;
    return TERN_OK;
}

static tern_status add_master(const source *s, tern_error *err)
{
    tern_weight *w = s->weight;
    size_t n;
    uint8_t *out = NULL;
    TERN_TRY(own_ternary(s, &out, err));
    if (!tern_size_mul((size_t)w->rows * w->cols, sizeof(float), &n)) return tern_fail_alloc(err, SIZE_MAX);
    float *values = tern_alloc(n);
    if (!values) return tern_fail_alloc(err, n);
    tern_st_to_f32(s->tensor, 0, (size_t)w->rows * w->cols, values);
    tern_status status = tern_encode(w->encoding, values, w->rows, w->cols, out, err);
    tern_free(values);
    if (status != TERN_OK) return tern_error_prefix(err, "%s", w->name);
    return tern_model__find_scales(s->model, w, err);
}

/* Byte [r][c] holds the codes of rows r, r + quarter, r + 2 quarter and r + 3 quarter, the first in the lowest bits. */
static tern_status refuse_code_11(const tern_weight *w, const uint8_t *packed, tern_error *err)
{
    uint64_t quarter = (w->rows + 3) / 4;
    for (uint64_t row = 0; row < w->rows; row++)
        for (uint64_t col = 0; col < w->cols; col++)
            if ((packed[row % quarter * w->cols + col] >> (row / quarter * 2) & 3) == 3)
                return tern_fail(err, TERN_MALFORMED,
                                 "%s: found code 11 at element %llu (row %llu, column %llu), expected -1, 0 or 1",
                                 w->name, (unsigned long long)(row * w->cols + col), (unsigned long long)row,
                                 (unsigned long long)col);
    return TERN_OK;
}

/* Four neighbours of a row in a byte, the first in the lowest bits. */
static tern_status unpack_lsb(const source *s, int8_t *codes, tern_error *err)
{
    const tern_weight *w = s->weight;
    const size_t n = tern_lsb_unpack(s->tensor->data, w->rows, w->cols, s->lsb_stride, codes);
    if (n == 0) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: found code 11 in %zu elements, expected -1, 0 or 1", w->name, n);
}

static tern_status unpack_codes(const source *s, uint8_t *out, tern_error *err)
{
    tern_weight *w = s->weight;
    int8_t *codes = tern_alloc((size_t)w->rows * w->cols);
    if (!codes) return tern_fail_alloc(err, (size_t)w->rows * w->cols);
    tern_status status = TERN_OK;
    if (s->lsb_stride) status = unpack_lsb(s, codes, err);
    else if (tern_hf_unpack(s->tensor->data, w->rows, w->cols, codes)) status = refuse_code_11(w, s->tensor->data, err);
    if (status == TERN_OK) status = tern_encode_codes(w->encoding, codes, 1.0f, w->rows, w->cols, out, err);
    tern_free(codes);
    return status;
}

/* The tensor "<name>_scale", or NULL. */
static const tern_st_tensor *scale_tensor(const source *s)
{
    char name[TERN_MODEL__NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s_scale", s->weight->name);
    return tern_safetensors_find(s->model->safetensors, name);
}

static tern_status read_weight_scale(const source *s, tern_error *err)
{
    tern_weight *w = s->weight;
    w->scale = 1.0f;
    const tern_st_tensor *t = scale_tensor(s);
    if (!t)
        return tern_fail(err, TERN_MALFORMED, "%s_scale: no such tensor found, one expected beside packed weights",
                         w->name);
    if ((t->n_elements != 1 && t->n_elements != w->rows) || !float_encoding(t->dtype))
        return tern_fail(err, TERN_MALFORMED, "%s_scale: %llu values of %s found, 1 or %u floats expected", w->name,
                         (unsigned long long)t->n_elements, tern_st_dtype_name(t->dtype), w->rows);
    float *factors = tern_calloc(tern_size_of(t->n_elements), sizeof *factors);
    if (!factors) return tern_fail_alloc(err, t->n_elements * sizeof *factors);
    tern_st_to_f32(t, 0, (size_t)t->n_elements, factors);
    for (uint64_t i = 0; s->layout.reciprocal && i < t->n_elements; i++) factors[i] = 1.0f / factors[i];
    tern_status status = tern_model__apply_scales(
        s->model, w, s->layout.reciprocal ? "1 / weight_scale" : "weight_scale", factors, t->n_elements, err);
    tern_free(factors);
    return status;
}

static tern_status add_packed(const source *s, tern_error *err)
{
    tern_weight *w = s->weight;
    uint8_t *out = NULL;
    TERN_TRY(own_ternary(s, &out, err));
    TERN_TRY(unpack_codes(s, out, err));
    TERN_TRY(read_weight_scale(s, err));
    tern_store_f32(out + w->bytes - w->encoding->tail_bytes, w->scale);
    return TERN_OK;
}

/* Bytes of a row with four neighbours in a byte, when that is the shape: rows may be rounded up to 4 bytes. 0: it is
 * not. */
static uint64_t lsb_stride(uint64_t packed_rows, uint64_t packed_cols, uint32_t rows, uint32_t cols)
{
    const uint64_t least = ((uint64_t)cols + 3) / 4, whole = (least + 3) / 4 * 4;
    return packed_rows == rows && (packed_cols == least || packed_cols == whole) ? packed_cols : 0;
}

/* A matrix of uint8 [ceil(rows / 4)][cols], or [rows][ceil(cols / 4)]. */
static tern_status add_uint8(source *s, tern_error *err)
{
    tern_weight *w = s->weight;
    uint32_t rows, cols;
    uint64_t packed_rows, packed_cols;
    tern_role__shape(s->role, s->layer, &s->model->config, &rows, &cols);
    shape_of(s->tensor, &packed_rows, &packed_cols);
    if (!s->layout.packed || tern_role__kind(s->role) != TERN_KIND_L)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: U8 found, F32, F16 or BF16 expected", w->name);
    if (packed_rows != (rows + 3) / 4 || packed_cols != cols) {
        s->lsb_stride = lsb_stride(packed_rows, packed_cols, rows, cols);
        if (!s->lsb_stride)
            return tern_fail(
                err, TERN_MALFORMED,
                "%s: %llu rows of %llu found, %u rows of %u (four rows to a byte) expected, or %u rows of %u "
                "(four columns to a byte)",
                w->name, (unsigned long long)packed_rows, (unsigned long long)packed_cols, (rows + 3) / 4, cols, rows,
                (cols + 3) / 4);
    }
    w->rows = rows;
    w->cols = cols;
    return add_packed(s, err);
}

static tern_status add_vector(const source *s, const tern_encoding *e, tern_error *err)
{
    tern_weight *w = s->weight;
    TERN_TRY(tern_model__set_vector(s->model, w, e, s->tensor->data, err));
    float *values = (float *)(uintptr_t)w->data;
    const float offset = tern_role__hf_offset(&s->model->config, s->role);
    for (uint32_t i = 0; offset != 0 && i < w->cols; i++) values[i] += offset;
    return TERN_OK;
}

static tern_status add_float(const source *s, const tern_encoding *e, tern_error *err)
{
    tern_weight *w = s->weight;
    uint64_t rows, cols;
    shape_of(s->tensor, &rows, &cols);
    TERN_TRY(tern_model__check_shape(&s->model->config, s->role, s->layer, w->name, rows, cols, err));
    w->rows = (uint32_t)rows;
    w->cols = (uint32_t)cols;
    w->scale = 1.0f;
    if (tern_role_is_vector(s->role)) return add_vector(s, e, err);
    if (tern_role__kind(s->role) == TERN_KIND_L && scale_tensor(s))
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found beside a weight_scale, U8 expected", w->name,
                         tern_st_dtype_name(s->tensor->dtype));
    if (tern_role__kind(s->role) == TERN_KIND_L && s->layout.ternary) return add_master(s, err);
    w->encoding = e;
    w->data = s->tensor->data;
    w->bytes = s->tensor->bytes;
    w->mapped = true;
    return TERN_OK;
}

static tern_status add_tensor(source *s, tern_error *err)
{
    const tern_encoding *e = float_encoding(s->tensor->dtype);
    if (s->tensor->dtype == TERN_ST_U8) TERN_TRY(add_uint8(s, err));
    else if (e) TERN_TRY(add_float(s, e, err));
    else
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, F32, F16, BF16 or packed U8 expected", s->weight->name,
                         tern_st_dtype_name(s->tensor->dtype));
    TERN_TRY(tern_model__check_data(s->model, s->weight, err));
    return tern_model__added(s->model, s->weight, err);
}

/* The tensor of a role under any of its names, which is left in `name`; NULL, with the first name, when it has none. */
static const tern_st_tensor *find_tensor(const tern_model *model, tern_role role, uint32_t layer, char *name)
{
    char own[TERN_MODEL__NAME_BYTES];
    for (unsigned i = 0; tern_role__hf_name(&model->config, role, layer, i, own); i++) {
        tern_role__spell(model->spelling, own, name);
        const tern_st_tensor *t = tern_safetensors_find(model->safetensors, name);
        if (t) return t;
    }
    tern_role__hf_name(&model->config, role, layer, 0, own);
    tern_role__spell(model->spelling, own, name);
    return NULL;
}

static tern_status add_role(tern_model *model, tern_hf_layout layout, tern_role role, uint32_t layer, tern_error *err)
{
    if (tern_role__may_lack(role, &model->config)) return TERN_OK;
    source s = {model, layout, role, layer, NULL, tern_model__slot(model, role, layer)};
    s.tensor = find_tensor(model, role, layer, s.weight->name);
    if (!s.tensor) return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", s.weight->name);
    return add_tensor(&s, err);
}

static tern_status add_roles(tern_model *model, tern_hf_layout layout, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &model->config)) TERN_TRY(add_role(model, layout, walk.role, walk.layer, err));
    return TERN_OK;
}

/* The spelling under which there is an embedding table. */
static tern_hf_spelling find_spelling(tern_model *model)
{
    char name[TERN_MODEL__NAME_BYTES];
    for (unsigned i = 0; i < TERN_HF_SPELLINGS; i++) {
        model->spelling = (tern_hf_spelling)i;
        if (find_tensor(model, TERN_ROLE_TOKEN_EMBD, 0, name)) return model->spelling;
    }
    return TERN_HF_ALONE;
}

/* What only the list of tensors tells. */
static void look_at_tensors(tern_model *model, tern_hf_layout layout)
{
    char name[TERN_MODEL__NAME_BYTES];
    const tern_safetensors *st = model->safetensors;
    tern_config *c = &model->config;
    for (size_t i = 0; i < tern_safetensors_count(st); i++) {
        const tern_st_tensor *t = tern_safetensors_at(st, i);
        model->bytes_expected += t->bytes;
    }
    model->spelling = find_spelling(model);
    c->tied_head = c->tied_head || !find_tensor(model, TERN_ROLE_OUTPUT, 0, name);
    c->bit_linear = layout.ternary;
    c->sub_norms =
        tern_family__find(c->architecture)->needs_sub_norms || find_tensor(model, TERN_ROLE_ATTN_SUB_NORM, 0, name);
}

static tern_status look_for(const char *dir, const char *name, bool *found, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    *found = *found || tern_file_exists(path);
    tern_free(path);
    return TERN_OK;
}

static tern_status open_tokenizer(tern_model *model, const char *dir, tern_error *err)
{
    bool found = false;
    if (model->options->no_tokenizer) return TERN_OK;
    TERN_TRY(look_for(dir, "tokenizer.json", &found, err));
    TERN_TRY(look_for(dir, "tokenizer.model", &found, err));
    if (!found) return TERN_OK;
    TERN_TRY(tern_tokenizer_open_hf(&model->tokenizer, dir, err));
    return tern_model__check_tokenizer(model, err);
}

/* The last part of a path, trailing slashes aside. */
static void folder_name(const char *dir, char *out, size_t out_bytes)
{
    size_t end = strlen(dir), start;
    while (end > 0 && dir[end - 1] == '/') end--;
    for (start = end; start > 0 && dir[start - 1] != '/';) start--;
    snprintf(out, out_bytes, "%.*s", (int)(end - start), dir + start);
    if (strcmp(out, "") == 0 || strcmp(out, ".") == 0 || strcmp(out, "..") == 0) snprintf(out, out_bytes, "model");
}

static tern_status read_config(tern_model *model, const char *dir, tern_hf_layout *layout, tern_error *err)
{
    char name[256];
    json_t *root = NULL;
    folder_name(dir, name, sizeof name);
    TERN_TRY(tern_json_read_in(&root, dir, "config.json", MAX_CONFIG_BYTES, err));
    tern_status status = tern_config__from_hf(&model->config, layout, root, name, err);
    tern_json_free(root);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "config.json");
}

tern_status tern_model__open_hf(tern_model *model, const char *dir, const char *weights, tern_error *err)
{
    tern_hf_layout layout = {0};
    TERN_TRY(read_config(model, dir, &layout, err));
    TERN_TRY(tern_safetensors_open(&model->safetensors, weights, err));
    look_at_tensors(model, layout);
    TERN_TRY(tern_model__init_weights(model, err));
    TERN_TRY(tern_model__note_unused_hf(model, err));
    TERN_TRY(add_roles(model, layout, err));
    return open_tokenizer(model, dir, err);
}
