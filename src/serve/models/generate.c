/* Asks that generate: their prompts to the batch, its pieces to the client. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "serve/server.h"

static tern_status add_ids(const json_t *list, const char *name, tern_tokens *ids, tern_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        int64_t id;
        if (!tern_json_int(json_array_get(list, i), &id) || id < 0 || id > INT32_MAX)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: item %zu is not a token id", name, i);
        TERN_TRY(tern_tokens_add(ids, (int32_t)id, err));
    }
    return TERN_OK;
}

static tern_status need_template(const tern_host *host, tern_error *err)
{
    static const char ways[] = "start the server with --template NAME, or ask for a completion of text";
    if (host->chat_template) return TERN_OK;
    if (host->template_error.code)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "the model %s: its %s; %s", host->name,
                         host->template_error.message, ways);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "the model %s has no chat template: %s", host->name, ways);
}

tern_status tern_answer_tokens(tern_answer *a, tern_host *host, size_t i, tern_tokens *ids, tern_error *err)
{
    const tern_api_request *request = &a->request;
    const bool templated = host->chat_template || host->template_error.code;
    if (request->n_messages && (templated || !request->n_prompts)) {
        TERN_TRY(need_template(host, err));
        return tern_calls_prompt(a, host, ids, err);
    }
    if (request->query) return tern_rerank_tokens(a, host, i, ids, err);
    if (request->gap.wanted) return tern_infill_tokens(a, host, i, ids, err);
    if (request->prompts[i].ids) return add_ids(request->prompts[i].ids, "prompt", ids, err);
    return tern_engine_tokenize(host->engine, request->prompts[i].text, request->prompts[i].n,
                                TERN_TOKENIZE_BOS | TERN_TOKENIZE_SPECIAL | (request->embeds ? TERN_TOKENIZE_END : 0u),
                                ids, err);
}

static tern_status keep_token(tern_completion *c, const tern_request_piece *piece)
{
    TERN_TRY(tern_grow((void **)&c->tokens, &c->cap_tokens, c->n_tokens + 1, sizeof *c->tokens, NULL));
    TERN_TRY(tern_grow((void **)&c->tops, &c->cap_tops, c->n_tops + piece->n_top, sizeof *c->tops, NULL));
    if (piece->n_top) memcpy(c->tops + c->n_tops, piece->top, piece->n_top * sizeof *c->tops);
    c->tokens[c->n_tokens++] = (tern_answer_token){piece->id, piece->logprob, piece->n_top, (uint32_t)c->n_tops};
    c->n_tops += piece->n_top;
    return TERN_OK;
}

static void observe_times(tern_answer *a, tern_completion *c)
{
    tern_metrics *m = &a->host->server->metrics;
    const double now = tern_serve_seconds();
    if (c->last_token > 0) tern_metrics_observe(m, &m->between_tokens, now - c->last_token);
    if (a->first_token <= 0) {
        a->first_token = now;
        tern_metrics_observe(m, &m->first_token, now - a->began);
    }
    c->last_token = now;
}

/* The state of the completion's last piece: kept, or sent to the client. */
static tern_status show_piece(tern_answer *a, tern_completion *c, size_t first)
{
    const tern_dialect *dialect = a->route->dialect;
    if (!a->request.stream || a->request.stop_in_text) {
        TERN_TRY(tern_buf_add(&c->text, c->fresh.data, c->fresh.size, NULL));
        TERN_TRY(tern_buf_add(&c->thoughts, c->thought.data, c->thought.size, NULL));
    }
    if (!a->request.stream) return TERN_OK;
    if (c->thought.size && dialect->thought) dialect->thought(a, c, c->thought.data, c->thought.size);
    if (c->in_call) tern_calls_show(a, c); /* text comes behind it */
    if (c->fresh.size || c->n_tokens > first)
        dialect->piece(a, c, c->fresh.data ? c->fresh.data : "", c->fresh.size, first);
    tern_calls_show(a, c);
    return TERN_OK;
}

static bool on_piece(void *context, const tern_request_piece *piece)
{
    tern_answer_part *part = context;
    tern_answer *a = part->answer;
    tern_completion *c = &a->completions[part->first + piece->index];
    const size_t first = c->n_tokens, n_text = tern_lines_take(a, c, piece->text, piece->n_text);
    tern_status status = TERN_OK;
    if (piece->id >= 0 && !piece->prompt) observe_times(a, c);
    if (a->request.logprobs && piece->id >= 0) status = keep_token(c, piece);
    if (a->request.with_context && piece->id >= 0 && status == TERN_OK)
        status = tern_tokens_add(&c->ids, piece->id, NULL);
    if (status == TERN_OK) status = tern_calls_read(c, piece->text, n_text, false, &a->error);
    if (status == TERN_OK && piece->id >= 0 && !piece->prompt) status = tern_thoughts_count(part, c, &a->error);
    if (status == TERN_OK) status = show_piece(a, c, first);
    if (status == TERN_OK) return !c->line.ended && !tern_exchange_is_gone(a->exchange);
    if (a->error.code == TERN_OK) tern_fail_alloc(&a->error, piece->n_text);
    return false;
}

