/* Exports: generating text step by step. Pieces gather here; JavaScript takes them between steps. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "infer/session/session.h"
#include "tern.h"
#include "web/web.h"
#include "web/web_filter.h"

/* The text generated since it was last taken: ids[n], and the text of piece i from ends[i - 1] to ends[i]. With
 * log-probabilities 1 + n_top of each piece, of which those of a piece without a token say nothing. */
typedef struct pieces {
    uint32_t n;
    const int32_t *ids;
    const int32_t *ends;
    const char *text;
    const char *logprobs; /* tern_token_logprob */
} pieces;

typedef struct web_generation {
    tern_generation *generation;
    const char **stops;
    tern_logit_bias *biases;
    web_filter filter;
    uint32_t n_reused;
    tern_tokens ids, ends;
    tern_buf text, logprobs;
    pieces taken;
    tern_status status; /* of gathering: OUT_OF_MEMORY */
} web_generation;

TERN_WEB tern_status tern_web_generation_open(web_generation **out, tern_session *session, const int32_t *ids,
                                              uint32_t n, const char *options);
TERN_WEB tern_status tern_web_generation_step(web_generation *g, uint32_t *done);
TERN_WEB const pieces *tern_web_generation_take(web_generation *g);
TERN_WEB void tern_web_generation_stop(web_generation *g);
TERN_WEB tern_status tern_web_generation_result(const web_generation *g);
TERN_WEB void tern_web_generation_close(web_generation *g);

static bool gather(void *context, const tern_piece *piece)
{
    web_generation *g = context;
    g->status = tern_buf_add(&g->text, piece->text, piece->n_text, NULL);
    if (g->status == TERN_OK) g->status = tern_tokens_add(&g->ids, piece->id, NULL);
    if (g->status == TERN_OK) g->status = tern_tokens_add(&g->ends, (int32_t)g->text.size, NULL);
    if (g->status == TERN_OK && g->filter.logprobs)
        g->status = tern_buf_add(&g->logprobs, (const char *)g->filter.last,
                                 (1 + g->filter.n_top) * sizeof *g->filter.last, NULL);
    return g->status == TERN_OK;
}

static tern_status read_stops(web_generation *g, const json_t *list, tern_generate_params *params, tern_error *err)
{
    const size_t n = json_array_size(list);
    if (!list) return TERN_OK;
    if (!json_is_array(list)) return tern_fail(err, TERN_INVALID_ARGUMENT, "option stop: a list of texts expected");
    g->stops = tern_calloc(n + 1, sizeof *g->stops);
    if (!g->stops) return tern_fail_alloc(err, n * sizeof *g->stops);
    for (size_t i = 0; i < n; i++) {
        const json_t *stop = json_array_get(list, i);
        g->stops[i] = json_is_string(stop) ? tern_strdup(json_string_value(stop)) : NULL;
        if (!json_is_string(stop))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "option stop: item %zu is not a text", i);
        if (!g->stops[i]) return tern_fail_alloc(err, json_string_length(stop) + 1);
    }
    params->stops = g->stops;
    params->n_stops = (uint32_t)n;
    return TERN_OK;
}

/* biases: {"ID": number}. */
static tern_status read_biases(web_generation *g, json_t *biases, uint32_t n_vocab, tern_generate_params *p,
                               tern_error *err)
{
    const size_t n = json_object_size(biases);
    const char *key;
    json_t *value;
    if (n == 0) return TERN_OK;
    g->biases = tern_calloc(n, sizeof *g->biases);
    if (!g->biases) return tern_fail_alloc(err, n * sizeof *g->biases);
    json_object_foreach(biases, key, value)
    {
        char *end;
        const long id = strtol(key, &end, 10);
        if (*end || end == key || id < 0 || (unsigned long)id >= n_vocab || !json_is_number(value))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "option logitBias: %s, ids below %u with numbers expected",
                             tern_show_z(key).text, n_vocab);
        g->biases[p->sampler.n_biases++] = (tern_logit_bias){(int32_t)id, (float)json_number_value(value)};
    }
    p->sampler.biases = g->biases;
    return TERN_OK;
}

