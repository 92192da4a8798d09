/* tern bench: speed as a share of what this machine can do, measured in the same run. */
#include <stdlib.h>
#include <string.h>

#include "apps/app.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "base/show.h"

enum { MAX_REPEATS = 100, MAX_COUNTS = 16, DECODE_AFTER = 64 };
static const double measure_seconds = 0.5;

static const tern_flag flags[] = {
    {"prompt-tokens", 'p', TERN_FLAG_U32, "N", offsetof(tern_options, n_prompt), 0, 1 << 20,
     "Tokens of prefill; 0 skips it"},
    {"n-tokens", 'n', TERN_FLAG_U32, "N", offsetof(tern_options, n_tokens), 0, 1 << 20, "Tokens of decode; 0 skips it"},
    {"repeats", 'r', TERN_FLAG_U32, "N", offsetof(tern_options, repeats), 1, MAX_REPEATS,
     "Runs of each; the median counts"},
    {"threads", 't', TERN_FLAG_TEXT, "LIST", offsetof(tern_options, threads), 0, 0,
     "Numbers of threads: 1,2; 1 and all cores when not given"},
    {"pin", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, pin), 0, 0, "Tie each thread to a core"},
    {"cpu-features", 0, TERN_FLAG_TEXT, "LEVEL", offsetof(tern_options, cpu_features), 0, 0,
     "scalar, avx2, ... at most, or -name,..."},
    {"head", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, head), 0, 0,
     "Output head: exact, q8_0, q6_k, q4_k, ..."},
    {"kv", 0, TERN_FLAG_CHOICE, "auto|f16|f32", offsetof(tern_options, kv), 0, 0,
     "Numbers in the KV cache; auto: f32 up to 64 MiB, else f16"},
    {"batch", 'b', TERN_FLAG_U32, "N", offsetof(tern_options, batch), 1, 65536,
     "Tokens of a prefill step; 512 when not given"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {"Model", tern_flags_model}, {0}};

/* Tokens per second of each repeat, sorted. */
typedef struct rates {
    double at[MAX_REPEATS];
    uint32_t n;
} rates;

/* What one number of threads gave. */
typedef struct row {
    uint32_t n_threads;
    rates prefill, decode;
    double first_token_ms;
    double operations_per_token; /* integer multiplications and additions of the layers */
    double weight_bytes_per_token, allocations_per_token;
    double read_bandwidth, dot_rate; /* bytes and multiply-adds per second */
    uint64_t resident, peak_resident;
} row;

typedef struct bench {
    const tern_options *options;
    tern_engine *engine;
    tern_session *session;
    int32_t *ids;
    uint32_t n_ids;
    tern_progress progress;
    uint32_t n_steps, steps_done;
} bench;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_rates(rates *r)
{
    qsort(r->at, r->n, sizeof *r->at, by_size);
}

static double median(const rates *r)
{
    if (r->n == 0) return 0;
    return (r->at[(r->n - 1) / 2] + r->at[r->n / 2]) / 2;
}

static tern_status step_done(bench *b, tern_error *err)
{
    b->steps_done++;
    bool go_on = tern_progress_update(&b->progress, (float)b->steps_done / (float)b->n_steps);
    return go_on ? TERN_OK : tern_app_fail_interrupted(err);
}

/* A line of /proc/self/status in bytes; 0 when it is not there. */
static uint64_t process_bytes(const char *key)
{
    char line[256];
    uint64_t kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) kb = strtoull(line + strlen(key) + 1, NULL, 10);
    if (f) fclose(f);
    return kb * 1024;
}

/* The most memory so far counts from now on. */
static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) fputs("5", f);
    if (f) fclose(f);
}

static tern_status time_prefill(bench *b, row *out, tern_error *err)
{
    const uint32_t n = b->options->n_prompt;
    for (uint32_t i = 0; i < b->options->repeats && n; i++) {
        tern_session_truncate(b->session, 0);
        const double start = tern_app_seconds();
        TERN_TRY(tern_session_append(b->session, b->ids, n, err));
        out->prefill.at[out->prefill.n++] = n / (tern_app_seconds() - start);
        TERN_TRY(step_done(b, err));
    }
    sort_rates(&out->prefill);
    return TERN_OK;
}

static uint64_t weight_bytes(const tern_engine *engine)
{
    tern_backend_counters c = {0};
    tern_engine_backend(engine)->counters(tern_engine_backend(engine), &c);
    return c.weight_bytes;
}

