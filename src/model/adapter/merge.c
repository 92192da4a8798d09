/* Adapters merged into the weights of a model. */
#include "model/adapter/merge.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

bool tern_merge_has(const void *context, tern_role role, uint32_t layer)
{
    const tern_merge *merge = context;
    for (size_t i = 0; i < merge->n_items; i++)
        if (tern_adapter_find(merge->items[i].adapter, role, layer)) return true;
    return false;
}

/* out[r] += scale * sum_k B[first + r][k] A[k], in f64 so that the order of the adapters does not show. */
static void add_pair(const tern_merge_item *item, const tern_adapter_pair *pair, uint32_t first, uint32_t n,
                     double *row, float *out)
{
    const tern_adapter_info *info = tern_adapter_describe(item->adapter);
    double scale = (double)item->scale * (double)info->scale;
    const uint32_t each = pair->out / pair->n_experts;
    for (uint32_t r = 0; r < n; r++, out += pair->in) {
        const float *of_expert = pair->a + (size_t)((first + r) / each) * info->rank * pair->in;
        for (uint32_t c = 0; c < pair->in; c++) row[c] = 0;
        for (uint32_t k = 0; k < info->rank; k++) {
            double b = scale * (double)pair->b[(size_t)(first + r) * info->rank + k];
            const float *a = of_expert + (size_t)k * pair->in;
            for (uint32_t c = 0; c < pair->in; c++) row[c] += b * (double)a[c];
        }
        for (uint32_t c = 0; c < pair->in; c++) out[c] += (float)row[c];
    }
}

/* Adds what all adapters want of rows [first, first + n). */
static tern_status add_delta(const tern_merge *merge, tern_role role, uint32_t layer, uint32_t first, uint32_t n,
                             float *out, tern_error *err)
{
    uint32_t cols = tern_model_weight(merge->base, role, layer)->cols;
    double *row = tern_calloc(cols, sizeof *row);
    if (!row) return tern_fail_alloc(err, cols * sizeof *row);
    for (size_t i = 0; i < merge->n_items; i++) {
        const tern_adapter_pair *pair = tern_adapter_find(merge->items[i].adapter, role, layer);
        if (pair) add_pair(&merge->items[i], pair, first, n, row, out);
    }
    tern_free(row);
    return TERN_OK;
}

static tern_status merged_rows(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                               tern_error *err)
{
    tern_merge *merge = context;
    const tern_master_source base = tern_derived_source(&merge->masters);
    const size_t size = (size_t)n * tern_model_weight(merge->base, role, layer)->cols;
    TERN_TRY(base.rows(base.context, role, layer, first, n, out, err));
    TERN_TRY(add_delta(merge, role, layer, first, n, out, err));
    for (size_t i = 0; i < size && merge->bf16; i++) out[i] = tern_bf16_to_f32(tern_f32_to_bf16(out[i]));
    return TERN_OK;
}

tern_master_source tern_merge_source(tern_merge *merge)
{
    static const tern_derivation none;
    merge->masters = (tern_derived_masters){.base = merge->base, .how = &none};
    return (tern_master_source){merged_rows, merge};
}

/* Sums over the rows looked at so far. */
typedef struct sums {
    double before, wanted, achieved, product;
    uint64_t n_changed;
} sums;

static void add_row(sums *s, const float *before, const float *after, const float *delta, uint32_t cols, bool ternary)
{
    for (uint32_t c = 0; c < cols; c++) {
        double b = (double)before[c], a = (double)after[c], d = (double)delta[c];
        s->before += b * b;
        s->wanted += d * d;
        s->achieved += (a - b) * (a - b);
        s->product += (a - b) * d;
        s->n_changed += ternary ? (a > 0) - (a < 0) != (b > 0) - (b < 0) : a != b;
    }
}

static tern_status look(const tern_merge *merge, const tern_weight *w, const tern_weight *v, tern_merge_change *change,
                        float *rows, tern_error *err)
{
    sums s = {0};
    for (uint32_t r = 0; r < w->rows; r++) {
        float *before = rows, *after = rows + w->cols, *delta = rows + 2 * (size_t)w->cols;
        memset(delta, 0, w->cols * sizeof *delta);
        TERN_TRY(tern_weight__rows(w, r, 1, before, err));
        TERN_TRY(tern_weight__rows(v, r, 1, after, err));
        TERN_TRY(add_delta(merge, change->role, change->layer, r, 1, delta, err));
        add_row(&s, before, after, delta, w->cols, change->ternary);
    }
    change->n = (uint64_t)w->rows * w->cols;
    change->n_changed = s.n_changed;
    change->weight = sqrt(s.before);
    change->wanted = sqrt(s.wanted);
    change->achieved = sqrt(s.achieved);
    change->kept = s.wanted > 0 && s.achieved > 0 ? s.product / (change->wanted * change->achieved) : 0;
    return TERN_OK;
}

tern_status tern_merge_look(const tern_merge *merge, const tern_model *merged, tern_role role, uint32_t layer,
                            tern_merge_change *change, tern_error *err)
{
    const tern_weight *w = tern_model_weight(merge->base, role, layer), *v = tern_model_weight(merged, role, layer);
    if (!tern_merge_has(merge, role, layer))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: no adapter has it", w->name);
    *change = (tern_merge_change){.role = role, .layer = layer, .ternary = w->encoding->ternary};
    if (change->ternary) {
        change->scale_before = w->scale;
        change->scale_after = v->scale;
    }
    float *rows = tern_calloc(3 * (size_t)w->cols, sizeof *rows);
    if (!rows) return tern_fail_alloc(err, 3 * (size_t)w->cols * sizeof *rows);
    tern_status status = look(merge, w, v, change, rows, err);
    tern_free(rows);
    return status;
}
