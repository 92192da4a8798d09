/* Flags to generation parameters, and what a generation cost. */
#include "apps/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/open.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "base/show.h"

enum { DRAFT_TOKENS = 8 }; /* in one draft, when not given */

static const uint64_t cache_bytes = (uint64_t)128 << 20; /* below it, weights may stay in a cache */

void tern_app_generation_defaults(tern_options *o)
{
    const tern_sampler_params d = TERN_SAMPLER_DEFAULTS;
    o->temperature = d.temperature;
    o->top_k = d.top_k;
    o->top_p = d.top_p;
    o->min_p = d.min_p;
    o->typical_p = d.typical_p;
    o->repetition_penalty = d.repetition_penalty;
    o->presence_penalty = d.presence_penalty;
    o->frequency_penalty = d.frequency_penalty;
    o->penalty_last_n = d.penalty_last_n;
    o->draft_tokens = DRAFT_TOKENS;
    o->chain = (tern_sampler_chain){.size = sizeof o->chain,
                                    .dynatemp_exponent = 1,
                                    .xtc_threshold = 0.1f,
                                    .dry_base = 1.75f,
                                    .dry_allowed_length = 2,
                                    .dry_last_n = UINT32_MAX,
                                    .mirostat_tau = 5,
                                    .mirostat_eta = 0.1f};
}

static uint64_t random_seed(void)
{
    tern_rng rng = {(uint64_t)time(NULL) ^ (uint64_t)getpid() << 32 ^ (uint64_t)(tern_app_seconds() * 1e9)};
    return tern_rng_u64(&rng) >> 32;
}

static tern_status parse_bias(const char *text, tern_logit_bias *bias, tern_error *err)
{
    char *end;
    long id = strtol(text, &end, 10);
    char *number = *end == '=' ? end + 1 : end;
    double value = strtod(number, &end);
    const bool is_id = text[0] >= '0' && text[0] <= '9' && id <= INT32_MAX && number > text && number[-1] == '=';
    if (!is_id || end == number || *end || isnan(value) || value > 1e6)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--logit-bias %s: ID=NUMBER expected, as in 15=-1.5 or 15=-inf",
                         tern_show_z(text).text);
    *bias = (tern_logit_bias){(int32_t)id, (float)value};
    return TERN_OK;
}

/* "top_k;top_p": the steps of --samplers, with commas too. */
static tern_status read_order(tern_app_generation *g, const char *list, tern_error *err)
{
    static const char between[] = ";,";
    g->chain.order = g->order;
    for (const char *at = list + strspn(list, between); *at; at += strspn(at, between)) {
        const size_t n = strcspn(at, between);
        if (g->chain.n_order == TERN_SAMPLER_STEPS)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--samplers %s: at most %d steps expected",
                             tern_show_z(list).text, TERN_SAMPLER_STEPS);
        if (tern_sampler_step_parse(at, n, &g->order[g->chain.n_order++], err) != TERN_OK)
            return tern_error_prefix(err, "--samplers");
        at += n;
    }
    if (g->chain.n_order) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--samplers \"\": steps with semicolons between expected");
}

static tern_status init_chain(tern_app_generation *g, const tern_options *o, tern_error *err)
{
    const bool no_breakers = o->breakers.n == 1 && strcmp(o->breakers.items[0], "none") == 0;
    g->chain = o->chain;
    if (o->chain.top_n_sigma < 0) g->chain.top_n_sigma = 0;
    if (o->chain.dry_last_n == 0) g->chain.dry_multiplier = 0;
    if (!o->mirostat || strcmp(o->mirostat, "2") != 0) g->chain.mirostat_tau = 0;
    if (o->breakers.n) g->chain.dry_breakers = o->breakers.items;
    if (!no_breakers) g->chain.n_dry_breakers = (uint32_t)o->breakers.n;
    g->params.sampler.chain = &g->chain;
    return o->samplers ? read_order(g, o->samplers, err) : TERN_OK;
}

