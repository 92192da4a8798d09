/* tern tune: measures which kernel serves each shape of a model best on this machine, and keeps the choices. */
#include <errno.h>
#include <string.h>

#include "apps/progress.h"
#include "apps/tune.h"
#include "base/file.h"
#include "base/show.h"

enum { MAX_SHAPES = 64, WAYS_OF_SHAPE = 60 };

static const tern_flag flags[] = {
    {"threads", 't', TERN_FLAG_TEXT, "LIST", offsetof(tern_options, threads), 0, 0,
     "Numbers of threads: 1,2; 1 and all cores when not given"},
    {"pin", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, pin), 0, 0, "Tie each thread to a core"},
    {"show", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, show_choices), 0, 0,
     "Print the choices that are kept, and measure nothing"},
    {"reset", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, reset), 0, 0, "Forget them: defaults again"},
    {"cold-mib", 0, TERN_FLAG_U32, "N", offsetof(tern_options, cold_mib), 1, 1 << 20,
     "MiB of copies that are used in turn; a third more than the caches when not given"},
    {"ms", 0, TERN_FLAG_U32, "N", offsetof(tern_options, measure_ms), 1, 60000,
     "How long each way is measured; 60 when not given"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {"Model", tern_flags_model}, {0}};

typedef struct job {
    const tern_options *o;
    tern_app_path path;
    tern_tune_cache cache;
    tern_app_backends backends;
    const tern_weight *shapes[MAX_SHAPES]; /* one weight of each */
    uint32_t n_of[MAX_SHAPES], n_shapes, shape;
    uint32_t ways; /* measured of this shape */
    tern_progress progress;
    json_t *results;
} job;

static void add_shape(job *j, const tern_weight *w)
{
    uint32_t i = 0;
    if (!w->encoding || !w->encoding->ternary || !w->data) return;
    for (; i < j->n_shapes; i++)
        if (j->shapes[i]->encoding == w->encoding && j->shapes[i]->rows == w->rows && j->shapes[i]->cols == w->cols)
            break;
    if (i == MAX_SHAPES) return;
    if (i == j->n_shapes) j->shapes[j->n_shapes++] = w;
    j->n_of[i]++;
}

static tern_status find_shapes(job *j, const tern_model *model, tern_error *err)
{
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            add_shape(j, tern_model_weight(model, (tern_role)role, layer));
    if (j->n_shapes) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "the model has no ternary layers: there is nothing to choose");
}

static bool on_way(void *context, const tern_tune_row *row)
{
    job *j = context;
    (void)row;
    const float part = (float)(j->ways < WAYS_OF_SHAPE ? j->ways : WAYS_OF_SHAPE) / WAYS_OF_SHAPE;
    j->ways++;
    return tern_progress_update(&j->progress, ((float)j->shape + part) / (float)j->n_shapes);
}

static json_t *row_json(const tern_weight *w, const tern_tune_row *r, bool standard, bool chosen)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:i, s:I, s:f, s:b, s:b}", "encoding", w->encoding->name, "rows",
                     (int)w->rows, "cols", (int)w->cols, "threads", (int)r->n_threads, "kernel", r->kernel, "task_rows",
                     (int)r->task_rows, "bytes", (json_int_t)r->bytes, "microseconds", r->seconds * 1e6, "default",
                     standard, "chosen", chosen);
}

static void print_row(const tern_tune_row *r, double weights, bool standard, bool chosen)
{
    char bytes[16], split[16] = "-";
    if (r->task_rows) snprintf(split, sizeof split, "%u", r->task_rows);
    printf("  %c %-10s %9s %9s %7.2f %10.1f %8.1f%s\n", chosen ? '*' : ' ', r->kernel, split,
           tern_app_bytes(r->bytes, bytes), 8 * (double)r->bytes / weights, r->seconds * 1e6,
           (double)r->bytes / r->seconds * 1e-9, standard ? "  default" : "");
}

