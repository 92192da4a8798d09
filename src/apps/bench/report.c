/* The numbers of a benchmark as JSON and as text. */
#include <string.h>

#include "apps/bench/bench.h"

static json_t *rates_json(const tern_bench_rates *r)
{
    if (r->n == 0) return json_null();
    return json_pack("{s:f, s:f, s:f}", "median", tern_bench_median(r), "min", r->at[0], "max", r->at[r->n - 1]);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double operations_share(const tern_bench_row *r)
{
    return share(tern_bench_median(&r->prefill) * r->operations_per_token, 2 * r->dot_rate);
}

static double bandwidth_share(const tern_bench_row *r)
{
    return share(tern_bench_median(&r->decode) * r->per_token.weight_bytes, r->read_bandwidth);
}

static double dispatches_a_layer(const tern_bench_row *r)
{
    return share(r->per_token.dispatches_in_layers, r->n_layers);
}

static double barriers_a_layer(const tern_bench_row *r)
{
    return share(r->per_token.barriers_in_layers, r->n_layers);
}

/* The time of a dispatch with everything around it. */
static double us_a_dispatch(const tern_bench_row *r)
{
    return share(1e6, tern_bench_median(&r->decode) * r->per_token.dispatches);
}

/* " (low to high)" of the repeats; one run says nothing about the next. */
static const char *spread(double low, double high, uint32_t n, int digits, char out[static 48])
{
    if (n > 1) snprintf(out, 48, " (%.*f to %.*f)", digits, low, digits, high);
    else snprintf(out, 48, " (one run: no spread)");
    return out;
}

static const char *spread_of(const tern_bench_rates *r, int digits, char out[static 48])
{
    return spread(r->at[0], r->at[r->n - 1], r->n, digits, out);
}

void tern_bench_print_submits(const tern_bench_row *rows, uint32_t n)
{
    const tern_bench_row *few = &rows[0], *many = &rows[0];
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].n_steps < few->n_steps) few = &rows[i];
        if (rows[i].n_steps > many->n_steps) many = &rows[i];
    }
    const double slow = tern_bench_median(&few->decode), fast = tern_bench_median(&many->decode);
    if (few->n_steps == many->n_steps || !(slow > 0) || !(fast > 0)) return;
    const double submits = few->per_token.submits - many->per_token.submits;
    const tern_bench_rates *a = &few->decode, *b = &many->decode;
    char text[48];
    printf(
        "\n%u tokens at once against %u: %.2f times as fast%s; %.2f and %.2f us a dispatch; a submit costs %.1f us\n",
        many->n_steps, few->n_steps, fast / slow,
        spread(b->at[0] / a->at[a->n - 1], b->at[b->n - 1] / a->at[0], b->n, 2, text), us_a_dispatch(many),
        us_a_dispatch(few), share(1e6 / slow - 1e6 / fast, submits));
}

static json_t *counts_json(const tern_bench_row *r)
{
    const tern_bench_counts *c = &r->per_token;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "us_per_dispatch",
                     us_a_dispatch(r), "dispatches_per_token", c->dispatches, "dispatches_per_layer",
                     dispatches_a_layer(r), "barriers_per_token", c->barriers, "barriers_per_layer",
                     barriers_a_layer(r), "submits_per_token", c->submits, "uploaded_bytes_per_token",
                     c->uploaded_bytes, "downloaded_bytes_per_token", c->downloaded_bytes, "crossed_bytes_per_token",
                     c->crossed_bytes, "allocations_per_token", c->allocations, "device_allocations_per_token",
                     c->device_allocations, "pipelines", (json_int_t)r->pipelines, "pipeline_cache_hits",
                     (json_int_t)r->pipeline_hits, "buffers", (json_int_t)r->buffers, "reused_buffers",
                     (json_int_t)r->reused_buffers);
}

static double asked_for(const tern_bench_row *r)
{
    return r->per_token.expert_hits + r->per_token.expert_misses;
}

static json_t *experts_json(const tern_bench_row *r)
{
    const tern_bench_counts *c = &r->per_token;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "prefetched_per_token", c->expert_prefetched, "hits_per_token",
                     c->expert_hits, "misses_per_token", c->expert_misses, "evictions_per_token", c->expert_evictions,
                     "copied_bytes_per_token", c->expert_bytes, "hit_rate", share(c->expert_hits, asked_for(r)));
}

static double pages_of(const tern_bench_row *r)
{
    return r->per_token.kv_hits + r->per_token.kv_misses + r->per_token.kv_prefetched;
}

static json_t *kv_json(const tern_bench_row *r)
{
    const tern_bench_counts *c = &r->per_token;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "hits_per_token", c->kv_hits, "misses_per_token",
                     c->kv_misses, "prefetched_per_token", c->kv_prefetched, "evictions_per_token", c->kv_evictions,
                     "copied_bytes_per_token", c->kv_in_bytes, "saved_bytes_per_token", c->kv_out_bytes,
                     "wait_ms_per_token", c->kv_wait_ms, "hit_rate", share(c->kv_hits, pages_of(r)));
}

