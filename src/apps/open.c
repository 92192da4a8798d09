/* From flags to an engine and a session; and finding the bundled model. */
#include "apps/open.h"

#include <stdlib.h>
#include <string.h>

#include "apps/hub/hub.h"
#include "apps/progress.h"
#include "apps/ranks.h"
#include "base/file.h"
#include "base/program.h"
#include "base/show.h"
#include "quant/encoding.h"

/* Places of the bundled model relative to the program: installed, and in build/release of a source tree. */
static const char *const beside_program[] = {"../share/tern/models", "../../models"};
static const char stories[] = "stories.gguf";

static bool program_folder(tern_app_path *out)
{
    if (!tern_program_path(out->text, sizeof out->text)) return false;
    char *slash = strrchr(out->text, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Whether folder/name is there; its path goes to *path. */
static bool look_in(const char *program, const char *folder, const char *name, tern_app_path *path)
{
    int n = snprintf(path->text, sizeof path->text, "%s%s%s/%s", program, *program ? "/" : "", folder, name);
    return n < (int)sizeof path->text && tern_file_exists(path->text);
}

static bool find_bundled(const char *name, tern_app_path *path)
{
    tern_app_path program;
    if (program_folder(&program))
        for (size_t i = 0; i < sizeof beside_program / sizeof *beside_program; i++)
            if (look_in(program.text, beside_program[i], name, path)) return true;
    return look_in("", TERN_MODEL_DIR, name, path);
}

tern_status tern_app_find_model(const tern_options *options, tern_app_path *path, tern_error *err)
{
    tern_app_path named;
    const char *given = options->model ? options->model : options->hf ? named.text : getenv("TERN_MODEL");
    if (options->model && options->hf)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "-m and --hf: both found, one of them expected");
    if (options->hf) snprintf(named.text, sizeof named.text, "hf:%s", options->hf);
    if (options->model && !*options->model)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "-m \"\": a GGUF file or a folder expected");
    if (given && *given && tern_app_hub_names(given)) return tern_app_hub_find(given, path, err);
    if (given && *given) {
        TERN_TRY(tern_app_hub_check_there(given, err));
        if (snprintf(path->text, sizeof path->text, "%s", given) < (int)sizeof path->text) return TERN_OK;
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: the name is longer than %zu bytes", tern_show_z(given).text,
                         sizeof path->text - 1);
    }
    const char *name = options->bundled ? options->bundled : stories;
    if (find_bundled(name, path)) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND,
                     "no model: the bundled %s is not installed; give a GGUF file or a folder with -m", name);
}

bool tern_app_drafts_by_mtp(const tern_options *o)
{
    return o->draft && strcmp(o->draft, "mtp") == 0;
}

tern_status tern_app_check_drafts(const tern_options *o, tern_error *err)
{
    if (!tern_app_drafts_by_mtp(o) || !o->draft_model) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--draft mtp and --draft-model: both found, one of them expected");
}

/* The flags of a session over what `params` says beside. */
static tern_session_params session_params(const tern_options *o, tern_session_params params)
{
    if (o->ctx) params.n_ctx = o->ctx;
    if (o->batch) params.n_batch = o->batch;
    params.kv = tern_app_kv(o);
    params.steps = o->gpu_steps;
    params.n_state_checkpoints = o->state_checkpoints;
    params.mtp = tern_app_drafts_by_mtp(o) && !o->draft_model;
    return params;
}

static tern_status need_gpu(const char *flag, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s needs a GPU: --backend vulkan, cuda or auto expected", flag);
}

static bool runs_on_cpu(const tern_options *o)
{
    return !o->backend || strcmp(o->backend, "cpu") == 0;
}

/* Whether some layers are the GPU's, and how many: *n, beyond any model's for all of them. */
static tern_status read_gpu_layers(const char *text, bool *split, uint32_t *n, tern_error *err)
{
    char *end;
    *split = text && strcmp(text, "all") != 0;
    if (!*split) return TERN_OK;
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number > 1u << 20)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--gpu-layers %s: a whole number from 0, or \"all\" expected",
                         tern_show_z(text).text);
    *n = (uint32_t)number;
    return TERN_OK;
}

/* llama.cpp takes the flag without a GPU too and says that it is ignored: command lines written for it work, once told.
 */
static void note_gpu_layers(const char *text, bool none)
{
    static bool said;
    if (!text || none || said) return;
    said = true;
    fprintf(stderr,
            "note: --gpu-layers %s has no effect: the model runs on the CPU; --backend vulkan or cuda takes a GPU\n",
            tern_show_z(text).text);
}

