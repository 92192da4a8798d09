/* Preparing a graph for the CPU: every operand becomes a pointer, once. */
#include "backend/cpu/ops.h"
#include "base/alloc.h"
#include "ops/op.h"

/* Rows of f32 can be taken from where a group begins. */
static tern_status check_group(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    const bool kind = op->kind == TERN_OP_LINEAR || op->kind == TERN_OP_SCALE || op->kind == TERN_OP_ADD;
    if (op->group > graph->n_groups)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "cpu: op %s of group %u: 1 to %u expected", tern_op_name(op->kind),
                         op->group, graph->n_groups);
    if (!op->group || (kind && !op->screened && graph->values[op->in[0].value].dtype == TERN_DTYPE_F32)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cpu: op %s of a group of rows: linear, scale or add of f32 expected",
                     tern_op_name(op->kind));
}

tern_status tern_cpu__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b;
    const tern_cpu__op_row *row = &tern_cpu__ops[op->kind];
    if (!row->run) return tern_fail(err, TERN_UNSUPPORTED, "cpu: op %s", tern_op_name(op->kind));
    TERN_TRY(check_group(graph, op, err));
    return row->supports ? row->supports(graph, op, err) : TERN_OK;
}

static uint8_t *address(const tern_binding *bindings, uint32_t value)
{
    return bindings[value].buffer->data + bindings[value].offset;
}

static tern_cpu_rows rows_at(const tern_graph *g, const tern_binding *bindings, tern_view view)
{
    if (view.value == TERN_NO_VALUE) return (tern_cpu_rows){0};
    float *data = (float *)(void *)address(bindings, view.value);
    size_t stride = g->values[view.value].cols;
    return (tern_cpu_rows){.data = data + view.first_row * stride + view.first_col, .stride = stride};
}

/* The floats of a weight that an op may have; NULL: it has not. */
static const float *floats_at(const tern_binding *bindings, tern_view view)
{
    return view.cols ? (const float *)(const void *)address(bindings, view.value) + view.first_col : NULL;
}

/* The rows of the first input: with a route there are fewer than the op has. */
static uint32_t max_rows(const tern_graph *g, const tern_op *op)
{
    return tern_graph_max_rows(g, op->route.cols ? g->values[op->in[0].value].rows : op->rows);
}

static void resolve(const tern_graph *g, const tern_binding *bindings, const tern_op *op, tern_cpu_op *out)
{
    const tern_view first = op->in[0];
    *out = (tern_cpu_op){.run = tern_cpu__ops[op->kind].run,
                         .op = op,
                         .out = rows_at(g, bindings, op->out),
                         .residual = rows_at(g, bindings, op->residual),
                         .sinks = floats_at(bindings, op->sinks),
                         .in_cols = first.cols,
                         .in_q8 = g->values[first.value].dtype == TERN_DTYPE_Q8,
                         .max_rows = max_rows(g, op)};
    for (uint32_t i = 0; i < TERN_LINEAR_MAX_PARTS; i++) out->bias[i] = floats_at(bindings, op->bias[i]);
    if (op->route.cols) out->routes = (const tern_route *)(const void *)address(bindings, op->route.value);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i].value == TERN_NO_VALUE) continue;
        const tern_buffer *buffer = bindings[op->in[i].value].buffer;
        out->base[i] = address(bindings, op->in[i].value);
        out->weight[i] = buffer->weight ? buffer : NULL;
        if (!buffer->weight) out->in[i] = rows_at(g, bindings, op->in[i]);
    }
    if (op->out.value == TERN_NO_VALUE) return;
    out->out_base = address(bindings, op->out.value);
    out->out_weight = bindings[op->out.value].buffer->weight ? bindings[op->out.value].buffer : NULL;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Ops run one after the other, so the largest needs of one serve all. */
static tern_status allocate(const tern_cpu *cpu, tern_prepared *p, tern_error *err)
{
    size_t shared = 0;
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const tern_op *op = &p->graph->ops[i];
        const tern_cpu__op_row *row = &tern_cpu__ops[op->kind];
        if (row->scratch) p->scratch_bytes = larger(p->scratch_bytes, row->scratch(p->graph, op));
        if (row->shared) shared = larger(shared, row->shared(p->graph, op));
    }
    p->scratch_bytes = (p->scratch_bytes + 4095) / 4096 * 4096;
    const size_t scratch = p->scratch_bytes * tern_pool_threads(cpu->pool);
    p->ops = tern_calloc(p->graph->n_ops, sizeof *p->ops);
    p->scratch = tern_alloc_aligned(scratch, 4096);
    p->shared = tern_alloc_aligned(shared, 64);
    if (p->ops && p->scratch && p->shared) return TERN_OK;
    return tern_fail_alloc(err, p->graph->n_ops * sizeof *p->ops + scratch + shared);
}

static tern_status bind_op(tern_cpu *cpu, tern_prepared *p, const tern_binding *bindings, size_t i, tern_error *err)
{
    const tern_op *op = &p->graph->ops[i];
    const tern_cpu__op_row *row = &tern_cpu__ops[op->kind];
    resolve(p->graph, bindings, op, &p->ops[i]);
    return row->bind ? row->bind(cpu, p, &p->ops[i], err) : TERN_OK;
}

static tern_status allocate_tables(const tern_cpu *cpu, tern_prepared *p, tern_error *err)
{
    const size_t bytes = p->tables_bytes * tern_pool_threads(cpu->pool);
    p->tables = tern_alloc_aligned(bytes, 64); /* zeros: no op has number 0 */
    return p->tables ? TERN_OK : tern_fail_alloc(err, bytes);
}

tern_status tern_cpu__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                              tern_prepared **out, tern_error *err)
{
    tern_cpu *cpu = (tern_cpu *)b;
    tern_status status = TERN_OK;
    for (size_t i = 0; i < graph->n_ops; i++) TERN_TRY(b->supports(b, graph, &graph->ops[i], err));
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    p->graph = graph;
    status = allocate(cpu, p, err);
    for (size_t i = 0; i < graph->n_ops && status == TERN_OK; i++) status = bind_op(cpu, p, bindings, i, err);
    if (status == TERN_OK) status = allocate_tables(cpu, p, err);
    if (status != TERN_OK) {
        tern_cpu__prepared_free(b, p);
        return status;
    }
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++)
        if (graph->params[i] != TERN_NO_VALUE) p->params[i] = address(bindings, graph->params[i]);
    *out = p;
    return TERN_OK;
}

void tern_cpu__prepared_free(tern_backend *b, tern_prepared *prepared)
{
    (void)b;
    if (!prepared) return;
    tern_free_aligned(prepared->scratch);
    tern_free_aligned(prepared->shared);
    tern_free_aligned(prepared->tables);
    tern_free(prepared->ops);
    tern_free(prepared);
}
