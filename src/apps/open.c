/* From flags to a model, an engine and a session; and finding the bundled model. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/app.h"
#include "apps/progress.h"
#include "apps/tune.h"
#include "base/file.h"
#include "base/show.h"
#include "infer/open.h"

/* Places of the bundled model relative to the program: installed, and in build/release of a source tree. */
static const char *const beside_program[] = {"../share/tern/models", "../../models"};
static const char bundled_name[] = "stories.gguf";

static bool program_folder(tern_app_path *out)
{
    ssize_t n = readlink("/proc/self/exe", out->text, sizeof out->text - 1);
    if (n <= 0) return false;
    out->text[n] = 0;
    char *slash = strrchr(out->text, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Whether folder/name is there; its path goes to *path. */
static bool look_in(const char *program, const char *folder, tern_app_path *path)
{
    int n = snprintf(path->text, sizeof path->text, "%s%s%s/%s", program, *program ? "/" : "", folder, bundled_name);
    return n < (int)sizeof path->text && tern_file_exists(path->text);
}

static bool find_bundled(tern_app_path *path)
{
    tern_app_path program;
    if (program_folder(&program))
        for (size_t i = 0; i < sizeof beside_program / sizeof *beside_program; i++)
            if (look_in(program.text, beside_program[i], path)) return true;
    return look_in("", TERN_MODEL_DIR, path);
}

tern_status tern_app_find_model(const tern_options *options, tern_app_path *path, tern_error *err)
{
    const char *given = options->model ? options->model : getenv("TERN_MODEL");
    if (given && *given) {
        if (snprintf(path->text, sizeof path->text, "%s", given) < (int)sizeof path->text) return TERN_OK;
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: the name is longer than %zu bytes", tern_show_z(given).text,
                         sizeof path->text - 1);
    }
    if (find_bundled(path)) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND,
                     "no model: the bundled %s is not installed; give a GGUF file or a folder with -m", bundled_name);
}

tern_status tern_app_open_model(tern_model **model, const tern_options *options, bool tokenizer, tern_error *err)
{
    tern_app_path path;
    TERN_TRY(tern_app_find_model(options, &path, err));
    tern_progress progress = {.label = "Opening"};
    tern_model_options how = {
        .no_tokenizer = !tokenizer, .progress = tern_progress_update, .progress_context = &progress};
    tern_status status = tern_model_open(model, path.text, &how, err);
    tern_progress_end(&progress);
    return status;
}

static tern_status need_vulkan(const char *flag, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s goes with --backend vulkan", flag);
}

static tern_status read_gpu_layers(const char *text, tern_backend_options *out, tern_error *err)
{
    char *end;
    if (strcmp(text, "all") == 0) return TERN_OK;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n > 1u << 20)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--gpu-layers %s: a whole number from 0, or \"all\" expected",
                         tern_show_z(text).text);
    out->split = true;
    out->gpu_layers = (uint32_t)n;
    return TERN_OK;
}

tern_status tern_app_backend(const tern_options *o, uint32_t n_threads, tern_backend_options *out, tern_error *err)
{
    *out = (tern_backend_options){.name = o->backend,
                                  .n_threads = n_threads,
                                  .pin = o->pin,
                                  .cpu_features = o->cpu_features,
                                  .kernel = o->kernel,
                                  .device = o->device,
                                  .validation = o->gpu_validate,
                                  .profile = o->profile};
    if (o->gpu_layers) TERN_TRY(read_gpu_layers(o->gpu_layers, out, err));
    if (o->kernel && !out->split && o->backend && strcmp(o->backend, "cpu") != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--kernel goes with --backend cpu");
    if (o->backend && strcmp(o->backend, "cpu") != 0) return TERN_OK;
    if (o->device) return need_vulkan("device", err);
    if (o->gpu_layers) return need_vulkan("gpu-layers", err);
    if (o->gpu_steps) return need_vulkan("gpu-steps", err);
    return o->gpu_validate ? need_vulkan("gpu-validate", err) : TERN_OK;
}

tern_status tern_app_open_engine_with(tern_engine **engine, const tern_options *options, bool tokenizer,
                                      uint32_t n_threads, tern_error *err)
{
    tern_engine_params params = {0};
    tern_app_path path;
    *engine = NULL;
    TERN_TRY(tern_app_backend(options, n_threads, &params.backend, err));
    tern_app_tuned(options, &params.backend);
    params.head_exact = options->head && strcmp(options->head, "exact") == 0;
    if (!params.head_exact) TERN_TRY(tern_app_encoding("head", options->head, &params.head, err));
    TERN_TRY(tern_app_find_model(options, &path, err));
    tern_progress opening = {.label = "Opening"}, progress = {.label = "Preparing"};
    const tern_model_options how = {
        .no_tokenizer = !tokenizer, .progress = tern_progress_update, .progress_context = &opening};
    params.progress = tern_progress_update;
    params.progress_context = &progress;
    const tern_status status = tern_engine_open_path(engine, path.text, &how, &params, err);
    tern_progress_end(&opening);
    tern_progress_end(&progress);
    return status;
}

tern_status tern_app_open_engine(tern_engine **engine, const tern_options *options, bool tokenizer, tern_error *err)
{
    uint32_t n_threads = 0, n;
    *engine = NULL;
    if (options->threads) TERN_TRY(tern_app_parse_list("threads", options->threads, 1024, &n_threads, 1, &n, err));
    return tern_app_open_engine_with(engine, options, tokenizer, n_threads, err);
}

tern_kv_type tern_app_kv(const tern_options *options)
{
    if (!options->kv || strcmp(options->kv, "auto") == 0) return TERN_KV_AUTO;
    return strcmp(options->kv, "f32") == 0 ? TERN_KV_F32 : TERN_KV_F16;
}

tern_status tern_app_open_session(tern_session **session, tern_engine *engine, const tern_options *options,
                                  tern_session_params params, tern_error *err)
{
    if (options->ctx) params.n_ctx = options->ctx;
    if (options->batch) params.n_batch = options->batch;
    params.kv = tern_app_kv(options);
    params.steps = options->gpu_steps;
    return tern_session_open(session, engine, &params, err);
}

tern_status tern_app_tokenizer(const tern_engine *engine, const tern_tokenizer **tokenizer, tern_error *err)
{
    *tokenizer = tern_model_tokenizer(tern_engine_model(engine));
    if (*tokenizer) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "the model has no tokenizer (no tokenizer.json, tokenizer.model or tokenizer.ggml keys)");
}
