/* The memory planner: every activation gets a place in memory, reused as soon as its last reader has run. So do
 * gradients that are brief (tern_graph.brief_gradients), in memory of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/fusions.h"
#include "graph/graph.h"
#include "ops/op.h"

enum { PLAN_ALIGNMENT = 256 /* what devices may want of a binding */ };

/* A value from the first op that touches it to the last; with the sums that take its place, several values. */
typedef struct life {
    uint32_t value;
    size_t first, last;
    uint64_t bytes, offset;
} life;

typedef struct plan {
    tern_graph *graph;
    uint32_t *life_of; /* [n_values]: which life a value is in; UINT32_MAX: none */
    life *lives;       /* [n], in order of `first` */
    size_t n;
    life **order;  /* the lives as they are placed */
    life **placed; /* scratch: those that live together with one, by offset */
    bool in_place;
    bool gradients; /* these are placed, not activations */
} plan;

static uint64_t padded(uint64_t bytes)
{
    return (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}

/* A sum may overwrite the row it adds to: each element is read before it is written, and nobody reads it again.
 * TERN_NO_VALUE: the op is not such a sum. */
static uint32_t addend_of(const plan *p, const tern_op *op)
{
    if (!p->in_place || op->out.value == TERN_NO_VALUE) return TERN_NO_VALUE;
    tern_view addend = op->kind == TERN_OP_ADD ? op->in[TERN_ADD_A] : op->residual;
    if (addend.value == TERN_NO_VALUE || addend.first_row || op->out.first_row) return TERN_NO_VALUE;
    uint32_t n = 0;
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) n += tern_op_view(op, i).value == addend.value;
    const tern_value *from = &p->graph->values[addend.value], *to = &p->graph->values[op->out.value];
    bool same = n == 1 && from->bytes == to->bytes && from->cols == to->cols && from->dtype == to->dtype;
    return same ? addend.value : TERN_NO_VALUE;
}

static size_t last_touch(const plan *p, uint32_t value, const size_t *last)
{
    return p->life_of[value] == UINT32_MAX ? SIZE_MAX : last[value];
}

static bool is_placed(const plan *p, const tern_value *v)
{
    if (p->gradients) return v->kind == TERN_VALUE_STATE && v->state == TERN_STATE_GRADIENT;
    return v->kind == TERN_VALUE_ACTIVATION;
}

/* The life that the result of op `at` goes on with, or a new one. */
static uint32_t life_for(plan *p, uint32_t value, size_t at, const size_t *last)
{
    const tern_op *op = &p->graph->ops[at];
    uint32_t addend = value == op->out.value ? addend_of(p, op) : TERN_NO_VALUE;
    if (addend != TERN_NO_VALUE && last_touch(p, addend, last) == at) return p->life_of[addend];
    p->lives[p->n] = (life){.value = value, .first = at, .bytes = padded(p->graph->values[value].bytes)};
    return (uint32_t)p->n++;
}

static void find_lives(plan *p, size_t *last)
{
    const tern_graph *g = p->graph;
    memset(p->life_of, 0xff, g->n_values * sizeof *p->life_of);
    for (size_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < tern_op_n_views(&g->ops[i]); k++)
            if (tern_op_view(&g->ops[i], k).value != TERN_NO_VALUE) last[tern_op_view(&g->ops[i], k).value] = i;
    for (size_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < tern_op_n_views(&g->ops[i]); k++) {
            uint32_t value = tern_op_view(&g->ops[i], k).value;
            if (value == TERN_NO_VALUE || !is_placed(p, &g->values[value])) continue;
            if (p->life_of[value] == UINT32_MAX) p->life_of[value] = life_for(p, value, i, last);
            p->lives[p->life_of[value]].last = i;
        }
}

