/* Running the training ops that work row by row, and those that add rows up. */
#include "backend/cpu/rows/rows.h"
#include "backend/cpu/ops.h"
#include "ops/op.h"

enum { COLUMNS = 64 /* of a task that adds rows up */, EMBED_PARTS = 64 };

/* Where an op without a sum of its own makes row t: in place, or in scratch when a residual is still to be added. */
static float *target(const tern_rows_job *j, uint32_t t, uint32_t thread)
{
    if (j->op->residual.data) return (float *)(void *)tern_cpu__scratch(j->step, thread);
    return tern_rows__at(&j->op->out, t);
}

static void add_residual(const tern_rows_job *j, uint32_t t, const float *made)
{
    if (!j->op->residual.data) return;
    j->step->cpu->kernels.add(tern_rows__at(&j->op->residual, t), made, j->op->in_cols, tern_rows__at(&j->op->out, t));
}

static void scale_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const float *x = tern_rows__at(&j->op->in[TERN_SCALE_X], t), factor = j->op->op->scale;
    float *y = target(j, t, thread);
    const uint32_t n = j->op->in_cols;
    for (uint32_t c = 0; c < n; c++) y[c] = x[c] * factor;
    if (j->op->op->softcap > 0) j->step->cpu->kernels.softcap_row(y, n, j->op->op->softcap, y);
    add_residual(j, t, y);
}

void tern_cpu__scale(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, scale_row);
}

static void softcap_backward_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_op *op = j->op->op;
    const float *x = tern_rows__at(&j->op->in[TERN_SOFTCAP_BACKWARD_X], t),
                *dy = tern_rows__at(&j->op->in[TERN_SOFTCAP_BACKWARD_DY], t), inverse = 1 / op->softcap;
    float *y = (float *)(void *)tern_cpu__scratch(j->step, thread), *out = tern_rows__at(&j->op->out, t);
    const uint32_t n = j->op->in_cols;
    for (uint32_t c = 0; c < n; c++) y[c] = x[c] * op->scale;
    j->step->cpu->kernels.softcap_row(y, n, op->softcap, y);
    for (uint32_t c = 0; c < n; c++) {
        const float u = y[c] * inverse;
        y[c] = dy[c] * (1 - u * u) * op->scale;
    }
    if (j->op->residual.data) add_residual(j, t, y);
    else memcpy(out, y, n * sizeof *out);
}

void tern_cpu__softcap_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, softcap_backward_row);
}

static void dropout_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const uint32_t seed =
                       tern_rows__training(j->op, TERN_DROPOUT_TRAINING).dropout_seed + j->op->op->stream * 0x9e3779b9u,
                   cols = j->op->in_cols;
    float *y = target(j, t, thread);
    j->step->cpu->kernels.dropout(tern_rows__at(&j->op->in[TERN_DROPOUT_X], t), cols, j->op->op->scale, seed, t * cols,
                                  y);
    add_residual(j, t, y);
}

void tern_cpu__dropout(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, dropout_row);
}

static void fake_quantize_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    float *y = target(j, t, thread);
    j->step->cpu->kernels.fake_quantize(tern_rows__at(&j->op->in[TERN_FAKE_QUANTIZE_X], t), j->op->in_cols,
                                        tern_rows__training(j->op, TERN_FAKE_QUANTIZE_TRAINING).blend, y);
    add_residual(j, t, y);
}

void tern_cpu__fake_quantize(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, fake_quantize_row);
}

static void cross_entropy_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const int32_t label = (int32_t)tern_rows__param(j->op, TERN_CROSS_ENTROPY_LABELS, t);
    *tern_rows__at(&j->op->out, t) =
        j->step->cpu->kernels.cross_entropy(tern_rows__at(&j->op->in[TERN_CROSS_ENTROPY_LOGITS], t), j->op->in_cols,
                                            label, tern_rows__training(j->op, TERN_CROSS_ENTROPY_TRAINING).loss_weight);
}

void tern_cpu__cross_entropy(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, cross_entropy_row);
}

