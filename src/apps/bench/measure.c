/* Measuring a model: prefill, decode, and what the device can do at most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/show.h"

static const double measure_seconds = 0.5;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_rates(tern_bench_rates *r)
{
    qsort(r->at, r->n, sizeof *r->at, by_size);
}

double tern_bench_median(const tern_bench_rates *r)
{
    if (r->n == 0) return 0;
    return (r->at[(r->n - 1) / 2] + r->at[r->n / 2]) / 2;
}

tern_status tern_bench_step_done(tern_bench *b, tern_error *err)
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

static tern_status time_prefill(tern_bench *b, tern_bench_row *out, tern_error *err)
{
    const uint32_t n = b->options->n_prompt;
    for (uint32_t i = 0; i < b->options->repeats && n; i++) {
        tern_session_truncate(b->session, 0);
        const double start = tern_app_seconds();
        TERN_TRY(tern_session_append(b->session, b->ids, n, err));
        out->prefill.at[out->prefill.n++] = n / (tern_app_seconds() - start);
        TERN_TRY(tern_bench_step_done(b, err));
    }
    sort_rates(&out->prefill);
    return TERN_OK;
}

/* The host's allocations when the first and when the last token came. */
typedef struct watched {
    uint64_t first, last;
} watched;

static bool watch(void *context, const tern_piece *piece)
{
    watched *w = context;
    (void)piece;
    w->last = tern_alloc_count();
    if (w->first == UINT64_MAX) w->first = w->last;
    return !tern_app_interrupted();
}

/* Whether the device chooses the tokens itself. */
static bool chooses(const tern_bench *b)
{
    return b->info.max_steps > 1;
}

/* Where it does. */
static tern_status generate(tern_bench *b, uint32_t n, double *seconds, uint64_t *allocations, tern_error *err)
{
    watched w = {UINT64_MAX, 0};
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = n,
                                   .ignore_eos = true,
                                   .on_piece = watch,
                                   .context = &w};
    tern_generate_result result = {.size = sizeof result};
    params.sampler.temperature = 0;
    TERN_TRY(tern_generate(b->session, NULL, 0, &params, &result, err));
    *seconds = result.decode_ms * 1e-3;
    *allocations = w.last - w.first;
    return TERN_OK;
}

tern_status tern_bench_decode(tern_bench *b, uint32_t n, double *seconds, uint64_t *allocations, tern_error *err)
{
    const uint32_t depth = b->options->depth;
    if (tern_session_n_tokens(b->session) < depth) {
        tern_session_truncate(b->session, 0);
        TERN_TRY(tern_session_append(b->session, b->ids, depth, err));
    }
    tern_session_truncate(b->session, depth);
    if (chooses(b)) return generate(b, n, seconds, allocations, err);
    const double start = tern_app_seconds();
    *allocations = tern_alloc_count();
    for (uint32_t t = 0; t < n; t++) TERN_TRY(tern_session_append(b->session, b->ids + depth + t, 1, err));
    *seconds = tern_app_seconds() - start;
    *allocations = tern_alloc_count() - *allocations;
    return TERN_OK;
}

static tern_engine_counters counters_of(const tern_bench *b)
{
    tern_engine_counters c = {.size = sizeof c};
    tern_engine_count(b->engine, &c, NULL); /* fails on NULL alone */
    return c;
}

