/* Doing what rank 0 tells. */
#include "infer/follow/follow.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "infer/session/runner_pages.h"
#include "ranks/ranks.h"

enum { MAX_RUNNERS = 64, MAX_SETS = 1024 };

typedef struct held_lora {
    tern_lora *lora;
    struct held_lora *next;
} held_lora;

/* Graphs beside a runner's first ones. */
typedef struct held_graphs {
    tern_runner *runner;
    tern_runner_graphs *graphs;
    struct held_graphs *next;
} held_graphs;

typedef struct follower {
    tern_engine *engine;
    tern_ranks *ranks;
    tern_runner runners[MAX_RUNNERS]; /* engine NULL: none */
    held_lora *loras;
    held_graphs *graphs;
    void *room; /* of values that rank 0 reads */
    uint64_t room_bytes;
} follower;

/* What was told, beside the message. */
typedef struct told {
    tern_bound_message m;
    const void *data;
    size_t bytes;
} told;

static tern_status not_here(const char *what, uint32_t number, tern_error *err)
{
    return tern_fail(err, TERN_INTERNAL, "rank 0 speaks of %s %u, which is not here", what, number);
}

/* ---- adapters */

static held_lora **lora_of(follower *f, uint32_t number)
{
    held_lora **at = &f->loras;
    while (*at && tern_lora__number((*at)->lora) != number) at = &(*at)->next;
    return at;
}

static tern_status open_lora(follower *f, const told *t, tern_error *err)
{
    tern_lora_head head;
    memcpy(&head, t->data, sizeof head);
    held_lora *held = tern_calloc(1, sizeof *held);
    if (!held) return tern_fail_alloc(err, sizeof *held);
    const tern_status status = tern_lora__begin(&held->lora, f->engine, t->m.number, &head, err);
    if (status != TERN_OK) {
        tern_lora_close(held->lora);
        tern_free(held);
        return status;
    }
    held->next = f->loras;
    f->loras = held;
    return TERN_OK;
}

static tern_status take_pair(follower *f, const told *t, tern_error *err)
{
    held_lora *held = *lora_of(f, t->m.number);
    uint32_t shape[6];
    if (!held) return not_here("adapter", t->m.number, err);
    memcpy(shape, t->data, sizeof shape);
    const size_t n_a = (size_t)shape[5] * shape[4] * shape[2], n_b = (size_t)shape[3] * shape[5];
    float *values = tern_alloc((n_a + n_b) * sizeof *values);
    if (!values) return tern_fail_alloc(err, (n_a + n_b) * sizeof *values);
    memcpy(values, (const uint8_t *)t->data + sizeof shape, (n_a + n_b) * sizeof *values);
    const tern_adapter_pair pair = {
        .in = shape[2], .out = shape[3], .n_experts = shape[4], .a = values, .b = values + n_a};
    const tern_lora_place place = {(tern_role)shape[0], shape[1]};
    const tern_status status = tern_lora__add_pair(held->lora, &place, &pair, err);
    tern_free(values);
    return status;
}

static void close_lora(follower *f, uint32_t number)
{
    held_lora **at = lora_of(f, number), *held = *at;
    if (!held) return;
    *at = held->next;
    tern_lora_close(held->lora);
    tern_free(held);
}

/* ---- runners and graphs */

static tern_runner *runner_of(follower *f, uint32_t number)
{
    for (int i = 0; i < MAX_RUNNERS; i++)
        if (f->runners[i].engine && f->runners[i].number == number) return &f->runners[i];
    return NULL;
}

/* The caller's to tern_free, also on failure. */
static tern_status read_uses(follower *f, tern_cursor *c, tern_lora_set *out, tern_lora_use **memory, tern_error *err)
{
    const uint32_t n = tern_cursor_u32(c);
    tern_lora_use *uses = *memory = tern_calloc((size_t)n + 1, sizeof *uses);
    if (!uses) return tern_fail_alloc(err, n * sizeof *uses);
    for (uint32_t i = 0; i < n; i++) {
        tern_told_use told_use;
        memcpy(&told_use, tern_cursor_take(c, sizeof told_use), sizeof told_use);
        const held_lora *held = *lora_of(f, told_use.lora);
        if (!held) return not_here("adapter", told_use.lora, err);
        uses[i] = (tern_lora_use){held->lora, told_use.scale};
    }
    *out = (tern_lora_set){uses, n};
    return TERN_OK;
}

