/* The gradients of linear layers with experts: routed rows are put together by their expert, and each expert's rows are
 * those of a layer of its own. Chains run over the rows of an expert in their order, so the bits are those of
 * ops/ref/experts.h. */
#include <string.h>

#include "backend/cpu/rows/rows.h"
#include "backend/cpu/training/gradient.h"
#include "ops/op.h"
#include "quant/weight.h"

/* The state of the op, in the memory that all threads share. */
typedef struct routed {
    tern_cpu_step *step;
    const tern_cpu_op *op;
    uint32_t n, each; /* routed rows; how many of them a row of tokens is, or 1 where that side is ROUTED as well */
    uint32_t *ends;   /* [n_experts]: where each expert's places end */
    uint32_t *place;  /* [n]: of each row */
    float *dy;        /* [n][dy_cols], at the places */
    float *x;         /* [n][x_cols]: DW: the layer's inputs at the places; DX: what each row makes */
    uint32_t dy_cols, x_cols;
    tern_gradient__q8 q;
} routed;

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static uint32_t columns_of_x(const tern_graph *graph, const tern_op *op)
{
    if (op->kind == TERN_OP_LINEAR_DX) return graph->values[op->in[TERN_LINEAR_DX_W].value].weight->cols;
    return op->in[TERN_LINEAR_DW_X].cols;
}

size_t tern_cpu__gradient_shared(const tern_graph *graph, const tern_op *op)
{
    const size_t n = tern_graph_max_rows(graph, TERN_ROWS_ROUTED);
    if (!op->route.cols) return 0;
    return padded(op->n_experts * sizeof(uint32_t)) + padded(n * sizeof(uint32_t)) +
           padded(n * op->in[0].cols * sizeof(float)) + n * columns_of_x(graph, op) * sizeof(float);
}

tern_status tern_cpu__gradient_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    if (op->halves && (op->halves != TERN_HALVES_BF16 || op->route.cols))
        return tern_fail(err, TERN_UNSUPPORTED, "cpu: op %s in 16 bits: bf16 and no route expected",
                         tern_op_name(op->kind));
    if (!op->route.cols) return TERN_OK;
    if (op->n_experts == 0 || graph->n_routes == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "cpu: op %s with a route: %u experts, %u of a token: at least 1 expected",
                         tern_op_name(op->kind), op->n_experts, graph->n_routes);
    if (op->kind != TERN_OP_LINEAR_DX) return TERN_OK;
    const tern_weight *w = graph->values[op->in[TERN_LINEAR_DX_W].value].weight;
    if (w->rows != (uint64_t)op->n_experts * op->in[TERN_LINEAR_DX_DY].cols)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "cpu: %s: %u rows, %u for each of %u experts expected", w->name,
                         w->rows, op->in[TERN_LINEAR_DX_DY].cols, op->n_experts);
    return TERN_OK;
}

/* A stable counting sort. */
static void find_places(const routed *j)
{
    const uint32_t n_experts = j->op->op->n_experts;
    memset(j->ends, 0, n_experts * sizeof *j->ends);
    for (uint32_t r = 0; r < j->n; r++) j->ends[j->op->routes[r].expert]++;
    for (uint32_t e = 0, first = 0; e < n_experts; e++) {
        const uint32_t n = j->ends[e];
        j->ends[e] = first;
        first += n;
    }
    for (uint32_t r = 0; r < j->n; r++) j->place[r] = j->ends[j->op->routes[r].expert]++;
}

static routed begin(tern_cpu_step *step, const tern_cpu_op *op, tern_rows other_side)
{
    const tern_graph *graph = step->prepared->graph;
    routed j = {.step = step, .op = op, .n = tern_cpu__rows(step, TERN_ROWS_ROUTED)};
    j.each = other_side == TERN_ROWS_ROUTED ? 1 : graph->n_routes;
    j.dy_cols = op->op->in[0].cols;
    j.x_cols = columns_of_x(graph, op->op);
    uint8_t *at = (uint8_t *)(void *)step->prepared->shared;
    j.ends = (uint32_t *)(void *)at;
    at += padded(op->op->n_experts * sizeof *j.ends);
    j.place = (uint32_t *)(void *)at;
    at += padded(j.n * sizeof *j.place);
    j.dy = (float *)(void *)at;
    j.x = (float *)(void *)(at + padded((size_t)j.n * j.dy_cols * sizeof *j.dy));
    find_places(&j);
    return j;
}

