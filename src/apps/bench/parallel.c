/* tern bench --parallel: many sequences in one step, how a prompt that comes in holds them up, and what a prefix that
 * is there saves. */
#include <stdio.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "apps/open.h"
#include "base/alloc.h"
#include "base/rng.h"

enum {
    SHORT_PROMPT = 16,
    WARM_STEPS = 4,
    LONG_PROMPT = 2000,
    PREFIX = 1000,
    SPARE = 64, /* positions behind a prompt */
    STREAMS = 4,
    MAX_COUNTS = 16,
    VOCAB = 60
};

/* When tokens of one request came. */
typedef struct heard {
    uint32_t n_tokens;
    double submitted, first, last, longest; /* seconds; the longest time between two tokens */
} heard;

static bool hear(void *context, const tern_request_piece *piece)
{
    heard *h = context;
    const double now = tern_app_seconds();
    if (piece->id < 0) return true;
    if (h->n_tokens++ == 0) h->first = now;
    else if (now - h->last > h->longest) h->longest = now - h->last;
    h->last = now;
    return !tern_app_interrupted();
}

static tern_status submit(tern_batch *batch, const int32_t *ids, uint32_t n, uint32_t max_tokens, heard *h,
                          tern_request **request, tern_error *err)
{
    *h = (heard){.submitted = tern_app_seconds()};
    tern_request_params params = {.size = sizeof params,
                                  .prompt = ids,
                                  .n_prompt = n,
                                  .sampler = TERN_SAMPLER_DEFAULTS,
                                  .max_tokens = max_tokens,
                                  .ignore_eos = true,
                                  .on_piece = hear,
                                  .context = h};
    params.sampler.temperature = 0;
    return tern_batch_submit(batch, &params, request, err);
}

static tern_status step(tern_batch *batch, bool *busy, tern_error *err)
{
    if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    return tern_batch_step(batch, busy, err);
}

/* Steps until all of n requests have had so many tokens, or nothing is left to do. */
static tern_status run_until(tern_batch *batch, const heard *h, uint32_t n, uint32_t n_tokens, tern_error *err)
{
    for (bool busy = true, wanting = true; busy && wanting;) {
        TERN_TRY(step(batch, &busy, err));
        wanting = false;
        for (uint32_t i = 0; i < n; i++) wanting = wanting || h[i].n_tokens < n_tokens;
    }
    return TERN_OK;
}

/* The state of one run. */
typedef struct parallel {
    const tern_options *o;
    tern_engine *engine;
    tern_bench_profile *profile; /* [2]: of the steps that are measured, and of all before; NULL: none is wanted */
    tern_batch *batch;
    int32_t *ids; /* [LONG_PROMPT] */
    heard *heard;
    tern_request **requests;
    uint32_t n;
} parallel;

static tern_status end_all(parallel *p, tern_error *err)
{
    for (uint32_t i = 0; i < p->n; i++) {
        tern_request_free(p->requests[i]);
        p->requests[i] = NULL;
    }
    for (bool busy = true; busy;) TERN_TRY(tern_batch_step(p->batch, &busy, err));
    return TERN_OK;
}

/* Positions of a sequence whose decode is measured. */
static uint32_t rate_ctx(const tern_options *o)
{
    return SHORT_PROMPT + o->n_tokens + WARM_STEPS + 1;
}

/* All pages are written once: the system clears memory when it is first used, of a server in its first minutes. Written
 * text begins with other tokens than measured text, so that no prefix is shared. */
static tern_status fill_pages(parallel *p, uint32_t n_ctx, tern_error *err)
{
    const uint32_t n = n_ctx - 1 < LONG_PROMPT ? n_ctx - 1 : LONG_PROMPT;
    for (uint32_t i = 0; i < p->n; i++)
        TERN_TRY(submit(p->batch, p->ids + LONG_PROMPT - n + i, n, 1, &p->heard[i], &p->requests[i], err));
    TERN_TRY(run_until(p->batch, p->heard, p->n, 1, err));
    return end_all(p, err);
}

/* Tokens per second of all together, while all decode. */
static tern_status decode_rate(parallel *p, double *rate, tern_error *err)
{
    const uint32_t n_tokens = p->o->n_tokens;
    for (uint32_t i = 0; i < p->n; i++)
        TERN_TRY(submit(p->batch, p->ids + i, SHORT_PROMPT, rate_ctx(p->o) - SHORT_PROMPT, &p->heard[i],
                        &p->requests[i], err));
    TERN_TRY(run_until(p->batch, p->heard, p->n, WARM_STEPS, err));
    if (p->profile) TERN_TRY(tern_bench_profile_take(p->engine, &p->profile[1], err));
    uint32_t before = 0, after = 0;
    for (uint32_t i = 0; i < p->n; i++) before += p->heard[i].n_tokens;
    const double start = tern_app_seconds();
    TERN_TRY(run_until(p->batch, p->heard, p->n, n_tokens + WARM_STEPS, err));
    const double seconds = tern_app_seconds() - start;
    for (uint32_t i = 0; i < p->n; i++) after += p->heard[i].n_tokens;
    *rate = (after - before) / seconds;
    if (!p->profile) return TERN_OK;
    TERN_TRY(tern_bench_profile_take(p->engine, p->profile, err));
    tern_bench_profile_subtract(p->profile, &p->profile[1]);
    p->profile->n_tokens = n_tokens;
    p->profile->wall_ms = seconds * 1e3;
    return TERN_OK;
}

