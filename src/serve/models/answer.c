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
        tern_free(a->completions[i].tops);
        tern_free(a->completions[i].stop);
    }
    if (a->host) tern_loras_release(&a->host->server->loras, a->served, a->n_loras);
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
    TERN_TRY(tern_stored_get(&a->exchange->server->stored, a->request.previous, &text, err));
    const tern_status status = tern_api_request_insert_conversation(&a->request, a->request.system ? 1 : 0, text, err);
    tern_free(text);
    return status;
}

tern_status tern_answer_resolve(tern_answer *a, tern_error *err)
{
    tern_serve *s = a->exchange->server;
    const tern_api_request *request = &a->request;
    TERN_TRY(find_history(a, err));
    tern_served_use uses[TERN_SERVE_MAX_LORAS];
    uint32_t n;
    TERN_TRY(tern_host_find(s, request->model, &a->host, uses, &n, err));
    tern_thoughts_resolve(a);
    snprintf(a->exchange->model, sizeof a->exchange->model, "%s", n ? uses[0].lora->name : a->host->name);
    if (n && request->lora_scales) {
        tern_loras_release(&s->loras, uses, n);
        return tern_fail(err, TERN_INVALID_ARGUMENT, "lora: none expected where the model is an adapter");
    }
    if (!n && a->host->at == 0) {
        if (request->lora_scales)
            TERN_TRY(tern_loras_acquire_ids(&s->loras, request->lora_scales, request->n_lora_scales, uses, &n, err));
        else n = tern_loras_acquire_scaled(&s->loras, uses);
    }
    a->served = tern_calloc((size_t)n + 1, sizeof *a->served);
    a->loras = tern_calloc((size_t)n + 1, sizeof *a->loras);
    if (!a->served || !a->loras) {
        tern_loras_release(&s->loras, uses, n);
        return tern_fail_alloc(err, n * sizeof *uses);
    }
    if (n) memcpy(a->served, uses, n * sizeof *uses);
    a->n_loras = n;
    return TERN_OK;
}

bool tern_answer_has_loras(tern_answer *a)
{
    tern_loras *loras = &a->host->server->loras;
    for (uint32_t i = 0; i < a->n_loras; i++) {
        a->loras[i] = (tern_lora_use){tern_loras_get(loras, a->served[i].lora), a->served[i].scale};
        if (!a->loras[i].lora) a->waits = TERN_WAITS_FOR_LORAS;
    }
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
