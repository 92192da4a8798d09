/* The fusion pass: fewer, larger ops that compute the same bits. */
#include "backend/backend.h"
#include "base/alloc.h"
#include "graph/fuse_internal.h"
#include "graph/fusions.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

bool tern_fuse__becomes(const tern_fusing *f, tern_op *op, const tern_op *fused)
{
    const tern_op before = *op;
    tern_error ignored = {0};
    if (!f->backend) return false;
    *op = *fused;
    if (f->backend->supports(f->backend, f->graph, op, &ignored) == TERN_OK) return true;
    *op = before;
    return false;
}

void tern_fuse__drop(tern_op *op)
{
    op->kind = TERN_OP_COUNT;
}

static bool whole(const tern_fusing *f, tern_view view)
{
    return view.first_col == 0 && view.cols == f->graph->values[view.value].cols;
}

bool tern_fuse__internal(const tern_fusing *f, uint32_t value)
{
    return f->graph->values[value].kind == TERN_VALUE_ACTIVATION;
}

/* RMS_NORM whose only reader is QUANTIZE. */
static tern_status fuse_norm_quant(tern_fusing *f, size_t at)
{
    tern_op *quant = &f->graph->ops[at];
    if (quant->kind != TERN_OP_QUANTIZE) return TERN_OK;
    tern_op *norm = tern_graph__maker(f->graph, quant->in[TERN_QUANTIZE_X].value);
    if (!norm || norm->kind != TERN_OP_RMS_NORM || f->uses[norm->out.value] != 1 ||
        !tern_fuse__internal(f, norm->out.value) || norm->residual.value != TERN_NO_VALUE ||
        norm->in[TERN_NORM_WEIGHT].cols != norm->in[TERN_NORM_X].cols)
        return TERN_OK;
    quant->kind = TERN_OP_NORM_QUANT;
    quant->in[TERN_NORM_X] = norm->in[TERN_NORM_X];
    quant->in[TERN_NORM_WEIGHT] = norm->in[TERN_NORM_WEIGHT];
    quant->n_in = TERN_NORM_INPUTS;
    quant->eps = norm->eps;
    tern_fuse__drop(norm);
    return TERN_OK;
}

static void redirect(tern_view *view, uint32_t from, uint32_t to, uint32_t first_col)
{
    if (view->value != from) return;
    view->value = to;
    view->first_col += first_col;
}

static void redirect_all(tern_graph *g, uint32_t from, uint32_t to, uint32_t first_col)
{
    for (size_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < tern_op_n_views(&g->ops[i]); k++)
            redirect(tern_op_view_at(&g->ops[i], k), from, to, first_col);
}

/* Whether the value is this input of an op of this kind. */
static bool is_input_of(const tern_graph *g, uint32_t value, tern_op_kind kind, uint32_t input)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == kind && g->ops[i].in[input].value == value) return true;
    return false;
}

/* Only the inner product of an adapter, of a few columns, goes straight into another matrix: such ones stay apart from
 * the layers that read the same rows. */
static bool is_inner(const tern_graph *g, const tern_op *op)
{
    return is_input_of(g, op->out.value, TERN_OP_LINEAR, TERN_LINEAR_X);
}

static bool plain_linear(const tern_fusing *f, const tern_op *op)
{
    return op->kind == TERN_OP_LINEAR && op->n_parts == 1 && !op->gated && op->residual.value == TERN_NO_VALUE &&
           tern_fuse__internal(f, op->out.value) && !is_input_of(f->graph, op->out.value, TERN_OP_SCALE, TERN_SCALE_X);
}

/* Linear layers that follow each other and read the same input become one: q|k|v and gate|up, and what is narrow of
 * their adapters. */
