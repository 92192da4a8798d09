/* What a device computed against what the CPU did: kernels of a sound driver differ by rounding alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/half.h"
#include "graph/trial/trial_internal.h"
#include "ops/ref/update.h"

/* Of the largest magnitude in a row, or of the terms that are added up, where a row cancels. Sums in another order
 * differ by far less, garbage by far more; int8 that are rounded the other way show in all that is computed from
 * them. */
static double tolerance_of(const tern_op *op)
{
    switch (op->kind) {
    case TERN_OP_EMBED:
    case TERN_OP_ADD:
    case TERN_OP_EMBED_BACKWARD:
    case TERN_OP_GATHER:
    case TERN_OP_KV_WRITE:
    case TERN_OP_SAMPLE:
    case TERN_OP_SUM_SQUARES: /* the optimiser is defined to the bit */
    case TERN_OP_UPDATE:
    case TERN_OP_REQUANTIZE: return 0;
    case TERN_OP_LINEAR: return op->norm_weight.value == TERN_NO_VALUE ? 1e-4 : 2e-2;
    case TERN_OP_ATTENTION:
    case TERN_OP_ROPE_KV:
    case TERN_OP_ROPE_ATTENTION: return 2e-3; /* keys may be rounded to f16 the other way */
    default: return 1e-4;
    }
}

/* Of what is seen of a weight. */
static double of_look(const tern_trial *t)
{
    return t->weight.encoding->ternary ? 1e-5 : 0;
}

typedef struct rows {
    const tern_trial *trial;
    uint32_t id;
    const tern_value *value;
    char *what;
    size_t n_what;
} rows;

static bool near(double got, double want, double allowed)
{
    bool same = isnan(want) ? isnan(got) : isinf(want) && got == want;
    return fabs(got - want) <= allowed || same;
}

static bool differ(rows *r, uint64_t row, uint32_t col, double got, double want, double allowed)
{
    if (near(got, want, allowed)) return false;
    snprintf(r->what, r->n_what, "%s, row %llu, column %u: %.7g, but %.7g expected", r->value->name,
             (unsigned long long)row, col, got, want);
    return true;
}

static float element(const uint8_t *bytes, tern_dtype dtype, uint64_t i)
{
    switch (dtype) {
    case TERN_DTYPE_F16: return tern_f16_to_f32(((const uint16_t *)(const void *)bytes)[i]);
    case TERN_DTYPE_BF16: return tern_bf16_to_f32(((const uint16_t *)(const void *)bytes)[i]);
    default: return ((const float *)(const void *)bytes)[i];
    }
}

/* Whether a row is as it should be by the size of the terms that its elements were added up from: rows that cancel. */
static bool row_cancels(const rows *r, uint64_t row, const uint8_t *got, const uint8_t *want, uint32_t cols,
                        double tolerance)
{
    tern_dtype dtype = r->value->dtype;
    double *terms = tern_alloc(cols * sizeof *terms);
    bool ok = terms && tern_trial__terms(r->trial, r->id, row, cols, terms);
    for (uint32_t c = 0; c < cols && ok; c++) {
        const uint64_t at = row * cols + c;
        ok = near((double)element(got, dtype, at), (double)element(want, dtype, at), terms[c] * tolerance);
    }
    tern_free(terms);
    return ok;
}

static bool floats_differ(rows *r, const uint8_t *got, const uint8_t *want, uint64_t n_rows, uint32_t cols,
                          double tolerance)
{
    tern_dtype dtype = r->value->dtype;
    for (uint64_t t = 0; t < n_rows; t++) {
        double most = 0;
        for (uint32_t c = 0; c < cols; c++) most = fmax(most, fabs((double)element(want, dtype, t * cols + c)));
        for (uint32_t c = 0; c < cols; c++) {
            double a = (double)element(got, dtype, t * cols + c), b = (double)element(want, dtype, t * cols + c);
            if (near(a, b, most * tolerance)) continue;
            if (tolerance > 0 && row_cancels(r, t, got, want, cols, tolerance)) break;
            return differ(r, t, c, a, b, most * tolerance);
        }
    }
    return false;
}