static tern_sampler_params sampler_of(const tern_options *o)
{
    return (tern_sampler_params){.temperature = o->greedy ? 0 : o->temperature,
                                 .top_k = o->top_k,
                                 .top_p = o->top_p,
                                 .min_p = o->min_p,
                                 .typical_p = o->typical_p,
                                 .repetition_penalty = o->repetition_penalty,
                                 .presence_penalty = o->presence_penalty,
                                 .frequency_penalty = o->frequency_penalty,
                                 .penalty_last_n = o->penalty_last_n,
                                 .seed = o->seed_given ? o->seed : random_seed()};
}

tern_status tern_app_generation_init(tern_app_generation *g, const tern_options *o, tern_error *err)
{
    *g = (tern_app_generation){0};
    g->biases = tern_calloc(o->biases.n + 1, sizeof *g->biases);
    if (!g->biases) return tern_fail_alloc(err, o->biases.n * sizeof *g->biases);
    for (size_t i = 0; i < o->biases.n; i++) TERN_TRY(parse_bias(o->biases.items[i], &g->biases[i], err));
    g->params = (tern_generate_params){.size = sizeof(tern_generate_params),
                                       .sampler = sampler_of(o),
                                       .max_tokens = o->n_tokens,
                                       .stops = o->stops.items,
                                       .n_stops = (uint32_t)o->stops.n,
                                       .ignore_eos = o->ignore_eos,
                                       .context_shift = o->context_shift,
                                       .n_keep = o->keep};
    g->params.sampler.biases = g->biases;
    g->params.sampler.n_biases = (uint32_t)o->biases.n;
    g->params.draft_tokens = tern_app_draft_tokens(o);
    return init_chain(g, o, err);
}

uint32_t tern_app_draft_tokens(const tern_options *o)
{
    if (!o->draft_model && (!o->draft || strcmp(o->draft, "none") == 0)) return 0;
    const bool fits = !o->batch || o->draft_tokens < o->batch; /* a draft is verified in one step */
    return fits || o->draft_tokens != DRAFT_TOKENS ? o->draft_tokens : o->batch - 1;
}

tern_status tern_app_draft_open(tern_app_draft *draft, const tern_options *o, uint32_t n_ctx, tern_error *err)
{
    tern_options own = *o;
    tern_engine_info info = {.size = sizeof info};
    *draft = (tern_app_draft){0};
    if (!o->draft_model) return TERN_OK;
    TERN_TRY(tern_app_check_drafts(o, err));
    own.model = o->draft_model;
    own.hf = own.experts = own.gpu_layers = NULL;
    TERN_TRY(tern_app_open_engine(&draft->engine, &own, false, err));
    TERN_TRY(tern_engine_describe(draft->engine, &info, err));
    own.ctx = n_ctx < info.n_ctx_train ? n_ctx : info.n_ctx_train;
    return tern_app_open_session(&draft->session, draft->engine, &own,
                                 TERN_SIZED(tern_session_params, .host_sampling = true), err);
}

void tern_app_draft_close(tern_app_draft *draft)
{
    tern_session_close(draft->session);
    tern_engine_close(draft->engine);
    *draft = (tern_app_draft){0};
}

void tern_app_generation_deinit(tern_app_generation *g)
{
    tern_free(g->biases);
    tern_grammar_state_close(g->state);
    tern_grammar_close(g->grammar);
    tern_grammar_vocab_close(g->vocab);
    *g = (tern_app_generation){0};
}

void tern_app_count_cost(tern_app_cost *cost, const tern_engine *engine)
{
    cost->counted.size = sizeof cost->counted;
    tern_engine_count(engine, &cost->counted, NULL); /* fails on NULL alone */
    cost->activations = tern_app_activations(engine);
}

void tern_app_measure_cost(tern_app_cost *cost, tern_engine *engine)
{
    tern_engine_info info = {.size = sizeof info};
    tern_engine_describe(engine, &info, NULL); /* fails on NULL alone */
    cost->gpu = info.device != NULL;
    cost->in_cache = !cost->gpu && info.bytes < cache_bytes;
    cost->read_bandwidth = tern_engine_read_bandwidth(engine, 0.15);
}

void tern_app_note_steps(const tern_generate_result *result, const tern_options *o)
{
    if (!o->gpu_steps || result->steps) return;
    fputs("note: --gpu-steps had no effect: the host chose the tokens, as it does with penalties, biases, --typical-p, "
          "DRY, XTC and other steps of --samplers, grammars, drafts, --top-k 0 or above 64, and layers on the CPU\n",
          stderr);
}

