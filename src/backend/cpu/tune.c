/* Measuring candidates, and choosing among them by what was measured. */
#include "backend/cpu/tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/tune_parts.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "ops/op.h"

enum { MAX_TIMES = 1 << 14, ROUNDS = 5 };
static const uint32_t row_splits[] = {0, 32, 64, 128, 256, 512, 1024};
static const double near_best = 1.25;

typedef struct tune {
    const tern_weight *w;
    const tern_tune_options *o;
    tern_tune_result *out;
    uint8_t *input; /* one token, as Q8 */
    int32_t *dots, *expected;
    uint8_t *scratch; /* scratch_bytes for each thread */
    size_t scratch_bytes;
    double *times;
    /* of the product that runs */
    const tern_buffer *buffer;
    uint32_t task_rows;
    uint8_t *tables; /* tables_room bytes for each thread, of layouts that want some */
    size_t tables_room;
    uint64_t *made; /* [n_threads]: the product that a thread's tables are of */
    uint64_t n_products;
    uint32_t n_threads; /* of the backend that has most */
} tune;

static tern_cpu *cpu_of(const tune *t, uint32_t b)
{
    return (tern_cpu *)t->o->backends[b];
}

static double now(const tune *t, const tern_tune_row *row)
{
    struct timespec s;
    if (t->o->clock) return t->o->clock(t->o->context, row);
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (double)s.tv_sec + 1e-9 * (double)s.tv_nsec;
}

/* Every thread makes its own tables, once for each product, as the engine does. */
static void *tables_of_thread(tune *t, uint32_t thread)
{
    const tern_cpu__tables *tables = t->buffer->layout->tables;
    uint8_t *own = t->tables + thread * t->tables_room;
    if (t->made[thread] != t->n_products)
        tables->make(&cpu_of(t, 0)->kernels, (const int8_t *)t->input, t->w->cols, own);
    t->made[thread] = t->n_products;
    return own;
}

static void multiply_task(void *context, uint32_t task, uint32_t thread)
{
    tune *t = context;
    const tern_buffer *b = t->buffer;
    const uint32_t first = task * t->task_rows, left = t->w->rows - first,
                   n = left < t->task_rows ? left : t->task_rows;
    const tern_q8_rows x = {.x = (const int8_t *)t->input,
                            .stride = (size_t)tern_q8_stride(t->w->cols),
                            .n = 1,
                            .sums = (const int32_t *)(const void *)(t->input + tern_q8_sums_offset(t->w->cols, 1))};
    int32_t *dots = (int32_t *)(void *)(t->scratch + thread * t->scratch_bytes);
    void *room = b->layout && b->layout->tables ? tables_of_thread(t, thread) : dots + TERN_KERNEL_MAX_TASK_ROWS;
    if (b->layout) b->layout->multiply(b->layout, first, n, &x, room, dots, n);
    else b->ternary(b->data + first * b->row_bytes, b->row_bytes, n, b->cols, &x, dots, n);
    memcpy(t->dots + first, dots, n * sizeof *dots);
}

static void multiply(tune *t, tern_cpu *cpu, tern_tune__way *way, uint32_t task_rows)
{
    t->buffer = way->copies[way->next];
    t->task_rows = task_rows ? task_rows : tern_cpu__task_rows(t->buffer);
    t->n_products++;
    tern_pool_for(cpu->pool, (t->w->rows + t->task_rows - 1) / t->task_rows, multiply_task, t);
    way->next = (way->next + 1) % way->n_copies;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The fastest fiftieth of the products ends at the result: others may run beside this program. */
static double measure(tune *t, tern_cpu *cpu, tern_tune__way *way, const tern_tune_row *row, double seconds)
{
    double start = now(t, row), end;
    const double begun = start;
    size_t n = 0;
    pthread_mutex_lock(&cpu->running);
    do {
        multiply(t, cpu, way, row->task_rows);
        end = now(t, row);
        t->times[n++] = end - start;
        start = end;
    } while (n < MAX_TIMES && end - begun < seconds);
    pthread_mutex_unlock(&cpu->running);
    qsort(t->times, n, sizeof *t->times, by_value);
    return t->times[n / 50];
}

static tern_status announce(const tune *t, const tern_tune_row *row, tern_error *err)
{
    if (!t->o->progress || t->o->progress(t->o->context, row)) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "measuring was cancelled");
}

static tern_status check_dots(const tune *t, const tern_tune__way *way, tern_error *err)
{
    for (uint32_t r = 0; r < t->w->rows; r++)
        if (t->dots[r] != t->expected[r])
            return tern_fail(err, TERN_INTERNAL, "%s: kernel %s: row %u gives %d, %d expected", t->w->name, way->kernel,
                             r, t->dots[r], t->expected[r]);
    return TERN_OK;
}

static tern_status add_row(tern_tune_result *out, const tern_tune_row *row, tern_error *err)
{
    void *rows = out->rows;
    TERN_TRY(tern_grow(&rows, &out->cap, out->n + 1, sizeof *row, err));
    out->rows = rows;
    out->rows[out->n++] = *row;
    return TERN_OK;
}

