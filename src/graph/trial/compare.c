/* Compares a device's results with the CPU's: kernels of a sound driver differ by rounding alone. */
#include "graph/trial/trial_internal.h"
#include "ops/difference.h"
#include "quant/encoding.h"

bool tern_trial__writes(const tern_trial *t, uint32_t i)
{
    const tern_op *op = &t->op;
    if (i == t->from->n_values) return t->made != TERN_NO_VALUE;
    if (t->values[i].kind == TERN_VALUE_PARAM || t->values[i].kind == TERN_VALUE_WEIGHT) return false;
    bool writes = op->out.value == i;
    for (uint32_t k = 0; k < op->n_in; k++) writes |= op->in[k].value == i && tern_op_writes(op, k);
    return writes;
}

/* The rows of outputs that exist: what a graph gives once, as norms, is one row. */
uint32_t tern_trial__rows(const tern_trial *t, const tern_value *v)
{
    const uint32_t n = tern_rows_of(v->rows, t->n_tokens, t->n_outputs, t->graph.n_routes);
    const uint64_t there = v->kind == TERN_VALUE_OUTPUT ? v->bytes / tern_row_bytes(v->dtype, v->cols, 1) : n;
    return there < n ? (uint32_t)there : n;
}

static tern_op_inputs inputs_of(const tern_trial *t)
{
    return (tern_op_inputs){.op = &t->op,
                            .values = t->values,
                            .contents = t->contents,
                            .max_tokens = t->graph.max_tokens,
                            .max_outputs = t->graph.max_outputs,
                            .n_routes = t->graph.n_routes,
                            .n_tokens = t->n_tokens,
                            .n_outputs = t->n_outputs};
}

/* A value of a trial. */
typedef struct subject {
    const tern_trial *trial;
    uint32_t id;
} subject;

static bool terms(void *context, uint64_t row, uint32_t cols, double *out)
{
    const subject *s = context;
    const tern_op_inputs inputs = inputs_of(s->trial);
    return tern_op_terms(&inputs, s->id, row, cols, out);
}

/* The part of a weight that is seen. */
static tern_tolerance of_look(const tern_trial *t)
{
    return (tern_tolerance){.of_row = t->weight.encoding->ternary ? 1e-5 : 0};
}

static tern_compared compared_of(const tern_trial *t, subject *s, const uint8_t *got, const uint8_t *want)
{
    const tern_value *v = &t->values[s->id];
    tern_compared c = {.value = v,
                       .got = got,
                       .want = want,
                       .n_rows = tern_trial__rows(t, v),
                       .cols = v->cols,
                       .max_rows = tern_graph_max_rows(&t->graph, v->rows),
                       .terms = terms,
                       .context = s};
    if (v->kind == TERN_VALUE_STATE) c.n_rows = v->n_rows;
    if (v->kind == TERN_VALUE_RECURRENT) c.n_rows = v->bytes / tern_row_bytes(v->dtype, v->cols, 1);
    if (v->kind == TERN_VALUE_CACHE) c.cols = t->op.head_dim;
    if (v->kind == TERN_VALUE_CACHE) c.n_rows = v->bytes / tern_row_bytes(v->dtype, c.cols, 1);
    return c;
}

tern_status tern_trial__compare(const tern_trial *t, uint8_t *const *got, uint8_t *const *want, char *what,
                                size_t n_what, tern_error *err)
{
    what[0] = 0;
    for (uint32_t i = 0; i <= t->from->n_values && !what[0]; i++) {
        if (!got[i] || !want[i]) continue;
        subject s = {.trial = t, .id = i};
        const tern_compared compared = compared_of(t, &s, got[i], want[i]);
        const tern_tolerance tolerance = i < t->from->n_values ? tern_op_tolerance(&t->op) : of_look(t);
        tern_difference d;
        TERN_TRY(tern_difference_find(&compared, &tolerance, &d, err));
        if (!d.ok) tern_difference_words(&d, t->values[i].name, what, n_what);
    }
    return TERN_OK;
}