static tern_status read_params(web_generation *g, tern_session *session, const char *options, tern_generate_params *p,
                               tern_error *err)
{
    const tern_sampler_params defaults = TERN_SAMPLER_DEFAULTS;
    tern_sampler_params *s = &p->sampler;
    const uint32_t n_vocab = tern_engine_config(tern_session_engine(session))->n_vocab;
    json_t *root, *stop = NULL, *biases = NULL, *grammar = NULL, *tools = NULL;
    *p = TERN_SIZED(tern_generate_params, .sampler = defaults, .on_piece = gather, .context = g);
    const tern_web_option known[] = {
        {"maxTokens", TERN_WEB_U32, &p->max_tokens},
        {"temperature", TERN_WEB_F32, &s->temperature},
        {"topK", TERN_WEB_U32, &s->top_k},
        {"topP", TERN_WEB_F32, &s->top_p},
        {"minP", TERN_WEB_F32, &s->min_p},
        {"typicalP", TERN_WEB_F32, &s->typical_p},
        {"repetitionPenalty", TERN_WEB_F32, &s->repetition_penalty},
        {"presencePenalty", TERN_WEB_F32, &s->presence_penalty},
        {"frequencyPenalty", TERN_WEB_F32, &s->frequency_penalty},
        {"penaltyLastN", TERN_WEB_U32, &s->penalty_last_n},
        {"seed", TERN_WEB_U64, &s->seed},
        {"ignoreEos", TERN_WEB_BOOL, &p->ignore_eos},
        {"stop", TERN_WEB_ANY, &stop},
        {"showSpecial", TERN_WEB_BOOL, &p->show_special},
        {"logitBias", TERN_WEB_ANY, &biases},
        {"logprobs", TERN_WEB_BOOL, &g->filter.logprobs},
        {"topLogprobs", TERN_WEB_U32, &g->filter.n_top},
        {"grammar", TERN_WEB_ANY, &grammar},
        {"tools", TERN_WEB_ANY, &tools},
    };
    TERN_TRY(tern_web__read_options(options, known, sizeof known / sizeof *known, &root, err));
    tern_status status;
    TERN_GOTO(read_stops(g, stop, p, err));
    TERN_GOTO(read_biases(g, biases, n_vocab, p, err));
    TERN_GOTO(tern_web__filter_open(&g->filter, session, grammar, tools, err));
    p->filter = tern_web__filter_of(&g->filter);
fail:
    json_decref(root);
    return status;
}

/* How many tokens the session holds already; at least one is left to evaluate. */
static uint32_t common_prefix(const tern_session *session, const int32_t *ids, uint32_t n)
{
    const int32_t *held = tern_session_tokens(session);
    uint32_t n_held = tern_session_n_tokens(session), i = 0;
    while (i < n_held && i + 1 < n && held[i] == ids[i]) i++;
    return i;
}

/* After the n tokens, all of the sequence; what the session shares with them it keeps. Options: GenerateOptions of
 * web/lib/index.d.ts. */
tern_status tern_web_generation_open(web_generation **out, tern_session *session, const int32_t *ids, uint32_t n,
                                     const char *options)
{
    tern_error *err = tern_web__error();
    tern_generate_params params = {.size = sizeof params};
    *out = NULL;
    if (n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "no tokens to continue");
    web_generation *g = tern_calloc(1, sizeof *g);
    if (!g) return tern_fail_alloc(err, sizeof *g);
    tern_status status;
    TERN_GOTO(read_params(g, session, options, &params, err));
    g->n_reused = common_prefix(session, ids, n);
    tern_session_truncate(session, g->n_reused);
    TERN_GOTO(tern_generation_open(&g->generation, session, ids + g->n_reused, n - g->n_reused, &params, err));
    *out = g;
    return TERN_OK;
fail:
    tern_web_generation_close(g);
    return status;
}

/* OK, and *done in the end; or PENDING: again when the device is done. */
tern_status tern_web_generation_step(web_generation *g, uint32_t *done)
{
    tern_error *err = tern_web__error();
    bool over = false;
    tern_status status = tern_generation_step(g->generation, &over, err);
    *done = over;
    if (status == TERN_OK && g->status != TERN_OK) return tern_fail_alloc(err, g->text.size);
    return status;
}

/* The pieces since the last call; valid until the next step. */
const pieces *tern_web_generation_take(web_generation *g)
{
    g->taken = (pieces){(uint32_t)g->ids.n, g->ids.ids, g->ends.ids, g->text.data, g->logprobs.data};
    g->ids.n = g->ends.n = g->text.size = g->logprobs.size = 0;
    return &g->taken;
}

void tern_web_generation_stop(web_generation *g)
{
    tern_generation_stop(g->generation);
}

/* Result of web/lib/index.d.ts, except for the bandwidth. */
tern_status tern_web_generation_result(const web_generation *g)
{
    tern_error *err = tern_web__error();
    tern_generate_result r = {.size = sizeof r};
    TERN_TRY(tern_generation_describe(g->generation, &r, err));
    const double rate = r.decode_ms > 0 ? r.n_generated * 1e3 / r.decode_ms : 0;
    return tern_web__answer(
        json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I}", "reason", tern_stop_reason_name(r.reason),
                  "promptTokens", (json_int_t)r.n_prompt + g->n_reused, "reusedTokens", (json_int_t)g->n_reused,
                  "tokens", (json_int_t)r.n_generated, "prefillMs", r.prefill_ms, "decodeMs", r.decode_ms,
                  "tokensPerSecond", rate, "bytesPerToken",
                  (json_int_t)(r.n_generated ? r.weight_bytes / r.n_generated : 0), "steps", (json_int_t)r.steps),
        err);
}

/* Gives the session back. NULL is fine. */
void tern_web_generation_close(web_generation *g)
{
    if (!g) return;
    tern_generation_close(g->generation);
    for (size_t i = 0; g->stops && g->stops[i]; i++) tern_free((void *)(uintptr_t)g->stops[i]);
    tern_free(g->stops);
    tern_free(g->biases);
    tern_web__filter_close(&g->filter);
    tern_buf_deinit(&g->logprobs);
    tern_tokens_deinit(&g->ids);
    tern_tokens_deinit(&g->ends);
    tern_buf_deinit(&g->text);
    tern_free(g);
}