static void count(const tern_engine_counters *a, const tern_engine_counters *b, double n, tern_bench_counts *out)
{
    out->weight_bytes = (double)(b->weight_bytes - a->weight_bytes) / n;
    out->dispatches = (double)(b->dispatches - a->dispatches) / n;
    out->dispatches_in_layers = (double)(b->layer_dispatches - a->layer_dispatches) / n;
    out->barriers_in_layers = (double)(b->layer_barriers - a->layer_barriers) / n;
    out->barriers = (double)(b->barriers - a->barriers) / n;
    out->submits = (double)(b->submits - a->submits) / n;
    out->uploaded_bytes = (double)(b->uploaded_bytes - a->uploaded_bytes) / n;
    out->downloaded_bytes = (double)(b->downloaded_bytes - a->downloaded_bytes) / n;
    out->crossed_bytes = (double)(b->crossed_bytes - a->crossed_bytes) / n;
    out->device_allocations = (double)(b->allocations - a->allocations) / n;
    out->expert_hits = (double)(b->expert_hits - a->expert_hits) / n;
    out->expert_misses = (double)(b->expert_misses - a->expert_misses) / n;
    out->expert_evictions = (double)(b->expert_evictions - a->expert_evictions) / n;
    out->expert_prefetched = (double)(b->expert_prefetched - a->expert_prefetched) / n;
    out->expert_bytes = (double)(b->expert_bytes - a->expert_bytes) / n;
    out->kv_hits = (double)(b->kv_hits - a->kv_hits) / n;
    out->kv_misses = (double)(b->kv_misses - a->kv_misses) / n;
    out->kv_prefetched = (double)(b->kv_prefetched - a->kv_prefetched) / n;
    out->kv_evictions = (double)(b->kv_evictions - a->kv_evictions) / n;
    out->kv_in_bytes = (double)(b->kv_in_bytes - a->kv_in_bytes) / n;
    out->kv_out_bytes = (double)(b->kv_out_bytes - a->kv_out_bytes) / n;
    out->kv_wait_ms = (double)(b->kv_wait_ns - a->kv_wait_ns) * 1e-6 / n;
    out->ffn_rows = (double)(b->ffn_rows - a->ffn_rows) / n;
    out->ffn_rows_read = (double)(b->ffn_rows_read - a->ffn_rows_read) / n;
    out->ffn_columns = (double)(b->ffn_columns - a->ffn_columns) / n;
    out->ffn_columns_read = (double)(b->ffn_columns_read - a->ffn_columns_read) / n;
}

/* The first of several decodes is not counted: what is made once is made then. */
static tern_status time_decode(tern_bench *b, tern_bench_row *out, tern_error *err)
{
    const uint32_t n = b->options->n_tokens;
    double seconds;
    uint64_t allocations;
    if (n == 0) return TERN_OK;
    tern_session_truncate(b->session, 0);
    tern_session_set_n_top(b->session, 1); /* as greedy decoding does; counts with --head exact */
    if (chooses(b)) TERN_TRY(tern_bench_decode(b, n, &seconds, &allocations, err));
    else TERN_TRY(tern_session_append(b->session, b->ids, b->options->depth, err));
    for (uint32_t i = 0; i < b->options->repeats; i++) {
        tern_session_truncate(b->session, b->options->depth);
        const tern_engine_counters before = counters_of(b);
        TERN_TRY(tern_bench_decode(b, n, &seconds, &allocations, err));
        const tern_engine_counters after = counters_of(b);
        out->decode.at[out->decode.n++] = n / seconds;
        out->per_token.allocations = (double)allocations / n;
        count(&before, &after, n, &out->per_token);
        TERN_TRY(tern_bench_step_done(b, err));
    }
    sort_rates(&out->decode);
    return TERN_OK;
}

tern_status tern_bench_open(tern_bench *b, const tern_bench_row *row, bool profile, tern_error *err)
{
    tern_options o = *b->options;
    uint32_t after = o.n_tokens ? o.depth + o.n_tokens : 1;
    tern_session_params params = {.size = sizeof params, .n_ctx = o.n_prompt > after ? o.n_prompt : after};
    o.profile = profile;
    o.ctx = params.n_ctx; /* what the device's memory is divided for */
    o.gpu_steps = row->n_steps;
    TERN_TRY(tern_app_open_engine_with(&b->engine, &o, true, row->n_threads, err));
    b->info.size = sizeof b->info;
    TERN_TRY(tern_engine_describe(b->engine, &b->info, err));
    TERN_TRY(tern_app_load_loras(&b->loras, &o, b->engine, err));
    params.loras = b->loras.uses;
    params.n_loras = b->loras.n;
    return tern_app_open_session(&b->session, b->engine, &o, params, err);
}

void tern_bench_close_engine(tern_bench *b)
{
    tern_session_close(b->session);
    tern_app_close_loras(&b->loras);
    tern_engine_close(b->engine);
    b->session = NULL;
    b->engine = NULL;
}

