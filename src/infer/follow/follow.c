/* Ranks 1 to n - 1: receive the messages of rank 0 and do what they say. */
#include "infer/follow/follow.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "infer/session/runner_pages.h"
#include "ranks/ranks.h"

enum { MAX_RUNNERS = 64, MAX_SETS = 1024 };

typedef struct follower_lora {
    tern_lora *lora;
    struct follower_lora *next;
} follower_lora;

/* Graphs beside a runner's first ones. */
typedef struct follower_graphs {
    tern_runner *runner;
    tern_runner_graphs *graphs;
    struct follower_graphs *next;
} follower_graphs;

typedef struct follower {
    tern_engine *engine;
    tern_ranks *ranks;
    tern_runner runners[MAX_RUNNERS]; /* engine NULL: none */
    follower_lora *loras;
    follower_graphs *graphs;
    void *room; /* of values that rank 0 reads */
    uint64_t room_bytes;
} follower;

/* A message of rank 0 with its data. */
typedef struct received {
    tern_bound_message message;
    const void *data;
    size_t bytes;
} received;

static tern_status unknown_number(const char *what, uint32_t number, tern_error *err)
{
    return tern_fail(err, TERN_INTERNAL, "rank 0 speaks of %s %u, which is not here", what, number);
}

/* ---- adapters */

static follower_lora **lora_of(follower *f, uint32_t number)
{
    follower_lora **at = &f->loras;
    while (*at && tern_lora__number((*at)->lora) != number) at = &(*at)->next;
    return at;
}

static tern_status open_lora(follower *f, const received *t, tern_error *err)
{
    tern_lora_header head;
    memcpy(&head, t->data, sizeof head);
    follower_lora *entry = tern_calloc(1, sizeof *entry);
    if (!entry) return tern_fail_alloc(err, sizeof *entry);
    const tern_status status = tern_lora__begin(&entry->lora, f->engine, t->message.number, &head, err);
    if (status != TERN_OK) {
        tern_lora_close(entry->lora);
        tern_free(entry);
        return status;
    }
    entry->next = f->loras;
    f->loras = entry;
    return TERN_OK;
}

static tern_status add_lora_pair(follower *f, const received *t, tern_error *err)
{
    follower_lora *entry = *lora_of(f, t->message.number);
    uint32_t shape[6];
    if (!entry) return unknown_number("adapter", t->message.number, err);
    memcpy(shape, t->data, sizeof shape);
    const size_t n_a = (size_t)shape[5] * shape[4] * shape[2], n_b = (size_t)shape[3] * shape[5];
    float *values = tern_alloc((n_a + n_b) * sizeof *values);
    if (!values) return tern_fail_alloc(err, (n_a + n_b) * sizeof *values);
    memcpy(values, (const uint8_t *)t->data + sizeof shape, (n_a + n_b) * sizeof *values);
    const tern_adapter_pair pair = {
        .in = shape[2], .out = shape[3], .n_experts = shape[4], .a = values, .b = values + n_a};
    const tern_lora_target target = {(tern_role)shape[0], shape[1]};
    const tern_status status = tern_lora__add_pair(entry->lora, &target, &pair, err);
    tern_free(values);
    return status;
}

static void close_lora(follower *f, uint32_t number)
{
    follower_lora **at = lora_of(f, number), *entry = *at;
    if (!entry) return;
    *at = entry->next;
    tern_lora_close(entry->lora);
    tern_free(entry);
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
        tern_follow_lora_use use;
        memcpy(&use, tern_cursor_take(c, sizeof use), sizeof use);
        const follower_lora *entry = *lora_of(f, use.lora);
        if (!entry) return unknown_number("adapter", use.lora, err);
        uses[i] = (tern_lora_use){entry->lora, use.scale};
    }
    *out = (tern_lora_set){uses, n};
    return TERN_OK;
}

static tern_status open_runner(follower *f, const received *t, tern_error *err)
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
    tern_engine__expect_number(f->engine, t->message.number);
    if (status == TERN_OK) status = tern_runner_open(&f->runners[i], f->engine, &params, err);
    tern_free(uses);
    return status;
}

static tern_status add_graphs(follower *f, const received *t, tern_error *err)
{
    tern_runner *runner = runner_of(f, t->message.number);
    const uint32_t n_sets = t->message.n;
    tern_cursor c = tern_cursor_open(t->data, t->bytes);
    const bool additional = tern_cursor_u32(&c) != 0;
    if (!runner) return unknown_number("session", t->message.number, err);
    if (n_sets > MAX_SETS) return tern_fail(err, TERN_LIMIT, "%u sets of adapters", n_sets);
    follower_graphs *entry = tern_calloc(1, sizeof *entry);
    tern_lora_set *sets = tern_calloc(n_sets + 1, sizeof *sets);
    tern_lora_use **uses = tern_calloc(n_sets + 1, sizeof(tern_lora_use *));
    tern_status status = entry && sets && uses ? TERN_OK : tern_fail_alloc(err, n_sets * sizeof *sets);
    for (uint32_t i = 0; i < n_sets && status == TERN_OK; i++) status = read_uses(f, &c, &sets[i], &uses[i], err);
    tern_engine__expect_number(f->engine, t->message.at);
    if (status == TERN_OK) status = tern_runner__make_graphs(runner, sets, n_sets, additional, &entry->graphs, err);
    for (uint32_t i = 0; uses && i < n_sets; i++) tern_free(uses[i]);
    tern_free(uses);
    tern_free(sets);
    if (status != TERN_OK) {
        tern_free(entry);
        return status;
    }
    entry->runner = runner;
    entry->next = f->graphs;
    f->graphs = entry;
    return TERN_OK;
}