static void pack_dy(void *context, uint32_t r, uint32_t thread)
{
    (void)thread;
    const routed *j = context;
    memcpy(j->dy + (size_t)j->place[r] * j->dy_cols, tern_rows__at(&j->op->in[0], r), j->dy_cols * sizeof *j->dy);
}

/* Rows of both sides; of int8 ones the scale goes to dy, as in tern_ref_linear_dw_q8. */
static void pack_both(void *context, uint32_t r, uint32_t thread)
{
    const routed *j = context;
    const uint32_t t = r / j->each;
    float *dy = j->dy + (size_t)j->place[r] * j->dy_cols, *x = j->x + (size_t)j->place[r] * j->x_cols;
    pack_dy(context, r, thread);
    if (!j->q.data) {
        memcpy(x, tern_rows__at(&j->op->in[TERN_LINEAR_DW_X], t), j->x_cols * sizeof *x);
        return;
    }
    const int8_t *q = (const int8_t *)j->q.data + t * j->q.stride;
    for (uint32_t c = 0; c < j->x_cols; c++) x[c] = q[c];
    for (uint32_t i = 0; i < j->dy_cols; i++) dy[i] *= j->q.scales[t];
}

static uint32_t first_place(const routed *j, uint32_t expert)
{
    return expert ? j->ends[expert - 1] : 0;
}

/* Adds the results of the routed rows of one row, in their order, to the sum. */
static void add_up(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const routed *j = context;
    float *out = tern_rows__at(&j->op->out, t);
    const float *residual = j->op->residual.data ? tern_rows__at(&j->op->residual, t) : NULL;
    if (!residual) memset(out, 0, j->x_cols * sizeof *out);
    else if (residual != out) memcpy(out, residual, j->x_cols * sizeof *out);
    for (uint32_t i = 0; i < j->each; i++)
        j->step->cpu->kernels.add(out, j->x + (size_t)j->place[t * j->each + i] * j->x_cols, j->x_cols, out);
}

void tern_gradient__routed_dx(tern_cpu_step *step, const tern_cpu_op *op)
{
    routed j = begin(step, op, op->op->rows);
    tern_rows__for(step, j.n, pack_dy, &j);
    for (uint32_t e = 0; e < op->op->n_experts; e++) {
        const uint32_t first = first_place(&j, e);
        const tern_gradient__dx_args dx = {
            .weight = op->weight[TERN_LINEAR_DX_W],
            .first_row = e * j.dy_cols,
            .n_rows = j.dy_cols,
            .n = j.ends[e] - first,
            .dy = {.data = j.dy + (size_t)first * j.dy_cols, .stride = j.dy_cols},
            .out = {.data = j.x + (size_t)first * j.x_cols, .stride = j.x_cols},
        };
        if (dx.n) tern_gradient__dx(step, &dx);
    }
    tern_rows__for(step, j.n / j.each, add_up, &j);
}

void tern_gradient__routed_dw(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_graph *graph = step->prepared->graph;
    routed j = begin(step, op, graph->values[op->op->in[TERN_LINEAR_DW_X].value].rows);
    j.q = tern_gradient__q8_of(graph, op);
    tern_rows__for(step, j.n, pack_both, &j);
    for (uint32_t e = 0; e < op->op->n_experts; e++) {
        const uint32_t first = first_place(&j, e);
        const tern_gradient__dw_args dw = {
            .n_rows = j.dy_cols,
            .cols = j.x_cols,
            .n = j.ends[e] - first,
            .dy = {.data = j.dy + (size_t)first * j.dy_cols, .stride = j.dy_cols},
            .x = {.data = j.x + (size_t)first * j.x_cols, .stride = j.x_cols},
            .dw = op->in[TERN_LINEAR_DW_DW].data + (size_t)e * j.dy_cols * j.x_cols,
        };
        if (dw.n) tern_gradient__dw(step, &dw);
    }
}