/* Text that was held back because it might have become a call. */
static void show_rest(tern_answer *a, tern_completion *c)
{
    tern_error err = {0};
    tern_status status = tern_calls_read(c, "", 0, true, &err);
    if (status == TERN_OK && a->error.code == TERN_OK) status = show_piece(a, c, c->n_tokens);
    if (status != TERN_OK && a->error.code == TERN_OK) tern_fail(&a->error, status, "%s", err.message);
}

static double max_ms(double a, double b)
{
    return a > b ? a : b;
}

static void on_end(void *context, const tern_request_result *result)
{
    const tern_answer_part *part = context;
    tern_answer *a = part->answer;
    tern_completion *c = &a->completions[part->first + result->index];
    c->ended = true;
    c->reason = result->reason;
    c->stop = result->stop ? tern_strdup(result->stop) : NULL;
    c->n_generated = result->n_generated;
    c->logprob = result->logprob;
    if (result->index == 0) {
        a->n_prompt += result->n_prompt;
        a->n_cached += result->n_cached;
    }
    a->n_generated += result->n_generated;
    a->queued_ms = max_ms(a->queued_ms, result->queued_ms);
    a->prefill_ms = max_ms(a->prefill_ms, result->prefill_ms);
    a->decode_ms = max_ms(a->decode_ms, result->decode_ms);
    if (result->error && a->error.code == TERN_OK) a->error = *result->error;
    if (c->parser) show_rest(a, c);
    const bool wanted = a->request.stream && a->error.code == TERN_OK && a->route->dialect->ended;
    if (wanted) a->route->dialect->ended(a, c);
    a->done = ++a->n_ended == a->n;
}

static void start_stream(tern_answer *a)
{
    if (a->begun || !a->request.stream) return;
    a->begun = true;
    tern_exchange_begin(a->exchange, a->route->dialect->stream_type);
    if (a->route->dialect->begin) a->route->dialect->begin(a);
}

static tern_request_params params_of(const tern_answer *a, const tern_host *host, tern_answer_part *part)
{
    const tern_api_request *request = &a->request;
    const uint32_t most = host->server->limits.tokens;
    return (tern_request_params){
        .size = sizeof(tern_request_params),
        .n = request->best_of,
        .sampler = request->sampler,
        .max_tokens = most && (!request->max_tokens || request->max_tokens > most) ? most : request->max_tokens,
        .no_tokens = request->no_tokens,
        .stops = request->stops,
        .n_stops = request->n_stops,
        .ignore_eos = request->ignore_eos,
        .show_special =
            request->show_special || tern_calls_wanted(a) || (tern_thoughts_wanted(a) && host->special_marks),
        .echo = request->echo,
        .logprobs = request->logprobs || request->best_of > request->n,
        .n_top_logprobs = request->n_top_logprobs,
        .draft_tokens = host->server->options.draft_tokens,
        .grammar = a->grammar,
        .grammar_waits = a->opened && tern_thoughts_wanted(a),
        .loras = a->loras,
        .n_loras = a->n_uses,
        .on_piece = on_piece,
        .on_end = on_end,
        .context = part,
    };
}

/* Keeps prompt and answer within the positions that were asked for. */
static tern_status limit_tokens(const tern_answer *a, const tern_host *host, tern_request_params *params,
                                tern_error *err)
{
    const uint32_t n_ctx = a->request.n_ctx, most = tern_batch_n_ctx(host->batch);
    if (!n_ctx) return TERN_OK;
    if (n_ctx > most)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "num_ctx: %u found, at most %u expected (the server's --ctx)",
                         n_ctx, most);
    if (params->n_prompt >= n_ctx)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "the prompt has %u tokens, less than num_ctx (%u) expected",
                         params->n_prompt, n_ctx);
    const uint32_t room = n_ctx - params->n_prompt;
    if (!params->max_tokens || params->max_tokens > room) params->max_tokens = room;
    return TERN_OK;
}

static tern_status submit(tern_answer *a, tern_host *host, uint32_t i, tern_error *err)
{
    tern_answer_part *part = &a->parts[i];
    *part = (tern_answer_part){.answer = a, .first = i * a->request.best_of};
    tern_request_params params = params_of(a, host, part);
    params.prompt = a->prompts[i].ids;
    params.n_prompt = (uint32_t)a->prompts[i].n;
    TERN_TRY(limit_tokens(a, host, &params, err));
    a->n_asked += params.n_prompt;
    return tern_batch_submit(host->batch, &params, &part->batch_request, err);
}

static bool has_forced_calls(const tern_answer *a)
{
    return tern_api_request_wants_calls(&a->request) && a->request.calls == TERN_CALLS_REQUIRED;
}

static bool wants_grammar(const tern_answer *a)
{
    return a->request.constrained || has_forced_calls(a);
}

