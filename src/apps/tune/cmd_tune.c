/* tern tune: measures which kernel serves each shape of a model best on this machine, and keeps the choices. */
#include <errno.h>
#include <string.h>

#include "apps/model.h"
#include "apps/tune/internal.h"
#include "base/file.h"
#include "base/show.h"

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
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag device_flags[] = {
    {"backend", 0, TERN_FLAG_CHOICE, "cpu|vulkan|cuda", offsetof(tern_options, backend), 0, 0,
     "The backend to measure; cpu when not given"},
    {"device", 0, TERN_FLAG_TEXT, "DEVICE", offsetof(tern_options, device), 0, 0,
     "The GPU: its number in `tern devices`, or a part of its name"},
    {"batch", 'b', TERN_FLAG_U32, "N", offsetof(tern_options, batch), 1, 512,
     "On a GPU: tokens of the prefill that is measured; 512 when not given"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {"Model", tern_flags_model}, {"Device", device_flags}, {0}};

static tern_status print_json(const tern_tune_job *j, tern_error *err)
{
    tern_tune_cache c;
    TERN_TRY(tern_tune_file_read(&c, j->path.text, err));
    json_t *out = tern_tune_cache_document(&c, j->path.text, NULL);
    json_object_set_new(out, "model", tern_app_json_text(j->model.text, strlen(j->model.text)));
    json_object_set(out, "results", j->results);
    json_object_set(out, "rounds", j->decodes);
    tern_tune_cache_deinit(&c);
    return tern_app_print_json(out, err);
}

static tern_status measure(tern_tune_job *j, tern_error *err)
{
    tern_model *model;
    TERN_TRY(tern_app_find_model(j->o, &j->model, err));
    TERN_TRY(tern_app_check_device(j->o, err));
    if (j->o->backend && strcmp(j->o->backend, "cpu") != 0) return tern_tune_job_gpu(j, err);
    TERN_TRY(tern_app_open_model(&model, j->o, false, err));
    tern_status status = tern_tune_job_shapes(j, model, err);
    tern_progress_end(&j->progress);
    tern_model_close(model);
    memset(j->shapes, 0, sizeof j->shapes);
    return status == TERN_OK ? tern_tune_job_decode(j, err) : status;
}

static tern_status tune(tern_tune_job *j, tern_error *err)
{
    if (j->o->json) {
        j->results = json_array();
        j->decodes = json_array();
    }
    tern_status status = measure(j, err);
    if (status == TERN_OK && j->o->json) status = print_json(j, err);
    else if (status == TERN_CANCELLED && j->made.n) fprintf(stderr, "%s\n", err->message);
    else if (status == TERN_OK) printf("\nkept in %s\n", tern_show_z(j->path.text).text);
    json_decref(j->results);
    json_decref(j->decodes);
    tern_app_backends_close(&j->backends);
    tern_tune_cache_deinit(&j->made);
    return status;
}

/* A file of another CPU or build is shown as well, with why it is not used. */
static tern_status show(const tern_tune_job *j, tern_error *err)
{
    tern_tune_cache c;
    tern_error why = {0};
    if (!tern_file_exists(j->path.text))
        return tern_fail(err, TERN_NOT_FOUND, "%s: no measurement found; tern tune makes one",
                         tern_show_z(j->path.text).text);
    TERN_TRY(tern_tune_file_read_any(&c, j->path.text, err));
    const char *not_used = tern_tune_file_check(&c, &why) == TERN_OK ? NULL : why.message;
    tern_status status = TERN_OK;
    if (j->o->json) status = tern_app_print_json(tern_tune_cache_document(&c, j->path.text, not_used), err);
    else tern_tune_show_cache(&c, j->path.text, not_used);
    tern_tune_cache_deinit(&c);
    return status;
}

static tern_status reset(const tern_tune_job *j, tern_error *err)
{
    if (remove(j->path.text) == 0) fprintf(stderr, "%s: removed\n", tern_show_z(j->path.text).text);
    else if (errno == ENOENT)
        fprintf(stderr, "%s: no measurement found; tern tune makes one\n", tern_show_z(j->path.text).text);
    else return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(j->path.text).text, strerror(errno));
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_tune_job j = {.o = o, .progress = {.label = "Measuring"}};
    if (o->show_choices && o->reset)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--show and --reset: both found, one of them expected");
    TERN_TRY(tern_tune_path(j.path.text, sizeof j.path.text, err));
    if (o->reset) return reset(&j, err);
    return o->show_choices ? show(&j, err) : tune(&j, err);
}

const tern_command tern_command_tune = {
    .name = "tune",
    .usage = "-m MODEL [-t 1,2] [--backend vulkan] [--json]; --show; --reset",
    .summary = "Measure which kernel serves each layer best here, and keep it",
    .detail = "Every way to multiply each shape of the model's ternary layers with a token is measured, with weights "
              "that are in\n"
              "no cache. Then the whole model decodes with the defaults and with the fastest ones in turns, and those "
              "that do\n"
              "not help are left out. Choices are kept for this CPU and this build, and used by every command that "
              "runs a\n"
              "model there, unless it has --kernel, --no-tune or --cpu-features. All of them give the same text.\n"
              "On a GPU (--backend vulkan) the model itself runs, with one pipeline after the other for each product.\n"
              "Ctrl-C keeps the shapes that are done.",
    .groups = groups,
    .run = run,
};