static tern_status fuse_siblings(tern_fusing *f, size_t at)
{
    tern_graph *g = f->graph;
    uint32_t n = 0, cols = 0;
    while (n < TERN_LINEAR_MAX_PARTS && at + n < g->n_ops && plain_linear(f, &g->ops[at + n]) &&
           g->ops[at + n].in[TERN_LINEAR_X].value == g->ops[at].in[TERN_LINEAR_X].value &&
           g->ops[at + n].int8_blocks == g->ops[at].int8_blocks && g->ops[at + n].halves == g->ops[at].halves &&
           g->ops[at + n].group == g->ops[at].group && g->ops[at + n].route.value == g->ops[at].route.value &&
           is_inner(g, &g->ops[at + n]) == is_inner(g, &g->ops[at]))
        cols += g->values[g->ops[at + n++].out.value].cols;
    if (n < 2) return TERN_OK;
    tern_value joined = g->values[g->ops[at].out.value];
    joined.cols = cols;
    joined.bytes = tern_row_bytes(joined.dtype, cols, tern_graph_max_rows(g, joined.rows));
    uint32_t id;
    TERN_TRY(tern_graph__add_value(g, joined, &id, f->err));
    tern_op *first = &g->ops[at];
    for (uint32_t i = 0, col = 0; i < n; i++) {
        uint32_t part = g->ops[at + i].out.value;
        first->in[TERN_LINEAR_W + i] = g->ops[at + i].in[TERN_LINEAR_W];
        first->bias[i] = g->ops[at + i].bias[0];
        if (i) tern_fuse__drop(&g->ops[at + i]);
        redirect_all(g, part, id, col);
        col += g->values[part].cols;
    }
    first->n_parts = n;
    first->n_in = TERN_LINEAR_W + n;
    first->out = (tern_view){.value = id, .cols = cols};
    return TERN_OK;
}

static bool has_bias(const tern_op *linear)
{
    for (uint32_t p = 0; p < linear->n_parts; p++)
        if (linear->bias[p].cols) return true;
    return false;
}

/* Whether all weights of the layer are ternary, or all are dense. */
static bool all_parts(const tern_fusing *f, const tern_op *linear, bool ternary)
{
    for (uint32_t p = 0; p < linear->n_parts; p++)
        if (f->graph->values[linear->in[TERN_LINEAR_W + p].value].weight->encoding->ternary != ternary) return false;
    return true;
}

/* Whether one of the linear op's weights is ternary and another is not. */
static bool is_mixed(const tern_fusing *f, const tern_op *linear)
{
    return !all_parts(f, linear, true) && !all_parts(f, linear, false);
}

/* GATE over the two halves of one linear op's row; of one with a bias, or with a ternary and a dense half, where the
 * device has such layers. */
static tern_status fuse_gate(tern_fusing *f, size_t at)
{
    tern_op *gate = &f->graph->ops[at];
    const tern_view *first = &gate->in[TERN_GATE_GATE], *second = &gate->in[TERN_GATE_UP];
    if (gate->kind != TERN_OP_GATE || first->value != second->value) return TERN_OK;
    tern_op *linear = tern_graph__maker(f->graph, first->value);
    bool halves = linear && linear->kind == TERN_OP_LINEAR && linear->n_parts == 2 && !linear->gated &&
                  first->first_col == 0 && second->first_col == first->cols;
    if (!halves || f->uses[linear->out.value] != 2) return TERN_OK;
    tern_op fused = *linear;
    fused.gated = true;
    fused.activation = gate->activation;
    fused.limit = gate->limit;
    fused.out = gate->out;
    if (!has_bias(linear) && !is_mixed(f, linear)) *linear = fused;
    else if (!tern_fuse__becomes(f, linear, &fused)) return TERN_OK;
    tern_fuse__drop(gate);
    return TERN_OK;
}

/* ADD of what a linear op made to something made before it; or a norm, or a sum of experts, where the device has such.
 */
