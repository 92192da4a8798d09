/* Where the scales of a ternary tensor go: into its own place, into metadata beside it, or into a tensor. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "format/gguf.h"
#include "model/write/export_internal.h"
#include "quant/encoding.h"

bool tern_export__by_row(const tern_export_plan *p)
{
    return p->signs ? !p->one_sign_scale : p->weight->row_scales != NULL;
}

float tern_export__scale(const tern_export_plan *p, uint32_t row)
{
    if (p->signs) return p->signs[tern_export__source_row(p, row)]; /* also where all are the same */
    return p->weight->row_scales ? p->weight->row_scales[tern_export__source_row(p, row)] : p->scale;
}

static float rounded(float scale)
{
    return tern_f16_to_f32(tern_f32_to_f16(scale));
}

/* Blocks have an f16: what it cannot hold at all (too large, too small) goes into a tensor, what it rounds is kept
 * exactly in metadata. */
static void plan_blocks(tern_export_plan *p)
{
    const uint32_t n = tern_export__by_row(p) ? p->weight->rows : 1;
    bool exact = true;
    for (uint32_t r = 0; r < n; r++) {
        const float scale = tern_export__scale(p, r), stored = rounded(scale);
        if (!isfinite(stored) || (stored == 0) != (scale == 0)) {
            p->n_scales = n;
            return;
        }
        exact = exact && stored == scale;
    }
    p->n_exact = exact ? 0 : n;
}

tern_status tern_export__plan_scales(tern_export_plan *p, tern_error *err)
{
    const tern_weight *w = p->weight;
    const bool blocks = p->encoding->tail_bytes == 0;
    p->scale = p->signs ? p->signs[0] : w->scale;
    if (p->ternarise && blocks && !p->signs) TERN_TRY(tern_export__ternarised_scale(p, &p->scale, err));
    if (blocks) plan_blocks(p);
    else if (tern_export__by_row(p)) p->n_scales = w->rows;
    return TERN_OK;
}

tern_status tern_export__write_scales(const tern_export_plan *p, float scale, tern_gguf_writer *out, tern_error *err)
{
    for (uint32_t r = 0; r < p->n_scales; r++) {
        uint8_t bytes[4];
        const float one = tern_export__by_row(p) ? tern_export__scale(p, r) : scale;
        tern_store_f32(bytes, one == 0 ? 1.0f : one); /* a row of zeros */
        TERN_TRY(tern_gguf_writer_data(out, bytes, sizeof bytes, err));
    }
    return TERN_OK;
}

tern_status tern_export_exact_add(tern_export_exact *x, const tern_export_plan *p, const char *name, tern_error *err)
{
    uint8_t bytes[4];
    if (p->n_exact == 0) return TERN_OK;
    TERN_TRY(tern_grow((void **)&x->names, &x->cap, x->n + 1, sizeof *x->names, err));
    snprintf(x->names[x->n++].text, sizeof x->names->text, "%s", name);
    tern_store_u32(bytes, p->n_exact);
    TERN_TRY(tern_buf_add(&x->counts, bytes, sizeof bytes, err));
    for (uint32_t r = 0; r < p->n_exact; r++) {
        tern_store_f32(bytes, tern_export__scale(p, r));
        TERN_TRY(tern_buf_add(&x->values, bytes, sizeof bytes, err));
    }
    return TERN_OK;
}

static tern_status write_arrays(const tern_export_exact *x, const tern_span *names, tern_gguf_writer *w,
                                tern_error *err)
{
    const uint64_t n_values = x->values.size / sizeof(float);
    TERN_TRY(tern_gguf_add_array(w, TERN_MODEL__EXACT_TENSORS, TERN_GGUF_STRING, names, x->n, err));
    TERN_TRY(tern_gguf_add_array(w, TERN_MODEL__EXACT_COUNTS, TERN_GGUF_U32, x->counts.data, x->n, err));
    return tern_gguf_add_array(w, TERN_MODEL__EXACT_VALUES, TERN_GGUF_F32, x->values.data, n_values, err);
}

tern_status tern_export_exact_write(const tern_export_exact *x, tern_gguf_writer *w, tern_error *err)
{
    if (x->n == 0) return TERN_OK;
    tern_span *names = tern_calloc(x->n, sizeof *names);
    if (!names) return tern_fail_alloc(err, x->n * sizeof *names);
    for (size_t i = 0; i < x->n; i++)
        names[i] = (tern_span){(const uint8_t *)x->names[i].text, strlen(x->names[i].text)};
    const tern_status status = write_arrays(x, names, w, err);
    tern_free(names);
    return status;
}

void tern_export_exact_deinit(tern_export_exact *x)
{
    tern_free(x->names);
    tern_buf_deinit(&x->counts);
    tern_buf_deinit(&x->values);
    *x = (tern_export_exact){0};
}
