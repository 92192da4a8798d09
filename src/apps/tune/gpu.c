/* tern tune --backend vulkan: the pipelines of a GPU. */
#include <string.h>

#include "apps/tune/internal.h"
#include "base/alloc.h"
#include "base/show.h"
#include "infer/tune/gpu.h"
#include "quant/encoding.h"

enum { PASS_WAYS = 4, DECODE_WAYS = 32 };

static tern_backend_options backend_of(const tern_options *o, bool profile)
{
    return (tern_backend_options){.name = o->backend, .device = o->device, .profile = profile};
}

static json_t *row_json(const tern_tune_gpu_row *r)
{
    const tern_kernel_choice *c = &r->choice;
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:I, s:f, s:b, s:b}", "encoding", c->encoding->name, "rows",
                     (int)c->rows, "cols", (int)c->cols, "tokens", (int)c->tokens, "kernel", c->kernel, "bytes",
                     (json_int_t)r->bytes, "microseconds", tern_tune_gpu_microseconds(r), "default",
                     strcmp(c->kernel, r->usual) == 0, "chosen", (int)r->best);
}

static void print_row(const tern_tune_gpu_row *r)
{
    const tern_kernel_choice *c = &r->choice;
    const bool usual = strcmp(c->kernel, r->usual) == 0;
    const double us = tern_tune_gpu_microseconds(r);
    if (usual)
        printf("\n%s, %u x %u, up to %u token%s\n    %-40s %10s %8s\n", c->encoding->name, c->rows, c->cols, c->tokens,
               c->tokens == 1 ? "" : "s", "kernel", "us", "GB/s");
    printf("  %c %-40s %10.1f %8.1f%s\n", r->best ? '*' : ' ', c->kernel, us, us > 0 ? (double)r->bytes / us * 1e-3 : 0,
           usual ? "  default" : "");
}

static void show(const tern_tune_job *j, const tern_tune_gpu_result *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (j->o->json) json_array_append_new(j->results, row_json(&r->rows[i]));
        else print_row(&r->rows[i]);
    }
    fflush(stdout);
}

/* The usual kernel of a row's product: the row before it that is one. */
static const tern_tune_gpu_row *usual_of(const tern_tune_gpu_result *r, uint32_t i)
{
    while (i && strcmp(r->rows[i].choice.kernel, r->rows[i].usual) != 0) i--;
    return &r->rows[i];
}

static tern_status keep(tern_tune_job *j, const tern_tune_gpu_result *r, tern_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const tern_tune_gpu_row *row = &r->rows[i];
        const tern_tune_cost cost = {.bytes = row->bytes,
                                     .microseconds = tern_tune_gpu_microseconds(row),
                                     .default_microseconds = tern_tune_gpu_microseconds(usual_of(r, i))};
        if (row->best) TERN_TRY(tern_tune_cache_add(&j->made, &row->choice, &cost, err));
    }
    return TERN_OK;
}

/* The choices for one token that are not the default, those that gain most in a token first. */
static size_t gains(const tern_tune_gpu_result *r, tern_kernel_choice *out)
{
    double saved[TERN_TUNE_MAX_SHAPES];
    size_t n = 0;
    for (uint32_t i = 0; i < r->n && n < TERN_TUNE_MAX_SHAPES; i++) {
        const tern_tune_gpu_row *row = &r->rows[i], *usual = usual_of(r, i);
        if (!row->best || row == usual || row->choice.tokens != 1) continue;
        const double gain = (tern_tune_gpu_microseconds(usual) - tern_tune_gpu_microseconds(row)) * (double)usual->n;
        size_t at = n++;
        for (; at && saved[at - 1] < gain; at--) saved[at] = saved[at - 1], out[at] = out[at - 1];
        saved[at] = gain;
        out[at] = row->choice;
    }
    return n;
}

/* A choice that did not help decoding goes back to the default. */
static tern_status leave_out(tern_tune_job *j, const tern_tune_gpu_result *r, const tern_kernel_choice *c,
                             tern_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const tern_kernel_choice *k = &r->rows[i].choice;
        if (k->encoding != c->encoding || k->rows != c->rows || k->cols != c->cols || k->tokens != c->tokens ||
            strcmp(k->kernel, c->kernel) != 0)
            continue;
        const tern_tune_gpu_row *usual = usual_of(r, i);
        const double us = tern_tune_gpu_microseconds(usual);
        return tern_tune_cache_add(&j->made, &usual->choice, &(tern_tune_cost){usual->bytes, us, us}, err);
    }
    return TERN_OK;
}

static tern_status decode(tern_tune_job *j, const tern_tune_gpu_result *measured, tern_error *err)
{
    tern_kernel_choice choices[TERN_TUNE_MAX_SHAPES];
    tern_tune_decode_result r = {0};
    const size_t n = gains(measured, choices);
    const tern_tune_decode_options how = {.path = j->model.text,
                                          .backend = backend_of(j->o, false),
                                          .seconds = DECODE_WAYS * tern_app_measure_seconds(j->o),
                                          .progress = tern_progress_update,
                                          .context = &j->progress};
    j->progress = (tern_progress){.label = "Decoding"};
    const tern_status status = tern_tune_decode(&how, choices, n, &r, err);
    tern_progress_end(&j->progress);
    TERN_TRY(status);
    for (size_t i = r.n_keep; i < n; i++) TERN_TRY(leave_out(j, measured, &choices[i], err));
    if (!j->o->json) printf("\nwhole model, default and choices in turns:\n");
    tern_tune_show_decode(j, 0, &r);
    return tern_tune_file_add(&j->made, j->path.text, err);
}

static tern_status measure(tern_tune_job *j, tern_tune_gpu_result *r, tern_error *err)
{
    const tern_engine_params how = {.backend = backend_of(j->o, true), .no_memory_check = j->o->no_memory_check};
    const tern_model_options model = {.no_tokenizer = true};
    const tern_tune_gpu_options options = {.n_batch = j->o->batch,
                                           .seconds = PASS_WAYS * tern_app_measure_seconds(j->o),
                                           .progress = tern_progress_update,
                                           .context = &j->progress};
    tern_engine *engine;
    TERN_TRY(tern_engine_open_path(&engine, j->model.text, &model, &how, err));
    const tern_status status = tern_tune_gpu(engine, &options, r, err);
    tern_progress_end(&j->progress);
    tern_engine_close(engine);
    return status;
}

tern_status tern_tune_job_gpu(tern_tune_job *j, tern_error *err)
{
    tern_tune_key key;
    tern_tune_gpu_result *r = tern_calloc(1, sizeof *r);
    if (!r) return tern_fail_alloc(err, sizeof *r);
    tern_status status;
    tern_tune_key_of(&key);
    TERN_GOTO(tern_tune_file_try(j->path.text, err));
    TERN_GOTO(tern_tune_cache_init(&j->made, key.cpu, key.build, err));
    TERN_GOTO(measure(j, r, err));
    show(j, r);
    TERN_GOTO(keep(j, r, err));
    TERN_GOTO(tern_tune_file_add(&j->made, j->path.text, err));
    TERN_GOTO(decode(j, r, err));
fail:
    tern_free(r);
    return status;
}
