/* Telling other ranks what to do, and doing what rank 0 tells. */
#include "infer/follow.h"

#include <string.h>
#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/show.h"

static tern_status tell(tern_ranks *ranks, uint32_t what, uint32_t number, tern_error *err)
{
    const tern_bound_message message = {.what = what, .number = number};
    return ranks->tell(ranks, &message, sizeof message, err);
}

tern_status tern_follow__opens(tern_runner *runner, tern_error *err)
{
    tern_ranks *ranks = tern_engine_ranks(runner->engine);
    tern_runner_params params = runner->params;
    if (!ranks) return TERN_OK;
    runner->number = tern_engine__next_number(runner->engine);
    if (ranks->rank != 0) return TERN_OK;
    params.loras = NULL;
    TERN_TRY(tell(ranks, TERN_TOLD_OPEN, runner->number, err));
    return ranks->tell(ranks, &params, sizeof params, err);
}

void tern_follow__closes(tern_runner *runner)
{
    tern_ranks *ranks = tern_engine_ranks(runner->engine);
    tern_error ignored = {0}; /* a rank that is gone is told of by the next step */
    if (ranks && ranks->rank == 0 && runner->number) tell(ranks, TERN_TOLD_CLOSE, runner->number, &ignored);
}

void tern_follow__end(tern_engine *engine)
{
    tern_ranks *ranks = tern_engine_ranks(engine);
    tern_error ignored = {0};
    if (ranks && ranks->rank == 0 && tern_engine_model(engine)) tell(ranks, TERN_TOLD_END, 0, &ignored);
}

/* ---- one file for all */

enum { BEGINNING = 1 << 20, PIECE = 4096, PIECES = 64 };

/* What two files that differ hardly share: the size, the beginning, and pieces from all over the rest. */
static tern_status sum_of_bytes(const uint8_t *data, size_t size, char sum[TERN_SHA256_DIGITS + 1], tern_error *err)
{
    tern_buf parts = {0};
    const uint64_t whole = size;
    tern_status status = tern_buf_add(&parts, &whole, sizeof whole, err);
    const size_t head = size < BEGINNING ? size : BEGINNING, rest = size - head;
    if (status == TERN_OK) status = tern_buf_add(&parts, data, head, err);
    for (size_t i = 0; i < PIECES && rest > PIECE && status == TERN_OK; i++)
        status = tern_buf_add(&parts, data + head + (rest - PIECE) / (PIECES - 1) * i, PIECE, err);
    if (status == TERN_OK) status = tern_sha256(parts.data, parts.size, sum, err);
    tern_buf_deinit(&parts);
    return status;
}

static tern_status sum_of(const char *path, char sum[TERN_SHA256_DIGITS + 1], tern_error *err)
{
    tern_file_map map;
    char *config = tern_file_is_dir(path) ? tern_path_join(path, "config.json") : NULL;
    tern_status status = tern_file_map_open(&map, config ? config : path, err);
    tern_free(config);
    TERN_TRY(status);
    status = sum_of_bytes(map.data, map.size, sum, err);
    tern_file_map_close(&map);
    return status;
}

tern_status tern_follow__agree(tern_ranks *ranks, const char *path, tern_error *err)
{
    char mine[TERN_SHA256_DIGITS + 1], all[TERN_MAX_RANKS][TERN_SHA256_DIGITS + 1];
    size_t bytes[TERN_MAX_RANKS];
    TERN_TRY(sum_of(path, mine, err));
    for (uint32_t i = 0; i < ranks->n; i++) bytes[i] = sizeof mine;
    TERN_TRY(ranks->gather(ranks, mine, bytes, all, err));
    for (uint32_t i = 1; i < ranks->n; i++)
        if (memcmp(all[i], all[0], sizeof mine) != 0)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "%s: rank %u has another file there than rank 0 (SHA-256 of its size, beginning and parts "
                             "%.12s, %.12s expected)",
                             tern_show_z(path).text, i, all[i], all[0]);
    return TERN_OK;
}

/* ---- what each has taken */

static uint64_t peak_bytes(void)
{
#if defined(__linux__)
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) return (uint64_t)usage.ru_maxrss * 1024;
#endif
    return 0;
}