static tern_status open_runner(follower *f, const told *t, tern_error *err)
{
    tern_runner_params params;
    tern_lora_set set = {0};
    tern_lora_use *uses = NULL;
    int i = 0;
    tern_cursor c = tern_cursor_open(t->data, t->bytes);
    memcpy(&params, tern_cursor_take(&c, sizeof params), sizeof params);
    while (i < MAX_RUNNERS && f->runners[i].engine) i++;
    if (i == MAX_RUNNERS)
        return tern_fail(err, TERN_LIMIT, "more than %d sessions at once in %u processes", MAX_RUNNERS, f->ranks->n);
    tern_status status = read_uses(f, &c, &set, &uses, err);
    params.loras = set.loras;
    params.n_loras = set.n_loras;
    tern_engine__expect_number(f->engine, t->m.number);
    if (status == TERN_OK) status = tern_runner_open(&f->runners[i], f->engine, &params, err);
    tern_free(uses);
    return status;
}

static tern_status add_graphs(follower *f, const told *t, tern_error *err)
{
    tern_runner *runner = runner_of(f, t->m.number);
    const uint32_t n_sets = t->m.n;
    tern_cursor c = tern_cursor_open(t->data, t->bytes);
    const bool beside = tern_cursor_u32(&c) != 0;
    if (!runner) return not_here("session", t->m.number, err);
    if (n_sets > MAX_SETS) return tern_fail(err, TERN_LIMIT, "%u sets of adapters", n_sets);
    held_graphs *held = tern_calloc(1, sizeof *held);
    tern_lora_set *sets = tern_calloc(n_sets + 1, sizeof *sets);
    tern_lora_use **uses = tern_calloc(n_sets + 1, sizeof(tern_lora_use *));
    tern_status status = held && sets && uses ? TERN_OK : tern_fail_alloc(err, n_sets * sizeof *sets);
    for (uint32_t i = 0; i < n_sets && status == TERN_OK; i++) status = read_uses(f, &c, &sets[i], &uses[i], err);
    tern_engine__expect_number(f->engine, t->m.at);
    if (status == TERN_OK) status = tern_runner__make_graphs(runner, sets, n_sets, beside, &held->graphs, err);
    for (uint32_t i = 0; uses && i < n_sets; i++) tern_free(uses[i]);
    tern_free(uses);
    tern_free(sets);
    if (status != TERN_OK) {
        tern_free(held);
        return status;
    }
    held->runner = runner;
    held->next = f->graphs;
    f->graphs = held;
    return TERN_OK;
}

/* Those of a number, or with 0 all of a runner. */
static void drop_graphs(follower *f, const tern_runner *runner, uint32_t number)
{
    for (held_graphs **at = &f->graphs; *at;) {
        held_graphs *held = *at;
        if (number ? held->graphs->number != number : held->runner != runner) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        tern_runner_drop_graphs(held->runner, held->graphs);
        tern_free(held);
    }
    for (int i = 0; number && i < MAX_RUNNERS; i++) {
        tern_runner *r = &f->runners[i];
        if (!r->engine || !r->graphs || r->graphs->number != number) continue;
        tern_runner_drop_graphs(r, r->graphs);
        r->graphs = NULL;
    }
}

static void close_runner(follower *f, uint32_t number)
{
    tern_runner *runner = runner_of(f, number);
    if (!runner) return;
    drop_graphs(f, runner, 0);
    tern_runner_deinit(runner);
}

static tern_bound_graph *find_graph(tern_runner_graphs *g, uint32_t number)
{
    tern_runner_graph *const all[] = {g ? &g->decode : NULL, g ? &g->prefill : NULL, g ? &g->few : NULL,
                                      g ? &g->steps : NULL};
    for (size_t k = 0; g && k < sizeof all / sizeof *all; k++)
        if (all[k]->bound.number == number) return &all[k]->bound;
    return NULL;
}

static tern_bound_graph *graph_of(follower *f, uint32_t number)
{
    tern_bound_graph *found = NULL;
    for (int i = 0; i < MAX_RUNNERS && !found; i++)
        if (f->runners[i].engine) found = find_graph(f->runners[i].graphs, number);
    for (held_graphs *h = f->graphs; h && !found; h = h->next) found = find_graph(h->graphs, number);
    return found;
}

