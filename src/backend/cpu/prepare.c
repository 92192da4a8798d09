/* Preparing a graph for the CPU: every operand becomes a pointer, once. */
#include <assert.h>
#include <string.h>

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/linear/screen.h"
#include "base/alloc.h"
#include "ops/update_shape.h"

typedef void (*exec_fn)(tern_cpu_step *, const tern_cpu_op *);

static exec_fn exec_of(tern_op_kind kind)
{
    switch (kind) {
    case TERN_OP_EMBED: return tern_cpu__embed;
    case TERN_OP_RMS_NORM: return tern_cpu__rms_norm;
    case TERN_OP_QUANTIZE: return tern_cpu__quantize;
    case TERN_OP_NORM_QUANT: return tern_cpu__norm_quant;
    case TERN_OP_LINEAR: return tern_cpu__linear;
    case TERN_OP_ROPE: return tern_cpu__rope;
    case TERN_OP_KV_WRITE: return tern_cpu__kv_write;
    case TERN_OP_ROPE_KV: return tern_cpu__rope_kv;
    case TERN_OP_ATTENTION: return tern_cpu__attention;
    case TERN_OP_GATE: return tern_cpu__gate;
    case TERN_OP_ADD: return tern_cpu__add;
    case TERN_OP_GATHER: return tern_cpu__gather;
    case TERN_OP_SAMPLE: /* the host samples */
    case TERN_OP_ROPE_ATTENTION:
    case TERN_OP_COUNT: return NULL;
    default: return tern_cpu__training_exec(kind);
    }
}

tern_status tern_cpu__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b;
    tern_update_shape ignored;
    if (!exec_of(op->kind)) return tern_fail(err, TERN_UNSUPPORTED, "cpu: op %s", tern_op_name(op->kind));
    if (op->kind == TERN_OP_ATTENTION && (op->head_dim > 512 || op->head_dim % 8))
        return tern_fail(err, TERN_UNSUPPORTED, "cpu: attention with head_dim %u: a multiple of 8 up to 512 expected",
                         op->head_dim);
    return tern_cpu__update_exec(op->kind) ? tern_update_shape_of(&ignored, graph, op, err) : TERN_OK;
}

static uint8_t *address(const tern_graph *g, const tern_binding *bindings, tern_view view)
{
    const tern_binding *at = &bindings[view.value];
    (void)g;
    return at->buffer->data + at->offset;
}

static tern_cpu_rows rows_at(const tern_graph *g, const tern_binding *bindings, tern_view view)
{
    if (view.value == TERN_NO_VALUE) return (tern_cpu_rows){0};
    float *data = (float *)(void *)address(g, bindings, view);
    size_t stride = g->values[view.value].cols;
    return (tern_cpu_rows){.data = data + view.first_row * stride + view.first_col, .stride = stride};
}

static void resolve(const tern_graph *g, const tern_binding *bindings, const tern_op *op, tern_cpu_op *out)
{
    *out = (tern_cpu_op){.exec = exec_of(op->kind),
                         .op = op,
                         .out = rows_at(g, bindings, op->out),
                         .residual = rows_at(g, bindings, op->residual)};
    for (uint32_t i = 0; i < op->n_in; i++) {
        const tern_buffer *buffer = bindings[op->in[i].value].buffer;
        out->base[i] = address(g, bindings, op->in[i]);
        out->weight[i] = buffer->weight ? buffer : NULL;
        if (!buffer->weight) out->in[i] = rows_at(g, bindings, op->in[i]);
    }
    if (op->out.value != TERN_NO_VALUE) {
        out->out_base = address(g, bindings, op->out);
        out->out_weight = bindings[op->out.value].buffer->weight ? bindings[op->out.value].buffer : NULL;
    }
    out->in_cols = op->in[0].cols;
    out->in_q8 = g->values[op->in[0].value].dtype == TERN_DTYPE_Q8;
    out->max_rows = op->rows == TERN_ROWS_TOKENS ? g->max_tokens : g->max_outputs;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static uint64_t bytes_read(const tern_cpu_op *op)
{
    uint64_t total = 0;
    if (op->op->kind != TERN_OP_LINEAR) return 0;
    for (uint32_t i = 1; i <= op->op->n_parts; i++)
        if (op->weight[i]) total += op->weight[i]->layout ? op->weight[i]->layout->bytes : op->weight[i]->bytes;
    return total;
}

/* Dense weights on int8 rows: the rows are widened to f32 first. */
static bool widens(const tern_graph *g, const tern_op *op)
{
    if (op->kind != TERN_OP_LINEAR || g->values[op->in[0].value].dtype != TERN_DTYPE_Q8) return false;
    for (uint32_t i = 1; i <= op->n_parts; i++)
        if (!g->values[op->in[i].value].weight->encoding->ternary) return true;
    return false;
}

static tern_status allocate(tern_cpu *cpu, tern_prepared *p, tern_error *err)
{
    size_t partials = 0, widened = 0, shared = 0;
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const tern_op *op = &p->graph->ops[i];
        if (widens(p->graph, op))
            widened = larger(widened, (size_t)p->graph->max_tokens * op->in[0].cols * sizeof(float));
        if (op->kind == TERN_OP_NORM_QUANT)
            p->scratch_bytes = larger(p->scratch_bytes, op->in[0].cols * sizeof(float)); /* the normed row */
        if (op->kind == TERN_OP_LINEAR)
            p->scratch_bytes = larger(p->scratch_bytes, tern_cpu__linear_scratch(p->graph, op));
        p->scratch_bytes = larger(p->scratch_bytes, tern_cpu__gradient_scratch(p->graph, op));
        p->scratch_bytes = larger(p->scratch_bytes, tern_cpu__backward_scratch(p->graph, op));
        shared = larger(shared, tern_cpu__backward_shared(p->graph, op));
        shared = larger(shared, tern_cpu__update_shared(p->graph, op));
        if (op->kind != TERN_OP_ATTENTION) continue;
        p->scratch_bytes = larger(p->scratch_bytes, tern_cpu__attention_scratch(p->graph, op));
        partials = larger(partials, tern_cpu__attention_partials(p->graph, op));
    }
    p->scratch_bytes = (p->scratch_bytes + 4095) / 4096 * 4096;
    size_t scratch = p->scratch_bytes * tern_pool_threads(cpu->pool);
    p->scratch = tern_alloc_aligned(scratch, 4096);
    p->partials = tern_alloc_aligned(partials, 64);
    p->widened = tern_alloc_aligned(widened, 64);
    p->shared = tern_alloc_aligned(shared, 64);
    if (p->scratch && p->partials && p->widened && p->shared) return TERN_OK;
    return tern_fail_alloc(err, scratch + partials + widened + shared);
}