static tern_status gather_usage(tern_engine *engine, tern_rank_usage *all, tern_error *err)
{
    tern_ranks *ranks = tern_engine_ranks(engine);
    const tern_rank_usage mine = {.weight_bytes = tern_model_bytes(tern_engine_model(engine)),
                                  .peak_bytes = peak_bytes()};
    size_t bytes[TERN_MAX_RANKS];
    for (uint32_t i = 0; i < ranks->n; i++) bytes[i] = sizeof mine;
    return ranks->gather(ranks, &mine, bytes, all, err);
}

tern_status tern_engine_usage(tern_engine *engine, tern_rank_usage *usage, tern_error *err)
{
    TERN_NEED(engine, err);
    TERN_NEED(usage, err);
    tern_ranks *ranks = tern_engine_ranks(engine);
    if (!ranks || ranks->rank != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "rank 0 of several asks what all have taken");
    TERN_TRY(tell(ranks, TERN_TOLD_USAGE, 0, err));
    return gather_usage(engine, usage, err);
}

/* ---- following */

enum { MAX_RUNNERS = 64 };

typedef struct follower {
    tern_engine *engine;
    tern_ranks *ranks;
    tern_runner runners[MAX_RUNNERS]; /* engine NULL: none */
} follower;

static tern_runner *runner_of(follower *f, uint32_t number)
{
    for (int i = 0; i < MAX_RUNNERS; i++)
        if (f->runners[i].engine && f->runners[i].number == number) return &f->runners[i];
    return NULL;
}

static tern_status open_runner(follower *f, tern_error *err)
{
    tern_runner_params params;
    size_t bytes;
    int i = 0;
    TERN_TRY(f->ranks->hear(f->ranks, &params, sizeof params, &bytes, err));
    while (i < MAX_RUNNERS && f->runners[i].engine) i++;
    if (i == MAX_RUNNERS)
        return tern_fail(err, TERN_LIMIT, "more than %d sessions at once in %u processes", MAX_RUNNERS, f->ranks->n);
    return tern_runner_open(&f->runners[i], f->engine, &params, err);
}

static tern_bound_graph *graph_of(follower *f, uint32_t number)
{
    for (int i = 0; i < MAX_RUNNERS; i++) {
        tern_runner_graphs *g = f->runners[i].engine ? f->runners[i].graphs : NULL;
        tern_runner_graph *const all[] = {g ? &g->decode : NULL, g ? &g->prefill : NULL, g ? &g->few : NULL,
                                          g ? &g->steps : NULL};
        for (size_t k = 0; g && k < sizeof all / sizeof *all; k++)
            if (all[k]->bound.number == number) return &all[k]->bound;
    }
    return NULL;
}

static tern_status start(follower *f, const tern_bound_message *m, tern_error *err)
{
    size_t bytes;
    tern_bound_graph *g = graph_of(f, m->number);
    if (!g) return tern_fail(err, TERN_INTERNAL, "rank 0 starts graph %u, which is not here", m->number);
    TERN_TRY(f->ranks->hear(f->ranks, g->staging, tern_size_of(g->graph->param_bytes), &bytes, err));
    return tern_bound_start(g, m->n_steps, err);
}

static tern_status follow(follower *f, tern_error *err)
{
    tern_bound_message m;
    tern_rank_usage usage[TERN_MAX_RANKS];
    size_t bytes;
    for (;;) {
        TERN_TRY(f->ranks->hear(f->ranks, &m, sizeof m, &bytes, err));
        switch (m.what) {
        case TERN_TOLD_END: return TERN_OK;
        case TERN_TOLD_OPEN: TERN_TRY(open_runner(f, err)); break;
        case TERN_TOLD_USAGE: TERN_TRY(gather_usage(f->engine, usage, err)); break;
        case TERN_TOLD_CLOSE:
            if (runner_of(f, m.number)) tern_runner_deinit(runner_of(f, m.number));
            break;
        default: TERN_TRY(start(f, &m, err));
        }
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
    for (int i = 0; i < MAX_RUNNERS; i++) tern_runner_deinit(&f->runners[i]);
    tern_free(f);
    return status;
}
