/* tern bench: speed as a share of what this machine can do, measured in the same run. */
#include <string.h>
#include <time.h>

#include "apps/bench/bench.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/rng.h"

enum { DEFAULT_STEPS = 8 };

static const tern_flag flags[] = {
    {"prompt-tokens", 'p', TERN_FLAG_U32, "N", offsetof(tern_options, n_prompt), 0, 1 << 20,
     "Tokens of prefill; 0 skips it"},
    {"n-tokens", 'n', TERN_FLAG_U32, "N", offsetof(tern_options, n_tokens), 0, 1 << 20, "Tokens of decode; 0 skips it"},
    {"depth", 'd', TERN_FLAG_U32, "N", offsetof(tern_options, depth), 1, 1 << 24,
     "Tokens in the cache before decoding"},
    {"repeats", 'r', TERN_FLAG_U32, "N", offsetof(tern_options, repeats), 1, TERN_BENCH_MAX_REPEATS,
     "Runs of each; the median counts"},
    {"threads", 't', TERN_FLAG_TEXT, "LIST", offsetof(tern_options, threads), 0, 0,
     "Numbers of threads: 1,2; 1 and all cores when not given"},
    {"gpu-steps", 0, TERN_FLAG_TEXT, "LIST", offsetof(tern_options, steps_list), 0, 0,
     "Tokens that the GPU decodes at once: 1,8 shows what a submit costs; 8 when not given", .more = true},
    {"parallel", 0, TERN_FLAG_TEXT, "LIST", offsetof(tern_options, parallel), 0, 0,
     "Sequences decoded together: 1,8,16; and with -p above 0 what a prefix in the cache saves"},
    {"profile", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, profile), 0, 0,
     "Where the time goes; every kind of op, in a run of its own"},
    {"pin", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, pin), 0, 0, "Tie each thread to a core", .more = true},
    {"cpu-features", 0, TERN_FLAG_TEXT, "LEVEL", offsetof(tern_options, cpu_features), 0, 0,
     "scalar, avx2, ... at most, or -name,...", .more = true},
    {"ffn", 0, TERN_FLAG_CHOICE, "auto|dense|sparse", offsetof(tern_options, ffn), 0, 0,
     "Whether weights that a squared ReLU makes irrelevant are skipped", .more = true},
    {"kernel", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, kernel), 0, 0,
     "Kernel of ternary layers, or pipelines of a GPU; on the CPU dot, t160, lut, rsr or rsr:K (blocks of K rows), for "
     "few tokens; on a GPU names, separated by commas (docs/guides/tuning.md); default: the choice of tern tune"},
    {"no-tune", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, no_tune), 0, 0,
     "Default kernels, whatever tern tune has measured"},
    {"kernels", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, kernels), 0, 0,
     "Measure kernels of ternary weights, no model; each on its own, cold, over many shapes"},
    {"shapes", 0, TERN_FLAG_TEXT, "LIST", offsetof(tern_options, shapes), 0, 0,
     "With --kernels: ROWSxCOLS,...; squares of 1024 to 16384 and BitNet's when not given"},
    {"plot", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, plot), 0, 0,
     "With --kernels: draw them and the roofline, as SVG"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"cold-mib", 0, TERN_FLAG_U32, "N", offsetof(tern_options, cold_mib), 1, 1 << 20,
     "With --kernels: MiB of copies that are used in turn; a third more than the caches when not given", .more = true},
    {"ms", 0, TERN_FLAG_U32, "N", offsetof(tern_options, measure_ms), 1, 60000,
     "With --kernels: how long each is measured; 60 when not given", .more = true},
    TERN_APP_FLAGS_KV("Numbers in the KV cache; auto: f32 up to 64 MiB, else f16"),
    {"batch", 'b', TERN_FLAG_U32, "N", offsetof(tern_options, batch), 1, 65536,
     "Tokens of a prefill step; 512 when not given"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Adapters", tern_flags_lora},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device", tern_flags_device},
                                         {"Several processes (mpirun)", tern_flags_ranks, true},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