static tern_status open_grammar(tern_answer *a, tern_host *host, tern_error *err)
{
    const tern_api_request *request = &a->request;
    const tern_tokenizer *tokenizer = tern_engine_tokenizer(host->engine);
    char *schema = NULL;
    if (!wants_grammar(a)) return TERN_OK;
    if (!tokenizer) return tern_fail(err, TERN_UNSUPPORTED, "the model %s has no tokenizer for a grammar", host->name);
    if (!host->vocab) TERN_TRY(tern_grammar_vocab_open(&host->vocab, tokenizer, err));
    if (has_forced_calls(a)) return tern_calls_grammar(a, host, err);
    if (request->schema) {
        schema = json_dumps(request->schema, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        if (!schema) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    }
    const char *source = schema ? schema : request->grammar ? request->grammar : "";
    const tern_status status =
        tern_grammar_open(&a->grammar, host->vocab, request->grammar_kind, source, strlen(source), err);
    tern_free(schema);
    return status;
}

/* The tokens of texts that have a bias. */
static tern_status add_text_biases(tern_answer *a, const tern_host *host, tern_error *err)
{
    tern_tokens ids = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < json_array_size(a->request.text_biases); i++) {
        const json_t *pair = json_array_get(a->request.text_biases, i), *text = json_array_get(pair, 0);
        ids.n = 0;
        TERN_GOTO(tern_engine_tokenize(host->engine, json_string_value(text), json_string_length(text), 0, &ids, err));
        for (size_t k = 0; k < ids.n; k++)
            TERN_GOTO(
                tern_api_request_add_bias(&a->request, ids.ids[k], json_real_value(json_array_get(pair, 1)), err));
    }
    a->request.sampler.biases = a->request.biases;
    a->request.sampler.n_biases = (uint32_t)a->request.n_biases;
fail:
    tern_tokens_deinit(&ids);
    return status;
}

/* The ids of an earlier answer, and behind them the prompt, which begins no text of its own. */
static tern_status continue_context(const tern_answer *a, const tern_host *host, tern_tokens *ids, tern_error *err)
{
    tern_tokens all = {0};
    tern_status status;
    if (!a->request.context) return TERN_OK;
    TERN_GOTO(add_ids(a->request.context, "context", &all, err));
    const size_t from = ids->n && host->info.adds_bos && ids->ids[0] == host->info.bos;
    for (size_t i = from; i < ids->n; i++) TERN_GOTO(tern_tokens_add(&all, ids->ids[i], err));
    tern_tokens_deinit(ids);
    *ids = all;
    return TERN_OK;
fail:
    tern_tokens_deinit(&all);
    return status;
}

tern_status tern_answer_prepare(tern_answer *a, tern_host *host, tern_error *err)
{
    const uint32_t n = a->request.n_messages ? 1 : (uint32_t)a->request.n_prompts;
    TERN_TRY(open_grammar(a, host, err));
    a->prompts = tern_calloc(n, sizeof *a->prompts);
    if (!a->prompts) return tern_fail_alloc(err, n * sizeof *a->prompts);
    a->n_prompts = n;
    for (uint32_t i = 0; i < n; i++) {
        TERN_TRY(tern_answer_tokens(a, host, i, &a->prompts[i], err));
        TERN_TRY(continue_context(a, host, &a->prompts[i], err));
    }
    TERN_TRY(tern_thoughts_prepare(a, host, err));
    return add_text_biases(a, host, err);
}

static tern_status make_completions(tern_answer *a, uint32_t n_prompts, tern_error *err)
{
    const uint32_t each = a->request.best_of, n = n_prompts * each;
    a->parts = tern_calloc(n_prompts, sizeof *a->parts);
    a->completions = tern_calloc(n, sizeof *a->completions);
    if (!a->parts || !a->completions) return tern_fail_alloc(err, n * sizeof *a->completions);
    a->n = n;
    for (uint32_t i = 0; i < n; i++) a->completions[i] = (tern_completion){.index = i, .prompt = i / each};
    for (uint32_t i = 0; i < n; i++) TERN_TRY(tern_calls_open(a, &a->completions[i], err));
    return TERN_OK;
}

tern_status tern_handle_generate(tern_answer *a, tern_host *host, tern_error *err)
{
    const uint32_t n_prompts = a->request.n_messages ? 1 : (uint32_t)a->request.n_prompts;
    if (n_prompts == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt: none found, a text expected");
    if (a->request.stream && a->request.best_of > a->request.n)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "best_of: a stream cannot choose among answers, an equal n expected");
    if (!tern_answer_has_loras(a)) return TERN_OK;
    if (!a->prompts) {
        a->waits = wants_grammar(a) ? TERN_WAITS_FOR_GRAMMAR : TERN_WAITS_FOR_PROMPTS;
        return TERN_OK;
    }
    TERN_TRY(make_completions(a, n_prompts, err));
    for (uint32_t i = 0; i < n_prompts; i++) {
        const tern_status status = submit(a, host, i, i ? &a->error : err);
        if (status == TERN_OK) {
            a->n_parts++;
            continue;
        }
        if (i == 0) return status;
        a->n = i * a->request.best_of; /* the others end first */
        a->n_ended = 0;
        tern_answer_cancel(a);
        return TERN_OK;
    }
    start_stream(a);
    return TERN_OK;
}
