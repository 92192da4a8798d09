/* The scales of a ternary weight: from the tail or the blocks of its tensor, and from tensors beside it. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

/* tq1_0 and tq2_0 end every block with its scale, an f16. */
static uint16_t block_scale(const tern_encoding *e, const uint8_t *block)
{
    return tern_load_u16(block + e->block_bytes - 2);
}

static bool all_codes_zero(const tern_encoding *e, const uint8_t *block)
{
    int8_t codes[256];
    float scale;
    e->unpack_codes(block, 1, codes, &scale);
    for (uint32_t i = 0; i < e->block_elements; i++)
        if (codes[i] != 0) return false;
    return true;
}

static tern_status refuse_in_row(const tern_weight *w, const char *what, float scale, uint32_t row, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s: %s %g found in row %u, a positive and finite one expected", w->name,
                     what, (double)scale, row);
}

static bool is_scale(float scale)
{
    return scale > 0 && isfinite(scale);
}

/* The one scale of row r; blocks of zeros with scale 0 go with any. */
static tern_status row_scale(const tern_weight *w, uint32_t r, float *scale, tern_error *err)
{
    const tern_encoding *e = w->encoding;
    const size_t n = w->cols / e->block_elements;
    const uint8_t *block = w->data + r * n * e->block_bytes;
    uint16_t found = 0;
    for (size_t b = 0; b < n; b++, block += e->block_bytes) {
        const uint16_t d = block_scale(e, block);
        if (d == found && d != 0) continue;
        if ((d & 0x7fff) == 0 && all_codes_zero(e, block)) continue;
        if (!is_scale(tern_f16_to_f32(d))) return refuse_in_row(w, "scale", tern_f16_to_f32(d), r, err);
        if (found != 0)
            return tern_fail(err, TERN_UNSUPPORTED, "%s: several scales found in row %u, one expected", w->name, r);
        found = d;
    }
    *scale = tern_f16_to_f32(found);
    return TERN_OK;
}

/* Keeps `values` [rows] only when they differ: rows of zeros (scale 0) go with any. A matrix of zeros gets 1. */
static void keep_row_scales(tern_weight *w, const float *values)
{
    w->scale = 0.0f;
    for (uint32_t r = 0; r < w->rows; r++) {
        if (values[r] == 0.0f || values[r] == w->scale) continue;
        if (w->scale != 0.0f) {
            w->row_scales = values;
            w->scale = 1.0f;
            return;
        }
        w->scale = values[r];
    }
    if (w->scale == 0.0f) w->scale = 1.0f;
}

static tern_status read_block_scales(tern_model *model, tern_weight *w, tern_error *err)
{
    void *storage = NULL;
    TERN_TRY(tern_model__own(model, w->rows * sizeof(float), &storage, err));
    float *scales = storage;
    for (uint32_t r = 0; r < w->rows; r++) TERN_TRY(row_scale(w, r, &scales[r], err));
    tern_model__refine_scales(model, w, scales);
    keep_row_scales(w, scales);
    return TERN_OK;
}

tern_status tern_model__find_scales(tern_model *model, tern_weight *weight, tern_error *err)
{
    const tern_encoding *e = weight->encoding;
    weight->scale = 1.0f;
    if (!e->ternary) return TERN_OK;
    if (e->tail_bytes == 0) return read_block_scales(model, weight, err);
    weight->scale = tern_load_f32(weight->data + weight->bytes - e->tail_bytes);
    return TERN_OK;
}

static tern_status row_is_zero(const tern_weight *w, uint32_t row, bool *zero, tern_error *err)
{
    int8_t *codes = tern_alloc(w->cols);
    if (!codes) return tern_fail_alloc(err, w->cols);
    const tern_status status =
        tern_decode_codes(w->encoding, w->data, w->rows, w->cols, row, 1, codes, NULL, NULL, NULL, err);
    *zero = true;
    for (uint32_t i = 0; status == TERN_OK && i < w->cols; i++) *zero = *zero && codes[i] == 0;
    tern_free(codes);
    return status;
}

/* A scale of 0 means nothing: of a row of zeros it does no harm. *harmless: the codes say so. */
static tern_status is_harmless(const tern_weight *w, float scale, uint32_t row, bool *harmless, tern_error *err)
{
    *harmless = is_scale(scale);
    return scale == 0 && w->data ? row_is_zero(w, row, harmless, err) : TERN_OK;
}

static tern_status check_factors(const tern_weight *w, const char *what, const float *factors, uint64_t n,
                                 tern_error *err)
{
    for (uint32_t r = 0; r < n; r++) {
        bool harmless = is_scale(factors[r]);
        if (n > 1) TERN_TRY(is_harmless(w, factors[r], r, &harmless, err));
        if (!harmless) return refuse_in_row(w, what, factors[r], r, err);
    }
    return TERN_OK;
}

tern_status tern_model__apply_scales(tern_model *model, tern_weight *weight, const char *what, const float *factors,
                                     uint64_t n, tern_error *err)
{
    if (n != 1 && n != weight->rows)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu scales found, 1 or one for each of %u rows expected",
                         weight->name, (unsigned long long)n, weight->rows);
    TERN_TRY(check_factors(weight, what, factors, n, err));
    if (n == 1 && !weight->row_scales) {
        weight->scale *= factors[0];
        return TERN_OK;
    }
    void *storage = NULL;
    TERN_TRY(tern_model__own(model, weight->rows * sizeof(float), &storage, err));
    float *values = storage;
    for (uint32_t r = 0; r < weight->rows; r++)
        values[r] = (weight->row_scales ? weight->row_scales[r] : weight->scale) * factors[n == 1 ? 0 : r];
    weight->row_scales = values;
    weight->scale = 1.0f;
    return TERN_OK;
}

/* Where the codes are gone, they were looked at. */
static tern_status check_row(const tern_weight *w, uint32_t row, tern_error *err)
{
    bool harmless;
    TERN_TRY(is_harmless(w, w->row_scales[row], row, &harmless, err));
    if (harmless || (w->row_scales[row] == 0 && !w->data)) return TERN_OK;
    return refuse_in_row(w, "scale", w->row_scales[row], row, err);
}

tern_status tern_model__check_scales(const tern_weight *w, tern_error *err)
{
    if (!w->encoding->ternary) return TERN_OK;
    for (uint32_t r = 0; w->row_scales && r < w->rows; r++) TERN_TRY(check_row(w, r, err));
    if (w->row_scales || is_scale(w->scale)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: scale %g found, a positive and finite one expected", w->name,
                     (double)w->scale);
}
