/* The reads and operations of a step: operations for each byte, which say what bounds it. */
#include <inttypes.h>

#include "base/bytes.h"
#include "graph/graph.h"
#include "ops/op.h"
#include "ops/operands.h"
#include "quant/weight.h"

/* Operations (2 for each multiply-add) and the bytes that they read once. */
typedef struct work {
    double operations, bytes;
} work;

static void add_linear(const tern_graph *g, const tern_op *op, work *layers, work *head)
{
    work *w = op->rows == TERN_ROWS_OUTPUTS ? head : layers;
    const uint32_t n = tern_graph_max_rows(g, op->rows);
    for (uint32_t p = 0; p < op->n_parts; p++) {
        const tern_weight *weight = g->values[op->in[TERN_LINEAR_W + p].value].weight;
        if (!weight) continue;
        const double experts = op->route.cols ? op->n_experts : 1, used = n < experts ? n : experts;
        w->operations += 2.0 * (weight->rows / experts) * weight->cols * n;
        w->bytes += (double)weight->bytes * (used / experts);
    }
}

/* Keys and values that a token adds, of the op that writes them. */
static uint64_t appended(const tern_graph *g, const tern_op *op)
{
    const bool fused = op->kind == TERN_OP_ROPE_KV || op->kind == TERN_OP_ROPE_ATTENTION;
    if (!fused && op->kind != TERN_OP_KV_WRITE) return 0;
    const uint32_t k = op->in[fused ? TERN_ROPE_KV_K_CACHE : TERN_KV_WRITE_K_CACHE].value;
    const uint32_t v = op->in[fused ? TERN_ROPE_KV_V_CACHE : TERN_KV_WRITE_V_CACHE].value;
    const uint32_t cols = op->n_kv_heads * op->head_dim;
    return tern_row_bytes(g->values[k].dtype, cols, 1) + tern_row_bytes(g->values[v].dtype, cols, 1);
}

static bool seen_before(const tern_graph *g, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (g->values[i].kind == TERN_VALUE_WEIGHT && g->values[i].weight == g->values[at].weight) return true;
    return false;
}

static uint64_t weight_bytes(const tern_graph *g)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_WEIGHT && !seen_before(g, i)) bytes += g->values[i].weight->bytes;
    return bytes;
}

static tern_status print_work(const char *name, const work *w, tern_buf *out, tern_error *err)
{
    if (!(w->bytes > 0)) return TERN_OK;
    return tern_buf_addf(out, err, "%-11s %.4g G operations, %.4g MB of weights: %.3g operations a byte\n", name,
                         w->operations * 1e-9, w->bytes * 1e-6, w->operations / w->bytes);
}

tern_status tern_graph_print_bounds(const tern_graph *graph, tern_buf *out, tern_error *err)
{
    work layers = {0}, head = {0};
    uint64_t kv = 0;
    for (size_t i = 0; i < graph->n_ops; i++) {
        if (graph->ops[i].kind == TERN_OP_LINEAR) add_linear(graph, &graph->ops[i], &layers, &head);
        kv += appended(graph, &graph->ops[i]);
    }
    TERN_TRY(tern_buf_addf(out, err, "weights     %" PRIu64 " bytes\n", weight_bytes(graph)));
    if (kv) TERN_TRY(tern_buf_addf(out, err, "a token     %" PRIu64 " bytes of keys and values\n", kv));
    TERN_TRY(print_work("layers", &layers, out, err));
    return print_work("head", &head, out, err);
}