static double per_second(double n, double ms)
{
    return ms > 0 ? n * 1e3 / ms : 0;
}

static double bytes_per_token(const tern_app_cost *c)
{
    return c->result.n_generated ? (double)c->result.weight_bytes / c->result.n_generated : 0;
}

/* The pages of everything so far. */
static double kv_pages(const tern_engine_counters *c)
{
    return (double)c->kv_hits + (double)c->kv_misses + (double)c->kv_prefetched;
}

static void print_kv(const tern_engine_counters *c)
{
    char in[16], out[16];
    if (!(kv_pages(c) > 0)) return;
    fprintf(stderr,
            "keys and values: %.0f %% of the pages were there; %s copied to the device, %s back, %.0f ms waited\n",
            100 * (double)c->kv_hits / kv_pages(c), tern_app_bytes(c->kv_in_bytes, in),
            tern_app_bytes(c->kv_out_bytes, out), (double)c->kv_wait_ns * 1e-6);
}

static json_t *kv_json(const tern_engine_counters *c)
{
    if (!(kv_pages(c) > 0)) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "hits", (json_int_t)c->kv_hits, "misses",
                     (json_int_t)c->kv_misses, "prefetched", (json_int_t)c->kv_prefetched, "evictions",
                     (json_int_t)c->kv_evictions, "copied_bytes", (json_int_t)c->kv_in_bytes, "saved_bytes",
                     (json_int_t)c->kv_out_bytes, "wait_ms", (double)c->kv_wait_ns * 1e-6);
}

void tern_app_print_cost(const tern_app_cost *c)
{
    const tern_generate_result *r = &c->result;
    char per_token[16], used[16], possible[16];
    double rate = per_second((double)r->weight_bytes, r->decode_ms);
    fprintf(stderr,
            "prompt: %u tokens, %.1f tokens/s; generated: %u tokens, %.1f tokens/s; stopped by %s; %s activations; "
            "seed %llu\n",
            r->n_prompt, per_second(r->n_prompt, r->prefill_ms), r->n_generated,
            per_second(r->n_generated, r->decode_ms), tern_stop_reason_name(r->reason), c->activations,
            (unsigned long long)c->seed);
    if (r->n_drafted)
        fprintf(stderr, "drafted: %u tokens, %u accepted (%.0f %%)\n", r->n_drafted, r->n_accepted,
                100.0 * r->n_accepted / r->n_drafted);
    print_kv(&c->counted);
    if (!(rate > 0) || !(c->read_bandwidth > 0)) return;
    fprintf(stderr, "memory: %s of weights a token, %s/s: %.0f %% of the %s/s that %s can read%s\n",
            tern_app_bytes((uint64_t)bytes_per_token(c), per_token), tern_app_bytes((uint64_t)rate, used),
            100 * rate / c->read_bandwidth, tern_app_bytes((uint64_t)c->read_bandwidth, possible),
            c->gpu ? "the device" : "these threads", c->in_cache ? " (weights this small stay in the cache)" : "");
}

/* JSON's readers, and jansson, have no whole numbers above this: a text keeps all digits. */
static json_t *seed_json(uint64_t seed)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(digits);
}

json_t *tern_app_cost_json(const tern_app_cost *c)
{
    const tern_generate_result *r = &c->result;
    return json_pack(
        "{s:i, s:f, s:i, s:f, s:s, s:o, s:i, s:i, s:f, s:f, s:b, s:o, s:s}", "prompt_tokens", (int)r->n_prompt,
        "prompt_tokens_per_second", per_second(r->n_prompt, r->prefill_ms), "generated_tokens", (int)r->n_generated,
        "generated_tokens_per_second", per_second(r->n_generated, r->decode_ms), "stopped_by",
        tern_stop_reason_name(r->reason), "seed", seed_json(c->seed), "drafted", (int)r->n_drafted, "accepted",
        (int)r->n_accepted, "weight_bytes_per_token", bytes_per_token(c), "read_bandwidth", c->read_bandwidth,
        "weights_fit_in_cache", (int)c->in_cache, "kv", kv_json(&c->counted), "activations", c->activations);
}
