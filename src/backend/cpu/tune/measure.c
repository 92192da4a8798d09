/* Measuring: every candidate, with its numbers and row splits, on every backend. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/tune/tune_internal.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "quant/weight.h"

static const uint32_t row_splits[] = {0, 32, 64, 128, 256, 512, 1024};
static const double near_best = 1.25;

static double now(const tern_tune__job *t, const tern_tune_row *row)
{
    struct timespec s;
    if (t->o->clock) return t->o->clock(t->o->context, row);
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (double)s.tv_sec + 1e-9 * (double)s.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tern_tune__measure(tern_tune__job *t, tern_cpu *cpu, tern_tune__kernel *kernel, const tern_tune_row *row,
                          double seconds)
{
    double start = now(t, row), end;
    const double begun = start;
    size_t n = 0;
    pthread_mutex_lock(&cpu->running);
    do {
        tern_tune__multiply(t, cpu, kernel, row->task_rows);
        end = now(t, row);
        t->times[n++] = end - start;
        start = end;
    } while (n < TERN_TUNE__MAX_TIMES && end - begun < seconds);
    pthread_mutex_unlock(&cpu->running);
    qsort(t->times, n, sizeof *t->times, by_value);
    return t->times[n / 50];
}

static tern_status announce(const tern_tune__job *t, const tern_tune_row *row, tern_error *err)
{
    if (!t->o->progress || t->o->progress(t->o->context, row)) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "measuring was cancelled");
}

static tern_status add_row(tern_tune_result *out, const tern_tune_row *row, tern_error *err)
{
    void *rows = out->rows;
    TERN_TRY(tern_grow(&rows, &out->cap, out->n + 1, sizeof *row, err));
    out->rows = rows;
    out->rows[out->n++] = *row;
    return TERN_OK;
}

static tern_status measure_split(tern_tune__job *t, tern_tune__kernel *kernel, uint32_t b, uint32_t task_rows,
                                 double *best, tern_error *err)
{
    tern_cpu *cpu = tern_tune__cpu(t, b);
    tern_tune_row row = {.task_rows = task_rows, .n_threads = tern_pool_threads(cpu->pool), .bytes = kernel->bytes};
    memcpy(row.kernel, kernel->name, sizeof row.kernel);
    TERN_TRY(announce(t, &row, err));
    row.seconds = tern_tune__measure(t, cpu, kernel, &row, t->o->seconds);
    if (row.seconds < *best) {
        *best = row.seconds;
        t->out->of[b].best = t->out->n;
    }
    return add_row(t->out, &row, err);
}

/* A split in whole steps of the layout; 0 when it is the default's, or too large. */
static uint32_t split_of(const tern_buffer *buffer, uint32_t rows, uint32_t n_threads)
{
    const uint32_t step = buffer->layout && buffer->layout->row_step ? buffer->layout->row_step : 1;
    const uint32_t n = (rows + step - 1) / step * step;
    return n > TERN_KERNEL_MAX_TASK_ROWS || n >= buffer->weight->rows || n == tern_cpu__task_rows(buffer, n_threads)
               ? 0
               : n;
}

/* All row splits on one backend. */
static tern_status measure_kernel(tern_tune__job *t, tern_tune__kernel *kernel, uint32_t b, double *best,
                                  tern_error *err)
{
    TERN_TRY(measure_split(t, kernel, b, 0, best, err));
    TERN_TRY(tern_tune__check(t, kernel, err));
    const uint32_t n_threads = tern_pool_threads(tern_tune__cpu(t, b)->pool);
    const double whole = t->out->rows[t->out->n - 1].seconds;
    for (size_t i = 1; i < sizeof row_splits / sizeof *row_splits && !t->o->defaults_only; i++) {
        const uint32_t n = split_of(kernel->copies[0], row_splits[i], n_threads);
        if (n == 0 || !(whole <= near_best * *best)) continue;
        TERN_TRY(measure_split(t, kernel, b, n, best, err));
        TERN_TRY(tern_tune__check(t, kernel, err));
    }
    return TERN_OK;
}

static tern_status measure_number(tern_tune__job *t, const tern_cpu__candidate *c, uint32_t n, double *best,
                                  tern_error *err)
{
    tern_tune__kernel kernel;
    tern_status status = tern_tune__kernel_open(&kernel, tern_tune__cpu(t, 0), t->w, c, n, t->o->cold_bytes, err);
    if (status == TERN_OK) status = tern_tune__tables_alloc(t, &kernel, err);
    for (uint32_t b = 0; b < t->o->n_backends && status == TERN_OK; b++) {
        if (c == tern_cpu__candidate_at(0)) t->out->of[b].standard = t->out->n;
        status = measure_kernel(t, &kernel, b, &best[b], err);
    }
    tern_tune__kernel_close(&kernel, tern_tune__cpu(t, 0));
    if (status != TERN_UNSUPPORTED && status != TERN_INVALID_ARGUMENT) return status;
    if (err) *err = (tern_error){0};
    return TERN_OK;
}

tern_status tern_tune__measure_all(tern_tune__job *t, tern_error *err)
{
    double best[TERN_TUNE_MAX_BACKENDS];
    for (uint32_t b = 0; b < TERN_TUNE_MAX_BACKENDS; b++) best[b] = 1e30;
    const tern_cpu__candidate *c;
    for (size_t i = 0; (c = tern_cpu__candidate_at(i)) && (i == 0 || !t->o->first_only); i++) {
        const bool numbers = c->parameter && !t->o->defaults_only;
        for (uint32_t n = numbers ? c->tune_min : 0; n <= (numbers ? c->tune_max : 0); n++)
            TERN_TRY(measure_number(t, c, n, best, err));
    }
    return TERN_OK;
}
