/* Graphs as text, for `tern inspect --graph` and `--memory`. */
#include <inttypes.h>

#include "base/bytes.h"
#include "graph/graph.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { NAME_WIDTH = 10 /* of the ops that a graph of inference holds */ };

static tern_status print_view(const tern_graph *g, tern_view view, tern_buf *out, tern_error *err)
{
    if (view.value == TERN_NO_VALUE) return TERN_OK;
    const tern_value *v = &g->values[view.value];
    if (v->kind == TERN_VALUE_WEIGHT)
        return tern_buf_addf(out, err, " %s[%u][%u] %s", v->name, v->weight->rows, v->weight->cols,
                             v->weight->encoding->name);
    TERN_TRY(tern_buf_addf(out, err, " %s", v->name));
    if (view.first_row) TERN_TRY(tern_buf_addf(out, err, "[%u..]", view.first_row));
    if (view.cols && view.cols != v->cols)
        return tern_buf_addf(out, err, "[%u..%u]", view.first_col, view.first_col + view.cols - 1);
    return TERN_OK;
}

/* An input; "!" marks what the op writes. */
static tern_status print_input(const tern_graph *g, const tern_op *op, uint32_t i, tern_buf *out, tern_error *err)
{
    TERN_TRY(print_view(g, op->in[i], out, err));
    return tern_op_writes(op, i) ? tern_buf_add(out, "!", 1, err) : TERN_OK;
}

static const char *dtype_name(tern_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "u32", "q8", "bf16", "m8", "v8"};
    return names[dtype];
}

static const char *activation_name(tern_activation activation)
{
    static const char *const names[] = {"relu2", "silu", "gelu", "swiglu_oai", "swiglu_clamped"};
    return names[activation];
}

static const char *rows_name(tern_rows rows)
{
    static const char *const names[] = {"tokens", "outputs", "routed"};
    return names[rows];
}

static const char *rule_name(tern_route_rule rule)
{
    static const char *const names[] = {"softmax over all, normed", "softmax over all", "softmax over the top"};
    return names[rule];
}

/* The optional operands of an op besides its inputs: biases, sinks, a window, a soft cap, a sum. */
static tern_status print_optional(const tern_graph *g, const tern_op *op, tern_buf *out, tern_error *err)
{
    if (op->group) TERN_TRY(tern_buf_addf(out, err, " of group %u", op->group));
    for (uint32_t i = op->n_in; i < tern_op_n_views(op); i++) {
        const tern_view view = tern_op_view(op, i);
        if (!tern_op_is_optional(op, i) || view.value == TERN_NO_VALUE) continue;
        TERN_TRY(tern_buf_addf(out, err, " +"));
        TERN_TRY(print_view(g, view, out, err));
    }
    if (op->window) TERN_TRY(tern_buf_addf(out, err, " window %u", op->window));
    return op->softcap > 0 ? tern_buf_addf(out, err, " cap %g", (double)op->softcap) : TERN_OK;
}

/* Where the result goes. */
static tern_status print_out(const tern_graph *g, const tern_op *op, tern_buf *out, tern_error *err)
{
    if (op->out.value == TERN_NO_VALUE) return TERN_OK;
    const tern_value *v = &g->values[op->out.value];
    TERN_TRY(tern_buf_addf(out, err, " ->"));
    TERN_TRY(print_view(g, op->out, out, err));
    if (v->kind == TERN_VALUE_WEIGHT) return TERN_OK;
    return tern_buf_addf(out, err, "[%s][%u] %s", rows_name(v->rows), v->cols, dtype_name(v->dtype));
}

