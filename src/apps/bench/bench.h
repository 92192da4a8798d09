/* The measurements of `tern bench`, and how they are shown. */
#ifndef TERN_APPS_BENCH_BENCH_H
#define TERN_APPS_BENCH_BENCH_H

#include "apps/lora.h"
#include "apps/progress.h"

enum { TERN_BENCH_MAX_REPEATS = 100, TERN_BENCH_MAX_ROWS = 16, TERN_BENCH_MAX_PROFILE = 96, TERN_BENCH_DEPTH = 64 };

/* Tokens per second of each repeat, sorted. */
typedef struct tern_bench_rates {
    double at[TERN_BENCH_MAX_REPEATS];
    uint32_t n;
} tern_bench_rates;

/* The cost of a decoded token beside its time. */
typedef struct tern_bench_counts {
    double weight_bytes, allocations; /* of the host */
    double expert_hits, expert_misses, expert_evictions, expert_prefetched,
        expert_bytes; /* of a device that has not all experts */
    double kv_hits, kv_misses, kv_prefetched, kv_evictions, kv_in_bytes, kv_out_bytes,
        kv_wait_ms;                                                /* of one that has not all keys and values */
    double ffn_rows, ffn_rows_read, ffn_columns, ffn_columns_read; /* of the CPU */
    double dispatches, dispatches_in_layers, barriers, barriers_in_layers, submits, uploaded_bytes, downloaded_bytes,
        crossed_bytes, device_allocations;
} tern_bench_counts;

/* Dispatches by what they make and their kernel, of a number of tokens that were timed one dispatch at a time. */
typedef struct tern_bench_profile {
    tern_engine_profile_row rows[TERN_BENCH_MAX_PROFILE];
    size_t n;
    uint32_t n_tokens;
    double wall_ms; /* of all these tokens, which the host waited for */
} tern_bench_profile;

/* The results of one number of threads, or of steps. */
typedef struct tern_bench_row {
    uint32_t n_threads, n_steps; /* of a GPU: tokens at once; 0: not one */
    tern_bench_rates prefill, decode;
    double first_token_ms;
    double operations_per_token; /* integer multiplications and additions of the layers */
    tern_bench_counts per_token;
    uint64_t pipelines, pipeline_hits, buffers, reused_buffers;
    double read_bandwidth, dot_rate; /* bytes and multiply-adds per second */
    uint64_t resident, peak_resident, kv_bytes;
    uint32_t n_layers;
    tern_bench_profile *profiles; /* [2]: prefill, decode; NULL without --profile */
} tern_bench_row;

/* The values that are common to all rows. */
typedef struct tern_bench_subject {
    char device[160]; /* "Intel ...", or "vulkan: NVIDIA H200" */
    char driver[160]; /* of a GPU; "": none */
    bool is_cpu;
    char name[160];
    uint64_t parameters, bytes;
    char head[16], activations[8];
    uint32_t experts, experts_held; /* of a device that has not all of them; else 0 */
    uint64_t experts_held_bytes;
    uint64_t kv_memory;                    /* of a device that has not all keys and values; else 0 */
    const char *kv_disk;                   /* NULL: the host has them */
    uint32_t layer_experts, token_experts; /* of models with experts; 0: none */
    uint64_t token_expert_bytes;
    bool tuned; /* kernels by what tern tune has measured */
    uint32_t n_loras;
    uint64_t lora_bytes;
} tern_bench_subject;

/* One run of the command. */
typedef struct tern_bench {
    const tern_options *options;
    tern_engine *engine;
    tern_engine_info info; /* of it */
    tern_app_loras loras;
    tern_session *session;
    int32_t *ids;
    uint32_t n_ids;
    tern_progress progress;
    uint32_t n_steps, steps_done; /* of the progress bar */
} tern_bench;

/* Opens an engine by the row's threads or steps, measures, and closes it; says in *subject what it was. */
tern_status tern_bench_measure(tern_bench *bench, tern_bench_row *row, tern_bench_subject *subject, tern_error *err);
tern_status tern_bench_step_done(tern_bench *bench, tern_error *err);
void tern_bench_close_engine(tern_bench *bench);
/* Opens the model once more, times every dispatch, and writes row->profiles. */
tern_status tern_bench_measure_profile(tern_bench *bench, tern_bench_row *row, tern_error *err);
/* Decodes n tokens after the first ones of bench->ids, as greedy decoding does; the seconds, and the allocations of the
 * host from the first token to the last. */
tern_status tern_bench_decode(tern_bench *bench, uint32_t n, double *seconds, uint64_t *allocations, tern_error *err);
/* Opens engine and session. */
tern_status tern_bench_open(tern_bench *bench, const tern_bench_row *row, bool profile, tern_error *err);

/* tern bench --kernels. */
tern_status tern_bench_kernels(const tern_options *options, tern_error *err);

/* tern bench --parallel. */
tern_status tern_bench_parallel(const tern_options *options, tern_error *err);

double tern_bench_median(const tern_bench_rates *rates);

json_t *tern_bench_row_json(const tern_bench_row *row);
void tern_bench_print_row(const tern_bench_row *row, const tern_options *options);
/* Rows of different numbers of steps against each other: what submits cost. */
void tern_bench_print_submits(const tern_bench_row *rows, uint32_t n);
json_t *tern_bench_profile_json(const tern_bench_row *row);
void tern_bench_print_profile(const tern_bench_row *row, const tern_options *options);

/* Parts of these, for runs of another kind. All rows since the engine was opened. */
tern_status tern_bench_profile_take(tern_engine *engine, tern_bench_profile *profile, tern_error *err);
/* Leaves what came since `before`, the most expensive first. */
void tern_bench_profile_subtract(tern_bench_profile *profile, const tern_bench_profile *before);
json_t *tern_bench_one_profile_json(const tern_bench_profile *profile);
/* As parts of n: tokens, steps; untimed_us: what one takes when nothing is timed, 0: not known. bandwidth 0: the same.
 */
void tern_bench_print_one_profile(const tern_bench_profile *profile, const char *title, double n, double untimed_us,
                                  double bandwidth);

#endif