/* What was measured on one number of threads. */
static void show_backend(const job *j, const tern_weight *w, const tern_tune_result *r, uint32_t b)
{
    const size_t standard = r->of[b].standard, best = r->of[b].best;
    const uint32_t threads = r->rows[standard].n_threads;
    if (!j->o->json)
        printf("\n%s, %u x %u (%u of them), %u thread%s\n  %c %-10s %9s %9s %7s %10s %8s\n", w->encoding->name, w->rows,
               w->cols, j->n_of[j->shape], threads, threads == 1 ? "" : "s", ' ', "kernel", "task rows", "bytes",
               "bits/w", "us", "GB/s");
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].n_threads != threads) continue;
        if (j->o->json) json_array_append_new(j->results, row_json(w, &r->rows[i], i == standard, i == best));
        else print_row(&r->rows[i], (double)w->rows * w->cols, i == standard, i == best);
    }
    if (!j->o->json && best != standard)
        printf("    once more, in turns: default %.1f us, %s %.1f us: %.2f times as fast\n",
               r->of[b].standard_seconds * 1e6, r->rows[best].kernel, r->of[b].best_seconds * 1e6,
               r->of[b].standard_seconds / r->of[b].best_seconds);
}

static tern_status keep(job *j, const tern_weight *w, const tern_tune_result *r, uint32_t b, tern_error *err)
{
    const tern_tune_row *best = &r->rows[r->of[b].best];
    tern_kernel_choice choice = {.encoding = w->encoding,
                                 .rows = w->rows,
                                 .cols = w->cols,
                                 .n_threads = best->n_threads,
                                 .task_rows = best->task_rows};
    const tern_tune_cost cost = {.bytes = best->bytes,
                                 .microseconds = r->of[b].best_seconds * 1e6,
                                 .default_microseconds = r->of[b].standard_seconds * 1e6};
    memcpy(choice.kernel, best->kernel, sizeof choice.kernel);
    return tern_tune_cache_add(&j->cache, &choice, &cost, err);
}

static tern_status tune_shape(job *j, const tern_weight *w, tern_error *err)
{
    tern_tune_result r;
    const tern_tune_options how = {.backends = j->backends.at,
                                   .n_backends = j->backends.n,
                                   .cold_bytes = tern_app_cold_bytes(j->o),
                                   .seconds = tern_app_measure_seconds(j->o),
                                   .progress = on_way,
                                   .context = j};
    j->ways = 0;
    tern_status status = tern_cpu_tune(w, &how, &r, err);
    tern_progress_end(&j->progress);
    for (uint32_t b = 0; b < j->backends.n && status == TERN_OK; b++) {
        show_backend(j, w, &r, b);
        status = keep(j, w, &r, b, err);
    }
    tern_tune_result_deinit(&r);
    return status == TERN_OK ? tern_app_tune_write(&j->cache, j->path.text, err) : status;
}

/* The choices so far, where they hold here; else none. */
static tern_status begin(job *j, tern_error *err)
{
    tern_app_tune_key key;
    tern_error ignored = {0};
    if (tern_app_tune_read(&j->cache, j->path.text, &ignored) == TERN_OK) return TERN_OK;
    tern_app_tune_key_of(&key);
    return tern_tune_cache_init(&j->cache, key.cpu, key.build, err);
}

static tern_status measure(job *j, const tern_model *model, tern_error *err)
{
    TERN_TRY(find_shapes(j, model, err));
    TERN_TRY(tern_app_backends_open(&j->backends, j->o, err));
    TERN_TRY(begin(j, err));
    if (!j->o->json)
        printf("%s\nweights cold: copies of %llu MiB in turn; the fastest fiftieth of %.0f ms ends there\n",
               j->cache.cpu, (unsigned long long)(tern_app_cold_bytes(j->o) >> 20),
               1e3 * tern_app_measure_seconds(j->o));
    for (j->shape = 0; j->shape < j->n_shapes; j->shape++) TERN_TRY(tune_shape(j, j->shapes[j->shape], err));
    return TERN_OK;
}