static tern_status fuse_residual(tern_fusing *f, size_t at)
{
    tern_op *add = &f->graph->ops[at];
    if (add->kind != TERN_OP_ADD) return TERN_OK;
    tern_op *made = tern_graph__maker(f->graph, add->in[TERN_ADD_B].value);
    tern_op *other = tern_graph__maker(f->graph, add->in[TERN_ADD_A].value);
    bool linear = made && made->kind == TERN_OP_LINEAR && !made->gated && !made->route.cols;
    bool other_kind = made && (made->kind == TERN_OP_RMS_NORM || made->kind == TERN_OP_COMBINE);
    if ((!linear && !other_kind) || made->residual.value != TERN_NO_VALUE || f->uses[made->out.value] != 1 ||
        !whole(f, add->in[TERN_ADD_B]) || !other || other > made)
        return TERN_OK;
    tern_op fused = *made;
    fused.residual = add->in[TERN_ADD_A];
    fused.out = add->out;
    if (linear) *made = fused;
    else if (!tern_fuse__becomes(f, made, &fused)) return TERN_OK;
    tern_fuse__drop(add);
    return TERN_OK;
}

/* A norm of whole rows that a linear op can begin with: NORM_QUANT before ternary weights, RMS_NORM before dense ones.
 */
static bool begins(const tern_fusing *f, const tern_op *norm, const tern_op *linear)
{
    if (linear->route.cols) return false;
    if (norm->kind == TERN_OP_NORM_QUANT) return all_parts(f, linear, true);
    return norm->kind == TERN_OP_RMS_NORM && norm->residual.value == TERN_NO_VALUE && whole(f, norm->out) &&
           whole(f, linear->in[TERN_LINEAR_X]) && norm->in[TERN_NORM_WEIGHT].cols == norm->in[TERN_NORM_X].cols &&
           norm->in[TERN_NORM_X].value != norm->out.value && all_parts(f, linear, false);
}

/* A norm whose only reader is a linear op. */
static tern_status fuse_linear_norm(tern_fusing *f, size_t at)
{
    tern_op *linear = &f->graph->ops[at];
    tern_op *norm =
        linear->kind == TERN_OP_LINEAR ? tern_graph__maker(f->graph, linear->in[TERN_LINEAR_X].value) : NULL;
    if (!norm || f->uses[norm->out.value] != 1 || !tern_fuse__internal(f, norm->out.value) || !begins(f, norm, linear))
        return TERN_OK;
    tern_op fused = *linear;
    fused.norm_f32 = norm->kind == TERN_OP_RMS_NORM;
    fused.in[TERN_LINEAR_X] = norm->in[TERN_NORM_X];
    fused.norm_weight = norm->in[TERN_NORM_WEIGHT];
    fused.eps = norm->eps;
    if (tern_fuse__becomes(f, linear, &fused)) tern_fuse__drop(norm);
    return TERN_OK;
}

/* GATHER in a graph of one token: its output, if there is one, is that token's row. */
static tern_status fuse_gather(tern_fusing *f, size_t at)
{
    tern_op *gather = &f->graph->ops[at];
    if (gather->kind != TERN_OP_GATHER || f->graph->max_tokens > 1 || !whole(f, gather->in[TERN_GATHER_X]) ||
        !tern_fuse__internal(f, gather->out.value))
        return TERN_OK;
    tern_fuse__drop(gather);
    redirect_all(f->graph, gather->out.value, gather->in[TERN_GATHER_X].value, 0);
    return TERN_OK;
}

/* Whether most of a value may be 0: a squared ReLU, whatever norms and quantisers came behind it. */
static bool comes_from_relu2(const tern_fusing *f, uint32_t value)
{
    for (const tern_op *op = tern_graph__maker(f->graph, value); op; op = tern_graph__maker(f->graph, value)) {
        if (op->kind == TERN_OP_GATE || (op->kind == TERN_OP_LINEAR && op->gated))
            return op->activation == TERN_ACT_RELU2;
        if (op->kind != TERN_OP_RMS_NORM && op->kind != TERN_OP_QUANTIZE && op->kind != TERN_OP_NORM_QUANT)
            return false;
        value = op->in[0].value;
    }
    return false;
}

