/* Choosing the experts of a token and adding up what they made, and the backward of both. */
#include "backend/cpu/ops.h"
#include "backend/cpu/rows/rows.h"
#include "ops/op.h"

static tern_status check(const tern_graph *graph, const tern_op *op, uint32_t n_experts, tern_error *err)
{
    if (graph->n_routes >= 1 && graph->n_routes <= TERN_MAX_ROUTES && graph->n_routes <= n_experts &&
        n_experts <= TERN_MAX_EXPERTS)
        return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "cpu: op %s: %u of %u experts: 1 to %d of at most %d expected",
                     tern_op_name(op->kind), graph->n_routes, n_experts, TERN_MAX_ROUTES, TERN_MAX_EXPERTS);
}

/* For ROUTE and its backward, whose first inputs are both the logits. */
tern_status tern_cpu__route_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    return check(graph, op, op->in[TERN_ROUTE_LOGITS].cols, err);
}

static void route_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t k = j->step->prepared->graph->n_routes;
    tern_route *routes = (tern_route *)(void *)op->out_base + (size_t)t * k;
    tern_ref_route(tern_rows__at(&op->in[TERN_ROUTE_LOGITS], t), op->in_cols, k, op->op->route_rule, routes);
}

void tern_cpu__route(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, route_row);
}

tern_status tern_cpu__combine_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    return check(graph, op, TERN_MAX_EXPERTS, err);
}

static void combine_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t k = j->step->prepared->graph->n_routes;
    const tern_cpu_rows *y = &op->in[TERN_COMBINE_Y];
    const tern_route *routes = (const tern_route *)(const void *)op->base[TERN_COMBINE_ROUTES] + (size_t)t * k;
    const float *residual = op->residual.data ? tern_rows__at(&op->residual, t) : NULL;
    tern_ref_combine(tern_rows__at(y, t * k), y->stride, routes, k, residual, op->in_cols, tern_rows__at(&op->out, t));
}

void tern_cpu__combine(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, combine_row);
}

static void route_backward_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t k = j->step->prepared->graph->n_routes;
    const tern_route *routes = (const tern_route *)(const void *)op->base[TERN_ROUTE_BACKWARD_ROUTES] + (size_t)t * k;
    const float *d = tern_rows__at(&op->in[TERN_ROUTE_BACKWARD_DWEIGHTS], t * k);
    float *out = tern_rows__at(&op->out, t);
    float *made = op->residual.data ? (float *)(void *)tern_cpu__scratch(j->step, thread) : out;
    tern_ref_route_backward(tern_rows__at(&op->in[TERN_ROUTE_BACKWARD_LOGITS], t), op->in_cols, k, op->op->route_rule,
                            routes, d, made);
    if (op->residual.data) j->step->cpu->kernels.add(tern_rows__at(&op->residual, t), made, op->in_cols, out);
}

void tern_cpu__route_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, route_backward_row);
}

static void combine_backward_row(void *context, uint32_t r, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const tern_route *routes = (const tern_route *)(const void *)op->base[TERN_COMBINE_BACKWARD_ROUTES];
    const uint32_t t = r / j->step->prepared->graph->n_routes;
    const float *dy = tern_rows__at(&op->in[TERN_COMBINE_BACKWARD_DOUT], t);
    float *dx = op->out.data ? tern_rows__at(&op->out, r) : NULL;
    const float dweight = tern_ref_combine_backward(tern_rows__at(&op->in[TERN_COMBINE_BACKWARD_Y], r),
                                                    routes[r].weight, dy, op->in_cols, dx);
    if (op->op->n_in > TERN_COMBINE_BACKWARD_DWEIGHTS)
        *tern_rows__at(&op->in[TERN_COMBINE_BACKWARD_DWEIGHTS], r) = dweight;
}

void tern_cpu__combine_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, combine_backward_row);
}
