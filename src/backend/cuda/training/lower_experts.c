/* Launches of the backward of experts. */
#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/weight.h"

/* Launch functions take their own struct; a launch knows only that it is one. */
#define RUN(name, type)                                                                                                \
    static cudaError_t name(const void *params, cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return tern_cuda_run_##name((const type *)params, stream);                                                     \
    }
RUN(routed_dx, tern_cuda_routed)
RUN(routed_dw, tern_cuda_routed)
RUN(routed_bias, tern_cuda_routed)
RUN(route_backward, tern_cuda_choice)
RUN(combine_backward, tern_cuda_choice)
#undef RUN

static const uint32_t *routes_at(const tern_prepared *p, tern_view view)
{
    return (const uint32_t *)(const void *)tern_cuda__address(p, view.value);
}

static float *state_of(const tern_prepared *p, tern_view view)
{
    return (float *)(void *)tern_cuda__address(p, view.value);
}

/* Rows of all experts' matrices; 0: not an op of experts. */
static uint32_t rows_there(const tern_graph *graph, const tern_op *op)
{
    switch (op->kind) {
    case TERN_OP_LINEAR_DX: return graph->values[op->in[TERN_LINEAR_DX_W].value].weight->rows;
    case TERN_OP_LINEAR_DW: return graph->values[op->in[TERN_LINEAR_DW_DW].value].n_rows;
    default: return graph->values[op->in[TERN_BIAS_BACKWARD_DBIAS].value].n_rows;
    }
}

tern_status tern_cuda__routed_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    if (op->halves && (op->halves != TERN_HALVES_BF16 || op->route.cols))
        return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s in 16 bits: bf16 and no route expected",
                         tern_op_name(op->kind));
    if (!op->route.cols) return TERN_OK;
    const uint32_t each = op->kind == TERN_OP_BIAS_BACKWARD ? 1 : op->in[0].cols, found = rows_there(graph, op);
    if (op->n_experts && op->n_experts <= TERN_MAX_EXPERTS && graph->n_routes &&
        found == (uint64_t)op->n_experts * each)
        return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "cuda: op %s with a route: %u rows found, %u for each of %u experts expected",
                     tern_op_name(op->kind), found, each, op->n_experts);
}

static tern_cuda_routed routed_of(const tern_prepared *p, const tern_op *op, tern_rows other_side)
{
    return (tern_cuda_routed){.count = tern_cuda__count(p, TERN_ROWS_ROUTED),
                              .routes = routes_at(p, op->route),
                              .n_experts = op->n_experts,
                              .each = other_side == TERN_ROWS_ROUTED ? 1 : p->graph->n_routes,
                              .dy = tern_cuda__rows(p, op->in[0]),
                              .n_rows = op->in[0].cols,
                              .scratch = (uint8_t *)(void *)p->scratch};
}

void tern_cuda__lower_routed_dx(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_routed *r = &out->params.routed;
    *r = routed_of(p, op, op->rows);
    r->weight = tern_cuda__weight(p, op->in[TERN_LINEAR_DX_W]);
    r->cols = r->weight.cols;
    r->residual = tern_cuda__rows(p, op->residual);
    r->out = tern_cuda__rows(p, op->out);
    out->weight_bytes = (uint64_t)r->weight.rows * r->weight.row_bytes;
    out->run = routed_dx;
}

void tern_cuda__lower_routed_dw(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view x = op->in[TERN_LINEAR_DW_X];
    tern_cuda_routed *r = &out->params.routed;
    *r = routed_of(p, op, p->graph->values[x.value].rows);
    r->cols = x.cols;
    r->out = (tern_cuda_rows){.data = state_of(p, op->in[TERN_LINEAR_DW_DW]), .stride = x.cols};
    if (tern_cuda__is_q8(p->graph, x)) r->q8 = tern_cuda__q8(p, x);
    else r->x = tern_cuda__rows(p, x);
    out->run = routed_dw;
}

void tern_cuda__lower_routed_bias(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_routed *r = &out->params.routed;
    *r = routed_of(p, op, TERN_ROWS_ROUTED);
    r->cols = r->n_rows;
    r->out = (tern_cuda_rows){.data = state_of(p, op->in[TERN_BIAS_BACKWARD_DBIAS]), .stride = r->cols};
    out->run = routed_bias;
}

size_t tern_cuda__routed_scratch(const tern_graph *graph, const tern_op *op)
{
    const uint32_t most = tern_graph_max_rows(graph, TERN_ROWS_ROUTED);
    if (op->kind != TERN_OP_LINEAR_DX) return tern_cuda_routed_bytes(most, op->n_experts, 0);
    return tern_cuda_routed_bytes(most, op->n_experts, graph->values[op->in[TERN_LINEAR_DX_W].value].weight->cols);
}

void tern_cuda__lower_route_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view logits = op->in[TERN_ROUTE_BACKWARD_LOGITS];
    out->params.choice = (tern_cuda_choice){.count = tern_cuda__count(p, TERN_ROWS_TOKENS),
                                            .logits = tern_cuda__rows(p, logits),
                                            .routes = routes_at(p, op->in[TERN_ROUTE_BACKWARD_ROUTES]),
                                            .dweights = tern_cuda__rows(p, op->in[TERN_ROUTE_BACKWARD_DWEIGHTS]),
                                            .residual = tern_cuda__rows(p, op->residual),
                                            .out = tern_cuda__rows(p, op->out),
                                            .n_experts = logits.cols,
                                            .n_routes = p->graph->n_routes,
                                            .rule = op->route_rule};
    out->run = route_backward;
}

void tern_cuda__lower_combine_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const bool wanted = op->n_in > TERN_COMBINE_BACKWARD_DWEIGHTS;
    tern_cuda_choice *c = &out->params.choice;
    *c = (tern_cuda_choice){.count = tern_cuda__count(p, TERN_ROWS_ROUTED),
                            .y = tern_cuda__rows(p, op->in[TERN_COMBINE_BACKWARD_Y]),
                            .dout = tern_cuda__rows(p, op->in[TERN_COMBINE_BACKWARD_DOUT]),
                            .routes = routes_at(p, op->in[TERN_COMBINE_BACKWARD_ROUTES]),
                            .cols = op->in[TERN_COMBINE_BACKWARD_DOUT].cols,
                            .n_routes = p->graph->n_routes};
    if (wanted) c->dweights = tern_cuda__rows(p, op->in[TERN_COMBINE_BACKWARD_DWEIGHTS]);
    if (op->out.value != TERN_NO_VALUE) c->out = tern_cuda__rows(p, op->out);
    out->run = combine_backward;
}
