/* Passes over a model with one alternative of each product after the other. */
#include "infer/tune/gpu.h"

#include <string.h>
#include <time.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "infer/session/session.h"

enum { MAX_PROFILE = 512, MOST_BATCH = 512, DECODED = 8, MOST_PASSES = 12, LOW_IDS = 60 };

typedef struct tuner {
    tern_engine *engine;
    const tern_tune_gpu_options *o;
    tern_tune_gpu_result *out;
    tern_profile_row *before, *after; /* [MAX_PROFILE] */
    char device[TERN_KERNEL_DEVICE_BYTES];
    int32_t ids[MOST_BATCH + DECODED];
    uint32_t n_batch, pass;
    tern_error *err;
} tuner;

double tern_tune_gpu_microseconds(const tern_tune_gpu_row *r)
{
    return r->n ? (double)r->ns * 1e-3 / (double)r->n : 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A prompt, and tokens after it. */
static tern_status step(tuner *t, tern_session *s)
{
    tern_session_truncate(s, 0);
    TERN_TRY(tern_session_append(s, t->ids, t->n_batch, t->err));
    for (uint32_t i = 0; i < DECODED; i++) TERN_TRY(tern_session_append(s, t->ids + t->n_batch + i, 1, t->err));
    return TERN_OK;
}

/* Several steps on a session of its own, for the graphs are prepared with the choices. */
static tern_status run(tuner *t, size_t *n_before, size_t *n_after)
{
    tern_backend *b = tern_engine_backend(t->engine);
    const tern_session_params how = {.size = sizeof how, .n_ctx = t->n_batch + DECODED, .n_batch = t->n_batch};
    tern_session *s;
    TERN_TRY(tern_session_open(&s, t->engine, &how, t->err));
    tern_status status = step(t, s);
    *n_before = b->profile(b, t->before, MAX_PROFILE);
    for (const double start = now(); status == TERN_OK;) {
        status = step(t, s);
        if (now() - start >= t->o->seconds) break;
    }
    *n_after = b->profile(b, t->after, MAX_PROFILE);
    tern_session_close(s);
    if (status == TERN_OK && *n_after > MAX_PROFILE)
        return tern_fail(t->err, TERN_LIMIT, "more than %d kinds of dispatches", MAX_PROFILE);
    return status;
}

static bool same_product(const tern_kernel_choice *a, const tern_kernel_choice *b)
{
    return a->encoding == b->encoding && a->rows == b->rows && a->cols == b->cols && a->tokens == b->tokens;
}

/* The row of this kernel, behind those of its product; NULL: there is no room. */
static tern_tune_gpu_row *row_of(tern_tune_gpu_result *out, const tern_kernel_choice *c, const char *usual)
{
    uint32_t i = 0, at = out->n;
    for (; i < out->n; i++) {
        tern_tune_gpu_row *r = &out->rows[i];
        if (!same_product(&r->choice, c) || strcmp(r->usual, usual) != 0) continue;
        if (strcmp(r->choice.kernel, c->kernel) == 0) return r;
        at = i + 1;
    }
    if (out->n == TERN_TUNE_GPU_MAX_ROWS) return NULL;
    memmove(&out->rows[at + 1], &out->rows[at], (out->n - at) * sizeof *out->rows);
    out->n++;
    out->rows[at] = (tern_tune_gpu_row){.choice = *c};
    memcpy(out->rows[at].usual, usual, sizeof out->rows[at].usual);
    return &out->rows[at];
}

/* The table's kernel for the product of a dispatch: the dispatch's own kernel in the first pass. */
static const tern_tune_gpu_row *product_of(const tuner *t, const tern_kernel_choice *c)
{
    char other[TERN_KERNEL_NAME_BYTES];
    const tern_backend *b = tern_engine_backend(t->engine);
    for (uint32_t i = 0; i < t->out->n; i++) {
        const tern_tune_gpu_row *r = &t->out->rows[i];
        if (!same_product(&r->choice, c)) continue;
        for (size_t k = 0; tern_backend_alternative(b, r->usual, k, other); k++)
            if (strcmp(other, c->kernel) == 0) return r;
    }
    return NULL;
}

static tern_status record(tuner *t, const tern_profile_row *p, const tern_profile_row *earlier)
{
    tern_kernel_choice c = {.encoding = p->encoding, .rows = p->rows, .cols = p->cols, .tokens = p->tokens};
    const tern_backend *b = tern_engine_backend(t->engine);
    char other[TERN_KERNEL_NAME_BYTES];
    const uint64_t n = p->n - (earlier ? earlier->n : 0),
                   bytes = p->weight_bytes - (earlier ? earlier->weight_bytes : 0);
    if (!p->tokens || n == 0 || !tern_backend_alternative(b, p->pipeline, 0, other)) return TERN_OK;
    for (size_t k = 0; p->pipeline[k] && k + 1 < sizeof c.kernel; k++)
        c.kernel[k] = (char)(p->pipeline[k] >= 'A' && p->pipeline[k] <= 'Z' ? p->pipeline[k] + 32 : p->pipeline[k]);
    memcpy(c.device, t->device, sizeof c.device);
    const tern_tune_gpu_row *product = product_of(t, &c);
    char usual[TERN_KERNEL_NAME_BYTES];
    memcpy(usual, product ? product->usual : c.kernel, sizeof usual);
    tern_tune_gpu_row *r = row_of(t->out, &c, usual);
    if (!r) return tern_fail(t->err, TERN_LIMIT, "more than %d kernels and products", TERN_TUNE_GPU_MAX_ROWS);
    r->n += n;
    r->ns += p->ns - (earlier ? earlier->ns : 0);
    r->bytes = bytes / n;
    return TERN_OK;
}

static tern_status run_pass(tuner *t, const tern_kernel_choice *choices, size_t n)
{
    size_t n_before, n_after;
    TERN_TRY(tern_backend_choose(tern_engine_backend(t->engine), choices, n, t->err));
    TERN_TRY(run(t, &n_before, &n_after));
    for (size_t i = 0; i < n_after; i++) TERN_TRY(record(t, &t->after[i], i < n_before ? &t->before[i] : NULL));
    t->pass++;
    const float done = (float)t->pass / MOST_PASSES;
    if (!t->o->progress || t->o->progress(t->o->context, done < 1 ? done : 1)) return TERN_OK;
    return tern_fail(t->err, TERN_CANCELLED, "measuring was cancelled");
}

static bool is_usual(const tern_tune_gpu_row *r)
{
    return strcmp(r->choice.kernel, r->usual) == 0;
}

/* The i-th alternative of every product that has so many; how many have. */
static size_t alternatives(const tuner *t, size_t i, tern_kernel_choice *out)
{
    const tern_backend *b = tern_engine_backend(t->engine);
    size_t n = 0;
    for (uint32_t k = 0; k < t->out->n; k++) {
        const tern_tune_gpu_row *r = &t->out->rows[k];
        char name[TERN_KERNEL_NAME_BYTES] = "";
        if (!is_usual(r) || !tern_backend_alternative(b, r->usual, i, name)) continue;
        out[n] = r->choice;
        memcpy(out[n++].kernel, name, sizeof name);
    }
    return n;
}

static const tern_tune_gpu_row *fastest_of(const tern_tune_gpu_result *out, const tern_tune_gpu_row *usual)
{
    const tern_tune_gpu_row *best = usual;
    for (uint32_t i = 0; i < out->n; i++) {
        const tern_tune_gpu_row *r = &out->rows[i];
        if (same_product(&r->choice, &usual->choice) && strcmp(r->usual, usual->usual) == 0 &&
            tern_tune_gpu_microseconds(r) < tern_tune_gpu_microseconds(best))
            best = r;
    }
    return best;
}

/* The winners by the margin; `mark` makes them the best of their products. */
static size_t winners(tern_tune_gpu_result *out, tern_kernel_choice *choices, bool mark)
{
    size_t n = 0;
    for (uint32_t i = 0; i < out->n; i++) {
        tern_tune_gpu_row *r = &out->rows[i];
        if (!is_usual(r)) continue;
        const tern_tune_gpu_row *best = fastest_of(out, r);
        const bool wins = tern_tune_gpu_microseconds(best) < (1 - TERN_TUNE_GPU_MARGIN) * tern_tune_gpu_microseconds(r);
        if (mark) out->rows[wins ? best - out->rows : r - out->rows].best = true;
        if (wins) choices[n++] = best->choice;
    }
    return n;
}

/* Those that have won run once more, with the table's before and after: all that was measured of both counts. */
static tern_status confirm_winners(tuner *t, tern_kernel_choice *choices)
{
    const size_t n = winners(t->out, choices, false);
    if (n) TERN_TRY(run_pass(t, choices, n));
    if (n) TERN_TRY(run_pass(t, NULL, 0));
    winners(t->out, choices, true);
    return TERN_OK;
}

static tern_status measure(tuner *t)
{
    tern_kernel_choice *choices = tern_calloc(TERN_TUNE_GPU_MAX_ROWS, sizeof *choices);
    if (!choices) return tern_fail_alloc(t->err, TERN_TUNE_GPU_MAX_ROWS * sizeof *choices);
    tern_status status = run_pass(t, NULL, 0);
    size_t n = 1;
    for (size_t i = 0; status == TERN_OK && (n = alternatives(t, i, choices)) > 0; i++)
        status = run_pass(t, choices, n);
    if (status == TERN_OK) status = confirm_winners(t, choices);
    tern_backend_choose(tern_engine_backend(t->engine), NULL, 0, NULL);
    tern_free(choices);
    return status;
}

tern_status tern_tune_gpu(tern_engine *engine, const tern_tune_gpu_options *options, tern_tune_gpu_result *out,
                          tern_error *err)
{
    const tern_config *c = tern_engine_config(engine);
    if (options->n_batch > MOST_BATCH)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "batch of %u tokens: 1 to %d expected", options->n_batch,
                         MOST_BATCH);
    tuner t = {.engine = engine,
               .o = options,
               .out = out,
               .err = err,
               .n_batch = options->n_batch ? options->n_batch : MOST_BATCH};
    out->n = 0;
    if (!tern_backend_key(tern_engine_backend(engine), t.device))
        return tern_fail(err, TERN_UNSUPPORTED, "backend \"%s\": it has no choice of kernels; vulkan or cuda expected",
                         tern_engine_backend(engine)->info.name);
    if (c->n_ctx_train < t.n_batch + DECODED)
        t.n_batch = c->n_ctx_train > 2 * DECODED ? c->n_ctx_train - DECODED : DECODED;
    const uint32_t n_ids = c->n_vocab < LOW_IDS ? c->n_vocab : LOW_IDS;
    for (uint32_t i = 0; i < t.n_batch + DECODED; i++) t.ids[i] = (int32_t)(i * 7 % n_ids);
    t.before = tern_calloc(MAX_PROFILE, sizeof *t.before);
    t.after = tern_calloc(MAX_PROFILE, sizeof *t.after);
    tern_status status = t.before && t.after ? measure(&t) : tern_fail_alloc(err, 2 * MAX_PROFILE * sizeof *t.before);
    tern_free(t.before);
    tern_free(t.after);
    return status;
}
