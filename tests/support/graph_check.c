/* Invariants of graphs, by brute force. */
#include "support/graph_check.h"

#include "ops/op.h"
#include "support/test.h"

static uint32_t count_reads(const tern_op *op, uint32_t value)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < tern_op_n_views(op); i++) n += tern_op_view(op, i).value == value;
    return n;
}

bool test_life(const tern_graph *g, uint32_t value, size_t *first, size_t *last)
{
    bool found = false;
    for (size_t i = 0; i < g->n_ops; i++) {
        if (g->ops[i].out.value != value && !count_reads(&g->ops[i], value)) continue;
        if (!found) *first = i;
        *last = i;
        found = true;
    }
    return found;
}

/* Whether op makes b out of a alone among its inputs, element by element: a sum of a and something else. */
static bool adds_to(const tern_op *op, uint32_t a, uint32_t b)
{
    bool sum = op->kind == TERN_OP_ADD ? op->in[TERN_ADD_A].value == a : op->residual.value == a;
    return sum && op->out.value == b && count_reads(op, a) == 1 && op->out.first_row == 0;
}

typedef struct life {
    bool alive;
    size_t first, last;
} life;

/* b goes on where a ends, in a's place. */
static bool takes_over(const tern_graph *g, const life *lives, uint32_t a, uint32_t b)
{
    const tern_value *x = &g->values[a], *y = &g->values[b];
    return lives[b].first == lives[a].last && x->offset == y->offset && x->bytes == y->bytes &&
           adds_to(&g->ops[lives[a].last], a, b);
}

void test_check_plan(const tern_graph *g, bool in_place)
{
    life *lives = calloc(g->n_values, sizeof *lives);
    for (uint32_t i = 0; i < g->n_values; i++)
        lives[i].alive = g->values[i].kind == TERN_VALUE_ACTIVATION && test_life(g, i, &lives[i].first, &lives[i].last);
    for (uint32_t a = 0; a < g->n_values; a++)
        for (uint32_t b = 0; b < g->n_values; b++) {
            const tern_value *x = &g->values[a], *y = &g->values[b];
            if (a == b || !lives[a].alive || !lives[b].alive) continue;
            if (lives[a].first > lives[b].first || lives[b].first > lives[a].last) continue;
            bool apart = x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
            bool shared = in_place && (takes_over(g, lives, a, b) || takes_over(g, lives, b, a));
            if (!apart && !shared) fail_msg("%s and %s share memory while both are alive", x->name, y->name);
        }
    for (uint32_t a = 0; a < g->n_values; a++) {
        const tern_value *v = &g->values[a];
        if (lives[a].alive && (v->offset + v->bytes > g->activation_bytes || v->offset % 256))
            fail_msg("%s lies at %llu", v->name, (unsigned long long)v->offset);
    }
    free(lives);
}

/* Rows of a value that have been written; a chunk of rows counts up to its end, in order. */
static uint32_t rows_of(const tern_graph *g, const tern_op *op)
{
    return tern_graph_max_rows(g, op->rows);
}

/* How many rows of an input the op reads: its own, but where it takes some of them, or goes between rows of tokens and
 * rows of experts. */
static uint32_t rows_read(const tern_graph *g, const tern_op *op, const tern_value *v)
{
    const bool routes = op->kind == TERN_OP_COMBINE || op->rows == TERN_ROWS_ROUTED;
    return op->kind == TERN_OP_GATHER || routes ? tern_graph_max_rows(g, v->rows) : rows_of(g, op);
}

/* What the op only writes among its inputs. */
static bool is_made(const tern_op *op, uint32_t i)
{
    if (op->kind == TERN_OP_VARLEN_ATTENTION_BACKWARD) return i >= 7;
    if (op->kind == TERN_OP_VARLEN_GATED_DELTA_BACKWARD) return i >= 10 && i < 14;
    if (op->kind == TERN_OP_VARLEN_GATED_DELTA) return i == 8;
    if (op->kind == TERN_OP_SPLIT) return i == 1;
    if (op->kind == TERN_OP_COMBINE_BACKWARD) return i == TERN_COMBINE_BACKWARD_DWEIGHTS;
    return (op->kind == TERN_OP_VARLEN_ATTENTION && i == 4) || (op->kind == TERN_OP_GATE_BACKWARD && i == 3);
}

static void write(const tern_graph *g, const tern_op *op, tern_view view, uint32_t *written)
{
    if (view.value == TERN_NO_VALUE) return;
    if (view.first_row > written[view.value])
        fail_msg("%s: rows from %u on are written before the ones above", g->values[view.value].name, view.first_row);
    const bool routes = op->kind == TERN_OP_ROUTE; /* an op of tokens, each of which has several */
    uint32_t end = view.first_row + (routes ? tern_graph_max_rows(g, TERN_ROWS_ROUTED) : rows_of(g, op));
    if (end > written[view.value]) written[view.value] = end;
}

static void read(const tern_graph *g, size_t at, tern_view view, const uint32_t *written)
{
    const tern_op *op = &g->ops[at];
    if (view.value == TERN_NO_VALUE) return;
    const tern_value *v = &g->values[view.value];
    bool rows = v->kind == TERN_VALUE_ACTIVATION || v->kind == TERN_VALUE_OUTPUT;
    uint32_t wanted = view.first_row + rows_read(g, op, v);
    if (rows && written[view.value] < wanted)
        fail_msg("op %zu (%s) reads %u rows of %s: %u are written", at, tern_op_name(op->kind), wanted, v->name,
                 written[view.value]);
}

void test_check_order(const tern_graph *g)
{
    uint32_t *written = calloc(g->n_values, sizeof *written);
    for (size_t k = 0; k < g->n_ops; k++) {
        const tern_op *op = &g->ops[k];
        for (uint32_t i = 0; i + 1 < tern_op_n_views(op); i++)
            if (i >= op->n_in || !is_made(op, i)) read(g, k, tern_op_view(op, i), written);
        for (uint32_t i = 0; i < op->n_in; i++)
            if (is_made(op, i)) write(g, op, op->in[i], written);
        write(g, op, op->out, written);
    }
    free(written);
}

size_t test_count_ops(const tern_graph *g, tern_op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_ops; i++) n += g->ops[i].kind == kind;
    return n;
}
