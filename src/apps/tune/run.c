/* Measuring for `tern tune`: each shape, then the whole model. */
#include <stdlib.h>
#include <string.h>

#include "apps/tune/internal.h"
#include "backend/cpu/cpu.h"
#include "base/bytes.h"
#include "base/show.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { WAYS_OF_SHAPE = 60, DECODE_WAYS = 32 };

static tern_status add_shape(tern_tune_job *j, const tern_weight *w, tern_error *err)
{
    uint32_t i = 0;
    if (!w->encoding || !w->encoding->ternary || !w->data) return TERN_OK;
    for (; i < j->n_shapes; i++)
        if (j->shapes[i]->encoding == w->encoding && j->shapes[i]->rows == w->rows && j->shapes[i]->cols == w->cols)
            break;
    if (i == TERN_TUNE_MAX_SHAPES)
        return tern_fail(err, TERN_LIMIT, "%s: more than %d different shapes of ternary layers found",
                         tern_show_z(j->model.text).text, TERN_TUNE_MAX_SHAPES);
    if (i == j->n_shapes) j->shapes[j->n_shapes++] = w;
    j->n_of[i]++;
    return TERN_OK;
}

static tern_status find_shapes(tern_tune_job *j, const tern_model *model, tern_error *err)
{
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            TERN_TRY(add_shape(j, tern_model_weight(model, (tern_role)role, layer), err));
    if (j->n_shapes) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: no ternary layers found: only their kernels are chosen",
                     tern_show_z(j->model.text).text);
}

static bool on_way(void *context, const tern_tune_row *row)
{
    tern_tune_job *j = context;
    (void)row;
    const float part = (float)(j->ways < WAYS_OF_SHAPE ? j->ways : WAYS_OF_SHAPE) / WAYS_OF_SHAPE;
    j->ways++;
    return tern_progress_update(&j->progress, ((float)j->shape + part) / (float)j->n_shapes);
}

static tern_status keep(tern_tune_job *j, const tern_weight *w, const tern_tune_result *r, uint32_t b, tern_error *err)
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
    return tern_tune_cache_add(&j->made, &choice, &cost, err);
}

static tern_status tune_shape(tern_tune_job *j, const tern_weight *w, tern_error *err)
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
        tern_tune_show_rows(j, w, &r, b);
        status = keep(j, w, &r, b, err);
    }
    tern_tune_result_deinit(&r);
    if (status == TERN_OK) return tern_tune_file_add(&j->made, j->path.text, err);
    if (status == TERN_CANCELLED && j->shape)
        return tern_fail(err, status, "%u of %u shapes are measured and kept in %s", j->shape, j->n_shapes,
                         tern_show_z(j->path.text).text);
    return status;
}

tern_status tern_tune_job_shapes(tern_tune_job *j, const tern_model *model, tern_error *err)
{
    tern_tune_key key;
    TERN_TRY(find_shapes(j, model, err));
    TERN_TRY(tern_tune_file_try(j->path.text, err));
    TERN_TRY(tern_app_backends_open(&j->backends, j->o, err));
    tern_tune_key_of(&key);
    TERN_TRY(tern_tune_cache_init(&j->made, key.cpu, key.build, err));
    if (!j->o->json)
        printf("%s\n%s\nweights cold: copies of %llu MiB in turn; the fastest fiftieth of %.0f ms ends there\n",
               key.cpu, tern_show_z(j->model.text).text, (unsigned long long)(tern_app_cold_bytes(j->o) >> 20),
               1e3 * tern_app_measure_seconds(j->o));
    for (j->shape = 0; j->shape < j->n_shapes; j->shape++) TERN_TRY(tune_shape(j, j->shapes[j->shape], err));
    return TERN_OK;
}

/* A choice that is not the default, and the microseconds that it should save of a token. */
typedef struct gain {
    tern_kernel_choice choice;
    double microseconds;
    size_t place; /* of the choice; among equals the first one counts */
} gain;

static int by_gain(const void *a, const void *b)
{
    const gain *x = a, *y = b;
    if (x->microseconds != y->microseconds) return x->microseconds < y->microseconds ? 1 : -1;
    return (x->place > y->place) - (x->place < y->place);
}

/* The choices of one number of threads, those that gain most first. The cache has a choice of each shape, in their
 * order. */