/* The start of a sum: the residual, or zeros. */
static float *start_row(const tern_rows_job *j, uint32_t t, uint32_t cols)
{
    if (!j->op->out.data) return NULL;
    float *out = tern_rows__at(&j->op->out, t);
    const float *residual = j->op->residual.data ? tern_rows__at(&j->op->residual, t) : NULL;
    if (!residual) memset(out, 0, cols * sizeof *out);
    else if (residual != out) memcpy(out, residual, cols * sizeof *out);
    return out;
}

/* How many groups of columns are normed by themselves. */
static uint32_t n_groups(const tern_op *op)
{
    return op->in[TERN_NORM_BACKWARD_X].cols / op->in[TERN_NORM_BACKWARD_WEIGHT].cols;
}

static void norm_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t group = op->op->in[TERN_NORM_BACKWARD_WEIGHT].cols;
    const float *weight = tern_rows__floats(op, TERN_NORM_BACKWARD_WEIGHT);
    const float *x = tern_rows__at(&op->in[TERN_NORM_BACKWARD_X], t);
    const float *dy = tern_rows__at(&op->in[TERN_NORM_BACKWARD_DY], t);
    float *dx = start_row(j, t, op->in_cols), *r = j->step->prepared->shared + (size_t)t * n_groups(op->op);
    for (uint32_t i = 0, c = 0; c < op->in_cols; i++, c += group)
        r[i] = j->step->cpu->kernels.rms_norm_backward(x + c, weight, op->op->eps, group, dy + c, dx ? dx + c : NULL,
                                                       NULL);
}

/* A few columns of dweight through all rows and their groups: each element is one chain, whatever the number of
 * threads. */
static void norm_weight_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t group = op->op->in[TERN_NORM_BACKWARD_WEIGHT].cols, groups = n_groups(op->op);
    const uint32_t first = task * COLUMNS, left = group - first, n = tern_cpu__rows(j->step, op->op->rows);
    const tern_cpu_rows *x = &op->in[TERN_NORM_BACKWARD_X], *dy = &op->in[TERN_NORM_BACKWARD_DY];
    tern_norm_weight_args args = {.x = x->data + first,
                                  .x_stride = groups > 1 ? group : x->stride,
                                  .dy = dy->data + first,
                                  .dy_stride = groups > 1 ? group : dy->stride,
                                  .r = j->step->prepared->shared,
                                  .n = groups > 1 ? groups : n,
                                  .cols = left < COLUMNS ? left : COLUMNS};
    for (uint32_t t = 0; t < (groups > 1 ? n : 1); t++) {
        j->step->cpu->kernels.norm_weight_backward(&args, op->in[TERN_NORM_BACKWARD_DWEIGHT].data + first);
        args.x += x->stride;
        args.dy += dy->stride;
        args.r += groups;
    }
}

size_t tern_cpu__rms_norm_backward_shared(const tern_graph *graph, const tern_op *op)
{
    return (size_t)graph->max_tokens * n_groups(op) * sizeof(float); /* 1 / the root of each group of each row */
}

void tern_cpu__rms_norm_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    const uint32_t cols = op->op->in[TERN_NORM_BACKWARD_WEIGHT].cols;
    tern_rows__run(step, op, norm_row);
    if (op->op->n_in > TERN_NORM_BACKWARD_DWEIGHT)
        tern_pool_for(step->cpu->pool, (cols + COLUMNS - 1) / COLUMNS, norm_weight_task, &j);
}

/* A few columns of a bias's gradient through all rows. */
static void bias_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t first = task * COLUMNS, left = op->in_cols - first;
    for (uint32_t t = 0, n = tern_cpu__rows(j->step, op->op->rows); t < n; t++) {
        float *db = tern_rows__at(&op->in[TERN_BIAS_BACKWARD_DBIAS], op->routes ? op->routes[t].expert : 0) + first;
        j->step->cpu->kernels.add(db, tern_rows__at(&op->in[TERN_BIAS_BACKWARD_DY], t) + first,
                                  left < COLUMNS ? left : COLUMNS, db);
    }
}

void tern_cpu__bias_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, (op->in_cols + COLUMNS - 1) / COLUMNS, bias_task, &j);
}