static json_t *choices_json(const tern_tune_cache *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const tern_kernel_choice *k = &c->choices[i];
        json_array_append_new(
            list, json_pack("{s:s, s:i, s:i, s:i, s:s, s:i, s:I, s:f, s:f}", "encoding", k->encoding->name, "rows",
                            (int)k->rows, "cols", (int)k->cols, "threads", (int)k->n_threads, "kernel", k->kernel,
                            "task_rows", (int)k->task_rows, "bytes", (json_int_t)c->costs[i].bytes, "microseconds",
                            c->costs[i].microseconds, "default_microseconds", c->costs[i].default_microseconds));
    }
    return list;
}

/* results NULL: nothing was measured. */
static tern_status print_json(const job *j, json_t *results, tern_error *err)
{
    const tern_tune_cache *c = &j->cache;
    json_t *out =
        json_pack("{s:s, s:o, s:o, s:o}", "file", j->path.text, "cpu", tern_app_json_text(c->cpu, strlen(c->cpu)),
                  "build", tern_app_json_text(c->build, strlen(c->build)), "choices", choices_json(c));
    if (results) json_object_set_new(out, "results", results);
    return tern_app_print_json(out, err);
}

static tern_status tune(job *j, tern_error *err)
{
    tern_model *model;
    TERN_TRY(tern_app_open_model(&model, j->o, false, err));
    j->results = j->o->json ? json_array() : NULL;
    tern_status status = measure(j, model, err);
    tern_progress_end(&j->progress);
    if (status == TERN_OK && j->o->json) status = print_json(j, json_incref(j->results), err);
    else if (status == TERN_OK) printf("\nkept in %s\n", tern_show_z(j->path.text).text);
    json_decref(j->results);
    tern_app_backends_close(&j->backends);
    tern_model_close(model);
    return status;
}

static tern_status show(job *j, tern_error *err)
{
    if (!tern_file_exists(j->path.text))
        return tern_fail(err, TERN_NOT_FOUND, "%s: nothing was measured yet", tern_show_z(j->path.text).text);
    TERN_TRY(tern_app_tune_read(&j->cache, j->path.text, err));
    if (j->o->json) return print_json(j, NULL, err);
    printf("%s\n%s\n%s\n\n%-8s %13s %8s  %-10s %9s %10s %10s\n", j->path.text, j->cache.cpu, j->cache.build, "encoding",
           "rows x cols", "threads", "kernel", "task rows", "us", "default us");
    for (size_t i = 0; i < j->cache.n; i++) {
        const tern_kernel_choice *k = &j->cache.choices[i];
        char split[16] = "-";
        if (k->task_rows) snprintf(split, sizeof split, "%u", k->task_rows);
        printf("%-8s %6u x %-6u %6u  %-10s %9s %10.1f %10.1f\n", k->encoding->name, k->rows, k->cols, k->n_threads,
               k->kernel, split, j->cache.costs[i].microseconds, j->cache.costs[i].default_microseconds);
    }
    return TERN_OK;
}

static tern_status reset(const job *j, tern_error *err)
{
    if (remove(j->path.text) == 0) fprintf(stderr, "%s: removed\n", tern_show_z(j->path.text).text);
    else if (errno == ENOENT) fprintf(stderr, "%s: nothing was measured yet\n", tern_show_z(j->path.text).text);
    else return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(j->path.text).text, strerror(errno));
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    job j = {.o = o, .progress = {.label = "Measuring"}};
    TERN_TRY(tern_app_tune_path(&j.path, err));
    if (o->show_choices && o->reset)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--show and --reset: one of them expected");
    if (o->reset) return reset(&j, err);
    const tern_status status = o->show_choices ? show(&j, err) : tune(&j, err);
    tern_tune_cache_deinit(&j.cache);
    return status;
}

const tern_command tern_command_tune = {
    .name = "tune",
    .usage = "-m MODEL [-t 1,2] [--json]; --show; --reset",
    .summary = "Measure which kernel serves each layer best here, and keep it",
    .detail = "Every way to multiply each shape of the model's ternary layers with a token is measured, with weights "
              "that are in\n"
              "no cache. The fastest ones are kept for this CPU and this build, and used by every command that runs a "
              "model on\n"
              "the CPU, unless it has --kernel, --no-tune or --cpu-features. All of them give the same text.",
    .groups = groups,
    .run = run,
};