static tern_status measure_split(tune *t, tern_tune__way *way, uint32_t b, uint32_t task_rows, double *best,
                                 tern_error *err)
{
    tern_cpu *cpu = cpu_of(t, b);
    tern_tune_row row = {.task_rows = task_rows, .n_threads = tern_pool_threads(cpu->pool), .bytes = way->bytes};
    memcpy(row.kernel, way->kernel, sizeof row.kernel);
    TERN_TRY(announce(t, &row, err));
    row.seconds = measure(t, cpu, way, &row, t->o->seconds);
    if (row.seconds < *best) {
        *best = row.seconds;
        t->out->of[b].best = t->out->n;
    }
    return add_row(t->out, &row, err);
}

/* A split in whole steps of the layout; 0 when it is the default's, or too large. */
static uint32_t split_of(const tern_buffer *buffer, uint32_t rows)
{
    const uint32_t step = buffer->layout && buffer->layout->row_step ? buffer->layout->row_step : 1;
    const uint32_t n = (rows + step - 1) / step * step;
    return n > TERN_KERNEL_MAX_TASK_ROWS || n >= buffer->weight->rows || n == tern_cpu__task_rows(buffer) ? 0 : n;
}

/* Room for the tables of a way's layouts. */
static tern_status make_tables_room(tune *t, const tern_tune__way *way, tern_error *err)
{
    const tern_cpu__layout *l = way->copies[0]->layout;
    const size_t bytes = l && l->tables ? tern_cpu__tables_bytes(l->tables, t->w->cols) : 0;
    if (bytes <= t->tables_room) return TERN_OK;
    tern_free_aligned(t->tables);
    t->tables_room = (bytes + 4095) / 4096 * 4096;
    t->tables = tern_alloc_aligned(t->tables_room * t->n_threads, 4096);
    if (t->tables) return TERN_OK;
    t->tables_room = 0;
    return tern_fail_alloc(err, bytes * t->n_threads);
}

/* All row splits on one backend. */
static tern_status measure_way(tune *t, tern_tune__way *way, uint32_t b, double *best, tern_error *err)
{
    TERN_TRY(measure_split(t, way, b, 0, best, err));
    TERN_TRY(check_dots(t, way, err));
    const double whole = t->out->rows[t->out->n - 1].seconds;
    for (size_t i = 1; i < sizeof row_splits / sizeof *row_splits && !t->o->defaults_only; i++) {
        const uint32_t n = split_of(way->copies[0], row_splits[i]);
        if (n == 0 || !(whole <= near_best * *best)) continue;
        TERN_TRY(measure_split(t, way, b, n, best, err));
        TERN_TRY(check_dots(t, way, err));
    }
    return TERN_OK;
}

static tern_status measure_number(tune *t, const tern_cpu__candidate *c, uint32_t n, double *best, tern_error *err)
{
    tern_tune__way way;
    tern_status status = tern_tune__way_open(&way, cpu_of(t, 0), t->w, c, n, t->o->cold_bytes, err);
    if (status == TERN_OK) status = make_tables_room(t, &way, err);
    for (uint32_t b = 0; b < t->o->n_backends && status == TERN_OK; b++) {
        if (c == tern_cpu__candidate_at(0)) t->out->of[b].standard = t->out->n;
        status = measure_way(t, &way, b, &best[b], err);
    }
    tern_tune__way_close(&way, cpu_of(t, 0));
    if (status != TERN_UNSUPPORTED && status != TERN_INVALID_ARGUMENT) return status;
    if (err) *err = (tern_error){0};
    return TERN_OK;
}

static tern_status measure_all(tune *t, tern_error *err)
{
    double best[TERN_TUNE_MAX_BACKENDS];
    for (uint32_t b = 0; b < t->o->n_backends; b++) best[b] = 1e30;
    const tern_cpu__candidate *c;
    for (size_t i = 0; (c = tern_cpu__candidate_at(i)) && (i == 0 || !t->o->first_only); i++) {
        const bool numbers = c->parameter && !t->o->defaults_only;
        for (uint32_t n = numbers ? c->tune_min : 0; n <= (numbers ? c->tune_max : 0); n++)
            TERN_TRY(measure_number(t, c, n, best, err));
    }
    return TERN_OK;
}

/* The integers that all others have to give. */
static tern_status expect(tune *t, tern_error *err)
{
    tern_tune__way way;
    tern_status status = tern_tune__way_open(&way, cpu_of(t, 0), t->w, tern_cpu__candidate_at(0), 0, 0, err);
    if (status == TERN_OK) {
        pthread_mutex_lock(&cpu_of(t, 0)->running);
        multiply(t, cpu_of(t, 0), &way, 0);
        pthread_mutex_unlock(&cpu_of(t, 0)->running);
        memcpy(t->expected, t->dots, t->w->rows * sizeof *t->dots);
    }
    tern_tune__way_close(&way, cpu_of(t, 0));
    return status;
}