static tern_status print_op(const tern_graph *g, size_t i, tern_buf *out, tern_error *err)
{
    const tern_op *op = &g->ops[i];
    TERN_TRY(tern_buf_addf(out, err, "%4zu  %-*s ", i, NAME_WIDTH, tern_op_name(op->kind)));
    for (uint32_t k = 0; k < op->n_in; k++)
        if (op->in[k].value != TERN_NO_VALUE) TERN_TRY(print_input(g, op, k, out, err));
    if (op->int8_blocks) TERN_TRY(tern_buf_addf(out, err, " int8 by block"));
    if (op->halves) TERN_TRY(tern_buf_addf(out, err, op->halves == TERN_HALVES_BF16 ? " in bf16" : " in f16"));
    if (op->gated) TERN_TRY(tern_buf_addf(out, err, " *%s", activation_name(op->activation)));
    if (op->kind == TERN_OP_ROUTE)
        TERN_TRY(tern_buf_addf(out, err, " %u of %u, %s", g->n_routes, op->n_experts, rule_name(op->route_rule)));
    for (uint32_t r = 0; r < op->n_ranks; r++)
        TERN_TRY(tern_buf_addf(out, err, "%s%u", r ? " + " : " ", op->rank_cols[r]));
    if (op->kind == TERN_OP_SEND) TERN_TRY(tern_buf_addf(out, err, " to stage %u", op->peer));
    if (op->kind == TERN_OP_RECEIVE) TERN_TRY(tern_buf_addf(out, err, " of stage %u", op->peer));
    TERN_TRY(print_optional(g, op, out, err));
    TERN_TRY(print_out(g, op, out, err));
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

/* The positions that layers with a window keep. */
static tern_status print_rings(const tern_graph *g, tern_buf *out, tern_error *err)
{
    uint64_t bytes = 0, n = 0;
    for (uint32_t i = 0; g->n_ring_pages && i < g->n_values; i++) {
        const tern_op *maker = g->values[i].kind == TERN_VALUE_CACHE ? tern_graph__maker(g, i) : NULL;
        if (!maker || !tern_graph__reads(maker, g->params[TERN_PARAM_RING_PAGES])) continue;
        bytes += g->values[i].bytes;
        n++;
    }
    if (n == 0) return TERN_OK;
    return tern_buf_addf(out, err, "  of which   %" PRIu64 " bytes in rings of %u positions, %" PRIu64 " layers\n",
                         bytes, g->n_ring_pages * TERN_PAGE_SIZE, n / 2);
}

tern_status tern_graph_print_memory(const tern_graph *graph, tern_buf *out, tern_error *err)
{
    uint64_t apart = 0;
    TERN_TRY(tern_buf_addf(out, err, "%-20s %12s %12s\n", "activation", "offset", "bytes"));
    for (size_t i = 0; i < graph->n_values; i++) {
        const tern_value *v = &graph->values[i];
        if (v->kind != TERN_VALUE_ACTIVATION || !tern_graph__maker(graph, (uint32_t)i)) continue;
        apart += v->bytes;
        TERN_TRY(tern_buf_addf(out, err, "%-20s %12" PRIu64 " %12" PRIu64 "\n", v->name, v->offset, v->bytes));
    }
    TERN_TRY(tern_buf_addf(out, err, "activations %" PRIu64 " bytes (%" PRIu64 " without sharing)\n",
                           graph->activation_bytes, apart));
    if (sum_bytes(graph, TERN_VALUE_STATE))
        TERN_TRY(tern_buf_addf(out, err, "states      %" PRIu64 " bytes\n", sum_bytes(graph, TERN_VALUE_STATE)));
    TERN_TRY(tern_buf_addf(out, err, "KV cache    %" PRIu64 " bytes\n", sum_bytes(graph, TERN_VALUE_CACHE)));
    TERN_TRY(print_rings(graph, out, err));
    if (sum_bytes(graph, TERN_VALUE_RECURRENT))
        TERN_TRY(tern_buf_addf(out, err, "recurrent   %" PRIu64 " bytes\n", sum_bytes(graph, TERN_VALUE_RECURRENT)));
    TERN_TRY(tern_buf_addf(out, err, "outputs     %" PRIu64 " bytes\n", sum_bytes(graph, TERN_VALUE_OUTPUT)));
    return tern_buf_addf(out, err, "constants   %" PRIu64 " bytes\n",
                         sum_bytes(graph, TERN_VALUE_CONSTANT) + sum_bytes(graph, TERN_VALUE_PARAM));
}
