/* Launches of LINEAR. */
#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static cudaError_t run(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_linear((const tern_cuda_linear *)params, stream);
}

tern_status tern_cuda__linear_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    const char *what = op->int8_blocks ? "int8 by blocks (--activations int8)" : op->norm_weight.cols ? "a norm" : NULL;
    if (what) return tern_fail(err, TERN_UNSUPPORTED, "cuda: linear with %s", what);
    if (op->halves && (op->route.cols || op->screened || op->group))
        return tern_fail(err, TERN_UNSUPPORTED, "cuda: linear in 16 bits with a route, a screen or a group of rows");
    if (op->screened) TERN_TRY(tern_cuda__screen_supports(graph, op, err));
    for (uint32_t i = 0; i < op->n_parts; i++) {
        const tern_weight *w = graph->values[op->in[TERN_LINEAR_W + i].value].weight;
        if (w && tern_cuda__is_q8(graph, op->in[TERN_LINEAR_X]) && !w->encoding->ternary)
            return tern_fail(err, TERN_UNSUPPORTED, "cuda: linear: %s times int8", w->encoding->name);
        if (w && op->halves && tern_op_halves_of(w->encoding) != op->halves)
            return tern_fail(err, TERN_UNSUPPORTED, "cuda: linear: %s weights in 16 bits of another kind",
                             w->encoding->name);
    }
    return TERN_OK;
}

size_t tern_cuda__group_scratch(const tern_graph *graph, const tern_op *op)
{
    if (op->kind != TERN_OP_LINEAR || !op->route.cols || op->n_experts > TERN_CUDA_MOST_EXPERTS) return 0;
    const bool q8 = tern_cuda__is_q8(graph, op->in[TERN_LINEAR_X]);
    return tern_cuda_group_words(tern_graph_max_rows(graph, op->rows), op->n_experts, q8) * sizeof(uint32_t);
}

/* The rows, their scales and unpacked weights, one after the other from `at` on; gives how many bytes they take. */
static size_t place_rounded(const tern_graph *graph, const tern_op *op, uint8_t *at, tern_cuda_half_rows *out)
{
    const size_t most = tern_graph_max_rows(graph, op->rows), stride = (op->in[TERN_LINEAR_X].cols + 7u) / 8 * 8;
    const size_t scales = (most * stride * sizeof(uint16_t) + 255) / 256 * 256,
                 weight = (scales + most * sizeof(float) + 255) / 256 * 256;
    if (out) *out = (tern_cuda_half_rows){at, (float *)(void *)(at + scales), at + weight, (uint32_t)stride};
    return op->halves == TERN_HALVES_F16 ? weight + TERN_CUDA_UNPACKED_BYTES : weight;
}

size_t tern_cuda__rounded_scratch(const tern_graph *graph, const tern_op *op)
{
    return place_rounded(graph, op, NULL, NULL);
}

void tern_cuda__join_norm(tern_cuda_launch *before, tern_cuda_launch *launch)
{
    const tern_op *norm = before->op, *op = launch->op;
    const tern_view x = op->in[TERN_LINEAR_X], y = norm->out;
    tern_cuda_linear *l = &launch->params.linear;
    if (launch->run != run || !l->halves || norm->kind != TERN_OP_RMS_NORM || norm->rows != op->rows) return;
    if (x.value != y.value || x.first_col != y.first_col || x.cols != y.cols) return;
    l->is_rounded = tern_cuda__round_in_norm(before, l);
}

/* Which expert each row has, and how many rows share one of x. */
static void take_route(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_linear *l = &out->params.linear;
    l->routes = (const uint32_t *)(const void *)tern_cuda__address(p, op->route.value);
    if (p->graph->values[op->in[TERN_LINEAR_X].value].rows == TERN_ROWS_TOKENS) l->x_times = p->graph->n_routes;
    l->n_experts = op->n_experts;
    if (tern_cuda__group_scratch(p->graph, op)) l->groups = p->scratch;
    out->weight_bytes = out->weight_bytes / l->n_experts * p->graph->n_routes;
}

void tern_cuda__lower_linear(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view x = op->in[TERN_LINEAR_X];
    const bool q8 = tern_cuda__is_q8(p->graph, x);
    if (!op->group && tern_cuda__is_head(p->graph, op)) {
        tern_cuda__lower_head(p, op, out);
        return;
    }
    out->run = run;
    tern_cuda_linear *l = &out->params.linear;
    *l = (tern_cuda_linear){.count = tern_cuda__group_count(p, op),
                            .n_parts = op->n_parts,
                            .residual = tern_cuda__rows(p, op->residual),
                            .out = tern_cuda__rows(p, op->out),
                            .gated = op->gated,
                            .activation = op->activation,
                            .limit = op->limit,
                            .n_experts = 1,
                            .x_times = 1,
                            .device = p->device};
    if (q8) l->q8 = tern_cuda__q8(p, x);
    else l->x = tern_cuda__rows(p, x);
    for (uint32_t i = 0; i < op->n_parts; i++) {
        l->weight[i] = tern_cuda__weight(p, op->in[TERN_LINEAR_W + i]);
        l->bias[i] = tern_cuda__floats(p, op->bias[i]);
        out->weight_bytes += (uint64_t)l->weight[i].rows * l->weight[i].row_bytes;
    }
    if (op->route.cols) take_route(p, op, out);
    l->halves = op->halves;
    if (op->halves) place_rounded(p->graph, op, p->scratch, &l->rounded);
    tern_cuda__choose_product(p, op, out);
    if (op->screened) tern_cuda__lower_screened(p, op, out);
}
