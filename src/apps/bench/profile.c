/* Where the time of a token goes: every dispatch timed, in a run of its own, because timing them takes time. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "base/alloc.h"

tern_status tern_bench_profile_take(tern_engine *engine, tern_bench_profile *p, tern_error *err)
{
    TERN_TRY(tern_engine_profile(engine, p->rows, TERN_BENCH_MAX_PROFILE, &p->n, err));
    if (p->n > TERN_BENCH_MAX_PROFILE) p->n = TERN_BENCH_MAX_PROFILE;
    return TERN_OK;
}

static int by_time(const void *a, const void *b)
{
    const uint64_t x = ((const tern_engine_profile_row *)a)->ns, y = ((const tern_engine_profile_row *)b)->ns;
    return (x < y) - (x > y);
}

void tern_bench_profile_subtract(tern_bench_profile *p, const tern_bench_profile *before)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        tern_engine_profile_row row = p->rows[i];
        if (i < before->n) {
            row.n -= before->rows[i].n;
            row.ns -= before->rows[i].ns;
            row.weight_bytes -= before->rows[i].weight_bytes;
        }
        if (row.n) p->rows[kept++] = row;
    }
    p->n = kept;
    qsort(p->rows, p->n, sizeof *p->rows, by_time);
}

static tern_status run_prefill(tern_bench *b, tern_bench_profile *p, tern_error *err)
{
    const double start = tern_app_seconds();
    p->n_tokens = b->options->n_prompt;
    if (p->n_tokens == 0) return TERN_OK;
    tern_session_truncate(b->session, 0);
    TERN_TRY(tern_session_append(b->session, b->ids, p->n_tokens, err));
    p->wall_ms = (tern_app_seconds() - start) * 1e3;
    return TERN_OK;
}

static tern_status run_decode(tern_bench *b, tern_bench_profile *p, tern_error *err)
{
    double seconds = 0;
    uint64_t allocations;
    p->n_tokens = b->options->n_tokens;
    tern_session_set_n_top(b->session, 1); /* as greedy decoding does */
    if (p->n_tokens) TERN_TRY(tern_bench_decode(b, p->n_tokens, &seconds, &allocations, err));
    p->wall_ms = seconds * 1e3;
    return TERN_OK;
}

static tern_status measure(tern_bench *b, tern_bench_row *row, tern_error *err)
{
    tern_status (*const runs[])(tern_bench *, tern_bench_profile *, tern_error *) = {run_prefill, run_decode};
    tern_bench_profile *before = tern_calloc(1, sizeof *before);
    tern_status status;
    if (!before) return tern_fail_alloc(err, sizeof *before);
    TERN_GOTO(tern_bench_open(b, row, true, err));
    for (size_t i = 0; i < 2; i++) {
        tern_bench_profile *p = &row->profiles[i];
        TERN_GOTO(runs[i](b, p, err)); /* what is made once is made here */
        TERN_GOTO(tern_bench_profile_take(b->engine, before, err));
        TERN_GOTO(runs[i](b, p, err));
        TERN_GOTO(tern_bench_profile_take(b->engine, p, err));
        tern_bench_profile_subtract(p, before);
    }
fail:
    tern_bench_close_engine(b);
    tern_free(before);
    return status;
}

tern_status tern_bench_measure_profile(tern_bench *b, tern_bench_row *row, tern_error *err)
{
    row->profiles = tern_calloc(2, sizeof *row->profiles);
    if (!row->profiles) return tern_fail_alloc(err, 2 * sizeof *row->profiles);
    TERN_TRY(measure(b, row, err));
    return tern_bench_step_done(b, err);
}

static double sum_us(const tern_bench_profile *p)
{
    double ns = 0;
    for (size_t i = 0; i < p->n; i++) ns += (double)p->rows[i].ns;
    return ns * 1e-3;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

json_t *tern_bench_one_profile_json(const tern_bench_profile *p)
{
    const double n = p->n_tokens, all = sum_us(p);
    json_t *rows = json_array();
    for (size_t i = 0; i < p->n; i++) {
        const tern_engine_profile_row *r = &p->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "makes", r->name, "kernel", r->kernel,
                                              "count_per_token", (double)r->n / n, "us_per_token",
                                              (double)r->ns * 1e-3 / n, "share", share((double)r->ns * 1e-3, all),
                                              "bytes_per_second", share((double)r->weight_bytes * 1e9, (double)r->ns)));
    }
    return json_pack("{s:i, s:f, s:f, s:o}", "tokens", (int)p->n_tokens, "us_per_token_in_kernels", share(all, n),
                     "us_per_token_elapsed", share(p->wall_ms * 1e3, n), "dispatches", rows);
}

json_t *tern_bench_profile_json(const tern_bench_row *row)
{
    if (!row->profiles) return json_null();
    return json_pack("{s:o, s:o}", "prefill", tern_bench_one_profile_json(&row->profiles[0]), "decode",
                     tern_bench_one_profile_json(&row->profiles[1]));
}

void tern_bench_print_one_profile(const tern_bench_profile *p, const char *title, double n, double untimed_us,
                                  double bandwidth)
{
    const double all = sum_us(p);
    printf("\n  %s: %.1f us in kernels, %.1f us elapsed while each was timed", title, all / n, p->wall_ms * 1e3 / n);
    if (untimed_us > 0) printf(", %.1f us when none is", untimed_us);
    putchar('\n');
    printf("    %-22s %-24s %8s %10s %7s %10s %7s\n", "makes", "kernel", "count", "us", "share", "GB/s", "of all");
    for (size_t i = 0; i < p->n; i++) {
        const tern_engine_profile_row *r = &p->rows[i];
        const double rate = share((double)r->weight_bytes * 1e9, (double)r->ns);
        printf("    %-22s %-24s %8.1f %10.1f %6.1f%%", r->name, r->kernel, (double)r->n / n, (double)r->ns * 1e-3 / n,
               100 * share((double)r->ns * 1e-3, all));
        if (rate > 0) printf(" %10.1f", rate * 1e-9);
        if (rate > 0 && bandwidth > 0) printf(" %6.1f%%", 100 * rate / bandwidth);
        putchar('\n');
    }
}

void tern_bench_print_profile(const tern_bench_row *row, const tern_options *o)
{
    char title[64];
    if (!row->profiles) return;
    snprintf(title, sizeof title, "prefill of %u tokens", o->n_prompt);
    if (row->profiles[0].n)
        tern_bench_print_one_profile(&row->profiles[0], title, 1,
                                     share(1e6 * o->n_prompt, tern_bench_median(&row->prefill)), row->read_bandwidth);
    if (row->profiles[1].n)
        tern_bench_print_one_profile(&row->profiles[1], "a decoded token", o->n_tokens,
                                     share(1e6, tern_bench_median(&row->decode)), row->read_bandwidth);
}