/* Where and when: what a record of a measurement needs to be compared with another. */
static json_t *machine_json(const tern_bench_subject *s)
{
    char os[200], date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    tern_system_name(os, sizeof os);
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:o, s:o, s:s, s:s, s:n}", "os", tern_app_json_text(os, strlen(os)), "driver",
                     *s->driver ? tern_app_json_text(s->driver, strlen(s->driver)) : json_null(), "date", date,
                     "version", tern_version(), "browser");
}

static tern_status print(const tern_bench_row *rows, uint32_t n, const tern_bench_subject *s, const tern_options *o,
                         tern_error *err)
{
    char size[16];
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, tern_bench_row_json(&rows[i]));
    json_t *routing = !s->layer_experts
                          ? json_null()
                          : json_pack("{s:i, s:i, s:I}", "layer_experts", (int)s->layer_experts, "token_experts",
                                      (int)s->token_experts, "bytes_per_token", (json_int_t)s->token_expert_bytes);
    if (o->json)
        return tern_app_print_json(
            json_pack("{s:o, s:o, s:s, s:s, s:s, s:s?, s:s?, s:b, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:s?, "
                      "s:i, s:i, s:i, s:i, s:o, s:o}",
                      s->is_cpu ? "cpu" : "device", tern_app_json_text(s->device, strlen(s->device)), "machine",
                      machine_json(s), "model", s->name, "head", s->head, "activations", s->activations, "kernel",
                      o->kernel, "no_fusion", o->no_fusion, "tuned", (int)s->tuned, "parameters",
                      (json_int_t)s->parameters, "weight_bytes", (json_int_t)s->bytes, "adapters", (int)s->n_loras,
                      "adapter_bytes", (json_int_t)s->lora_bytes, "experts", (json_int_t)s->experts, "experts_held",
                      (json_int_t)s->experts_held, "experts_held_bytes", (json_int_t)s->experts_held_bytes, "kv_memory",
                      (json_int_t)s->kv_memory, "kv_disk", s->kv_disk, "prompt_tokens", (int)o->n_prompt,
                      "generated_tokens", (int)o->n_tokens, "depth", (int)o->depth, "repeats", (int)o->repeats,
                      "routing", routing, "results", list),
            err);
    json_decref(list);
    json_decref(routing);
    printf("%s\n%s, head %s, %s activations%s%s: %.2f G parameters, %s\n", s->device, s->name, s->head, s->activations,
           o->kernel ? ", kernel " : "",
           o->kernel  ? o->kernel
           : s->tuned ? ", kernels as measured by tern tune"
                      : "",
           (double)s->parameters * 1e-9, tern_app_bytes(s->bytes, size));
    if (o->no_fusion) printf("without fusion: %s\n", o->no_fusion);
    if (s->n_loras)
        printf("%u adapter%s: %s\n", s->n_loras, s->n_loras == 1 ? "" : "s", tern_app_bytes(s->lora_bytes, size));
    if (s->layer_experts)
        printf("%u of %u experts of each layer for a token: %s of weights\n", s->token_experts, s->layer_experts,
               tern_app_bytes(s->token_expert_bytes, size));
    for (uint32_t i = 0; i < n; i++) tern_bench_print_row(&rows[i], o);
    tern_bench_print_submits(rows, n);
    return TERN_OK;
}

/* A row for each number of threads. */
static tern_status cpu_rows(const tern_options *o, tern_bench_row *rows, uint32_t *n, tern_error *err)
{
    uint32_t counts[TERN_BENCH_MAX_ROWS] = {1, tern_cpu_cores()};
    *n = counts[1] > 1 ? 2 : 1;
    if (o->steps_list)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--gpu-steps needs a GPU: --backend vulkan, cuda or auto expected");
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, counts, TERN_BENCH_MAX_ROWS, n, err));
    for (uint32_t i = 0; i < *n; i++) rows[i].n_threads = counts[i];
    return TERN_OK;
}

