/* Differentiation: the backward of every op, last first; that of the head beside each of its chunks of rows. */
#include "graph/backward.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/checkpoint.h"
#include "quant/weight.h"

static tern_backward_value unknown(uint32_t value)
{
    return (tern_backward_value){.source = value,
                                 .gradient = TERN_NO_VALUE,
                                 .whole = TERN_NO_VALUE,
                                 .again = value,
                                 .original = value,
                                 .first_write = SIZE_MAX};
}

uint32_t tern_backward__value(tern_backward *b, tern_value value)
{
    uint32_t id = 0;
    void *items = b->of;
    if (b->status == TERN_OK) b->status = tern_grow(&items, &b->cap, b->n + 1, sizeof *b->of, b->err);
    b->of = items;
    if (b->status == TERN_OK) b->status = tern_graph__add_value(b->graph, value, &id, b->err);
    if (b->status != TERN_OK) return 0;
    b->of[b->n++] = unknown(id);
    return id;
}

void tern_backward__emit(tern_backward *b, const tern_op *op)
{
    if (b->status == TERN_OK) b->status = tern_graph__add_op(b->graph, op, b->err);
}

static tern_backward_value *root(const tern_backward *b, tern_view x)
{
    return &b->of[b->of[x.value].source];
}

bool tern_backward__wanted(const tern_backward *b, tern_view x)
{
    return b->of[x.value].wanted;
}

static tern_view whole_view(const tern_backward *b, uint32_t value)
{
    return (tern_view){.value = value, .cols = value == TERN_NO_VALUE ? 0 : b->graph->values[value].cols};
}

/* Whether x is a run of the columns of its value. */
static bool is_part(const tern_backward *b, tern_view x)
{
    return x.cols && x.cols < b->graph->values[x.value].cols;
}

/* The columns of x among those of a gradient of the whole value. */
static tern_view part_of(tern_view x, uint32_t gradient)
{
    return (tern_view){.value = gradient, .first_col = x.first_col, .cols = x.cols};
}

static bool is_made(const tern_backward_value *of, tern_view x)
{
    for (uint32_t i = 0; i < of->n_made; i++)
        if (of->made[i].first_col == x.first_col && of->made[i].cols == x.cols) return true;
    return false;
}

tern_view tern_backward__gradient(const tern_backward *b, tern_view x)
{
    const tern_backward_value *own = root(b, x);
    if (!is_part(b, x)) return whole_view(b, own->gradient);
    return is_made(own, x) ? part_of(x, own->gradient) : whole_view(b, TERN_NO_VALUE);
}

void tern_backward__refuse(tern_backward *b, const char *what, const char *name)
{
    if (b->status == TERN_OK) b->status = tern_fail(b->err, TERN_UNSUPPORTED, "%s: %s", name, what);
}

/* Room for the gradient of the whole value of x. */
static tern_view new_whole(tern_backward *b, const tern_op *op, tern_view x)
{
    const tern_value *of = &b->graph->values[b->of[x.value].source];
    uint64_t n = tern_graph_max_rows(b->graph, op->rows);
    tern_value value = {.kind = TERN_VALUE_ACTIVATION, .dtype = TERN_DTYPE_F32, .rows = op->rows, .cols = of->cols};
    value.bytes = tern_row_bytes(TERN_DTYPE_F32, value.cols, n);
    snprintf(value.name, sizeof value.name, "d_%.77s", b->graph->values[root(b, x)->original].name);
    return (tern_view){.value = tern_backward__value(b, value), .cols = value.cols};
}

static void refuse_mix(tern_backward *b, tern_view x)
{
    tern_backward__refuse(b, "backward of columns that two ops read: one expected", b->graph->values[x.value].name);
}

tern_view tern_backward__new(tern_backward *b, const tern_op *op, tern_view x)
{
    if (!is_part(b, x)) return new_whole(b, op, x);
    if (root(b, x)->gradient == TERN_NO_VALUE) {
        const uint32_t whole = new_whole(b, op, x).value;
        if (b->status == TERN_OK) root(b, x)->gradient = whole;
        root(b, x)->in_parts = true;
    }
    if (!root(b, x)->in_parts) refuse_mix(b, x);
    return part_of(x, root(b, x)->gradient);
}

/* Runs of columns that are read once each, and together are all: others would need sums of their own. */
static void set_part(tern_backward *b, tern_view x, tern_view dx)
{
    tern_backward_value *own = root(b, x);
    bool apart = dx.value == own->gradient && dx.first_col == x.first_col && own->n_made < TERN_BACKWARD_PARTS;
    for (uint32_t i = 0; i < own->n_made; i++)
        apart = apart && (x.first_col >= own->made[i].first_col + own->made[i].cols ||
                          own->made[i].first_col >= x.first_col + x.cols);
    if (apart) own->made[own->n_made++] = x;
    else refuse_mix(b, x);
}