static tern_status reopen(const tune *t, tern_tune__way *way, const tern_tune_row *row, tern_error *err)
{
    tern_cpu__choice choice;
    *way = (tern_tune__way){0};
    TERN_TRY(tern_cpu__choice_parse(row->kernel, &choice, err));
    return tern_tune__way_open(way, cpu_of(t, 0), t->w, choice.candidate, choice.n, t->o->cold_bytes / 2, err);
}

/* Default and fastest once more, in turns, so that both see the same machine. */
static tern_status confirm(tune *t, uint32_t b, tern_error *err)
{
    const tern_tune_row *standard = &t->out->rows[t->out->of[b].standard], *best = &t->out->rows[t->out->of[b].best];
    tern_tune__way ways[2];
    double seconds[2] = {1e30, 1e30};
    tern_status status = reopen(t, &ways[0], standard, err);
    const tern_status other = status == TERN_OK ? reopen(t, &ways[1], best, err) : status;
    for (int i = 0; i < 2 * ROUNDS && other == TERN_OK; i++) {
        const double took = measure(t, cpu_of(t, b), &ways[i % 2], i % 2 ? best : standard, t->o->seconds / 2);
        if (took < seconds[i % 2]) seconds[i % 2] = took;
    }
    tern_tune__way_close(&ways[0], cpu_of(t, 0));
    if (status == TERN_OK) tern_tune__way_close(&ways[1], cpu_of(t, 0));
    TERN_TRY(other);
    t->out->of[b].standard_seconds = seconds[0];
    t->out->of[b].best_seconds = seconds[1];
    return TERN_OK;
}

static tern_status choose(tune *t, uint32_t b, tern_error *err)
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

static tern_status make_room(tune *t, tern_error *err)
{
    const size_t input = tern_size_of(tern_row_bytes(TERN_DTYPE_Q8, t->w->cols, 1));
    for (uint32_t b = 0; b < t->o->n_backends; b++)
        if (tern_pool_threads(cpu_of(t, b)->pool) > t->n_threads) t->n_threads = tern_pool_threads(cpu_of(t, b)->pool);
    t->scratch_bytes = TERN_KERNEL_MAX_TASK_ROWS * sizeof(int32_t) + (size_t)t->w->cols * 4 + TERN_CPU__LAYOUT_ROOM;
    t->scratch_bytes = tern_size_of(tern_round_up(t->scratch_bytes, 4096));
    t->input = tern_alloc_aligned(input, 64);
    t->dots = tern_calloc(t->w->rows, sizeof *t->dots);
    t->expected = tern_calloc(t->w->rows, sizeof *t->expected);
    t->scratch = tern_alloc_aligned(t->scratch_bytes * t->n_threads, 4096);
    t->times = tern_calloc(MAX_TIMES, sizeof *t->times);
    t->made = tern_calloc(t->n_threads, sizeof *t->made);
    if (!t->made || !t->input || !t->dots || !t->expected || !t->scratch || !t->times)
        return tern_fail_alloc(err, t->scratch_bytes * t->n_threads);
    memset(t->input, 0, input);
    return TERN_OK;
}

static void make_input(tune *t)
{
    tern_rng rng = {.state = 1};
    int32_t sum = 0;
    for (uint32_t c = 0; c < t->w->cols; c++) {
        const int v = (int)tern_rng_below(&rng, 255) - 127;
        ((int8_t *)t->input)[c] = (int8_t)v;
        sum += v;
    }
    memcpy(t->input + tern_q8_sums_offset(t->w->cols, 1), &sum, sizeof sum);
}

static tern_status run(tune *t, tern_error *err)
{
    TERN_TRY(make_room(t, err));
    make_input(t);
    TERN_TRY(expect(t, err));
    TERN_TRY(measure_all(t, err));
    for (uint32_t b = 0; b < t->o->n_backends; b++) TERN_TRY(choose(t, b, err));
    return TERN_OK;
}

tern_status tern_cpu_tune(const tern_weight *w, const tern_tune_options *options, tern_tune_result *out,
                          tern_error *err)
{
    tune t = {.w = w, .o = options, .out = out};
    *out = (tern_tune_result){0};
    if (!w->encoding->ternary || !w->data)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s found, ternary weights in memory expected", w->name,
                         w->encoding->name);
    if (options->n_backends == 0 || options->n_backends > TERN_TUNE_MAX_BACKENDS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u numbers of threads: 1 to %d expected", options->n_backends,
                         TERN_TUNE_MAX_BACKENDS);
    const tern_status status = run(&t, err);
    tern_free_aligned(t.input);
    tern_free_aligned(t.scratch);
    tern_free_aligned(t.tables);
    tern_free(t.dots);
    tern_free(t.expected);
    tern_free(t.times);
    tern_free(t.made);
    return status;
}

void tern_tune_result_deinit(tern_tune_result *result)
{
    tern_free(result->rows);
    *result = (tern_tune_result){0};
}
