/* The answer to a request: opening, writing and closing it. */
#include "serve/models/answer.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "serve/server.h"

static tern_status make_id(char id[32], tern_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    unsigned char bytes[24];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return tern_fail(err, TERN_IO, "the system gives no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++) id[i] = letters[bytes[i] % 32];
    id[sizeof bytes] = 0;
    return TERN_OK;
}

tern_status tern_answer_open(tern_answer **answer, tern_exchange *x, tern_error *err)
{
    tern_answer *a = tern_calloc(1, sizeof *a);
    *answer = NULL;
    if (!a) return tern_fail_alloc(err, sizeof *a);
    tern_api_request_init(&a->request);
    a->exchange = x;
    a->route = x->route;
    a->created = time(NULL);
    a->began = x->began;
    a->waits = TERN_WAITS_NOT;
    tern_exchange_keep(x);
    const tern_status status = make_id(a->id, err);
    if (status == TERN_OK) *answer = a;
    else tern_answer_close(a);
    return status;
}

void tern_answer_keep(const tern_answer *a)
{
    const uint32_t most = a->host->server->options.unload_seconds;
    tern_host_keep(a->host, a->request.keeps ? a->request.keep_seconds : most ? (double)most : -1);
}

void tern_answer_close(tern_answer *a)
{
    if (!a) return;
    for (uint32_t i = 0; i < a->n_parts; i++) tern_request_free(a->parts[i].batch_request);
    for (uint32_t i = 0; a->completions && i < a->n; i++) {
        tern_buf_deinit(&a->completions[i].text);
        tern_buf_deinit(&a->completions[i].fresh);
        tern_buf_deinit(&a->completions[i].thought);
        tern_buf_deinit(&a->completions[i].thoughts);
        tern_tool_parser_close(a->completions[i].parser);
        tern_free(a->completions[i].tokens);
        tern_tokens_deinit(&a->completions[i].ids);
        tern_free(a->completions[i].tops);
        tern_free(a->completions[i].stop);
    }
    if (a->host) {
        tern_loras_release(&a->host->server->loras, a->served, a->n_loras);
        if (a->run) tern_answer_keep(a);
        tern_hosts_drop(a->host);
    }
    tern_free(a->served);
    tern_free(a->loras);
    json_decref(a->vectors);
    tern_free(a->completions);
    tern_free(a->parts);
    tern_grammar_close(a->grammar);
    tern_tokens_deinit(&a->ending);
    for (uint32_t i = 0; a->prompts && i < a->n_prompts; i++) tern_tokens_deinit(&a->prompts[i]);
    tern_free(a->prompts);
    tern_api_request_deinit(&a->request);
    tern_exchange_drop(a->exchange);
    tern_free(a);
}

/* The messages of the response before this one, behind the instructions, which count for one response. */
static tern_status find_history(tern_answer *a, tern_error *err)
{
    char *text;
    if (!a->request.previous) return TERN_OK;
    tern_status status =
        tern_stored_get(&a->exchange->server->stored, a->request.previous, TERN_STORED_MESSAGES, &text, err);
    if (status == TERN_NOT_FOUND) {
        a->exchange->unknown_member = "previous_response_id";
        tern_error_prefix(err, "%s", a->exchange->unknown_member);
        return TERN_INVALID_ARGUMENT;
    }
    TERN_TRY(status);
    status = tern_api_request_insert_conversation(&a->request, a->request.n_front, text, err);
    tern_free(text);
    return status;
}

/* The name of the model in a request that is not read yet; NULL: none. */
static const char *name_in(const tern_exchange *x)
{
    static const char *const keys[] = {"model", "name", "base_model_name"};
    const char *name = NULL;
    for (size_t i = 0; !(name && *name) && i < sizeof keys / sizeof *keys; i++)
        name = json_string_value(json_object_get(x->document, keys[i]));
    return name && *name ? name : x->asked_model;
}

static tern_status find_model(tern_answer *a, tern_error *err)
{
    tern_serve *s = a->exchange->server;
    const size_t n = TERN_SERVE_MAX_LORAS + 1;
    a->served = tern_calloc(n, sizeof *a->served);
    if (!a->served) return tern_fail_alloc(err, n * sizeof *a->served);
    TERN_TRY(tern_host_find(s, name_in(a->exchange), &a->host, a->served, &a->n_loras, err));
    const char *name = a->n_loras ? a->served[0].lora->name : a->host->name;
    snprintf(a->exchange->model, sizeof a->exchange->model, "%s", name);
    const size_t most = n + a->host->model.n_adapters;
    a->loras = tern_calloc(most, sizeof *a->loras);
    return a->loras ? TERN_OK : tern_fail_alloc(err, most * sizeof *a->loras);
}

static tern_status find_loras(tern_answer *a, tern_error *err)
{
    tern_loras *loras = &a->exchange->server->loras;
    const tern_api_request *request = &a->request;
    if (a->n_loras && request->lora_scales)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "lora: not together with a model that is an adapter");
    if (a->n_loras || a->host->at != 0) return TERN_OK;
    if (request->lora_scales)
        return tern_loras_acquire_ids(loras, request->lora_scales, request->n_lora_scales, a->served, &a->n_loras, err);
    a->n_loras = tern_loras_acquire_scaled(loras, a->served);
    return TERN_OK;
}