static tern_status time_decode(bench *b, row *out, tern_error *err)
{
    const uint32_t n = b->options->n_tokens;
    if (n == 0) return TERN_OK;
    tern_session_truncate(b->session, 0);
    TERN_TRY(tern_session_append(b->session, b->ids, DECODE_AFTER, err));
    tern_session_want(b->session, 1); /* as greedy decoding does; counts with --head exact */
    for (uint32_t i = 0; i < b->options->repeats; i++) {
        const uint64_t bytes = weight_bytes(b->engine), allocations = tern_alloc_count();
        tern_session_truncate(b->session, DECODE_AFTER);
        const double start = tern_app_seconds();
        for (uint32_t t = 0; t < n; t++) TERN_TRY(tern_session_append(b->session, b->ids + DECODE_AFTER + t, 1, err));
        out->decode.at[out->decode.n++] = n / (tern_app_seconds() - start);
        out->weight_bytes_per_token = (double)(weight_bytes(b->engine) - bytes) / n;
        out->allocations_per_token = (double)(tern_alloc_count() - allocations) / n;
        TERN_TRY(step_done(b, err));
    }
    sort_rates(&out->decode);
    return TERN_OK;
}

static double operations_per_token(const tern_model *model)
{
    double n = 0;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (w->encoding && w->encoding->ternary) n += 2.0 * w->rows * w->cols;
        }
    return n;
}

/* Opens everything and computes one token, as the first word of an answer would be. */
static tern_status open_timed(bench *b, row *out, tern_error *err)
{
    const tern_options *o = b->options;
    const double start = tern_app_seconds();
    uint32_t after = o->n_tokens ? DECODE_AFTER + o->n_tokens : 1;
    tern_session_params params = {.n_ctx = o->n_prompt > after ? o->n_prompt : after};
    TERN_TRY(tern_app_open_engine_with(&b->engine, o, true, out->n_threads, err));
    TERN_TRY(tern_app_open_session(&b->session, b->engine, o, params, err));
    TERN_TRY(tern_session_append(b->session, b->ids, 1, err));
    out->first_token_ms = (tern_app_seconds() - start) * 1e3;
    return TERN_OK;
}

static void close_engine(bench *b)
{
    tern_session_close(b->session);
    tern_engine_close(b->engine);
    b->session = NULL;
    b->engine = NULL;
}

static tern_status measure_row(bench *b, row *out, tern_error *err)
{
    forget_peak();
    TERN_TRY(open_timed(b, out, err));
    TERN_TRY(time_prefill(b, out, err));
    TERN_TRY(time_decode(b, out, err));
    out->resident = process_bytes("VmRSS");
    out->peak_resident = process_bytes("VmHWM");
    out->operations_per_token = operations_per_token(tern_engine_model(b->engine));
    out->read_bandwidth = tern_engine_measure(b->engine, TERN_MEASURE_READ, measure_seconds);
    out->dot_rate = tern_engine_measure(b->engine, TERN_MEASURE_DOTS, measure_seconds);
    return TERN_OK;
}

static json_t *rates_json(const rates *r)
{
    if (r->n == 0) return json_null();
    return json_pack("{s:f, s:f, s:f}", "median", median(r), "min", r->at[0], "max", r->at[r->n - 1]);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double operations_share(const row *r)
{
    return share(median(&r->prefill) * r->operations_per_token, 2 * r->dot_rate);
}

static double bandwidth_share(const row *r)
{
    return share(median(&r->decode) * r->weight_bytes_per_token, r->read_bandwidth);
}

static json_t *row_json(const row *r)
{
    return json_pack("{s:i, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f}", "threads", (int)r->n_threads,
                     "prefill_tokens_per_second", rates_json(&r->prefill), "decode_tokens_per_second",
                     rates_json(&r->decode), "operations_per_token", r->operations_per_token,
                     "operations_per_second_possible", 2 * r->dot_rate, "operations_share", operations_share(r),
                     "weight_bytes_per_token", r->weight_bytes_per_token, "read_bandwidth", r->read_bandwidth,
                     "bandwidth_share", bandwidth_share(r), "allocations_per_token", r->allocations_per_token,
                     "resident_bytes", (json_int_t)r->resident, "peak_resident_bytes", (json_int_t)r->peak_resident,
                     "first_token_ms", r->first_token_ms);
}

static void print_row(const row *r, const tern_options *o)
{
    char a[16], b[16], c[16];
    printf("\n%u thread%s\n", r->n_threads, r->n_threads == 1 ? "" : "s");
    if (r->prefill.n)
        printf("  prefill of %u: %.1f tokens/s (%.1f to %.1f)", o->n_prompt, median(&r->prefill), r->prefill.at[0],
               r->prefill.at[r->prefill.n - 1]);
    if (r->prefill.n && r->operations_per_token > 0)
        printf("; %.2f G operations a token: %.0f of %.0f G/s, %.0f %%", r->operations_per_token * 1e-9,
               median(&r->prefill) * r->operations_per_token * 1e-9, 2e-9 * r->dot_rate, 100 * operations_share(r));
    if (r->prefill.n) putchar('\n');
    if (r->decode.n)
        printf("  decode of %u: %.2f tokens/s (%.2f to %.2f); %s of weights a token: %s/s of %s/s, %.0f %%\n"
               "  allocations: %.2f a decoded token\n",
               o->n_tokens, median(&r->decode), r->decode.at[0], r->decode.at[r->decode.n - 1],
               tern_app_bytes((uint64_t)r->weight_bytes_per_token, a),
               tern_app_bytes((uint64_t)(median(&r->decode) * r->weight_bytes_per_token), b),
               tern_app_bytes((uint64_t)r->read_bandwidth, c), 100 * bandwidth_share(r), r->allocations_per_token);
    printf("  memory: %s resident, %s at most\n  from opening to the first token: %.0f ms\n",
           tern_app_bytes(r->resident, a), tern_app_bytes(r->peak_resident, b), r->first_token_ms);
}

/* What is the same for every number of threads. */
typedef struct subject {
    char name[160];
    uint64_t parameters, bytes;
    const char *head;
} subject;

static void describe(const bench *b, subject *out)
{
    const tern_model *model = tern_engine_model(b->engine);
    const tern_config *c = tern_engine_config(b->engine);
    const tern_weight *layer = tern_model_weight(model, TERN_ROLE_ATTN_Q, 0);
    out->parameters = tern_model_parameters(model);
    out->bytes = tern_model_bytes(model);
    out->head = tern_engine_head_exact(b->engine) ? "exact" : tern_engine_head(b->engine)->encoding->name;
    snprintf(out->name, sizeof out->name, "%s %s", tern_show_z(c->architecture).text,
             layer->encoding ? layer->encoding->name : "");
}

static tern_status print(const row *rows, uint32_t n, const subject *s, const tern_options *o, tern_error *err)
{
    char cpu[128], size[16];
    tern_cpu_name(cpu, sizeof cpu);
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, row_json(&rows[i]));
    if (o->json)
        return tern_app_print_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:o}", "cpu", cpu, "model",
                                             s->name, "head", s->head, "parameters", (json_int_t)s->parameters,
                                             "weight_bytes", (json_int_t)s->bytes, "prompt_tokens", (int)o->n_prompt,
                                             "generated_tokens", (int)o->n_tokens, "repeats", (int)o->repeats,
                                             "results", list),
                                   err);
    json_decref(list);
    printf("%s\n%s, head %s: %.2f G parameters, %s\n", cpu, s->name, s->head, (double)s->parameters * 1e-9,
           tern_app_bytes(s->bytes, size));
    for (uint32_t i = 0; i < n; i++) print_row(&rows[i], o);
    return TERN_OK;
}