static int by_offset(const void *a, const void *b)
{
    const life *x = *(life *const *)a, *y = *(life *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_size(const void *a, const void *b)
{
    const life *x = *(life *const *)a, *y = *(life *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Where so many bytes can lie, from `offset` on, without crossing the end of a block. */
static uint64_t within_block(const plan *p, uint64_t offset, uint64_t bytes)
{
    uint64_t block = p->graph->activation_block;
    if (block == 0 || offset / block == (offset + bytes - 1) / block) return offset;
    return (offset / block + 1) * block;
}

/* The lowest offset where the i-th life fits beside the ones placed before it. */
static void place(const plan *p, size_t i)
{
    life *l = p->order[i];
    size_t n = 0;
    for (size_t k = 0; k < i; k++)
        if (p->order[k]->last >= l->first && p->order[k]->first <= l->last) p->placed[n++] = p->order[k];
    qsort(p->placed, n, sizeof *p->placed, by_offset);
    l->offset = 0;
    for (size_t k = 0; k < n && p->placed[k]->offset < l->offset + l->bytes; k++) {
        uint64_t end = p->placed[k]->offset + p->placed[k]->bytes;
        if (end > l->offset) l->offset = within_block(p, end, l->bytes);
    }
}

/* Places all lives; returns how much memory that takes. */
static uint64_t place_all(plan *p, bool largest_first)
{
    uint64_t most = 0;
    for (size_t i = 0; i < p->n; i++) p->order[i] = &p->lives[i];
    if (largest_first) qsort(p->order, p->n, sizeof *p->order, by_size);
    for (size_t i = 0; i < p->n; i++) {
        place(p, i);
        uint64_t end = p->order[i]->offset + p->order[i]->bytes;
        if (end > most) most = end;
    }
    return most;
}

static const tern_value *larger_than_block(const plan *p)
{
    const tern_graph *g = p->graph;
    for (size_t i = 0; g->activation_block && i < p->n; i++)
        if (p->lives[i].bytes > g->activation_block) return &g->values[p->lives[i].value];
    return NULL;
}

static void set_offsets(const plan *p)
{
    tern_value *values = p->graph->values;
    for (uint32_t i = 0; values && i < p->graph->n_values; i++)
        if (p->life_of[i] != UINT32_MAX) values[i].offset = p->lives[p->life_of[i]].offset;
}

static tern_status place_values(tern_graph *graph, bool gradients, uint32_t fusions, uint64_t *bytes, tern_error *err)
{
    size_t n = graph->n_values;
    size_t *last = tern_calloc(n, sizeof *last);
    plan p = {.graph = graph,
              .gradients = gradients,
              .in_place = fusions & TERN_FUSION_IN_PLACE && !(graph->no_fusion & TERN_FUSION_PASS_IN_PLACE),
              .life_of = tern_calloc(n, sizeof *p.life_of),
              .lives = tern_calloc(n, sizeof *p.lives),
              .order = tern_calloc(n, sizeof *p.order),
              .placed = tern_calloc(n, sizeof *p.placed)};
    bool ok = last && p.life_of && p.lives && p.order && p.placed;
    if (ok) find_lives(&p, last);
    const tern_value *large = ok ? larger_than_block(&p) : NULL;
    if (ok && !large) {
        uint64_t as_they_come = place_all(&p, false), by_their_size = place_all(&p, true);
        *bytes = by_their_size < as_they_come ? by_their_size : place_all(&p, false);
        set_offsets(&p);
    }
    tern_free(p.placed);
    tern_free(p.order);
    tern_free(p.lives);
    tern_free(p.life_of);
    tern_free(last);
    if (!ok) return tern_fail_alloc(err, n * sizeof(life));
    if (!large) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s takes %llu bytes: at most %llu in one piece expected (fewer rows at a time)",
                     large->name, (unsigned long long)large->bytes, (unsigned long long)graph->activation_block);
}

tern_status tern_graph_plan(tern_graph *graph, uint32_t fusions, tern_error *err)
{
    if (graph->brief_gradients) TERN_TRY(place_values(graph, true, fusions, &graph->gradient_bytes, err));
    return place_values(graph, false, fusions, &graph->activation_bytes, err);
}
