/* The start of training: the values that a weight was made of, straight from the file. */
#include "base/alloc.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

/* The floats that an HF folder has for a ternary weight, in its mapped file; NULL when it has none. */
static const tern_st_tensor *floats_of(const tern_model *model, const tern_weight *w)
{
    const bool made = model->safetensors && w->encoding->ternary;
    const tern_st_tensor *t = made ? tern_safetensors_find(model->safetensors, w->name) : NULL;
    bool is_float = t && (t->dtype == TERN_ST_F32 || t->dtype == TERN_ST_F16 || t->dtype == TERN_ST_BF16);
    return is_float ? t : NULL;
}

static tern_status decode_ternary(const tern_weight *w, uint32_t first, uint32_t n, float *out, tern_error *err)
{
    size_t n_codes = (size_t)n * w->cols;
    int8_t *codes = tern_alloc(n_codes);
    if (!codes) return tern_fail_alloc(err, n_codes);
    tern_status status =
        tern_decode_codes(w->encoding, w->data, w->rows, w->cols, first, n, codes, NULL, NULL, NULL, err);
    for (uint32_t r = 0; r < n && status == TERN_OK; r++) {
        float scale = w->row_scales ? w->row_scales[first + r] : w->scale;
        for (size_t i = (size_t)r * w->cols; i < (size_t)(r + 1) * w->cols; i++) out[i] = (float)codes[i] * scale;
    }
    tern_free(codes);
    return status;
}

tern_status tern_weight__rows(const tern_weight *w, uint32_t first, uint32_t n, float *out, tern_error *err)
{
    if (w->encoding->ternary) return decode_ternary(w, first, n, out, err);
    return tern_decode_rows(w->encoding, w->data, w->rows, w->cols, first, n, out, err);
}

bool tern_model_has_master(const tern_model *model, tern_role role, uint32_t layer)
{
    const tern_weight *w = tern_model_weight(model, role, layer);
    return w->encoding && (!w->encoding->ternary || floats_of(model, w));
}

tern_status tern_model_master(const tern_model *model, tern_role role, uint32_t layer, uint32_t first, uint32_t n,
                              float *out, tern_error *err)
{
    const tern_weight *w = tern_model_weight(model, role, layer);
    if (!w->encoding || n > w->rows || first > w->rows - n)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: rows %u to %llu wanted of %u", w->name, first,
                         (unsigned long long)first + n, w->rows);
    const tern_st_tensor *t = floats_of(model, w);
    tern_status status = TERN_OK;
    if (t && !tern_role_is_vector(role)) tern_st_to_f32(t, (uint64_t)first * w->cols, (size_t)n * w->cols, out);
    else status = tern_weight__rows(w, first, n, out, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "%s", w->name);
}
