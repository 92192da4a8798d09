/* tern bench --kernels: random weights, every kernel on them, and what the machine can do at most. */
#include <string.h>

#include "apps/bench/kernels.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static const double roof_seconds = 0.1;

double tern_bench_rate(const tern_bench_point *p)
{
    return p->operations / p->seconds;
}

double tern_bench_intensity(const tern_bench_point *p)
{
    return p->operations / (double)p->bytes;
}

double tern_bench_most(const tern_bench_roof *r, double operations_per_byte)
{
    const double by_memory = r->read * operations_per_byte;
    return by_memory < r->operations || !(r->operations > 0) ? by_memory : r->operations;
}

/* [rows][cols] random codes. Errors: CANCELLED, since the largest ones take a while. */
static tern_status make_codes(tern_bench_shape s, int8_t *codes, tern_error *err)
{
    tern_rng rng = {.state = (uint64_t)s.rows * s.cols};
    for (uint32_t r = 0; r < s.rows; r++, codes += s.cols) {
        if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
        for (uint32_t c = 0; c < s.cols; c++) codes[c] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    }
    return TERN_OK;
}

static tern_status make_weight(const tern_encoding *e, tern_bench_shape s, tern_weight *out, tern_error *err)
{
    size_t n;
    *out = (tern_weight){.encoding = e, .rows = s.rows, .cols = s.cols, .scale = 1};
    snprintf(out->name, sizeof out->name, "%s, %u x %u", e->name, s.rows, s.cols);
    TERN_TRY(tern_encoding_bytes(e, s.rows, s.cols, &out->bytes, err));
    if (!tern_size_mul(s.rows, s.cols, &n)) return tern_fail_alloc(err, (unsigned long long)s.rows * s.cols);
    int8_t *codes = tern_alloc(n);
    uint8_t *data = tern_alloc_aligned(out->bytes, 64);
    out->data = data;
    tern_status status;
    TERN_GOTO(codes && data ? TERN_OK : tern_fail_alloc(err, (unsigned long long)n + out->bytes));
    TERN_GOTO(make_codes(s, codes, err));
    TERN_GOTO(tern_encode_codes(e, codes, 1.0f, s.rows, s.cols, data, err));
fail:
    tern_free(codes);
    return status;
}

/* A row of the result for each kernel, and in it for each backend. */
static tern_status add_points(tern_bench_job *j, uint32_t shape, const tern_weight *w, const tern_tune_result *r,
                              tern_error *err)
{
    void *points = j->points;
    TERN_TRY(tern_grow(&points, &j->cap, j->n + r->n, sizeof *j->points, err));
    j->points = points;
    for (size_t i = 0; i < r->n; i++) {
        const tern_tune_row *row = &r->rows[i];
        tern_bench_point *p = &j->points[j->n++];
        *p = (tern_bench_point){.shape = shape,
                                .backend = (uint32_t)(i % j->backends.n),
                                .operations = 2.0 * w->rows * w->cols,
                                .bytes = row->bytes,
                                .seconds = row->seconds};
        const bool packed = i < j->backends.n; /* the default kernel, which reads the encoding itself */
        snprintf(p->name, sizeof p->name, "%s%s%s", row->kernel, packed ? " " : "", packed ? w->encoding->name : "");
    }
    return TERN_OK;
}

static bool on_way(void *context, const tern_tune_row *row)
{
    tern_bench_job *j = context;
    (void)row;
    return tern_progress_update(&j->progress, (float)j->done / (float)j->total);
}

/* Other kernels than the default have a layout of their own, the same whatever the encoding: they are measured with the
 * first one. */
static tern_status measure_weight(tern_bench_job *j, uint32_t shape, const tern_encoding *e, bool first,
                                  tern_error *err)
{
    tern_weight w;
    tern_tune_result r = {0};
    const tern_tune_options how = {.backends = j->backends.at,
                                   .n_backends = j->backends.n,
                                   .cold_bytes = tern_app_cold_bytes(j->options),
                                   .seconds = tern_app_measure_seconds(j->options),
                                   .defaults_only = true,
                                   .first_only = !first,
                                   .progress = on_way,
                                   .context = j};
    tern_status status;
    TERN_GOTO(make_weight(e, j->shapes[shape], &w, err));
    TERN_GOTO(tern_cpu_tune(&w, &how, &r, err));
    TERN_GOTO(add_points(j, shape, &w, &r, err));
fail:
    tern_tune_result_deinit(&r);
    tern_free_aligned((void *)(uintptr_t)w.data);
    return status;
}

static uint32_t n_ternary(void)
{
    uint32_t n = 0;
    const tern_encoding *e;
    for (size_t i = 0; (e = tern_encoding_at(i)); i++) n += e->ternary;
    return n;
}

/* i2_s first, as most files have it; where it does not fit the shape, the first that does. */
static tern_status measure_shape(tern_bench_job *j, uint32_t shape, tern_error *err)
{
    const tern_encoding *e, *i2_s = tern_encoding_find(TERN_ENC_I2_S);
    bool first = tern_bench_left_out(i2_s, j->shapes[shape], NULL);
    if (!first) TERN_TRY(measure_weight(j, shape, i2_s, true, err));
    j->done++;
    for (size_t i = 0; (e = tern_encoding_at(i)); i++) {
        if (!e->ternary || e == i2_s) continue;
        if (!tern_bench_left_out(e, j->shapes[shape], NULL)) {
            TERN_TRY(measure_weight(j, shape, e, first, err));
            first = false;
        }
        j->done++;
    }
    return TERN_OK;
}

/* Reading memory that no cache holds; integer dot products in registers. A faster earlier result stays: other programs
 * make both slower, never faster. */
static void raise_roof(tern_backend *b, tern_buffer *cold, tern_bench_roof *roof)
{
    const double read = b->measure(b, TERN_MEASURE_READ, &cold, 1, roof_seconds),
                 operations = 2 * b->measure(b, TERN_MEASURE_DOTS, NULL, 0, roof_seconds);
    if (read > roof->read) roof->read = read;
    if (operations > roof->operations) roof->operations = operations;
}

/* One buffer for all: to a CPU it is memory, whoever made it. */
static tern_status measure_roofs(tern_bench_job *j, tern_error *err)
{
    const uint64_t bytes = tern_app_cold_bytes(j->options);
    static const uint8_t ones[4096] = {1};
    tern_backend *first = j->backends.at[0];
    tern_buffer *cold;
    if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    TERN_TRY(first->buffer_create(first, bytes, &cold, err));
    for (uint64_t at = 0; at + sizeof ones <= bytes; at += sizeof ones)
        first->buffer_write(first, cold, at, ones, sizeof ones, NULL);
    for (uint32_t b = 0; b < j->backends.n; b++) raise_roof(j->backends.at[b], cold, &j->roofs[b]);
    first->buffer_free(first, cold);
    return TERN_OK;
}

tern_status tern_bench_kernels_measure(tern_bench_job *j, tern_error *err)
{
    TERN_TRY(tern_app_backends_open(&j->backends, j->options, err));
    j->total = j->n_shapes * n_ternary();
    for (uint32_t s = 0; s < j->n_shapes; s++) {
        TERN_TRY(measure_roofs(j, err));
        TERN_TRY(measure_shape(j, s, err));
    }
    return measure_roofs(j, err);
}
