/* Which graphs the rows of a step run in: the plain ones, and those with the adapters that sequences have. */
#include <string.h>

#include "base/alloc.h"
#include "infer/batch/batch_internal.h"

static bool groups_rows(const tern_batch *b)
{
    return tern_engine_backend(b->engine)->info.groups_rows;
}

static bool same_loras(const tern_batch_adapters *set, const tern_lora_use *loras, uint32_t n)
{
    bool same = set->n_loras == n;
    for (uint32_t i = 0; same && i < n; i++)
        same = set->loras[i].lora == loras[i].lora && !(set->loras[i].scale < loras[i].scale) &&
               !(set->loras[i].scale > loras[i].scale);
    return same;
}

static tern_status open_adapters(tern_batch_adapters **out, const tern_lora_use *loras, uint32_t n, tern_error *err)
{
    tern_batch_adapters *set = *out = tern_calloc(1, sizeof *set);
    if (set) set->loras = tern_calloc((size_t)n + 1, sizeof *set->loras);
    if (!set || !set->loras) {
        tern_free(set);
        return tern_fail_alloc(err, n * sizeof *loras);
    }
    if (n) memcpy(set->loras, loras, n * sizeof *loras);
    set->n_loras = n;
    return TERN_OK;
}

static void free_adapters(tern_batch_adapters *set)
{
    tern_free(set->loras);
    tern_free(set);
}

static void free_graphs(tern_batch *b, tern_batch_graphs *graphs)
{
    tern_batch_graphs **at = &b->adapters.graphs;
    while (*at && *at != graphs) at = &(*at)->next;
    if (!*at) return;
    *at = graphs->next;
    tern_runner_drop_graphs(&b->runner, graphs->graphs);
    tern_free(graphs);
}

/* Graphs for these sets, and each set's group in them. */
static tern_status add_graphs(tern_batch *b, tern_batch_adapters *first, bool alone, tern_batch_graphs **out,
                              tern_error *err)
{
    tern_lora_set *sets = tern_calloc(b->adapters.n_sets + 1, sizeof *sets);
    tern_batch_graphs *g = *out = tern_calloc(1, sizeof *g);
    tern_status status = sets && g ? TERN_OK : tern_fail_alloc(err, sizeof *g);
    for (tern_batch_adapters *s = first; s && status == TERN_OK; s = alone ? NULL : s->next)
        if (s->n_loras) sets[g->n_groups++] = (tern_lora_set){s->loras, s->n_loras};
    if (status == TERN_OK) status = tern_runner_add_graphs(&b->runner, sets, g->n_groups, &g->graphs, err);
    tern_free(sets);
    if (status != TERN_OK) {
        tern_free(g);
        return status;
    }
    g->takes_all = groups_rows(b) || !g->n_groups;
    if (!groups_rows(b)) g->n_groups = 0;
    g->next = b->adapters.graphs;
    b->adapters.graphs = g;
    return TERN_OK;
}

/* One set of graphs for all adapters, made anew; that of the sets before goes. */
static tern_status rebuild_shared_graphs(tern_batch *b, tern_batch_adapters *added, tern_error *err)
{
    tern_batch_graphs *before = b->adapters.graphs, *graphs;
    if (before && !added->n_loras) {
        added->graphs = before;
        return TERN_OK;
    }
    TERN_TRY(add_graphs(b, b->adapters.sets, false, &graphs, err));
    uint32_t group = 0;
    for (tern_batch_adapters *s = b->adapters.sets; s; s = s->next) {
        s->graphs = graphs;
        s->group = s->n_loras ? ++group : 0;
    }
    if (before) free_graphs(b, before);
    return TERN_OK;
}

tern_status tern_batch__allocate_states(tern_batch *b, tern_error *err)
{
    const size_t n = (size_t)b->params.n_batch * tern_engine_config(b->engine)->n_embd;
    if (!b->outputs.states) b->outputs.states = tern_calloc(n, sizeof *b->outputs.states);
    return b->outputs.states ? TERN_OK : tern_fail_alloc(err, n * sizeof *b->outputs.states);
}

static tern_status add_adapters(tern_batch *b, const tern_lora_use *loras, uint32_t n, tern_batch_adapters **out,
                                tern_error *err)
{
    tern_batch_adapters *set;
    TERN_TRY(open_adapters(&set, loras, n, err));
    set->next = b->adapters.sets;
    b->adapters.sets = set;
    b->adapters.n_sets++;
    const tern_status status =
        groups_rows(b) ? rebuild_shared_graphs(b, set, err) : add_graphs(b, set, true, &set->graphs, err);
    if (status == TERN_OK) {
        *out = set;
        return TERN_OK;
    }
    b->adapters.sets = set->next;
    b->adapters.n_sets--;
    free_adapters(set);
    return status;
}

tern_status tern_batch__acquire_adapters(tern_batch *b, const tern_lora_use *loras, uint32_t n, bool states,
                                         tern_batch_adapters **out, tern_error *err)
{
    *out = NULL;
    if (states) TERN_TRY(tern_batch__allocate_states(b, err));
    if (n == 0 && !states) return TERN_OK;
    tern_batch_adapters *set = b->adapters.sets;
    while (set && !same_loras(set, loras, n)) set = set->next;
    if (!set) TERN_TRY(add_adapters(b, loras, n, &set, err));
    set->n_users++;
    *out = set;
    return TERN_OK;
}

void tern_batch__release_adapters(tern_batch *b, tern_batch_adapters *set)
{
    if (!set || --set->n_users) return;
    tern_batch_adapters **at = &b->adapters.sets;
    while (*at != set) at = &(*at)->next;
    *at = set->next;
    b->adapters.n_sets--;
    if (!groups_rows(b) || !b->adapters.sets) free_graphs(b, set->graphs);
    free_adapters(set);
}

void tern_batch__choose_graphs(tern_batch *b)
{
    tern_batch_graphs *host = &b->adapters.plain_graphs;
    for (uint32_t i = 0; i < b->n_running; i++) {
        const tern_sequence *s = b->running[i];
        if (s->n_rows && s->adapters && s->adapters->graphs->takes_all) host = s->adapters->graphs;
    }
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        s->graphs = s->adapters ? s->adapters->graphs : host;
    }
}