void tern_backward__set(tern_backward *b, tern_view x, tern_view dx)
{
    if (b->status != TERN_OK) return;
    if (is_part(b, x)) set_part(b, x, dx);
    else if (root(b, x)->in_parts) refuse_mix(b, x);
    else root(b, x)->gradient = dx.value;
}

/* Whether all columns of x's gradient are there. */
static bool is_whole(const tern_backward *b, tern_view x)
{
    const tern_backward_value *own = root(b, x);
    uint32_t cols = 0;
    for (uint32_t i = 0; i < own->n_made; i++) cols += own->made[i].cols;
    return !own->in_parts || cols == b->graph->values[x.value].cols;
}

void tern_backward__contribute(tern_backward *b, const tern_op *op, tern_view x, tern_view dx)
{
    if (!tern_backward__wanted(b, x)) return;
    tern_view before = tern_backward__gradient(b, x);
    if (before.value != TERN_NO_VALUE) {
        tern_op sum = {.kind = TERN_OP_ADD,
                       .rows = op->rows,
                       .layer = op->layer,
                       .n_in = TERN_ADD_INPUTS,
                       .in = {[TERN_ADD_A] = before, [TERN_ADD_B] = dx}};
        sum.out = dx = tern_backward__new(b, op, x);
        tern_backward__emit(b, &sum);
    }
    tern_backward__set(b, x, dx);
}

bool tern_backward__is_shared(const tern_backward *b, tern_view x, tern_view dx)
{
    const tern_backward_value *own = root(b, x);
    for (size_t i = 0; i < b->n; i++)
        if (&b->of[i] != own && b->of[i].gradient == dx.value) return true;
    return false;
}

tern_view tern_backward__weight_gradient(tern_backward *b, const tern_weight *weight)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const tern_value *v = &b->graph->values[i];
        if (v->kind == TERN_VALUE_STATE && v->weight == weight && v->state == TERN_STATE_GRADIENT)
            return whole_view(b, i);
    }
    tern_value value = {.kind = TERN_VALUE_STATE,
                        .dtype = TERN_DTYPE_F32,
                        .cols = weight->cols,
                        .n_rows = weight->rows,
                        .weight = weight,
                        .state = TERN_STATE_GRADIENT,
                        .bytes = tern_row_bytes(TERN_DTYPE_F32, weight->cols, weight->rows)};
    snprintf(value.name, sizeof value.name, "grad.%s", weight->name);
    return (tern_view){.value = tern_backward__value(b, value), .cols = value.cols};
}

/* Which values lead from a trained weight, and what the forward does with each. That an expert was chosen has no
 * gradient, so that a route leads nowhere by itself: its weights do, through COMBINE. */
static void survey_op(tern_backward *b, size_t at)
{
    const tern_op *op = &b->forward[at];
    bool wanted = false;
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        uint32_t value = tern_op_view(op, i).value;
        if (value == TERN_NO_VALUE) continue;
        const tern_value *v = &b->graph->values[value];
        const bool chosen_by = op->route.cols && op->route.value == value;
        wanted |= (b->of[value].wanted && !chosen_by) || (v->kind == TERN_VALUE_WEIGHT && v->weight->trained);
        b->of[value].last_touch = at;
    }
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        uint32_t value = tern_op_view(op, i).value;
        if (value == TERN_NO_VALUE || !tern_op_writes_view(op, i)) continue;
        b->of[value].wanted |= wanted;
        if (b->of[value].first_write == SIZE_MAX) b->of[value].first_write = at;
    }
    if (op->kind == TERN_OP_QUANTIZE) b->of[op->out.value].source = b->of[op->in[TERN_QUANTIZE_X].value].source;
    if (op->kind == TERN_OP_FAKE_QUANTIZE)
        b->of[op->out.value].source = b->of[op->in[TERN_FAKE_QUANTIZE_X].value].source;
}

void tern_backward__op(tern_backward *b, const tern_op *op)
{
    if (b->status != TERN_OK || op->out.value == TERN_NO_VALUE || !tern_backward__wanted(b, op->out)) return;
    tern_view dy = tern_backward__gradient(b, op->out);
    if (dy.value == TERN_NO_VALUE) return;
    tern_backward_fn back = tern_backward__of(op->kind);
    const char *name = b->graph->values[op->out.value].name;
    if (back && is_whole(b, op->out)) back(b, op, dy);
    else if (back) tern_backward__refuse(b, "backward of some of its columns: of all expected", name);
    else b->status = tern_fail(b->err, TERN_UNSUPPORTED, "op %s (%s) has no backward", tern_op_name(op->kind), name);
}

