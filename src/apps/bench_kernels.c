/* tern bench --kernels: every kernel of ternary weights alone, cold, over shapes, under what the machine can do at
 * most. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench.h"
#include "apps/tune.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/show.h"
#include "format/plot.h"

enum { MAX_SHAPES = 32, MAX_KERNELS = 16, MAX_SIDE = 1 << 16, NAME_BYTES = 40, MAX_CURVES = 8 };
static const double peak_seconds = 0.5;

typedef struct shape {
    uint32_t rows, cols;
} shape;

/* Squares; q and o, k and v, gate and up, down of BitNet 2B4T; a layer of a 7B model. */
static const shape usual[] = {{1024, 1024}, {2048, 2048}, {4096, 4096}, {8192, 8192}, {16384, 16384},
                              {2560, 2560}, {640, 2560},  {6912, 2560}, {2560, 6912}, {4096, 14336}};

/* A kernel on a shape. */
typedef struct point {
    char name[NAME_BYTES]; /* "dot i2_s", "rsr" */
    uint32_t rows, cols, n_threads;
    uint64_t bytes;
    double seconds;
} point;

typedef struct roof {
    double read, operations; /* bytes and operations a second */
} roof;

typedef struct job {
    const tern_options *o;
    tern_app_backends backends;
    shape shapes[MAX_SHAPES];
    uint32_t n_shapes, done, total;
    roof roofs[TERN_TUNE_MAX_BACKENDS];
    point *points;
    size_t n, cap;
    tern_progress progress;
} job;

static double operations(const point *p)
{
    return 2.0 * p->rows * p->cols;
}

static double intensity(const point *p)
{
    return operations(p) / (double)p->bytes;
}

/* What the roofline allows, in operations a second. */
static double most(const roof *r, double operations_per_byte)
{
    const double by_memory = r->read * operations_per_byte;
    return by_memory < r->operations || !(r->operations > 0) ? by_memory : r->operations;
}

static tern_status parse_shape(const char *text, char **end, shape *out, tern_error *err)
{
    const unsigned long rows = strtoul(text, end, 10);
    const unsigned long cols = **end == 'x' ? strtoul(*end + 1, end, 10) : 0;
    if (*text < '0' || *text > '9' || rows < 1 || cols < 1 || rows > MAX_SIDE || cols > MAX_SIDE ||
        (**end && **end != ','))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--shapes \"%s\": ROWSxCOLS,... with 1 to %d of each expected",
                         tern_show_z(text).text, MAX_SIDE);
    *out = (shape){(uint32_t)rows, (uint32_t)cols};
    return TERN_OK;
}

static tern_status read_shapes(job *j, tern_error *err)
{
    const char *text = j->o->shapes;
    if (!text) {
        memcpy(j->shapes, usual, sizeof usual);
        j->n_shapes = sizeof usual / sizeof *usual;
        return TERN_OK;
    }
    for (char *end; j->n_shapes < MAX_SHAPES; text = end + 1) {
        TERN_TRY(parse_shape(text, &end, &j->shapes[j->n_shapes++], err));
        if (!*end) return TERN_OK;
    }
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--shapes: more than %d", MAX_SHAPES);
}

/* Random codes in an encoding. */
static tern_status make_weight(const tern_encoding *e, shape s, tern_weight *out, tern_error *err)
{
    const size_t n = (size_t)s.rows * s.cols;
    tern_rng rng = {.state = n};
    *out = (tern_weight){.encoding = e, .rows = s.rows, .cols = s.cols, .scale = 1};
    TERN_TRY(tern_encoding_bytes(e, s.rows, s.cols, &out->bytes, err));
    int8_t *codes = tern_alloc(n);
    uint8_t *data = tern_alloc_aligned(out->bytes, 64);
    tern_status status = codes && data ? TERN_OK : tern_fail_alloc(err, n + out->bytes);
    for (size_t i = 0; i < n && codes; i++) codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    if (status == TERN_OK) status = tern_encode_codes(e, codes, 1.0f, s.rows, s.cols, data, err);
    tern_free(codes);
    out->data = data;
    snprintf(out->name, sizeof out->name, "%s, %u x %u", e->name, s.rows, s.cols);
    return status;
}

