/* Dense matrices whose numbers are ternary already (TriLM, arXiv:2407.12327): their scales, as they are. */
#include <math.h>

#include "base/alloc.h"
#include "model/write/export_internal.h"
#include "quant/encoding.h"

/* The one magnitude of a row beside 0; 0 where all are 0. False where there are several, or it is not finite. */
static bool row_scale(const float *row, uint32_t n, float *scale)
{
    *scale = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float size = fabsf(row[i]);
        if (size == 0) continue;
        if (!isfinite(size) || (*scale > 0 && size != *scale)) return false;
        *scale = size;
    }
    return true;
}

/* by_row: each row has one magnitude; by_group: each block of q2_0 has. */
static tern_status find(const tern_weight *w, float *scales, float *row, bool *by_row, bool *by_group, tern_error *err)
{
    *by_row = *by_group = true;
    for (uint32_t r = 0; r < w->rows && (*by_row || *by_group); r++) {
        TERN_TRY(tern_decode_rows(w->encoding, w->data, w->rows, w->cols, r, 1, row, err));
        *by_row = *by_row && row_scale(row, w->cols, &scales[r]);
        *by_group = *by_group && tern_model__has_groups(row, w->cols);
    }
    return TERN_OK;
}

/* Rows of zeros go with any scale: that of the others. */
static bool are_one(float *scales, uint32_t n)
{
    float one = 0;
    bool same = true;
    for (uint32_t r = 0; r < n && one == 0; r++) one = scales[r];
    if (one == 0) one = 1;
    for (uint32_t r = 0; r < n; r++) {
        if (scales[r] == 0) scales[r] = one;
        same = same && scales[r] == one;
    }
    return same;
}

tern_status tern_export__find_signs(tern_export_plan *p, tern_error *err)
{
    const tern_weight *w = p->weight;
    const size_t bytes = ((size_t)w->rows + w->cols) * sizeof(float);
    bool by_row, by_group;
    if (!w->data) return TERN_OK; /* made later (tern synth), and random */
    float *scales = tern_alloc(bytes);
    if (!scales) return tern_fail_alloc(err, bytes);
    const tern_status status = find(w, scales, scales + w->rows, &by_row, &by_group, err);
    if (status == TERN_OK && !by_row && by_group) {
        p->encoding = tern_encoding_find(TERN_ENC_Q2_0);
        p->ternarise = false;
    }
    if (status != TERN_OK || !by_row) {
        tern_free(scales);
        return status;
    }
    p->signs = scales;
    p->one_sign_scale = are_one(scales, w->rows);
    return status;
}

void tern_export__take_signs(const float *values, size_t n, int8_t *codes)
{
    for (size_t i = 0; i < n; i++) codes[i] = (int8_t)((values[i] > 0) - (values[i] < 0));
}
