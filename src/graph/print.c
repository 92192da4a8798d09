/* Graphs as text, for `tern inspect --graph` and `--memory`. */
#include <inttypes.h>

#include "graph/graph.h"

static tern_status print_view(const tern_graph *g, tern_view view, tern_buf *out, tern_error *err)
{
    const tern_value *v = &g->values[view.value];
    if (v->kind == TERN_VALUE_WEIGHT)
        return tern_buf_addf(out, err, " %s[%u][%u] %s", v->name, v->weight->rows, v->weight->cols, v->weight->encoding->name);
    if (view.cols && view.cols != v->cols)
        return tern_buf_addf(out, err, " %s[%u..%u]", v->name, view.first_col, view.first_col + view.cols - 1);
    return tern_buf_addf(out, err, " %s", v->name);
}

static const char *dtype_name(tern_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "u32", "q8"};
    return names[dtype];
}

static tern_status print_op(const tern_graph *g, size_t i, tern_buf *out, tern_error *err)
{
    const tern_op *op = &g->ops[i];
    TERN_TRY(tern_buf_addf(out, err, "%4zu  %-10s ", i, tern_op_name(op->kind)));
    for (uint32_t k = 0; k < op->n_in; k++) TERN_TRY(print_view(g, op->in[k], out, err));
    if (op->gated) TERN_TRY(tern_buf_addf(out, err, " %s", op->activation == TERN_ACT_RELU2 ? "*relu2" : "*silu"));
    if (op->residual.value != TERN_NO_VALUE) {
        TERN_TRY(tern_buf_addf(out, err, " +"));
        TERN_TRY(print_view(g, op->residual, out, err));
    }
    if (op->out.value != TERN_NO_VALUE) {
        const tern_value *v = &g->values[op->out.value];
        TERN_TRY(tern_buf_addf(out, err, " -> %s[%s][%u] %s", v->name, v->rows == TERN_ROWS_TOKENS ? "tokens" : "outputs",
                               v->cols, dtype_name(v->dtype)));
    }
    return tern_buf_add(out, "\n", 1, err);
}

tern_status tern_graph_print(const tern_graph *graph, tern_buf *out, tern_error *err)
{
    TERN_TRY(tern_buf_addf(out, err, "%zu ops, at most %u tokens a step\n", graph->n_ops, graph->max_tokens));
    for (size_t i = 0; i < graph->n_ops; i++) TERN_TRY(print_op(graph, i, out, err));
    return TERN_OK;
}

static uint64_t sum_bytes(const tern_graph *g, tern_value_kind kind)
{
    uint64_t total = 0;
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == kind) total += g->values[i].bytes;
    return total;
}

static bool is_made(const tern_graph *g, uint32_t value)
{
    return tern_graph__maker(g, value) != NULL;
}

tern_status tern_graph_print_memory(const tern_graph *graph, tern_buf *out, tern_error *err)
{
    uint64_t apart = 0;
    TERN_TRY(tern_buf_addf(out, err, "%-20s %12s %12s\n", "activation", "offset", "bytes"));
    for (size_t i = 0; i < graph->n_values; i++) {
        const tern_value *v = &graph->values[i];
        if (v->kind != TERN_VALUE_ACTIVATION || !is_made(graph, (uint32_t)i)) continue;
        apart += v->bytes;
        TERN_TRY(tern_buf_addf(out, err, "%-20s %12" PRIu64 " %12" PRIu64 "\n", v->name, v->offset, v->bytes));
    }
    TERN_TRY(tern_buf_addf(out, err, "activations %" PRIu64 " bytes (%" PRIu64 " without sharing)\n", graph->activation_bytes, apart));
    TERN_TRY(tern_buf_addf(out, err, "KV cache    %" PRIu64 " bytes\n", sum_bytes(graph, TERN_VALUE_CACHE)));
    TERN_TRY(tern_buf_addf(out, err, "outputs     %" PRIu64 " bytes\n", sum_bytes(graph, TERN_VALUE_OUTPUT)));
    return tern_buf_addf(out, err, "constants   %" PRIu64 " bytes\n",
                         sum_bytes(graph, TERN_VALUE_CONSTANT) + sum_bytes(graph, TERN_VALUE_PARAM));
}