/* Those of a number, or with 0 all of a runner. */
static void drop_graphs(follower *f, const tern_runner *runner, uint32_t number)
{
    for (follower_graphs **at = &f->graphs; *at;) {
        follower_graphs *entry = *at;
        if (number ? entry->graphs->number != number : entry->runner != runner) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        tern_runner_drop_graphs(entry->runner, entry->graphs);
        tern_free(entry);
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
    for (follower_graphs *h = f->graphs; h && !found; h = h->next) found = find_graph(h->graphs, number);
    return found;
}

static tern_status start_graph(follower *f, const received *t, tern_error *err)
{
    tern_bound_graph *g = graph_of(f, t->message.number);
    if (!g) return unknown_number("graph", t->message.number, err);
    if (t->bytes != g->graph->param_bytes)
        return tern_fail(err, TERN_INTERNAL, "rank 0 starts graph %u with %zu bytes: %llu expected", t->message.number,
                         t->bytes, (unsigned long long)g->graph->param_bytes);
    memcpy(g->staging, t->data, t->bytes);
    return tern_bound_start(g, t->message.n, err);
}

/* The logits that rank 0 wants to read of a step; the first rank of the stage that made it has it. */
static tern_status send_value(follower *f, const received *t, tern_error *err)
{
    tern_bound_graph *g = graph_of(f, t->message.number);
    uint64_t bytes;
    if (!g) return unknown_number("graph", t->message.number, err);
    memcpy(&bytes, t->data, sizeof bytes);
    const uint32_t each = f->ranks->n / g->graph->n_stages;
    if (g->graph->values[t->message.n].stage * each != f->ranks->rank) return TERN_OK;
    if (bytes > f->room_bytes) {
        tern_free(f->room);
        f->room = tern_alloc(tern_size_of(bytes));
        f->room_bytes = f->room ? bytes : 0;
    }
    if (!f->room) return tern_fail_alloc(err, bytes);
    TERN_TRY(tern_bound_read(g, t->message.n, f->room, bytes, err));
    return f->ranks->send(f->ranks, 0, f->room, tern_size_of(bytes), err);
}

/* ---- pages of caches */

static tern_status handle_page(follower *f, const received *t, tern_error *err)
{
    const tern_runner *runner = runner_of(f, t->message.number);
    if (!runner) return unknown_number("session", t->message.number, err);
    if (t->message.kind == TERN_MESSAGE_READ_PAGE)
        return tern_runner__send_page(runner, t->message.n, t->message.at, err);
    if (t->message.kind == TERN_MESSAGE_WRITE_PAGE)
        return tern_runner_write_page(runner, t->message.n, t->message.at, t->data, err);
    void *room = tern_alloc(tern_size_of(tern_runner_page_room(runner)));
    if (!room) return tern_fail_alloc(err, tern_runner_page_room(runner));
    const tern_status status = tern_runner_copy_page(runner, t->message.n, t->message.at, room, err);
    tern_free(room);
    return status;
}

static tern_status handle(follower *f, const received *t, tern_error *err)
{
    tern_rank_usage usage[TERN_MAX_RANKS];
    const uint32_t number = t->message.number;
    switch (t->message.kind) {
    case TERN_MESSAGE_OPEN_RUNNER: return open_runner(f, t, err);
    case TERN_MESSAGE_CLOSE_RUNNER: close_runner(f, number); return TERN_OK;
    case TERN_MESSAGE_ADD_GRAPHS: return add_graphs(f, t, err);
    case TERN_MESSAGE_DROP_GRAPHS: drop_graphs(f, NULL, number); return TERN_OK;
    case TERN_MESSAGE_LOAD_LORA: return open_lora(f, t, err);
    case TERN_MESSAGE_ADD_LORA_PAIR: return add_lora_pair(f, t, err);
    case TERN_MESSAGE_UNLOAD_LORA: close_lora(f, number); return TERN_OK;
    case TERN_MESSAGE_USAGE: return tern_follow__gather_usage(f->engine, usage, err);
    case TERN_MESSAGE_START: return start_graph(f, t, err);
    case TERN_MESSAGE_READ_VALUE: return send_value(f, t, err);
    default: return handle_page(f, t, err);
    }
}

static tern_status follow(follower *f, tern_error *err)
{
    for (;;) {
        received t;
        TERN_TRY(f->ranks->hear(f->ranks, &t.message, sizeof t.message, &t.data, &t.bytes, err));
        if (t.message.kind == TERN_MESSAGE_END) return TERN_OK;
        TERN_TRY(handle(f, &t, err));
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