json_t *tern_bench_row_json(const tern_bench_row *r)
{
    json_t *out = json_pack(
        "{s:i, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f}", "threads", (int)r->n_threads,
        "prefill_tokens_per_second", rates_json(&r->prefill), "decode_tokens_per_second", rates_json(&r->decode),
        "operations_per_token", r->operations_per_token, "operations_per_second_possible", 2 * r->dot_rate,
        "operations_share", operations_share(r), "weight_bytes_per_token", r->per_token.weight_bytes, "read_bandwidth",
        r->read_bandwidth, "bandwidth_share", bandwidth_share(r), "allocations_per_token", r->per_token.allocations,
        "resident_bytes", (json_int_t)r->resident, "peak_resident_bytes", (json_int_t)r->peak_resident, "kv_bytes",
        (json_int_t)r->kv_bytes, "first_token_ms", r->first_token_ms);
    if (r->n_steps) json_object_set_new(out, "gpu_steps", json_integer(r->n_steps));
    if (r->per_token.dispatches > 0) json_object_set_new(out, "counters", counts_json(r));
    if (asked_for(r) > 0) json_object_set_new(out, "experts", experts_json(r));
    if (pages_of(r) > 0) json_object_set_new(out, "kv", kv_json(r));
    if (r->per_token.ffn_rows > 0) {
        const tern_bench_counts *c = &r->per_token;
        json_object_set_new(out, "ffn_rows_read", json_real(share(c->ffn_rows_read, c->ffn_rows)));
        json_object_set_new(out, "ffn_columns_read", json_real(share(c->ffn_columns_read, c->ffn_columns)));
    }
    if (r->profiles) json_object_set_new(out, "profile", tern_bench_profile_json(r));
    return out;
}

static void print_prefill(const tern_bench_row *r, const tern_options *o)
{
    if (r->prefill.n == 0) return;
    char text[48];
    printf("  prefill of %u: %.1f tokens/s%s", o->n_prompt, tern_bench_median(&r->prefill),
           spread_of(&r->prefill, 1, text));
    if (r->operations_per_token > 0 && r->dot_rate > 0)
        printf("; %.2f G operations a token: %.0f of %.0f G/s, %.0f %%", r->operations_per_token * 1e-9,
               tern_bench_median(&r->prefill) * r->operations_per_token * 1e-9, 2e-9 * r->dot_rate,
               100 * operations_share(r));
    putchar('\n');
}

static void print_decode(const tern_bench_row *r, const tern_options *o)
{
    char a[16], b[16], c[16], text[48], depth[24] = "";
    if (r->decode.n == 0) return;
    if (o->depth != TERN_BENCH_DEPTH) snprintf(depth, sizeof depth, " at depth %u", o->depth);
    printf("  decode of %u%s: %.2f tokens/s%s; %s of weights a token: %s/s of %s/s, %.0f %%\n"
           "  allocations: %.2f a decoded token\n",
           o->n_tokens, depth, tern_bench_median(&r->decode), spread_of(&r->decode, 2, text),
           tern_app_bytes((uint64_t)r->per_token.weight_bytes, a),
           tern_app_bytes((uint64_t)(tern_bench_median(&r->decode) * r->per_token.weight_bytes), b),
           tern_app_bytes((uint64_t)r->read_bandwidth, c), 100 * bandwidth_share(r), r->per_token.allocations);
    if (r->per_token.ffn_rows > 0)
        printf("  read behind the squared ReLU: %.1f %% of the rows of up, %.1f %% of the columns of down\n",
               100 * share(r->per_token.ffn_rows_read, r->per_token.ffn_rows),
               100 * share(r->per_token.ffn_columns_read, r->per_token.ffn_columns));
}

static void print_kv(const tern_bench_row *r)
{
    const tern_bench_counts *c = &r->per_token;
    char in[16], out[16];
    if (pages_of(r) <= 0) return;
    printf("  keys and values of a decoded token: %.1f pages, %.0f %% of them there; %s to the device (%.1f pages "
           "ahead of "
           "use), %s back, %.2f ms waited\n",
           pages_of(r), 100 * share(c->kv_hits, pages_of(r)), tern_app_bytes((uint64_t)c->kv_in_bytes, in),
           c->kv_prefetched, tern_app_bytes((uint64_t)c->kv_out_bytes, out), c->kv_wait_ms);
}

static void print_counts(const tern_bench_row *r)
{
    const tern_bench_counts *c = &r->per_token;
    if (c->dispatches <= 0) return;
    printf("  a decoded token: %.1f dispatches (%.2f a layer), %.1f barriers (%.2f), %.3f submits, %.1f bytes down, "
           "%.1f up, %.2f device allocations\n  pipelines: %llu, %llu of them from the cache of an earlier start; "
           "buffers: %llu, "
           "%llu of them in memory held already\n",
           c->dispatches, dispatches_a_layer(r), c->barriers, barriers_a_layer(r), c->submits, c->downloaded_bytes,
           c->uploaded_bytes, c->device_allocations, (unsigned long long)r->pipelines,
           (unsigned long long)r->pipeline_hits, (unsigned long long)r->buffers, (unsigned long long)r->reused_buffers);
    char text[16];
    if (asked_for(r) > 0)
        printf("  experts of a decoded token: %.1f, %.0f %% of them there; %.1f copied, %s\n", asked_for(r),
               100 * share(c->expert_hits, asked_for(r)), c->expert_misses,
               tern_app_bytes((uint64_t)c->expert_bytes, text));
    if (c->crossed_bytes > 0) printf("  carried between CPU and GPU: %.1f bytes a token\n", c->crossed_bytes);
}

void tern_bench_print_row(const tern_bench_row *r, const tern_options *o)
{
    char a[16], b[16], c[16];
    if (r->n_steps) printf("\n%u token%s at once\n", r->n_steps, r->n_steps == 1 ? "" : "s");
    else if (r->n_threads == 0) printf("\none token at a time\n");
    else printf("\n%u thread%s\n", r->n_threads, r->n_threads == 1 ? "" : "s");
    print_prefill(r, o);
    print_decode(r, o);
    print_kv(r);
    print_counts(r);
    printf("  memory: %s resident, %s at most; keys and values: %s\n  from opening to the first token: %.0f ms\n",
           tern_app_bytes(r->resident, a), tern_app_bytes(r->peak_resident, b), tern_app_bytes(r->kv_bytes, c),
           r->first_token_ms);
    tern_bench_print_profile(r, o);
}