static tern_status open_parallel(parallel *p, tern_engine *engine, uint32_t n, uint32_t n_ctx, tern_error *err)
{
    const tern_batch_params params = {.size = sizeof params, .n_parallel = n, .n_ctx = n_ctx};
    p->n = n;
    p->engine = engine;
    p->heard = tern_calloc(n, sizeof *p->heard);
    p->requests = tern_calloc(n, sizeof(tern_request *));
    p->ids = tern_calloc((size_t)LONG_PROMPT + n, sizeof *p->ids);
    if (!p->heard || !p->requests || !p->ids) return tern_fail_alloc(err, LONG_PROMPT * sizeof *p->ids);
    tern_rng rng = {1};
    for (uint32_t i = 0; i < LONG_PROMPT + n; i++) p->ids[i] = (int32_t)tern_rng_below(&rng, VOCAB);
    return tern_batch_open(&p->batch, engine, &params, err);
}

static void close_parallel(parallel *p)
{
    if (p->batch) end_all(p, NULL);
    tern_batch_close(p->batch);
    tern_free(p->heard);
    tern_free(p->requests);
    tern_free(p->ids);
}

static tern_status measure_rate(const tern_options *o, tern_engine *engine, uint32_t n, double *rate,
                                tern_bench_profile *profile, tern_error *err)
{
    parallel p = {.o = o, .profile = profile};
    tern_status status = open_parallel(&p, engine, n, rate_ctx(o), err);
    if (status == TERN_OK) status = fill_pages(&p, rate_ctx(o), err);
    if (status == TERN_OK) status = decode_rate(&p, rate, err);
    close_parallel(&p);
    return status;
}

/* Time to the first token of a prompt, and of one that shares all but its last tokens. */
static tern_status measure_prefix(const tern_options *o, tern_engine *engine, double *cold, double *warm,
                                  tern_error *err)
{
    parallel p = {.o = o};
    double *const times[2] = {cold, warm};
    tern_status status = open_parallel(&p, engine, 1, PREFIX + SPARE, err);
    for (uint32_t i = 0; i < 2 && status == TERN_OK; i++) {
        p.ids[PREFIX] = (int32_t)i; /* the first token that is not shared */
        status = submit(p.batch, p.ids, PREFIX + 8, 1, p.heard, p.requests, err);
        if (status == TERN_OK) status = run_until(p.batch, p.heard, 1, 1, err);
        *times[i] = p.heard->first - p.heard->submitted;
        if (status == TERN_OK) status = end_all(&p, err);
    }
    close_parallel(&p);
    return status;
}

/* The times between two tokens of streams that decode, in seconds: the longest, and their mean. */
typedef struct gaps {
    double longest, mean;
} gaps;

/* Alone, and while a long prompt comes in. */
typedef struct stall {
    uint32_t n_prompt;
    gaps alone, beside;
} stall;

/* From now on. */
static void begin_gaps(parallel *p, heard before[STREAMS])
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        p->heard[i].longest = 0;
        before[i] = p->heard[i];
    }
}

static gaps end_gaps(const parallel *p, const heard before[STREAMS])
{
    gaps g = {0};
    double seconds = 0, n = 0;
    for (uint32_t i = 0; i < STREAMS; i++) {
        const heard *now = &p->heard[i];
        if (now->longest > g.longest) g.longest = now->longest;
        seconds += now->last - before[i].last;
        n += now->n_tokens - before[i].n_tokens;
    }
    g.mean = n > 0 ? seconds / n : 0;
    return g;
}

/* The streams go on for as long as the prompt needs: a token of theirs in each step that takes a part of it. */
static tern_status time_stall(parallel *p, stall *s, tern_error *err)
{
    heard before[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++)
        TERN_TRY(submit(p->batch, p->ids + i, SHORT_PROMPT, s->n_prompt, &p->heard[i], &p->requests[i], err));
    TERN_TRY(run_until(p->batch, p->heard, STREAMS, WARM_STEPS, err));
    begin_gaps(p, before);
    TERN_TRY(run_until(p->batch, p->heard, STREAMS, WARM_STEPS + p->o->n_tokens, err));
    s->alone = end_gaps(p, before);
    begin_gaps(p, before);
    TERN_TRY(submit(p->batch, p->ids, s->n_prompt, 1, &p->heard[STREAMS], &p->requests[STREAMS], err));
    TERN_TRY(run_until(p->batch, p->heard + STREAMS, 1, 1, err));
    s->beside = end_gaps(p, before);
    return TERN_OK;
}

