/* Layers computed again in the backward. */
#include "graph/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* "q_again-3" for "q-3" */
static void name_again(tern_value *value)
{
    char name[sizeof value->name];
    const char *suffix = strrchr(value->name, '-');
    int stem = suffix ? (int)(suffix - value->name) : (int)strlen(value->name);
    snprintf(name, sizeof name, "%.*s_again%s", stem < 60 ? stem : 60, value->name, suffix ? suffix : "");
    memcpy(value->name, name, sizeof name);
}

/* Values that live in these ops alone get another one beside them. */
static void stand_in(tern_backward *b, size_t first, size_t end)
{
    for (uint32_t i = 0, n = (uint32_t)b->n; i < n && b->status == TERN_OK; i++) {
        const tern_backward_value *of = &b->of[i];
        tern_value value = b->graph->values[i];
        bool inside = of->first_write >= first && of->first_write < end && of->last_touch < end;
        if (!inside || value.kind != TERN_VALUE_ACTIVATION) continue;
        name_again(&value);
        uint32_t id = tern_backward__value(b, value);
        if (b->status != TERN_OK) return;
        b->of[id].wanted = b->of[i].wanted;
        b->of[id].original = i;
        b->of[i].again = id;
    }
    for (uint32_t i = 0; i < b->n && b->status == TERN_OK; i++)
        b->of[b->of[i].again].source = b->of[b->of[i].source].again;
}

static tern_op op_again(const tern_backward *b, const tern_op *op)
{
    tern_op copy = *op;
    for (uint32_t i = 0; i < tern_op_n_views(&copy); i++) {
        tern_view *view = tern_op_view_at(&copy, i);
        if (view->value != TERN_NO_VALUE) view->value = b->of[view->value].again;
    }
    return copy;
}

static bool is_read_later(const tern_op *op, const bool *read)
{
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        uint32_t value = tern_op_view(op, i).value;
        if (value != TERN_NO_VALUE && tern_op_writes_view(op, i) && read[value]) return true;
    }
    return false;
}

/* Drops ops first .. end - 1 that make nothing which is read after them. */
static void drop_unread(tern_backward *b, size_t first, size_t end)
{
    tern_graph *g = b->graph;
    bool *read = tern_calloc(b->n, sizeof *read);
    if (!read) b->status = tern_fail_alloc(b->err, b->n);
    for (size_t i = g->n_ops; read && i-- > first;) {
        tern_op *op = &g->ops[i];
        if (i < end && !is_read_later(op, read)) {
            op->kind = TERN_OP_COUNT;
            continue;
        }
        for (uint32_t k = 0; k + 1 < tern_op_n_views(op); k++) /* all but the result */
            if (tern_op_view(op, k).value != TERN_NO_VALUE) read[tern_op_view(op, k).value] = true;
    }
    tern_free(read);
    if (b->status == TERN_OK) tern_graph__compact(g);
}

void tern_backward__again(tern_backward *b, size_t first, size_t end)
{
    tern_graph *g = b->graph;
    stand_in(b, first, end);
    size_t first_op = g->n_ops;
    for (size_t i = first; i < end; i++) {
        tern_op op = op_again(b, &b->forward[i]);
        tern_backward__emit(b, &op);
    }
    size_t end_op = g->n_ops;
    for (size_t i = end; i-- > first && b->status == TERN_OK;) {
        tern_op op = op_again(b, &b->forward[i]);
        tern_backward__op(b, &op);
    }
    if (b->status == TERN_OK) drop_unread(b, first_op, end_op);
}