static tern_status add_points(job *j, const tern_weight *w, const tern_tune_result *r, tern_error *err)
{
    void *points = j->points;
    TERN_TRY(tern_grow(&points, &j->cap, j->n + r->n, sizeof *j->points, err));
    j->points = points;
    for (size_t i = 0; i < r->n; i++) {
        const tern_tune_row *row = &r->rows[i];
        point *p = &j->points[j->n++];
        *p = (point){.rows = w->rows,
                     .cols = w->cols,
                     .n_threads = row->n_threads,
                     .bytes = row->bytes,
                     .seconds = row->seconds};
        const bool packed = i < j->backends.n; /* the default kernel, which reads the encoding itself */
        snprintf(p->name, sizeof p->name, "%s%s%s", row->kernel, packed ? " " : "", packed ? w->encoding->name : "");
    }
    return TERN_OK;
}

static bool on_way(void *context, const tern_tune_row *row)
{
    job *j = context;
    (void)row;
    return tern_progress_update(&j->progress, (float)j->done / (float)j->total);
}

/* Other kernels than the default have a layout of their own, the same whatever the encoding: they are measured with the
 * first one. */
static tern_status measure_shape(job *j, const tern_encoding *e, bool first, shape s, tern_error *err)
{
    tern_weight w;
    tern_tune_result r = {0};
    const tern_tune_options how = {.backends = j->backends.at,
                                   .n_backends = j->backends.n,
                                   .cold_bytes = tern_app_cold_bytes(j->o),
                                   .seconds = tern_app_measure_seconds(j->o),
                                   .defaults_only = true,
                                   .first_only = !first,
                                   .progress = on_way,
                                   .context = j};
    tern_status status = make_weight(e, s, &w, err);
    if (status == TERN_OK) status = tern_cpu_tune(&w, &how, &r, err);
    if (status == TERN_OK) status = add_points(j, &w, &r, err);
    tern_tune_result_deinit(&r);
    tern_free_aligned((void *)(uintptr_t)w.data);
    j->done++;
    return status;
}

static uint32_t n_encodings(void)
{
    uint32_t n = 0;
    const tern_encoding *e;
    for (size_t i = 0; (e = tern_encoding_at(i)); i++) n += e->ternary;
    return n;
}

static bool fits(const tern_encoding *e, shape s)
{
    size_t ignored;
    return tern_encoding_bytes(e, s.rows, s.cols, &ignored, NULL) == TERN_OK;
}

static tern_status measure_all(job *j, tern_error *err)
{
    j->total = j->n_shapes * n_encodings();
    for (uint32_t s = 0; s < j->n_shapes; s++) {
        const tern_encoding *e, *i2_s = tern_encoding_find(TERN_ENC_I2_S);
        TERN_TRY(measure_shape(j, i2_s, true, j->shapes[s], err));
        for (size_t i = 0; (e = tern_encoding_at(i)); i++)
            if (e->ternary && e != i2_s && fits(e, j->shapes[s]))
                TERN_TRY(measure_shape(j, e, false, j->shapes[s], err));
    }
    return TERN_OK;
}

/* Reading memory that no cache holds; integer dot products in registers. */
static tern_status measure_roof(const job *j, tern_backend *b, roof *out, tern_error *err)
{
    const uint64_t bytes = tern_app_cold_bytes(j->o);
    static const uint8_t ones[4096] = {1};
    tern_buffer *buffer;
    TERN_TRY(b->buffer_create(b, bytes, &buffer, err));
    for (uint64_t at = 0; at + sizeof ones <= bytes; at += sizeof ones)
        b->buffer_write(b, buffer, at, ones, sizeof ones, NULL);
    out->read = b->measure(b, TERN_MEASURE_READ, &buffer, 1, peak_seconds);
    out->operations = 2 * b->measure(b, TERN_MEASURE_DOTS, NULL, 0, peak_seconds);
    b->buffer_free(b, buffer);
    return TERN_OK;
}

