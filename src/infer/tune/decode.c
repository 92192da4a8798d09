/* Two engines on one model take turns: a few tokens of the one, a few of the other. */
#include "infer/tune/decode.h"

#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "infer/engine/engine.h"
#include "infer/session/session.h"

enum { POSITIONS = 64, LEAST_PAIRS = 4, PAIRS = 16, MAX_TIMES = 1 << 13, LOW_IDS = 60 };

/* The defaults, or the choices. */
typedef struct side {
    tern_engine *engine;
    tern_session *session;
    size_t n_choices;
    double *times; /* [MAX_TIMES] seconds of each token */
    size_t n;
    double total;
} side;

typedef struct comparison {
    const tern_tune_decode_options *o;
    side sides[2];
    uint32_t n_ctx, n_prompt;
} comparison;

static double now(const comparison *c, const side *s)
{
    struct timespec t;
    if (c->o->clock) return c->o->clock(c->o->context, s->n_choices);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int32_t id_at(const side *s, uint32_t position)
{
    const uint32_t n = tern_engine_config(s->engine)->n_vocab;
    return (int32_t)(position * 7 % (n < LOW_IDS ? n : LOW_IDS));
}

static tern_status append(side *s, tern_error *err)
{
    const int32_t id = id_at(s, tern_session_n_tokens(s->session));
    return tern_session_append(s->session, &id, 1, err);
}

static tern_status open_side(comparison *c, side *s, const tern_kernel_choice *choices, size_t n, tern_error *err)
{
    tern_engine_params params = {.backend = c->o->backend};
    const tern_model_options how = {.no_tokenizer = true};
    params.backend.choices = choices;
    params.backend.n_choices = n;
    s->n_choices = n;
    if (!s->times) s->times = tern_calloc(MAX_TIMES, sizeof *s->times);
    if (!s->times) return tern_fail_alloc(err, MAX_TIMES * sizeof *s->times);
    TERN_TRY(tern_engine_open_path(&s->engine, c->o->path, &how, &params, err));
    const uint32_t most = tern_engine_config(s->engine)->n_ctx_train;
    c->n_ctx = most && most < POSITIONS ? most : POSITIONS;
    c->n_prompt = c->n_ctx / 4;
    TERN_TRY(tern_session_open(&s->session, s->engine, &TERN_SIZED(tern_session_params, .n_ctx = c->n_ctx), err));
    for (uint32_t i = 0; i < c->n_prompt; i++) TERN_TRY(append(s, err));
    return TERN_OK;
}

static void close_side(side *s)
{
    tern_session_close(s->session);
    tern_engine_close(s->engine);
    s->session = NULL;
    s->engine = NULL;
}

/* The first token of a turn finds its threads asleep and its vectors in no cache, and does not count. */
static tern_status take_turn(comparison *c, side *s, tern_error *err)
{
    double spent = 0;
    tern_session_truncate(s->session, c->n_prompt);
    for (uint32_t i = c->n_prompt; i < c->n_ctx && s->n < MAX_TIMES; i++) {
        const double start = now(c, s);
        TERN_TRY(append(s, err));
        const double took = now(c, s) - start;
        if (i == c->n_prompt) continue;
        s->times[s->n++] = took;
        s->total += took;
        spent += took;
        if (spent * PAIRS >= c->o->seconds) break;
    }
    return TERN_OK;
}

static tern_status report(const comparison *c, double done, tern_error *err)
{
    if (!c->o->progress || c->o->progress(c->o->context, (float)(done < 1 ? done : 1))) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "measuring was cancelled");
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double tokens_per_second(side *s)
{
    qsort(s->times, s->n, sizeof *s->times, by_value);
    const double median = s->n ? s->times[s->n / 2] : 0;
    return median > 0 ? 1 / median : 0;
}

/* A B B A A B B A ...: what changes over time changes for both. */
static tern_status run_rounds(comparison *c, tern_tune_round *out, tern_error *err)
{
    const double seconds = 2 * c->o->seconds;
    side *a = &c->sides[0], *b = &c->sides[1];
    for (int i = 0; i < 2; i++) c->sides[i].n = 0, c->sides[i].total = 0;
    for (uint32_t pair = 0;
         pair < LEAST_PAIRS || (a->total + b->total < seconds && pair < MAX_TIMES && a->n < MAX_TIMES); pair++) {
        TERN_TRY(take_turn(c, pair % 2 ? b : a, err));
        TERN_TRY(take_turn(c, pair % 2 ? a : b, err));
        TERN_TRY(report(c, seconds > 0 ? (a->total + b->total) / seconds : 1, err));
    }
    *out =
        (tern_tune_round){.n_choices = b->n_choices, .standard = tokens_per_second(a), .tuned = tokens_per_second(b)};
    return TERN_OK;
}

static tern_status run(comparison *c, const tern_kernel_choice *choices, size_t n, tern_tune_decode_result *out,
                       tern_error *err)
{
    if (n) TERN_TRY(open_side(c, &c->sides[0], NULL, 0, err));
    for (; n && out->n_rounds < TERN_TUNE_MAX_ROUNDS; n /= 2) {
        tern_tune_round *round = &out->rounds[out->n_rounds];
        TERN_TRY(open_side(c, &c->sides[1], choices, n, err));
        TERN_TRY(run_rounds(c, round, err));
        close_side(&c->sides[1]);
        out->n_rounds++;
        if (round->tuned >= (1 - TERN_TUNE_NOISE) * round->standard) {
            out->n_keep = n;
            return TERN_OK;
        }
    }
    return TERN_OK;
}

tern_status tern_tune_decode(const tern_tune_decode_options *options, const tern_kernel_choice *choices, size_t n,
                             tern_tune_decode_result *out, tern_error *err)
{
    comparison c = {.o = options};
    *out = (tern_tune_decode_result){0};
    const tern_status status = run(&c, choices, n, out, err);
    for (int i = 0; i < 2; i++) {
        close_side(&c.sides[i]);
        tern_free(c.sides[i].times);
    }
    if (status != TERN_OK) *out = (tern_tune_decode_result){0};
    return status;
}