static tern_status start(follower *f, const told *t, tern_error *err)
{
    tern_bound_graph *g = graph_of(f, t->m.number);
    if (!g) return not_here("graph", t->m.number, err);
    if (t->bytes != g->graph->param_bytes)
        return tern_fail(err, TERN_INTERNAL, "rank 0 starts graph %u with %zu bytes: %llu expected", t->m.number,
                         t->bytes, (unsigned long long)g->graph->param_bytes);
    memcpy(g->staging, t->data, t->bytes);
    return tern_bound_start(g, t->m.n, err);
}

/* What rank 0 wants to read of a step; the first rank of the stage that made it has it. */
static tern_status give_value(follower *f, const told *t, tern_error *err)
{
    tern_bound_graph *g = graph_of(f, t->m.number);
    uint64_t bytes;
    if (!g) return not_here("graph", t->m.number, err);
    memcpy(&bytes, t->data, sizeof bytes);
    const uint32_t each = f->ranks->n / g->graph->n_stages;
    if (g->graph->values[t->m.n].stage * each != f->ranks->rank) return TERN_OK;
    if (bytes > f->room_bytes) {
        tern_free(f->room);
        f->room = tern_alloc(tern_size_of(bytes));
        f->room_bytes = f->room ? bytes : 0;
    }
    if (!f->room) return tern_fail_alloc(err, bytes);
    TERN_TRY(tern_bound_read(g, t->m.n, f->room, bytes, err));
    return f->ranks->send(f->ranks, 0, f->room, tern_size_of(bytes), err);
}

/* ---- pages of caches */

static tern_status do_page(follower *f, const told *t, tern_error *err)
{
    const tern_runner *runner = runner_of(f, t->m.number);
    if (!runner) return not_here("session", t->m.number, err);
    if (t->m.what == TERN_TOLD_PAGE_READ) return tern_runner__give_page(runner, t->m.n, t->m.at, err);
    if (t->m.what == TERN_TOLD_PAGE_WRITE) return tern_runner_write_page(runner, t->m.n, t->m.at, t->data, err);
    void *room = tern_alloc(tern_size_of(tern_runner_page_room(runner)));
    if (!room) return tern_fail_alloc(err, tern_runner_page_room(runner));
    const tern_status status = tern_runner_copy_page(runner, t->m.n, t->m.at, room, err);
    tern_free(room);
    return status;
}

static tern_status follow_once(follower *f, const told *t, tern_error *err)
{
    tern_rank_usage usage[TERN_MAX_RANKS];
    const uint32_t number = t->m.number;
    switch (t->m.what) {
    case TERN_TOLD_OPEN: return open_runner(f, t, err);
    case TERN_TOLD_CLOSE: close_runner(f, number); return TERN_OK;
    case TERN_TOLD_GRAPHS: return add_graphs(f, t, err);
    case TERN_TOLD_DROP: drop_graphs(f, NULL, number); return TERN_OK;
    case TERN_TOLD_LORA: return open_lora(f, t, err);
    case TERN_TOLD_LORA_PAIR: return take_pair(f, t, err);
    case TERN_TOLD_LORA_CLOSE: close_lora(f, number); return TERN_OK;
    case TERN_TOLD_USAGE: return tern_follow__gather_usage(f->engine, usage, err);
    case TERN_TOLD_START: return start(f, t, err);
    case TERN_TOLD_VALUE: return give_value(f, t, err);
    default: return do_page(f, t, err);
    }
}

static tern_status follow(follower *f, tern_error *err)
{
    for (;;) {
        told t;
        TERN_TRY(f->ranks->hear(f->ranks, &t.m, sizeof t.m, &t.data, &t.bytes, err));
        if (t.m.what == TERN_TOLD_END) return TERN_OK;
        TERN_TRY(follow_once(f, &t, err));
    }
}

tern_status tern_engine_follow(tern_engine *engine, tern_error *err)
{
    TERN_NEED(engine, err);
    tern_ranks *ranks = tern_engine_ranks(engine);
    if (!ranks || ranks->rank == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "rank 0, or one alone, follows nobody");
    follower *f = tern_calloc(1, sizeof *f);
    if (!f) return tern_fail_alloc(err, sizeof *f);
    f->engine = engine;
    f->ranks = ranks;
    const tern_status status = follow(f, err);
    for (int i = 0; i < MAX_RUNNERS; i++)
        if (f->runners[i].engine) close_runner(f, f->runners[i].number);
    while (f->loras) close_lora(f, tern_lora__number(f->loras->lora));
    tern_free(f->room);
    tern_free(f);
    return status;
}