static size_t gains_of(const tern_tune_job *j, uint32_t n_threads, tern_kernel_choice *out)
{
    gain gains[TERN_TUNE_MAX_SHAPES];
    size_t n = 0;
    for (size_t i = 0; i < j->made.n; i++) {
        const tern_kernel_choice *c = &j->made.choices[i];
        const tern_tune_cost *cost = &j->made.costs[i];
        const bool standard = strcmp(c->kernel, "dot") == 0 && c->task_rows == 0;
        if (c->n_threads != n_threads || standard) continue;
        const double saved = cost->default_microseconds - cost->microseconds;
        gains[n++] = (gain){*c, saved * j->n_of[i / j->backends.n], i};
    }
    qsort(gains, n, sizeof *gains, by_gain);
    for (size_t i = 0; i < n; i++) out[i] = gains[i].choice;
    return n;
}

static tern_status leave_out(tern_tune_job *j, tern_kernel_choice c, tern_error *err)
{
    tern_tune_cost cost = j->made.costs[tern_tune_cache_find(&j->made, &c)];
    cost.microseconds = cost.default_microseconds;
    TERN_TRY(tern_encoding_bytes(c.encoding, c.rows, c.cols, &cost.bytes, err));
    memset(c.kernel, 0, sizeof c.kernel);
    memcpy(c.kernel, "dot", 3);
    c.task_rows = 0;
    return tern_tune_cache_add(&j->made, &c, &cost, err);
}

/* The last part of the model's path, as far as there is room. */
static void name_of(const char *path, char *out, size_t bytes)
{
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/') end--;
    for (start = end; start && path[start - 1] != '/'; start--) continue;
    const tern_shown shown = tern_show((tern_span){(const uint8_t *)path + start, end - start});
    size_t n = strlen(shown.text);
    if (n >= bytes)
        for (n = bytes - 1; n && (shown.text[n] & 0xc0) == 0x80; n--) continue; /* whole characters */
    memcpy(out, shown.text, n);
    out[n] = 0;
}

static tern_status note_decode(tern_tune_job *j, uint32_t n_threads, const tern_tune_decode_result *r, tern_error *err)
{
    if (r->n_rounds == 0) return TERN_OK;
    const tern_tune_round *last = &r->rounds[r->n_rounds - 1];
    tern_tune_decoded d = {.n_threads = n_threads,
                           .standard = last->standard,
                           .tuned = r->n_keep ? last->tuned : last->standard,
                           .n_choices = (uint32_t)r->n_keep,
                           .n_left_out = (uint32_t)(r->rounds[0].n_choices - r->n_keep)};
    name_of(j->model.text, d.model, sizeof d.model);
    return tern_tune_cache_add_decode(&j->made, &d, err);
}

static tern_status decode_on(tern_tune_job *j, uint32_t n_threads, tern_error *err)
{
    tern_kernel_choice choices[TERN_TUNE_MAX_SHAPES];
    tern_tune_decode_result r;
    const size_t n = gains_of(j, n_threads, choices);
    const tern_tune_decode_options how = {.path = j->model.text,
                                          .backend = {.n_threads = n_threads, .pin = j->o->pin},
                                          .seconds = DECODE_WAYS * tern_app_measure_seconds(j->o),
                                          .progress = tern_progress_update,
                                          .context = &j->progress};
    j->progress = (tern_progress){.label = "Decoding"};
    const tern_status status = tern_tune_decode(&how, choices, n, &r, err);
    tern_progress_end(&j->progress);
    TERN_TRY(status);
    for (size_t i = r.n_keep; i < n; i++) TERN_TRY(leave_out(j, choices[i], err));
    tern_tune_show_decode(j, n_threads, &r);
    return note_decode(j, n_threads, &r, err);
}

tern_status tern_tune_job_decode(tern_tune_job *j, tern_error *err)
{
    if (!j->o->json) printf("\nwhole model, default and choices in turns:\n");
    for (uint32_t b = 0; b < j->backends.n; b++) {
        const uint32_t n_threads = tern_cpu_n_threads(j->backends.at[b]);
        const tern_status status = decode_on(j, n_threads, err);
        if (status == TERN_CANCELLED)
            return tern_fail(err, status, "all shapes are measured and kept in %s, but not tried on the whole model",
                             tern_show_z(j->path.text).text);
        TERN_TRY(status);
    }
    return tern_tune_file_add(&j->made, j->path.text, err);
}