/* A row for each number of steps; split over CPU and GPU a token is decoded at a time, and threads count. */
static tern_status gpu_rows(const tern_options *o, tern_bench_row *rows, uint32_t *n, tern_error *err)
{
    uint32_t counts[TERN_BENCH_MAX_ROWS] = {DEFAULT_STEPS}, n_threads = 0, one;
    *n = 1;
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, &n_threads, 1, &one, err));
    if (o->steps_list)
        TERN_TRY(tern_app_parse_list("gpu-steps", o->steps_list, TERN_SESSION_MAX_STEPS, counts, TERN_BENCH_MAX_ROWS, n,
                                     err));
    for (uint32_t i = 0; i < *n; i++) rows[i] = (tern_bench_row){.n_threads = n_threads, .n_steps = counts[i]};
    return TERN_OK;
}

/* Ids that every vocabulary has: no tokenizer is needed. */
static tern_status make_ids(tern_bench *b, tern_error *err)
{
    tern_rng rng = {1};
    b->n_ids = b->options->n_prompt + b->options->depth + b->options->n_tokens;
    b->ids = tern_alloc(b->n_ids * sizeof *b->ids);
    if (!b->ids) return tern_fail_alloc(err, b->n_ids * sizeof *b->ids);
    for (uint32_t i = 0; i < b->n_ids; i++) b->ids[i] = (int32_t)tern_rng_below(&rng, 60);
    return TERN_OK;
}

static tern_status measure(tern_bench *b, tern_bench_row *rows, uint32_t n, tern_bench_subject *s, tern_error *err)
{
    const tern_options *o = b->options;
    b->n_steps = n * (o->repeats * ((o->n_prompt ? 1u : 0u) + (o->n_tokens ? 1u : 0u)) + (o->profile ? 1u : 0u)) + 1;
    tern_status status;
    TERN_GOTO(make_ids(b, err));
    for (uint32_t i = 0; i < n; i++) TERN_GOTO(tern_bench_measure(b, &rows[i], s, err));
fail:
    tern_progress_end(&b->progress);
    tern_free(b->ids);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    if (o->kernels) return tern_bench_kernels(o, err);
    if (o->shapes || o->plot || o->cold_mib || o->measure_ms)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--shapes, --plot, --cold-mib and --ms need --kernels, which was not given");
    if (o->parallel) return tern_bench_parallel(o, err);
    uint32_t n = 0;
    tern_bench_subject s = {0};
    tern_bench b = {.options = o, .progress = {.label = "Measuring"}};
    tern_bench_row *rows = tern_calloc(TERN_BENCH_MAX_ROWS, sizeof *rows);
    if (!rows) return tern_fail_alloc(err, TERN_BENCH_MAX_ROWS * sizeof *rows);
    bool gpu = o->backend && strcmp(o->backend, "cpu") != 0;
    tern_status status;
    TERN_GOTO(gpu ? gpu_rows(o, rows, &n, err) : cpu_rows(o, rows, &n, err));
    TERN_GOTO(measure(&b, rows, n, &s, err));
    TERN_GOTO(print(rows, n, &s, o, err));
fail:
    for (uint32_t i = 0; i < n; i++) tern_free(rows[i].profiles);
    tern_free(rows);
    return status;
}

static void defaults(tern_options *o)
{
    o->n_prompt = 512;
    o->n_tokens = 128;
    o->depth = TERN_BENCH_DEPTH;
    o->repeats = 5;
}

const tern_command tern_command_bench = {
    .name = "bench",
    .usage = "-m MODEL [-p 512] [-n 128] [-t 1,2] [-r 5] [--backend vulkan] [--profile] [--json]; --kernels [--shapes "
             "LIST] [--plot FILE.svg]",
    .summary = "Measure speed as a share of what this machine can do",
    .detail =
        "With --kernels: matrices alone, no model.\n"
        "Prefill is compared with the rate of integer dot products in registers, decode with the rate at which the\n"
        "same threads, or the same GPU, read memory; both are measured in the same run.",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .defaults = defaults,
    .run = run,
};