static tern_status measure_stall(const tern_options *o, tern_engine *engine, stall *s, tern_error *err)
{
    parallel p = {.o = o};
    tern_engine_info info = {.size = sizeof info};
    TERN_TRY(tern_engine_describe(engine, &info, err));
    s->n_prompt = info.n_ctx_train < LONG_PROMPT + SPARE ? info.n_ctx_train - SPARE : LONG_PROMPT;
    tern_status status = open_parallel(&p, engine, STREAMS + 1, s->n_prompt + SPARE, err);
    if (status == TERN_OK) status = time_stall(&p, s, err);
    close_parallel(&p);
    return status;
}

/* The result of one number of sequences; profile: [2], NULL: none is wanted. */
typedef struct result {
    uint32_t n_sequences;
    double rate;
    tern_bench_profile *profile;
} result;

static void print_rate(const result *r, const result *first)
{
    char title[64];
    printf("%3u sequences: %8.1f tokens/s together, %.2f times %s\n", r->n_sequences, r->rate, r->rate / first->rate,
           r == first ? "itself" : "the first");
    if (!r->profile) return;
    snprintf(title, sizeof title, "a step of %u sequences", r->n_sequences);
    tern_bench_print_one_profile(r->profile, title, r->profile->n_tokens, 0, 0);
}

static json_t *rate_json(const result *r)
{
    return json_pack("{s:i, s:f, s:o*}", "sequences", (int)r->n_sequences, "tokens_per_second", r->rate, "profile",
                     r->profile ? tern_bench_one_profile_json(r->profile) : NULL);
}

static tern_status print(const tern_options *o, const result *results, uint32_t n, double cold, double warm,
                         const stall *s, tern_error *err)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(list, rate_json(&results[i]));
        if (!o->json) print_rate(&results[i], &results[0]);
    }
    if (o->json)
        return tern_app_print_json(
            json_pack("{s:o, s:{s:i, s:f, s:f}, s:{s:i, s:f, s:f, s:f, s:f}}", "decode", list, "prefix", "tokens",
                      PREFIX, "first_seconds", cold, "second_seconds", warm, "prompt", "tokens", (int)s->n_prompt,
                      "longest_gap_seconds_before", s->alone.longest, "longest_gap_seconds", s->beside.longest,
                      "mean_gap_seconds_before", s->alone.mean, "mean_gap_seconds", s->beside.mean),
            err);
    json_decref(list);
    if (cold > 0)
        printf("first token after %d tokens: %.2f s; with them in the cache: %.3f s, %.1f times sooner\n", PREFIX, cold,
               warm, cold / warm);
    if (s->beside.mean > 0)
        printf("time between tokens of %d sequences: mean %.0f ms, at most %.0f; while a prompt of %u tokens comes in: "
               "%.0f ms, %.1f times that, at most %.0f\n",
               STREAMS, 1e3 * s->alone.mean, 1e3 * s->alone.longest, s->n_prompt, 1e3 * s->beside.mean,
               s->beside.mean / s->alone.mean, 1e3 * s->beside.longest);
    return TERN_OK;
}

static tern_status measure_all(const tern_options *o, tern_engine *engine, result *results, uint32_t n, tern_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        result *r = &results[i];
        if (o->profile) r->profile = tern_calloc(2, sizeof *r->profile);
        if (o->profile && !r->profile) return tern_fail_alloc(err, 2 * sizeof *r->profile);
        TERN_TRY(measure_rate(o, engine, r->n_sequences, &r->rate, r->profile, err));
    }
    return TERN_OK;
}

tern_status tern_bench_parallel(const tern_options *o, tern_error *err)
{
    result results[MAX_COUNTS] = {0};
    uint32_t counts[MAX_COUNTS], n = 0, n_threads = 0, one;
    double cold = 0, warm = 0;
    stall s = {0};
    tern_engine *engine = NULL;
    if (o->n_tokens == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--parallel measures decode: -n above 0 expected");
    TERN_TRY(tern_app_parse_list("parallel", o->parallel, TERN_BATCH_MAX_PARALLEL, counts, MAX_COUNTS, &n, err));
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, &n_threads, 1, &one, err));
    for (uint32_t i = 0; i < n; i++) results[i].n_sequences = counts[i];
    tern_status status = tern_app_open_engine_with(&engine, o, true, n_threads, err);
    if (status == TERN_OK) status = measure_all(o, engine, results, n, err);
    if (status == TERN_OK && o->n_prompt) status = measure_prefix(o, engine, &cold, &warm, err);
    if (status == TERN_OK && o->n_prompt) status = measure_stall(o, engine, &s, err);
    tern_engine_close(engine);
    if (status == TERN_OK) status = print(o, results, n, cold, warm, &s, err);
    for (uint32_t i = 0; i < n; i++) tern_free(results[i].profile);
    return status;
}