tern_status tern_app_check_device(const tern_options *o, tern_error *err)
{
    bool split;
    uint32_t n = 0;
    TERN_TRY(read_gpu_layers(o->gpu_layers, &split, &n, err));
    if (!runs_on_cpu(o)) return TERN_OK;
    if (o->device) return need_gpu("device", err);
    note_gpu_layers(o->gpu_layers, split && n == 0);
    if (o->experts) return need_gpu("experts", err);
    if (o->gpu_steps) return need_gpu("gpu-steps", err);
    return o->gpu_validate ? need_gpu("gpu-validate", err) : TERN_OK;
}

const char *tern_app_tune_file(const tern_options *o)
{
    static tern_app_path path; /* for all engines of this program; a second one says nothing anew */
    static bool looked, holds;
    tern_error err = {0};
    if (o->kernel || o->no_tune || o->cpu_features) return NULL;
    if (o->activations && strcmp(o->activations, "f32") == 0) return NULL; /* what was measured are int8 products */
    if (looked) return holds ? path.text : NULL;
    looked = true;
    if (tern_tune_path(path.text, sizeof path.text, &err) != TERN_OK || !tern_file_exists(path.text)) return NULL;
    holds = tern_tune_check(path.text, &err) == TERN_OK;
    if (holds) return path.text;
    fprintf(stderr,
            "tern: %s; default kernels are used (tern tune measures again, tern tune --reset takes the file away)\n",
            err.message);
    return NULL;
}

/* Reports, once per run, parts of a file that nothing uses: the model may be more than Tern takes it for.
 */
static void note_unused(const char *path, const tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    static bool said;
    if (said || tern_engine_describe(engine, &info, NULL) != TERN_OK || !info.n_unused_tensors) return;
    said = true;
    fprintf(stderr, "tern: %s: %llu tensor%s not used: %s\n", tern_show_z(path).text,
            (unsigned long long)info.n_unused_tensors, info.n_unused_tensors == 1 ? " is" : "s are",
            info.unused_tensors);
}

/* Reports a model that is larger than the device's memory. */
static void note_experts(const tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    char some[16], all[16];
    if (tern_engine_describe(engine, &info, NULL) != TERN_OK || !info.experts) return;
    fprintf(stderr,
            "tern: %u of the model's %u experts are on the GPU at once (%s of %s): others are copied when a "
            "token needs them\n",
            info.experts_held, info.experts, tern_app_bytes(info.experts_held_bytes, some),
            tern_app_bytes(info.experts_bytes, all));
}

/* Nor do all keys and values of a long context fit, perhaps. */
static void note_kv(const tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    char some[16];
    if (tern_engine_describe(engine, &info, NULL) != TERN_OK || !info.kv_memory) return;
    fprintf(stderr,
            "tern: %s of keys and values are on the device at once: others lie in %s and are copied when a layer "
            "needs them\n",
            tern_app_bytes(info.kv_memory, some), info.kv_disk ? tern_show_z(info.kv_disk).text : "memory of the host");
}

static void note_exchange(tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    if (!tern_app_is_first() || tern_engine_describe(engine, &info, NULL) != TERN_OK) return;
    if (info.device && info.exchange) fprintf(stderr, "tern: GPUs exchange by %s\n", info.exchange);
}

tern_status tern_app_backend(const tern_options *o, tern_backend_kind *backend, tern_error *err)
{
    uint32_t kind;
    TERN_TRY(tern_choice_parse(TERN_CHOICE_BACKEND, o->backend, &kind, err));
    *backend = (tern_backend_kind)kind;
    return TERN_OK;
}

static tern_status read_choices(const tern_options *o, tern_engine_options *how, tern_error *err)
{
    uint32_t ffn, activations;
    TERN_TRY(tern_app_backend(o, &how->backend, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_FFN, o->ffn, &ffn, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_ACTIVATIONS, o->activations, &activations, err));
    how->cpu.ffn = (tern_ffn_mode)ffn;
    how->activations = (tern_activation_mode)activations;
    return TERN_OK;
}

const char *tern_app_activations(const tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    return tern_engine_describe(engine, &info, NULL) == TERN_OK ? info.activations : "";
}