static void print_points(const job *j, uint32_t b)
{
    const uint32_t threads = j->points[b].n_threads;
    const roof *r = &j->roofs[b];
    shape last = {0};
    printf(
        "\n%u thread%s: memory %.1f GB/s, dot products %.0f G operations/s\n  %13s  %-12s %9s %7s %10s %8s %9s %6s\n",
        threads, threads == 1 ? "" : "s", r->read * 1e-9, r->operations * 1e-9, "rows x cols", "kernel", "bytes",
        "bits/w", "us", "GB/s", "G op/s", "roof");
    for (size_t i = 0; i < j->n; i++) {
        const point *p = &j->points[i];
        char bytes[16], size[32] = "";
        if (p->n_threads != threads) continue;
        if (p->rows != last.rows || p->cols != last.cols) snprintf(size, sizeof size, "%u x %u", p->rows, p->cols);
        last = (shape){p->rows, p->cols};
        printf("  %13s  %-12s %9s %7.2f %10.1f %8.1f %9.1f %4.0f %%\n", size, p->name, tern_app_bytes(p->bytes, bytes),
               16 * (double)p->bytes / operations(p), p->seconds * 1e6, (double)p->bytes / p->seconds * 1e-9,
               operations(p) / p->seconds * 1e-9, 100 * operations(p) / p->seconds / most(r, intensity(p)));
    }
}

static json_t *points_json(const job *j, uint32_t b)
{
    json_t *list = json_array();
    for (size_t i = 0; i < j->n; i++) {
        const point *p = &j->points[i];
        if (p->n_threads != j->points[b].n_threads) continue;
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:I, s:f, s:f, s:f}", "kernel", p->name, "rows",
                                              (int)p->rows, "cols", (int)p->cols, "bytes", (json_int_t)p->bytes,
                                              "microseconds", p->seconds * 1e6, "operations_per_second",
                                              operations(p) / p->seconds, "roofline_share",
                                              operations(p) / p->seconds / most(&j->roofs[b], intensity(p))));
    }
    return list;
}

static tern_status print_json(const job *j, const char *cpu, tern_error *err)
{
    json_t *list = json_array();
    for (uint32_t b = 0; b < j->backends.n; b++)
        json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:o}", "threads", (int)j->points[b].n_threads,
                                              "read_bandwidth", j->roofs[b].read, "operations_per_second_possible",
                                              j->roofs[b].operations, "kernels", points_json(j, b)));
    return tern_app_print_json(json_pack("{s:o, s:I, s:o}", "cpu", tern_app_json_text(cpu, strlen(cpu)), "cold_bytes",
                                         (json_int_t)tern_app_cold_bytes(j->o), "results", list),
                               err);
}

/* The points of one kernel, as a curve; *at moves behind them. */
static tern_plot_curve curve_of(const job *j, const point *like, double *x, double *y)
{
    tern_plot_curve c = {.label = like->name, .x = x, .y = y, .marked = true, .unjoined = true};
    for (size_t i = 0; i < j->n; i++) {
        const point *p = &j->points[i];
        if (strcmp(p->name, like->name) != 0 || p->n_threads != like->n_threads) continue;
        x[c.n] = intensity(p);
        y[c.n++] = operations(p) / p->seconds * 1e-9;
    }
    return c;
}

static bool is_drawn(const tern_plot_curve *curves, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(curves[i].label, name) == 0) return true;
    return false;
}