static tern_status thread_counts(const tern_options *o, uint32_t *counts, uint32_t *n, tern_error *err)
{
    if (o->threads) return tern_app_parse_list("threads", o->threads, 1024, counts, MAX_COUNTS, n, err);
    counts[0] = 1;
    counts[1] = tern_cpu_cores();
    *n = counts[1] > 1 ? 2 : 1;
    return TERN_OK;
}

/* Ids that every vocabulary has: no tokenizer is needed. */
static tern_status make_ids(bench *b, tern_error *err)
{
    tern_rng rng = {1};
    b->n_ids = b->options->n_prompt + DECODE_AFTER + b->options->n_tokens;
    b->ids = tern_alloc(b->n_ids * sizeof *b->ids);
    if (!b->ids) return tern_fail_alloc(err, b->n_ids * sizeof *b->ids);
    for (uint32_t i = 0; i < b->n_ids; i++) b->ids[i] = (int32_t)tern_rng_below(&rng, 60);
    return TERN_OK;
}

static tern_status measure(bench *b, row *rows, uint32_t n, subject *s, tern_error *err)
{
    tern_status status = make_ids(b, err);
    for (uint32_t i = 0; i < n && status == TERN_OK; i++) {
        status = measure_row(b, &rows[i], err);
        if (status == TERN_OK) describe(b, s);
        close_engine(b);
    }
    tern_progress_end(&b->progress);
    tern_free(b->ids);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    uint32_t counts[MAX_COUNTS], n;
    subject s = {0};
    TERN_TRY(thread_counts(o, counts, &n, err));
    bench b = {.options = o,
               .progress = {.label = "Measuring"},
               .n_steps = n * o->repeats * ((o->n_prompt ? 1u : 0u) + (o->n_tokens ? 1u : 0u)) + 1};
    row *rows = tern_calloc(n, sizeof *rows);
    if (!rows) return tern_fail_alloc(err, n * sizeof *rows);
    for (uint32_t i = 0; i < n; i++) rows[i].n_threads = counts[i];
    tern_status status = measure(&b, rows, n, &s, err);
    if (status == TERN_OK) status = print(rows, n, &s, o, err);
    tern_free(rows);
    return status;
}

static void defaults(tern_options *o)
{
    o->n_prompt = 512;
    o->n_tokens = 128;
    o->repeats = 5;
}

const tern_command tern_command_bench = {
    .name = "bench",
    .usage = "-m MODEL [-p 512] [-n 128] [-t 1,2] [-r 5] [--json]",
    .summary = "Measure speed as a share of what this machine can do",
    .detail =
        "Prefill is compared with the rate of integer dot products in registers, decode with the rate at which the\n"
        "same threads read the same weights; both are measured in the same run.",
    .groups = groups,
    .defaults = defaults,
    .run = run,
};
