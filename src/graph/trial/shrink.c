/* An op made small enough to be tried in a moment: views from the first row on, large states cut to some rows, a copy
 * of some rows of a weight that it writes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/trial/trial_internal.h"
#include "quant/encoding.h"

enum { MOST_BYTES = 4 << 20 /* of a state in F32 */, LEAST_ROWS = 256 /* of a state, and in a step */ };
enum { SEQUENCE_STATES = 3 /* of a layer that recurs */ };

static uint32_t some_rows(uint32_t n_rows, uint32_t cols)
{
    uint64_t most = (uint64_t)MOST_BYTES / ((uint64_t)cols * 4) / LEAST_ROWS * LEAST_ROWS;
    if (most < LEAST_ROWS) most = LEAST_ROWS;
    return n_rows < most ? n_rows : (uint32_t)most;
}

static tern_value rows_of(const tern_trial *t, tern_dtype dtype, uint32_t cols, const char *name)
{
    tern_value value = {.kind = TERN_VALUE_OUTPUT,
                        .dtype = dtype,
                        .cols = cols,
                        .bytes = tern_row_bytes(dtype, cols, t->graph.max_tokens)};
    snprintf(value.name, sizeof value.name, "%s", name);
    return value;
}

/* The weight that the op writes becomes the trial's own. */
static tern_status take_weight(tern_trial *t, uint32_t value, tern_error *err)
{
    tern_value *v = &t->values[value];
    t->made = value;
    t->weight = *v->weight;
    t->weight.rows = some_rows(v->weight->rows, v->weight->cols);
    TERN_TRY(tern_encoding_bytes(v->weight->encoding, t->weight.rows, t->weight.cols, &t->weight.bytes, err));
    if (t->weight.bytes > v->weight->bytes) t->weight.bytes = v->weight->bytes;
    t->weight.data = t->weight_data = tern_calloc(t->weight.bytes, 1);
    if (!t->weight_data) return tern_fail_alloc(err, t->weight.bytes);
    if (v->weight->row_scales) {
        t->weight.row_scales = t->weight_scales = tern_calloc(t->weight.rows, sizeof(float));
        if (!t->weight_scales) return tern_fail_alloc(err, t->weight.rows * sizeof(float));
    }
    v->weight = &t->weight;
    v->bytes = t->weight.bytes;
    bool ternary = t->weight.encoding->ternary;
    t->values[t->from->n_values] =
        rows_of(t, TERN_DTYPE_F32, ternary ? t->weight.rows : t->weight.cols, "what the weight became");
    t->values[t->from->n_values + 1] = rows_of(t, TERN_DTYPE_Q8, t->weight.cols, "rows that are multiplied");
    return TERN_OK;
}

void tern_trial__restore(const tern_trial *t)
{
    if (t->made == TERN_NO_VALUE) return;
    const tern_weight *from = t->from->values[t->made].weight;
    if (from->data) memcpy(t->weight_data, from->data, t->weight.bytes);
    if (t->weight_scales) memcpy(t->weight_scales, from->row_scales, t->weight.rows * sizeof(float));
}

/* Experts' gradients have some rows of each expert, at least one. */
static void shrink_state(tern_trial *t, const tern_op *op, uint32_t value)
{
    tern_value *v = &t->values[value];
    const uint64_t few = tern_row_bytes(v->dtype, v->cols, SEQUENCE_STATES);
    if (v->kind == TERN_VALUE_RECURRENT && v->bytes > few) v->bytes = few;
    if (v->kind != TERN_VALUE_STATE) return;
    uint32_t rows = some_rows(v->n_rows, v->cols);
    if (op->route.cols) rows = rows < op->n_experts ? op->n_experts : rows / op->n_experts * op->n_experts;
    v->n_rows = rows;
    v->bytes = tern_row_bytes(v->dtype, v->cols, v->n_rows);
}

/* Training graphs have thousands of rows: values for a few of them. */
static void shrink_rows(tern_trial *t)
{
    tern_graph *g = &t->graph;
    if (g->params[TERN_PARAM_SEQ_STARTS] == TERN_NO_VALUE || g->max_tokens <= LEAST_ROWS) return;
    t->few = true;
    g->max_tokens = LEAST_ROWS;
    if (g->max_outputs > LEAST_ROWS) g->max_outputs = LEAST_ROWS;
    for (size_t i = 0; i < g->n_values; i++) {
        tern_value *v = &t->values[i];
        uint32_t rows = tern_graph_max_rows(g, v->rows);
        if (v->kind == TERN_VALUE_OUTPUT) v->bytes = tern_row_bytes(v->dtype, v->cols, rows);
    }
}

tern_status tern_trial__shrink(tern_trial *t, const tern_op *op, bool few, tern_error *err)
{
    tern_op *own = &t->op;
    *own = *op;
    own->out.first_row = own->residual.first_row = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i].value == TERN_NO_VALUE) continue;
        own->in[i].first_row = 0;
        shrink_state(t, op, op->in[i].value);
    }
    if (op->kind == TERN_OP_LINEAR_DW)
        own->in[TERN_LINEAR_DW_DY].cols =
            t->values[op->in[TERN_LINEAR_DW_DW].value].n_rows / (op->route.cols ? op->n_experts : 1);
    if (op->kind == TERN_OP_REQUANTIZE) return take_weight(t, op->out.value, err);
    if (op->kind == TERN_OP_UPDATE && t->values[op->in[TERN_UPDATE_WEIGHT].value].kind == TERN_VALUE_WEIGHT)
        return take_weight(t, op->in[TERN_UPDATE_WEIGHT].value, err);
    if (few) shrink_rows(t);
    return TERN_OK;
}