/* The screen belongs to the weight: the second graph that asks finds it there. */
static tern_status add_screen(tern_cpu *cpu, tern_prepared *p, const tern_cpu_op *op, tern_error *err)
{
    tern_buffer *weight = (tern_buffer *)(uintptr_t)op->weight[1];
    assert(weight); /* only a linear op is screened, and it has one */
    if (!weight->screen) TERN_TRY(tern_screen__build(cpu, weight, &weight->screen, err));
    size_t bytes = tern_screen__scratch(weight->screen->n_rows, weight->screen->groups);
    p->screen_memory = tern_alloc_aligned(bytes, 64);
    return p->screen_memory ? TERN_OK : tern_fail_alloc(err, bytes);
}

static tern_status allocate_tables(tern_cpu *cpu, tern_prepared *p, tern_error *err)
{
    const size_t bytes = p->tables_bytes * tern_pool_threads(cpu->pool);
    p->tables = tern_alloc_aligned(bytes, 64);
    if (!p->tables) return tern_fail_alloc(err, bytes);
    memset(p->tables, 0, bytes); /* no op has number 0 */
    return TERN_OK;
}

tern_status tern_cpu__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                              tern_prepared **out, tern_error *err)
{
    for (size_t i = 0; i < graph->n_ops; i++) TERN_TRY(b->supports(b, graph, &graph->ops[i], err));
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    p->graph = graph;
    p->ops = tern_calloc(graph->n_ops, sizeof *p->ops);
    tern_status status = p->ops ? allocate((tern_cpu *)b, p, err) : tern_fail_alloc(err, graph->n_ops * sizeof *p->ops);
    if (status != TERN_OK) {
        tern_cpu__prepared_free(b, p);
        return status;
    }
    for (size_t i = 0; i < graph->n_ops; i++) {
        resolve(graph, bindings, &graph->ops[i], &p->ops[i]);
        p->ops[i].weight_bytes = bytes_read(&p->ops[i]);
        p->tables_bytes = larger(p->tables_bytes, tern_cpu__linear_tables(&p->ops[i]));
        if (status == TERN_OK && graph->ops[i].screened) status = add_screen((tern_cpu *)b, p, &p->ops[i], err);
    }
    if (status == TERN_OK && p->tables_bytes) status = allocate_tables((tern_cpu *)b, p, err);
    if (status != TERN_OK) {
        tern_cpu__prepared_free(b, p);
        return status;
    }
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++)
        if (graph->params[i] != TERN_NO_VALUE)
            p->params[i] = address(graph, bindings, (tern_view){.value = graph->params[i]});
    *out = p;
    return TERN_OK;
}

void tern_cpu__prepared_free(tern_backend *b, tern_prepared *prepared)
{
    (void)b;
    if (!prepared) return;
    tern_free_aligned(prepared->scratch);
    tern_free_aligned(prepared->partials);
    tern_free_aligned(prepared->screen_memory);
    tern_free_aligned(prepared->widened);
    tern_free_aligned(prepared->shared);
    tern_free_aligned(prepared->tables);
    tern_free(prepared->ops);
    tern_free(prepared);
}
