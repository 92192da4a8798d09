/* Choosing by what was measured: the fastest, once it has won again. */
#include "backend/cpu/tune/tune.h"

#include <string.h>

#include "backend/cpu/tune/tune_internal.h"
#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { ROUNDS = 5 };

static tern_status reopen(const tern_tune__job *t, tern_tune__kernel *kernel, const tern_tune_row *row, tern_error *err)
{
    tern_cpu__choice choice;
    *kernel = (tern_tune__kernel){0};
    TERN_TRY(tern_cpu__choice_parse(row->kernel, &choice, err));
    return tern_tune__kernel_open(kernel, tern_tune__cpu(t, 0), t->w, choice.candidate, choice.n, t->o->cold_bytes / 2,
                                  err);
}

/* Default and fastest once more, in turns, so that both see the same machine. */
static tern_status confirm(tern_tune__job *t, uint32_t b, tern_error *err)
{
    const tern_tune_row *standard = &t->out->rows[t->out->of[b].standard], *best = &t->out->rows[t->out->of[b].best];
    tern_tune__kernel kernels[2];
    double seconds[2] = {1e30, 1e30};
    tern_status status = reopen(t, &kernels[0], standard, err);
    const tern_status other = status == TERN_OK ? reopen(t, &kernels[1], best, err) : status;
    for (int i = 0; i < 2 * ROUNDS && other == TERN_OK; i++) {
        const double took =
            tern_tune__measure(t, tern_tune__cpu(t, b), &kernels[i % 2], i % 2 ? best : standard, t->o->seconds / 2);
        if (took < seconds[i % 2]) seconds[i % 2] = took;
    }
    tern_tune__kernel_close(&kernels[0], tern_tune__cpu(t, 0));
    if (status == TERN_OK) tern_tune__kernel_close(&kernels[1], tern_tune__cpu(t, 0));
    TERN_TRY(other);
    t->out->of[b].standard_seconds = seconds[0];
    t->out->of[b].best_seconds = seconds[1];
    return TERN_OK;
}

static tern_status choose(tern_tune__job *t, uint32_t b, tern_error *err)
{
    const double margin = 1 - TERN_TUNE_MARGIN;
    tern_tune_result *out = t->out;
    const double standard = out->rows[out->of[b].standard].seconds, best = out->rows[out->of[b].best].seconds;
    out->of[b].standard_seconds = standard;
    out->of[b].best_seconds = best;
    if (t->o->defaults_only) return TERN_OK;
    if (best < margin * standard) TERN_TRY(confirm(t, b, err));
    if (out->of[b].best_seconds < margin * out->of[b].standard_seconds) return TERN_OK;
    out->of[b].best = out->of[b].standard;
    out->of[b].best_seconds = out->of[b].standard_seconds;
    return TERN_OK;
}

static tern_status run(tern_tune__job *t, tern_error *err)
{
    TERN_TRY(tern_tune__open(t, err));
    TERN_TRY(tern_tune__measure_all(t, err));
    for (uint32_t b = 0; b < t->o->n_backends; b++) TERN_TRY(choose(t, b, err));
    return TERN_OK;
}

tern_status tern_cpu_tune(const tern_weight *w, const tern_tune_options *options, tern_tune_result *out,
                          tern_error *err)
{
    tern_tune__job t = {.w = w, .o = options, .out = out};
    *out = (tern_tune_result){0};
    if (!w->encoding->ternary || !w->data)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s found, ternary weights in memory expected", w->name,
                         w->encoding->name);
    if (options->n_backends == 0 || options->n_backends > TERN_TUNE_MAX_BACKENDS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u numbers of threads: 1 to %d expected", options->n_backends,
                         TERN_TUNE_MAX_BACKENDS);
    const tern_status status = run(&t, err);
    tern_tune__close(&t);
    return status;
}

void tern_tune_result_deinit(tern_tune_result *result)
{
    tern_free(result->rows);
    *result = (tern_tune_result){0};
}