static void rope_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_op *op = j->op->op;
    const tern_cpu_kernels *k = &j->step->cpu->kernels;
    const float *table = tern_rows__floats(j->op, TERN_ROPE_TABLE);
    const size_t position = tern_rows__param(j->op, TERN_ROPE_POSITIONS, t);
    tern_rows__rope(op, op->rope_adjacent ? k->rope_adjacent_backward : k->rope_halves_backward,
                    tern_rows__at(&j->op->in[TERN_ROPE_X], t), op->n_heads, table + position * op->head_dim);
}

void tern_cpu__rope_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, rope_row);
}

static void gate_backward(const tern_cpu_kernels *k, const tern_op *op, const float *gate, const float *up,
                          const float *dy, uint32_t n, float *dgate, float *dup)
{
    switch (op->activation) {
    case TERN_ACT_RELU2: k->relu2_backward(gate, up, dy, n, dgate, dup); break;
    case TERN_ACT_SILU: k->silu_backward(gate, up, dy, n, dgate, dup); break;
    case TERN_ACT_GELU: k->gelu_backward(gate, up, dy, n, dgate, dup); break;
    case TERN_ACT_SIGMOID: k->sigmoid_backward(gate, up, dy, n, dgate, dup); break;
    case TERN_ACT_SWIGLU_OAI: tern_ref_swiglu_oai_backward(gate, up, dy, op->limit, n, dgate, dup); break;
    case TERN_ACT_SWIGLU_CLAMPED: tern_ref_swiglu_clamped_backward(gate, up, dy, op->limit, n, dgate, dup); break;
    }
}

/* A gate of one column: its slope times the dot product of dy and up. */
static void gate_of_all(const tern_rows_job *j, uint32_t t, float *dgate)
{
    const tern_cpu_op *op = j->op;
    const float *gate = tern_rows__at(&op->in[TERN_GATE_BACKWARD_GATE], t),
                *up = tern_rows__at(&op->in[TERN_GATE_BACKWARD_UP], t),
                *dy = tern_rows__at(&op->in[TERN_GATE_BACKWARD_DY], t), one = 1;
    float *dup = tern_rows__at(&op->in[TERN_GATE_BACKWARD_DUP], t), slope, factor;
    const uint32_t n = op->op->in[TERN_GATE_BACKWARD_UP].cols;
    gate_backward(&j->step->cpu->kernels, op->op, gate, &one, &one, 1, &slope, &factor);
    dgate[0] = tern_ref_dot(dy, up, n) * slope;
    for (uint32_t c = 0; c < n; c++) dup[c] = dy[c] * factor;
}

static void gate_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    float *dgate = target(j, t, thread);
    if (op->in_cols != op->op->in[TERN_GATE_BACKWARD_UP].cols) gate_of_all(j, t, dgate);
    else
        gate_backward(&j->step->cpu->kernels, op->op, tern_rows__at(&op->in[TERN_GATE_BACKWARD_GATE], t),
                      tern_rows__at(&op->in[TERN_GATE_BACKWARD_UP], t),
                      tern_rows__at(&op->in[TERN_GATE_BACKWARD_DY], t), op->in_cols, dgate,
                      tern_rows__at(&op->in[TERN_GATE_BACKWARD_DUP], t));
    add_residual(j, t, dgate);
}

void tern_cpu__gate_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, gate_row);
}

tern_status tern_cpu__gate_backward_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const uint32_t gates = op->in[TERN_GATE_BACKWARD_GATE].cols, n = op->in[TERN_GATE_BACKWARD_UP].cols;
    if (gates == n || (gates == 1 && !(op->limit > 0))) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "cpu: op gate_backward of %u columns of gates for %u, limit %g: as many, or one without a limit, "
                     "expected",
                     gates, n, (double)op->limit);
}

/* The tokens of one part of the vocabulary: the rows of a token are added up in order. */
static void embed_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t n = tern_cpu__rows(j->step, op->op->rows);
    for (uint32_t t = 0; t < n; t++) {
        const uint32_t id = tern_rows__param(op, TERN_EMBED_BACKWARD_IDS, t);
        if (id % EMBED_PARTS != task) continue;
        float *dw = tern_rows__at(&op->in[TERN_EMBED_BACKWARD_DW], id);
        j->step->cpu->kernels.add(dw, tern_rows__at(&op->in[TERN_EMBED_BACKWARD_DY], t), op->in_cols, dw);
    }
}

void tern_cpu__embed_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, EMBED_PARTS, embed_task, &j);
}