/* Nothing is replaced: a LINEAR is told that rows or columns of it may be irrelevant. */
static tern_status mark_sparse(tern_fusing *f, size_t at)
{
    tern_op *linear = &f->graph->ops[at];
    if (linear->kind != TERN_OP_LINEAR || linear->route.cols) return TERN_OK;
    linear->sparse =
        linear->gated ? linear->activation == TERN_ACT_RELU2 : comes_from_relu2(f, linear->in[TERN_LINEAR_X].value);
    return TERN_OK;
}

typedef struct rule {
    tern_fusion_pass pass;
    tern_status (*apply)(tern_fusing *, size_t); /* NULL: the memory plan does it */
    uint32_t wanted;                             /* tern_fusion: only where the backend asks for it; 0: always */
} rule;

/* A pass is a row: tern_graph_options.no_fusion, --no-fusion and its help follow. They run in this order. */
static const rule rules[] = {
    {{"in_place", "a sum takes its addend's place in memory (CPU)"}, NULL, 0},
    {{"norm_quant", "RMS_NORM + QUANTIZE"}, fuse_norm_quant, 0},
    {{"siblings", "LINEAR of the same input: q|k|v, gate|up"}, fuse_siblings, 0},
    {{"rope_kv", "ROPE of q, of k + KV_WRITE (after siblings)"}, tern_fuse__rope_kv, 0},
    {{"head_norms", "RMS_NORM of heads of q, of k + rope_kv (GPU)"}, tern_fuse__head_norms, 0},
    {{"gate", "gate|up + GATE (after siblings)"}, fuse_gate, 0},
    {{"residual", "LINEAR, RMS_NORM or COMBINE + ADD"}, fuse_residual, 0},
    {{"gather", "GATHER of one token"}, fuse_gather, 0},
    {{"linear_norm", "a norm + the LINEAR that reads it (GPU, one token)"}, fuse_linear_norm, TERN_FUSION_LINEAR_NORM},
    {{"sparse", "rows and columns that a squared ReLU makes irrelevant are not read (CPU)"}, mark_sparse, 0},
    {{"rope_attention", "rope_kv + ATTENTION (GPU, one token)"}, tern_fuse__rope_attention, TERN_FUSION_ROPE_ATTENTION},
};
enum { N_RULES = sizeof rules / sizeof *rules };
_Static_assert(N_RULES <= 32, "no_fusion has a bit for each");

bool tern_graph_fusion_at(uint32_t i, tern_fusion_pass *pass)
{
    if (i < N_RULES) *pass = rules[i].pass;
    return i < N_RULES;
}

static tern_status apply(tern_fusing *f, const rule *r)
{
    tern_graph *g = f->graph;
    tern_status status = TERN_OK;
    /* siblings add values: at most one for two ops */
    f->uses = tern_calloc(g->n_values + g->n_ops, sizeof *f->uses);
    if (!f->uses) return tern_fail_alloc(f->err, g->n_values * sizeof *f->uses);
    tern_graph__count_uses(g, f->uses);
    for (size_t i = 0; i < g->n_ops && status == TERN_OK; i++) status = r->apply(f, i);
    tern_graph__compact(g);
    tern_free(f->uses);
    return status;
}

tern_status tern_graph_fuse(tern_graph *graph, tern_backend *backend, tern_error *err)
{
    tern_fusing f = {.graph = graph, .backend = backend, .err = err};
    const bool one = graph->max_tokens == 1 && !graph->kernel_rows;
    const uint32_t fusions = backend && one ? backend->info.fusions : 0;
    for (uint32_t r = 0; r < N_RULES; r++) {
        const bool left_out = graph->no_fusion & (uint32_t)1 << r || rules[r].wanted & ~fusions;
        if (rules[r].apply && !left_out) TERN_TRY(apply(&f, &rules[r]));
    }
    return TERN_OK;
}