/* A model's own messages stand before those of the request, its system message where the request has none. */
static tern_status add_messages(tern_answer *a, tern_error *err)
{
    tern_api_request *request = &a->request;
    const json_t *own = json_object_get(a->host->manifest, "messages");
    const char *system = a->host->model.system;
    if (!request->n_messages || request->raw || request->context) system = NULL;
    if (request->n_messages && strcmp(request->messages[0].role, "system") == 0) return TERN_OK;
    for (size_t i = request->n_messages && !request->context ? json_array_size(own) : 0; i > 0; i--) {
        const json_t *message = json_array_get(own, i - 1);
        const char *role = json_string_value(json_object_get(message, "role"));
        TERN_TRY(tern_api_request_prepend_message(request, role, json_object_get(message, "content"), "messages", err));
        request->n_front++;
    }
    if (!system) return TERN_OK;
    request->n_front++;
    return tern_api_request_prepend_text(request, "system", system, strlen(system), err);
}

tern_status tern_answer_read(tern_answer *a, tern_error *err)
{
    tern_exchange *x = a->exchange;
    tern_error unknown = {0};
    const tern_status found = find_model(a, &unknown);
    a->request.settings = a->host ? a->host->settings : NULL;
    TERN_TRY(tern_api_request_apply(&a->request, a->request.settings, err));
    if (a->host && a->host->variables) TERN_TRY(tern_api_request_read_variables(&a->request, a->host->variables, err));
    TERN_TRY(a->route->read(&a->request, x->document, err));
    x->ignored = json_incref(a->request.ignored);
    if (found != TERN_OK && err) *err = unknown;
    if (found != TERN_OK) return found;
    TERN_TRY(tern_api_request_finish(&a->request, err));
    TERN_TRY(find_history(a, err));
    TERN_TRY(add_messages(a, err));
    tern_thoughts_resolve(a);
    return find_loras(a, err);
}

bool tern_answer_has_loras(tern_answer *a)
{
    tern_loras *loras = &a->host->server->loras;
    for (uint32_t i = 0; i < a->n_loras; i++) {
        a->loras[i] = (tern_lora_use){tern_loras_get(loras, a->served[i].lora), a->served[i].scale};
        if (!a->loras[i].lora) a->waits = TERN_WAITS_FOR_LORAS;
    }
    for (uint32_t i = 0; i < a->host->n_own_loras; i++)
        a->loras[a->n_loras + i] = (tern_lora_use){a->host->own_loras[i], a->host->model.adapters[i].scale};
    a->n_uses = a->n_loras + a->host->n_own_loras;
    return a->waits == TERN_WAITS_NOT;
}