static uint64_t lora_bytes(const tern_app_loras *loras)
{
    uint64_t bytes = 0;
    tern_lora_info info;
    for (uint32_t i = 0; i < loras->n; i++)
        if (tern_lora_describe(loras->loras[i], &info, NULL) == TERN_OK) bytes += info.bytes;
    return bytes;
}

/* The CPU and the highest of its levels that is used. */
static void name_cpu(const char *asked, tern_bench_subject *out)
{
    tern_error err;
    char levels[128];
    uint32_t features = tern_cpu_features();
    if (asked) (void)tern_cpu_features_parse(asked, features, &features, &err); /* opening has checked it */
    tern_cpu_features_print(features, levels, sizeof levels);
    const char *last = strrchr(levels, ' ');
    tern_cpu_name(out->device, sizeof out->device);
    const size_t length = strlen(out->device);
    snprintf(out->device + length, sizeof out->device - length, ", %s", last ? last + 1 : levels);
}

static void describe(const tern_bench *b, tern_bench_subject *out)
{
    const tern_engine_info *info = &b->info;
    out->parameters = info->parameters;
    out->bytes = info->bytes;
    snprintf(out->head, sizeof out->head, "%s", info->head);
    snprintf(out->activations, sizeof out->activations, "%s", info->activations);
    snprintf(out->name, sizeof out->name, "%s %s", tern_show_z(info->architecture).text, info->encoding);
    out->experts = info->experts;
    out->experts_held = info->experts_held;
    out->experts_held_bytes = info->experts_held_bytes;
    out->kv_memory = info->kv_memory;
    out->kv_disk = b->options->kv_disk;
    out->layer_experts = info->layer_experts;
    out->token_experts = info->token_experts;
    out->token_expert_bytes = info->token_expert_bytes;
    out->tuned = tern_app_tune_file(b->options) != NULL;
    out->n_loras = b->loras.n;
    out->lora_bytes = lora_bytes(&b->loras);
    out->is_cpu = !info->device;
    snprintf(out->driver, sizeof out->driver, "%s", info->driver ? info->driver : "");
    if (out->is_cpu) name_cpu(b->options->cpu_features, out);
    else snprintf(out->device, sizeof out->device, "%s: %s", info->backend, info->device);
}

/* Opens everything and computes one token, as the first word of an answer would be. */
static tern_status open_timed(tern_bench *b, tern_bench_row *out, tern_error *err)
{
    const double start = tern_app_seconds();
    TERN_TRY(tern_bench_open(b, out, false, err));
    TERN_TRY(tern_session_append(b->session, b->ids, 1, err));
    out->first_token_ms = (tern_app_seconds() - start) * 1e3;
    return TERN_OK;
}

static tern_status measure_engine(tern_bench *b, tern_bench_row *out, tern_bench_subject *subject, tern_error *err)
{
    TERN_TRY(open_timed(b, out, err));
    if (!chooses(b)) out->n_steps = 0;
    TERN_TRY(time_prefill(b, out, err));
    TERN_TRY(time_decode(b, out, err));
    const tern_engine_counters c = counters_of(b);
    out->pipelines = c.pipelines;
    out->pipeline_hits = c.pipeline_hits;
    out->buffers = c.buffers;
    out->reused_buffers = c.reused_buffers;
    out->n_layers = b->info.n_layers;
    out->resident = process_bytes("VmRSS");
    out->peak_resident = process_bytes("VmHWM");
    out->kv_bytes = tern_session_kv_bytes(b->session);
    out->operations_per_token = 2.0 * (double)b->info.ternary_parameters;
    out->read_bandwidth = tern_engine_read_bandwidth(b->engine, measure_seconds);
    out->dot_rate = tern_engine_dot_rate(b->engine, measure_seconds);
    describe(b, subject);
    return TERN_OK;
}

tern_status tern_bench_measure(tern_bench *b, tern_bench_row *row, tern_bench_subject *subject, tern_error *err)
{
    forget_peak();
    tern_status status = measure_engine(b, row, subject, err);
    tern_bench_close_engine(b);
    if (status == TERN_OK && b->options->profile) status = tern_bench_measure_profile(b, row, err);
    return status;
}