tern_status tern_app_open_engine_with(tern_engine **engine, const tern_options *o, bool tokenizer, uint32_t n_threads,
                                      tern_error *err)
{
    tern_app_path path;
    const tern_encoding *unused;
    tern_progress progress = {.label = "Opening"};
    const tern_session_params session = session_params(o, (tern_session_params){.size = sizeof(tern_session_params)});
    tern_engine_options how = {.size = sizeof how,
                               .cpu = {.n_threads = n_threads, .pin = o->pin, .features = o->cpu_features},
                               .gpu = {.device = o->device, .validation = o->gpu_validate, .profile = o->profile},
                               .memory = {.session = &session,
                                          .experts = o->experts,
                                          .kv = o->kv_memory,
                                          .kv_disk = o->kv_disk,
                                          .no_check = o->no_memory_check},
                               .kernel = o->kernel,
                               .tune_file = tern_app_tune_file(o),
                               .head = o->head,
                               .no_fusion = o->no_fusion,
                               .batch_invariant = o->batch_invariant,
                               .no_tokenizer = !tokenizer,
                               .mtp = session.mtp,
                               .progress = tern_progress_update,
                               .progress_context = &progress};
    *engine = NULL;
    TERN_TRY(tern_app_check_device(o, err));
    TERN_TRY(read_choices(o, &how, err));
    if (!runs_on_cpu(o)) TERN_TRY(read_gpu_layers(o->gpu_layers, &how.gpu.split, &how.gpu.n_layers, err));
    if (o->head && strcmp(o->head, "exact") != 0) TERN_TRY(tern_encoding_parse("--head", o->head, &unused, err));
    TERN_TRY(tern_app_find_model(o, &path, err));
    TERN_TRY(tern_app_engine_ranks(&how.ranks, err));
    how.n_stages = o->stages;
    if (!how.ranks && o->stages > 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--pp %u in one process: mpirun -n %u, or a multiple, expected",
                         o->stages, o->stages);
    if (!n_threads) how.cpu.n_threads = tern_app_rank_threads();
    const tern_status status = tern_engine_load(engine, path.text, &how, err);
    tern_progress_end(&progress);
    if (status == TERN_OK) note_unused(path.text, *engine);
    if (status == TERN_OK) note_experts(*engine);
    if (status == TERN_OK) note_kv(*engine);
    if (status == TERN_OK) note_exchange(*engine);
    return status;
}

tern_status tern_app_open_engine(tern_engine **engine, const tern_options *options, bool tokenizer, tern_error *err)
{
    uint32_t n_threads = 0, n;
    *engine = NULL;
    if (options->threads) TERN_TRY(tern_app_parse_list("threads", options->threads, 1024, &n_threads, 1, &n, err));
    return tern_app_open_engine_with(engine, options, tokenizer, n_threads, err);
}

tern_status tern_app_open_reader(tern_engine **engine, const tern_options *options, tern_error *err)
{
    tern_app_path path;
    TERN_TRY(tern_app_open_engine(engine, options, true, err));
    if (tern_engine_tokenizer(*engine)) return TERN_OK;
    TERN_TRY(tern_app_find_model(options, &path, err));
    return tern_fail(err, TERN_UNSUPPORTED,
                     "%s: no tokenizer found (tokenizer.json, tokenizer.model or tokenizer.ggml keys expected)",
                     tern_show_z(path.text).text);
}

static tern_kv_type kv_type(const char *word)
{
    uint32_t type;
    tern_choice_parse(TERN_CHOICE_KV_TYPE, word, &type, NULL); /* the flag takes no other words */
    return (tern_kv_type)type;
}

tern_kv_types tern_app_kv(const tern_options *o)
{
    return (tern_kv_types){.k = kv_type(o->kv_keys ? o->kv_keys : o->kv),
                           .v = kv_type(o->kv_values ? o->kv_values : o->kv)};
}

/* Kernels that are trusted because nothing could be told about them, once for each number of them. */
static void note_untried(const tern_engine *engine)
{
    tern_engine_counters c = {.size = sizeof c};
    static uint64_t said;
    if (tern_engine_count(engine, &c, NULL) != TERN_OK || c.untried_kernels <= said) return;
    said = c.untried_kernels;
    fprintf(stderr,
            "tern: %llu kernel%s of the GPU could not be tried against the CPU, memory being short: the results are "
            "trusted (tern compare looks at them)\n",
            (unsigned long long)said, said == 1 ? "" : "s");
}

uint32_t tern_app_ctx(const tern_options *options, const tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    if (options->ctx || !options->ctx_given) return options->ctx;
    tern_engine_describe(engine, &info, NULL); /* fails on NULL alone */
    return info.n_ctx_train;
}

tern_status tern_app_open_session(tern_session **session, tern_engine *engine, const tern_options *options,
                                  tern_session_params params, tern_error *err)
{
    params = session_params(options, params);
    const uint32_t n_ctx = tern_app_ctx(options, engine);
    if (n_ctx) params.n_ctx = n_ctx;
    TERN_TRY(tern_session_open(session, engine, &params, err));
    note_untried(engine);
    return TERN_OK;
}