static void move_view(tern_view *view, uint32_t from, tern_view to)
{
    if (view->value == from) *view = to;
}

/* The gradient that a chunk has made of some rows of a value from outside goes to its place among all rows. */
static void place_rows(tern_backward *b, uint32_t value, size_t first_op, uint32_t first_row)
{
    uint32_t part = b->of[value].gradient;
    if (b->of[value].whole == TERN_NO_VALUE) {
        tern_op rows = {.rows = TERN_ROWS_TOKENS};
        uint32_t whole = tern_backward__new(b, &rows, (tern_view){.value = value}).value;
        if (b->status != TERN_OK) return;
        b->of[value].whole = whole;
    }
    tern_view place = whole_view(b, b->of[value].whole);
    place.first_row = first_row;
    for (size_t i = first_op; i < b->graph->n_ops; i++)
        for (uint32_t k = 0; k < tern_op_n_views(&b->graph->ops[i]); k++)
            move_view(tern_op_view_at(&b->graph->ops[i], k), part, place);
    b->of[value].gradient = TERN_NO_VALUE;
}

/* The head's ops first .. end - 1, of which the last is CROSS_ENTROPY: their backward follows at once. */
static void chunk(tern_backward *b, size_t first, size_t end)
{
    const tern_op *loss = &b->forward[end - 1];
    size_t first_op = b->graph->n_ops, n = b->n;
    const tern_view logits = loss->in[TERN_CROSS_ENTROPY_LOGITS];
    tern_backward__set(b, logits, logits);
    for (size_t i = end - 1; i-- > first;) tern_backward__op(b, &b->forward[i]);
    for (uint32_t i = 0; i < n && b->status == TERN_OK; i++)
        if (b->of[i].gradient != TERN_NO_VALUE && b->of[i].first_write < first)
            place_rows(b, i, first_op, loss->out.first_row);
}

/* Returns how many ops come before the head. */
static size_t forward(tern_backward *b)
{
    size_t head = SIZE_MAX, first = 0;
    for (size_t i = 0; i < b->n_forward && b->status == TERN_OK; i++) {
        const tern_op *op = &b->forward[i];
        tern_backward__emit(b, op);
        if (op->rows == TERN_ROWS_TOKENS) first = i + 1;
        if (op->kind != TERN_OP_CROSS_ENTROPY) continue;
        if (head == SIZE_MAX) head = first;
        chunk(b, first, i + 1);
        first = i + 1;
    }
    for (size_t i = 0; i < b->n; i++)
        if (b->of[i].whole != TERN_NO_VALUE) b->of[i].gradient = b->of[i].whole;
    return head == SIZE_MAX ? 0 : head;
}

static void backward(tern_backward *b, bool checkpoint)
{
    size_t end = forward(b);
    while (end > 0 && b->status == TERN_OK) {
        size_t first = end - 1;
        while (first > 0 && b->forward[first - 1].layer == b->forward[end - 1].layer) first--;
        if (checkpoint && b->forward[first].layer != UINT32_MAX) tern_backward__again(b, first, end);
        else
            for (size_t i = end; i-- > first;) tern_backward__op(b, &b->forward[i]);
        end = first;
    }
}

static tern_status prepare(tern_backward *b)
{
    void *items = NULL;
    TERN_TRY(tern_grow(&items, &b->cap, b->graph->n_values, sizeof *b->of, b->err));
    b->of = items;
    b->n = b->graph->n_values;
    for (uint32_t i = 0; i < b->n; i++) b->of[i] = unknown(i);
    for (size_t i = 0; i < b->n_forward; i++) survey_op(b, i);
    return TERN_OK;
}

static bool has_gradient(const tern_graph *g)
{
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_STATE) return true;
    return false;
}

tern_status tern_graph_differentiate(tern_graph *graph, const tern_graph_backward_options *options, tern_error *err)
{
    if (graph->losses == TERN_NO_VALUE)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a graph without losses: one built for training expected");
    tern_backward b = {.graph = graph, .forward = graph->ops, .n_forward = graph->n_ops, .err = err};
    b.bf16 = options && options->bf16;
    tern_op *forward_ops = graph->ops;
    graph->ops = NULL;
    graph->n_ops = graph->cap_ops = 0;
    b.status = prepare(&b);
    if (b.status == TERN_OK) backward(&b, options && options->checkpoint);
    if (b.status == TERN_OK && !has_gradient(graph))
        b.status = tern_fail(err, TERN_INVALID_ARGUMENT, "no weight of the graph is trained: at least one expected");
    tern_free(b.of);
    tern_free(forward_ops);
    return b.status;
}