/* Values may be rounded the other way; the sum must be theirs. */
static bool q8_differ(rows *r, const uint8_t *got, const uint8_t *want, uint64_t n_rows)
{
    const tern_value *v = r->value;
    uint64_t n = v->rows == TERN_ROWS_TOKENS ? r->trial->graph.max_tokens : r->trial->graph.max_outputs,
             stride = tern_q8_stride(v->cols);
    uint64_t scales = tern_q8_scales_offset(v->cols, n), sums = tern_q8_sums_offset(v->cols, n);
    for (uint64_t t = 0; t < n_rows; t++) {
        int32_t sum = 0;
        for (uint32_t c = 0; c < stride; c++) {
            int8_t a = (int8_t)got[t * stride + c], b = (int8_t)want[t * stride + c];
            if (differ(r, t, c, a, b, c < v->cols)) return true;
            sum += a;
        }
        double scale = (double)((const float *)(const void *)(want + scales))[t];
        if (differ(r, t, v->cols, (double)((const float *)(const void *)(got + scales))[t], scale, 1e-5 * scale))
            return true;
        if (differ(r, t, v->cols, ((const int32_t *)(const void *)(got + sums))[t], sum, 0)) return true;
    }
    return false;
}

/* Moments in 8 bits: codes, then the scales of the blocks. */
static bool blocks_differ(rows *r, const uint8_t *got, const uint8_t *want)
{
    const tern_value *v = r->value;
    uint64_t n_blocks = ((uint64_t)v->n_rows * v->cols + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK,
             n = n_blocks * TERN_STATE_BLOCK;
    for (uint64_t i = 0; i < n; i++) {
        double a = v->dtype == TERN_DTYPE_M8 ? (int8_t)got[i] : got[i],
               b = v->dtype == TERN_DTYPE_M8 ? (int8_t)want[i] : want[i];
        if (differ(r, i / v->cols, (uint32_t)(i % v->cols), a, b, 0)) return true;
    }
    for (uint64_t i = 0; i < n_blocks; i++) {
        double a = (double)((const float *)(const void *)(got + n))[i],
               b = (double)((const float *)(const void *)(want + n))[i];
        if (differ(r, i, v->cols, a, b, 0)) return true;
    }
    return false;
}

bool tern_trial__writes(const tern_trial *t, uint32_t i)
{
    const tern_op *op = &t->op;
    if (i == t->from->n_values) return t->made != TERN_NO_VALUE;
    if (t->values[i].kind == TERN_VALUE_PARAM || t->values[i].kind == TERN_VALUE_WEIGHT) return false;
    bool writes = op->out.value == i;
    for (uint32_t k = 0; k < op->n_in; k++) writes |= op->in[k].value == i && tern_op_writes(op, k);
    return writes;
}

uint32_t tern_trial__rows(const tern_trial *t, const tern_value *v)
{
    return v->rows == TERN_ROWS_TOKENS ? t->n_tokens : t->n_outputs;
}

void tern_trial__compare(const tern_trial *t, uint8_t *const *got, uint8_t *const *want, char *what, size_t n_what)
{
    what[0] = 0;
    for (uint32_t i = 0; i <= t->from->n_values && !what[0]; i++) {
        const tern_value *v = &t->values[i];
        if (!got[i] || !want[i]) continue;
        rows r = {.trial = t, .id = i, .value = v, .what = what, .n_what = n_what};
        uint64_t n_rows = tern_trial__rows(t, v);
        uint32_t cols = v->cols;
        if (v->kind == TERN_VALUE_CACHE) {
            cols = t->op.head_dim;
            n_rows = v->bytes / (v->dtype == TERN_DTYPE_F16 ? 2 : 4) / cols;
        }
        if (v->kind == TERN_VALUE_STATE) n_rows = v->n_rows;
        if (v->dtype == TERN_DTYPE_Q8) q8_differ(&r, got[i], want[i], n_rows);
        else if (v->dtype == TERN_DTYPE_M8 || v->dtype == TERN_DTYPE_V8) blocks_differ(&r, got[i], want[i]);
        else
            floats_differ(&r, got[i], want[i], n_rows, cols, i < t->from->n_values ? tolerance_of(&t->op) : of_look(t));
    }
}
