/* How large the terms are that an op adds up: a sum that cancels is off by a share of them, not of itself. */
#include <math.h>

#include "base/alloc.h"
#include "ops/difference.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

/* A row of what the op reads. */
typedef struct row {
    const uint8_t *bytes;
    const tern_value *value;
    uint64_t row, n; /* of n, which Q8's scales lie behind */
    uint32_t first_col;
} row;

static row row_of(const tern_op_inputs *t, tern_view view, uint64_t number)
{
    const tern_value *v = &t->values[view.value];
    const uint64_t n = tern_rows_of(v->rows, t->max_tokens, t->max_outputs, t->n_routes);
    return (row){.bytes = t->contents[view.value], .value = v, .row = number, .n = n, .first_col = view.first_col};
}

static double magnitude(const row *r, uint32_t col)
{
    const tern_value *v = r->value;
    const uint64_t at = r->row * v->cols + r->first_col + col;
    if (v->dtype != TERN_DTYPE_Q8) return fabs((double)((const float *)(const void *)r->bytes)[at]);
    const float *scales = (const float *)(const void *)(r->bytes + tern_q8_scales_offset(v->cols, r->n));
    const int8_t *q = (const int8_t *)(r->bytes + r->row * tern_q8_stride(v->cols));
    return fabs((double)q[r->first_col + col] * (double)scales[r->row]);
}

static void add_residual(const tern_op_inputs *t, uint64_t number, uint32_t cols, double *terms)
{
    if (t->op->residual.value == TERN_NO_VALUE) return;
    const row residual = row_of(t, t->op->residual, number);
    for (uint32_t c = 0; c < cols; c++) terms[c] += magnitude(&residual, c);
}

/* A ternary weight is code * scale, whatever scale its bytes have. */
static double weight_magnitude(const tern_weight *w, uint32_t r, float decoded)
{
    if (!w->encoding->ternary) return fabs((double)decoded);
    return decoded == 0 ? 0 : fabs((double)(w->row_scales ? w->row_scales[r] : w->scale));
}

/* Rows first .. first + n - 1 of a weight times x (transposed: of W^T x). */
static bool add_product(const tern_weight *w, uint32_t first, uint32_t n, const row *x, bool transposed, double *terms)
{
    tern_error ignored = {0};
    float *decoded = tern_alloc(w->cols * sizeof *decoded);
    bool ok = decoded && w->data;
    for (uint32_t i = 0, r = first; i < n && ok; i++, r++) {
        ok = tern_decode_rows(w->encoding, w->data, w->rows, w->cols, r, 1, decoded, &ignored) == TERN_OK;
        for (uint32_t c = 0; c < w->cols && ok; c++)
            terms[transposed ? c : i] += magnitude(x, transposed ? i : c) * weight_magnitude(w, r, decoded[c]);
    }
    tern_free(decoded);
    return ok;
}

/* n values, from `first` on, of the bias of part p, where it has one. */
static bool add_bias(const tern_op_inputs *t, uint32_t p, uint32_t first, uint32_t n, double *terms)
{
    const tern_view bias = t->op->bias[p];
    if (bias.cols == 0) return true;
    const float *values = (const float *)(const void *)t->values[bias.value].weight->data;
    for (uint32_t c = 0; c < n && values; c++) terms[c] += fabs((double)values[first + bias.first_col + c]);
    return values;
}

/* Which expert a row of the result has. */
static uint32_t expert_of(const tern_op_inputs *t, uint64_t number)
{
    const uint32_t *routes = (const uint32_t *)(const void *)t->contents[t->op->route.value];
    return routes[2 * number];
}

static bool of_linear(const tern_op_inputs *t, uint64_t number, uint32_t cols, double *terms)
{
    const tern_op *op = t->op;
    if (op->gated || op->norm_weight.value != TERN_NO_VALUE) return false;
    const uint32_t n_experts = op->route.cols ? op->n_experts : 1, expert = op->route.cols ? expert_of(t, number) : 0;
    const bool each = op->route.cols && t->values[op->in[TERN_LINEAR_X].value].rows == TERN_ROWS_TOKENS;
    const row x = row_of(t, op->in[TERN_LINEAR_X], each ? number / t->n_routes : number);
    double *part = terms;
    for (uint32_t p = 0; p < op->n_parts; p++) {
        const tern_weight *w = t->values[op->in[TERN_LINEAR_W + p].value].weight;
        const uint32_t n = w->rows / n_experts;
        if (!add_product(w, expert * n, n, &x, false, part) || !add_bias(t, p, expert * n, n, part)) return false;
        part += n;
    }
    add_residual(t, number, cols, terms);
    return true;
}

/* How many routed rows a row has, which is one itself or one of tokens. */
static uint32_t routed_of(const tern_op_inputs *t, tern_rows rows)
{
    return t->op->route.cols && rows == TERN_ROWS_TOKENS ? t->n_routes : 1;
}

static bool of_linear_dx(const tern_op_inputs *t, uint64_t number, uint32_t cols, double *terms)
{
    const tern_op *op = t->op;
    const tern_weight *w = t->values[op->in[TERN_LINEAR_DX_W].value].weight;
    const uint32_t each = routed_of(t, op->rows), n = w->rows / (op->route.cols ? op->n_experts : 1);
    for (uint64_t r = number * each; r < (number + 1) * each; r++) {
        const row dy = row_of(t, op->in[TERN_LINEAR_DX_DY], r);
        const uint32_t expert = op->route.cols ? expert_of(t, r) : 0;
        if (!add_product(w, expert * n, n, &dy, true, terms)) return false;
    }
    add_residual(t, number, cols, terms);
    return true;
}

static bool of_linear_dw(const tern_op_inputs *t, uint64_t number, uint32_t cols, double *terms)
{
    const tern_op *op = t->op;
    const row before = row_of(t, op->in[TERN_LINEAR_DW_DW], number);
    const uint32_t n = tern_rows_of(op->rows, t->n_tokens, t->n_outputs, t->n_routes);
    const uint32_t rows = op->in[TERN_LINEAR_DW_DY].cols, i = (uint32_t)(op->route.cols ? number % rows : number),
                   each = routed_of(t, t->values[op->in[TERN_LINEAR_DW_X].value].rows);
    for (uint32_t c = 0; c < cols; c++) terms[c] += magnitude(&before, c);
    for (uint32_t r = 0; r < n; r++) {
        if (op->route.cols && expert_of(t, r) != number / rows) continue;
        const row dy = row_of(t, op->in[TERN_LINEAR_DW_DY], r), x = row_of(t, op->in[TERN_LINEAR_DW_X], r / each);
        for (uint32_t c = 0; c < cols; c++) terms[c] += magnitude(&dy, i) * magnitude(&x, c);
    }
    return true;
}

bool tern_op_terms(const tern_op_inputs *t, uint32_t value, uint64_t number, uint32_t cols, double *terms)
{
    const tern_op *op = t->op;
    for (uint32_t c = 0; c < cols; c++) terms[c] = 0;
    if (op->kind == TERN_OP_LINEAR_DW && op->in[TERN_LINEAR_DW_DW].value == value)
        return of_linear_dw(t, number, cols, terms);
    if (op->out.value != value || op->out.first_col || op->out.cols != cols) return false;
    if (op->kind == TERN_OP_LINEAR) return of_linear(t, number, cols, terms);
    return op->kind == TERN_OP_LINEAR_DX && of_linear_dx(t, number, cols, terms);
}
