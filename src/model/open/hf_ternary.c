/* Ternary matrices of a Hugging Face folder: masters and packed codes, packed in memory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "model/open/hf_internal.h"
#include "quant/encoding.h"
#include "quant/foreign.h"

const tern_encoding *tern_hf__float_encoding(tern_st_dtype dtype)
{
    switch (dtype) {
    case TERN_ST_F32: return tern_encoding_find(TERN_ENC_F32);
    case TERN_ST_F16: return tern_encoding_find(TERN_ENC_F16);
    case TERN_ST_BF16: return tern_encoding_find(TERN_ENC_BF16);
    default: return NULL;
    }
}

void tern_hf__shape(const tern_st_tensor *t, uint64_t *rows, uint64_t *cols)
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
static tern_status own_ternary(const tern_hf__source *s, uint8_t **out, tern_error *err)
{
    tern_weight *w = s->weight;
    void *data = NULL;
    w->encoding = ternary_encoding(w->cols);
    TERN_TRY(tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err));
    TERN_TRY(tern_model__own(s->model, w->bytes, &data, err));
    w->data = *out = data;
    return TERN_OK;
}

tern_status tern_hf__add_master(const tern_hf__source *s, tern_error *err)
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
static tern_status unpack_lsb(const tern_hf__source *s, int8_t *codes, tern_error *err)
{
    const tern_weight *w = s->weight;
    const size_t n = tern_lsb_unpack(s->tensor->data, w->rows, w->cols, s->lsb_stride, codes);
    if (n == 0) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: found code 11 in %zu elements, expected -1, 0 or 1", w->name, n);
}

static tern_status unpack_codes(const tern_hf__source *s, uint8_t *out, tern_error *err)
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

const tern_st_tensor *tern_hf__scale_tensor(const tern_hf__source *s)
{
    char name[TERN_MODEL__NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s_scale", s->weight->name);
    return tern_safetensors_find(s->model->safetensors, name);
}

static tern_status read_weight_scale(const tern_hf__source *s, tern_error *err)
{
    tern_weight *w = s->weight;
    w->scale = 1.0f;
    const tern_st_tensor *t = tern_hf__scale_tensor(s);
    if (!t)
        return tern_fail(err, TERN_MALFORMED, "%s_scale: no such tensor found, one expected beside packed weights",
                         w->name);
    if ((t->n_elements != 1 && t->n_elements != w->rows) || !tern_hf__float_encoding(t->dtype))
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

static tern_status add_packed(const tern_hf__source *s, tern_error *err)
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
tern_status tern_hf__add_uint8(tern_hf__source *s, tern_error *err)
{
    tern_weight *w = s->weight;
    uint32_t rows, cols;
    uint64_t packed_rows, packed_cols;
    tern_role__shape(s->role, s->layer, &s->model->config, &rows, &cols);
    tern_hf__shape(s->tensor, &packed_rows, &packed_cols);
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