/* Roof first, then a curve for each kernel; x and y hold (MAX_CURVES + 1) * n numbers. */
static size_t make_curves(const job *j, uint32_t b, tern_plot_curve *curves, double *x, double *y, size_t step)
{
    const roof *r = &j->roofs[b];
    const double ridge = r->operations / r->read, low = ridge < 1 ? ridge / 2 : 1;
    const double ends[3] = {low, ridge, ridge * 2};
    size_t n = 1;
    for (size_t i = 0; i < 3; i++) {
        x[i] = ends[i];
        y[i] = most(r, ends[i]) * 1e-9;
    }
    curves[0] = (tern_plot_curve){.label = "roofline", .x = x, .y = y, .n = 3, .dashed = true};
    for (size_t i = 0; i < j->n && n < MAX_CURVES; i++) {
        const point *p = &j->points[i];
        if (p->n_threads != j->points[b].n_threads || is_drawn(curves, n, p->name)) continue;
        curves[n] = curve_of(j, p, x + n * step, y + n * step);
        n++;
    }
    return n;
}

/* The last number of threads. */
static tern_status draw(const job *j, tern_buf *svg, tern_error *err)
{
    const uint32_t b = j->backends.n - 1;
    const size_t step = j->n + 3;
    tern_plot_curve curves[MAX_CURVES];
    char title[80];
    double *x = tern_calloc((MAX_CURVES + 1) * step, 2 * sizeof *x);
    if (!x) return tern_fail_alloc(err, step * 2 * sizeof *x);
    snprintf(title, sizeof title, "Ternary kernels, one token, weights cold, threads: %u", j->points[b].n_threads);
    const tern_plot plot = {.title = title,
                            .x_label = "operations a byte of weights",
                            .y_label = "G operations a second",
                            .legend_low = true,
                            .x_log = true,
                            .y_log = true,
                            .curves = curves,
                            .n_curves = make_curves(j, b, curves, x, x + (MAX_CURVES + 1) * step, step)};
    const tern_status status = tern_plot_svg(svg, &plot, err);
    tern_free(x);
    return status;
}

static tern_status write_plot(const job *j, tern_error *err)
{
    tern_buf svg = {0};
    tern_file_writer w = {0};
    tern_status status = draw(j, &svg, err);
    if (status == TERN_OK) status = tern_file_writer_open(&w, j->o->plot, err);
    if (status == TERN_OK) {
        tern_file_writer_add(&w, svg.data, svg.size);
        status = tern_file_writer_commit(&w, err);
    }
    tern_file_writer_abort(&w);
    tern_buf_deinit(&svg);
    return status;
}

static tern_status show(const job *j, tern_error *err)
{
    char cpu[160];
    tern_cpu_name(cpu, sizeof cpu);
    if (j->o->json) {
        TERN_TRY(print_json(j, cpu, err));
    } else {
        printf("%s\none token; weights cold: copies of %llu MiB in turn\n", cpu,
               (unsigned long long)(tern_app_cold_bytes(j->o) >> 20));
        for (uint32_t b = 0; b < j->backends.n; b++) print_points(j, b);
    }
    return j->o->plot ? write_plot(j, err) : TERN_OK;
}

static tern_status measure(job *j, tern_error *err)
{
    TERN_TRY(read_shapes(j, err));
    TERN_TRY(tern_app_backends_open(&j->backends, j->o, err));
    for (uint32_t b = 0; b < j->backends.n; b++) TERN_TRY(measure_roof(j, j->backends.at[b], &j->roofs[b], err));
    return measure_all(j, err);
}

tern_status tern_bench_kernels(const tern_options *o, tern_error *err)
{
    job j = {.o = o, .progress = {.label = "Measuring"}};
    tern_status status = TERN_OK;
    if (o->model || o->kernel || (o->backend && strcmp(o->backend, "cpu") != 0))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--kernels measures all of the CPU's: without --model, --kernel and --backend");
    status = measure(&j, err);
    tern_progress_end(&j.progress);
    if (status == TERN_OK) status = show(&j, err);
    tern_app_backends_close(&j.backends);
    tern_free(j.points);
    return status;
}
