/* The backward in parts: where it is cut, so that gradients which are whole are exchanged while the rest is made. */
#include <stdlib.h>

#include "base/alloc.h"
#include "train/trainer/internal.h"

/* A tensor, and the last op that touches its gradient. */
typedef struct gradient_end {
    size_t last;
    uint32_t tensor;
} gradient_end;

static int compare_ends(const void *a, const void *b)
{
    const gradient_end *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static bool touches(const tern_graph *g, const tern_op *op, const tern_weight *weight)
{
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        const uint32_t value = tern_op_view(op, i).value;
        const tern_value *v = value == TERN_NO_VALUE ? NULL : &g->values[value];
        if (v && v->kind == TERN_VALUE_STATE && v->state == TERN_STATE_GRADIENT && v->weight == weight) return true;
    }
    return false;
}

/* Of one that no op touches the last of all. */
static size_t last_op(const tern_graph *g, const tern_weight *weight)
{
    size_t i = g->n_ops;
    while (i > 0 && !touches(g, &g->ops[i - 1], weight)) i--;
    return i ? i - 1 : g->n_ops - 1;
}

/* Parts of about as many bytes of gradients; tensors whose gradients one op makes whole are in one. */
static size_t choose_parts(tern_trainer *t, const gradient_end *all, size_t *ends)
{
    uint64_t total = 0, sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->n_learning; i++) total += tern_trainer__state_bytes(t->learning[i], TERN_STATE_GRADIENT);
    for (size_t i = 0; i + 1 < t->n_learning; i++) {
        sum += tern_trainer__state_bytes(t->learning[all[i].tensor], TERN_STATE_GRADIENT);
        if (sum * TERN_TRAINER_PARTS < total * (n + 1) || all[i].last == all[i + 1].last) continue;
        t->part_ends[n] = i + 1;
        ends[n++] = all[i].last + 1;
    }
    t->part_ends[n] = t->n_learning;
    ends[n++] = t->graphs[TERN_TRAINER_STEP].graph.n_ops;
    return n;
}

/* What the others must have as well: a sum of where the parts end and what is in them. */
static uint64_t hash_parts(const tern_trainer *t)
{
    uint64_t sum = 0xcbf29ce484222325u + t->n_parts;
    for (size_t i = 0; i < t->n_parts; i++) sum = (sum ^ t->part_ends[i]) * 0x100000001b3u;
    for (size_t i = 0; i < t->n_learning; i++) sum = (sum ^ t->order[i]) * 0x100000001b3u;
    return sum;
}

static tern_status compare_ranks(const tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const uint64_t mine = hash_parts(t);
    uint64_t all[TERN_MAX_RANKS];
    size_t bytes[TERN_MAX_RANKS];
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = sizeof mine;
    TERN_TRY(ranks->gather(ranks, &mine, bytes, all, err));
    for (uint32_t r = 0; r < ranks->n; r++)
        if (all[r] != mine)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "rank %u makes gradients in another order than rank %u: devices of one kind expected", r,
                             ranks->rank);
    return TERN_OK;
}

tern_status tern_trainer__cut_backward(tern_trainer *t, tern_error *err)
{
    tern_trainer_graph *g = &t->graphs[TERN_TRAINER_STEP];
    size_t ends[TERN_TRAINER_PARTS];
    if (!t->params.ranks) return TERN_OK;
    gradient_end *all = tern_calloc(t->n_learning, sizeof *all);
    if (!all) return tern_fail_alloc(err, t->n_learning * sizeof *all);
    for (uint32_t i = 0; i < t->n_learning; i++)
        all[i] = (gradient_end){last_op(&g->graph, &t->learning[i]->weight), i};
    qsort(all, t->n_learning, sizeof *all, compare_ends);
    for (size_t i = 0; i < t->n_learning; i++) t->order[i] = all[i].tensor;
    t->n_parts = choose_parts(t, all, ends);
    tern_free(all);
    TERN_TRY(compare_ranks(t, err));
    return tern_bound_cut(&g->bound, ends, t->n_parts, err);
}