void tern_answer_take_lora(tern_answer *a, tern_served_lora *lora)
{
    tern_loras_release(&a->host->server->loras, a->served, a->n_loras);
    a->served[0] = (tern_served_use){lora, 1}; /* there is room for one more than it had */
    a->n_loras = 1;
    a->loading = lora;
}

void tern_answer_cancel(tern_answer *a)
{
    if (a->cancelled) return;
    a->cancelled = true;
    for (uint32_t i = 0; i < a->n_parts; i++) tern_request_cancel(a->parts[i].batch_request);
}

void tern_answer_fail(tern_answer *a, tern_status status, const char *message)
{
    tern_exchange_fail(a->exchange, tern_exchange_code(status), message);
}

/* The completions of best_of with the highest mean of log-probabilities come first, as index 0, 1, ... */
static double mean(const tern_completion *c)
{
    return c->n_generated ? c->logprob / c->n_generated : -1e30;
}

static void choose_best(tern_answer *a)
{
    for (uint32_t i = 1; i < a->n; i++)
        for (uint32_t k = i; k > 0 && mean(&a->completions[k]) > mean(&a->completions[k - 1]); k--) {
            if (a->completions[k].prompt != a->completions[k - 1].prompt) break;
            const tern_completion moved = a->completions[k];
            a->completions[k] = a->completions[k - 1];
            a->completions[k - 1] = moved;
        }
}

void tern_answer_finish(tern_answer *a)
{
    tern_exchange *x = a->exchange;
    x->n_prompt = a->n_prompt;
    x->n_generated = a->n_generated;
    if (a->error.code != TERN_OK) {
        tern_answer_fail(a, a->error.code, a->error.message);
    } else if (a->request.stream) {
        if (a->begun && a->route->dialect->finish) a->route->dialect->finish(a);
        tern_exchange_end(x);
    } else {
        if (a->request.best_of > a->request.n) choose_best(a);
        tern_exchange_send(x, 200, a->route->dialect->whole(a));
    }
}

void tern_answer_event(tern_answer *a, const char *name, json_t *document)
{
    char before[96];
    if (name) snprintf(before, sizeof before, "event: %s\ndata: ", name);
    else snprintf(before, sizeof before, "data: ");
    tern_exchange_write_json(a->exchange, before, document, "\n\n");
}

void tern_answer_line(tern_answer *a, json_t *document)
{
    tern_exchange_write_json(a->exchange, "", document, "\n");
}

/* Bytes of the whole sequence at s of at most n, 0 where it is none (RFC 3629). */
static size_t sequence(const unsigned char *s, size_t n)
{
    const unsigned char c = s[0];
    const size_t length = c < 0x80                ? 1
                          : c >= 0xc2 && c < 0xe0 ? 2
                          : c >= 0xe0 && c < 0xf0 ? 3
                          : c >= 0xf0 && c < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    const bool bad = (c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) ||
                     (c == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : length;
}

json_t *tern_serve_string(const char *bytes, size_t n)
{
    tern_buf text = {0};
    if (!n) return json_string("");
    json_t *whole = json_stringn(bytes, n);
    if (whole) return whole;
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n && status == TERN_OK;) {
        const size_t length = sequence((const unsigned char *)bytes + i, n - i);
        status = length ? tern_buf_add(&text, bytes + i, length, NULL) : tern_buf_add(&text, "\xef\xbf\xbd", 3, NULL);
        i += length ? length : 1;
    }
    whole = status == TERN_OK ? json_stringn(text.data, text.size) : NULL;
    tern_buf_deinit(&text);
    return whole;
}

tern_status tern_answer_token_text(const tern_answer *a, int32_t id, tern_buf *text, tern_error *err)
{
    return tern_engine_detokenize(a->host->engine, &id, 1, true, text, err);
}
