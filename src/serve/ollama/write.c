/* Answers of the Ollama API: lines of JSON. */
#include <string.h>
#include <time.h>

#include "serve/ollama/ollama.h"
#include "serve/server.h"

void tern_ollama__time(int64_t seconds, char out[40])
{
    struct tm t;
    const time_t when = (time_t)seconds;
    if (!gmtime_r(&when, &t) || !strftime(out, 40, "%Y-%m-%dT%H:%M:%SZ", &t)) *out = 0;
}

static json_t *head(const tern_answer *a)
{
    char when[40];
    tern_ollama__time(time(NULL), when);
    return json_pack("{s:s, s:s}", "model", a->exchange->model, "created_at", when);
}

static json_int_t ns(double ms)
{
    return (json_int_t)(ms * 1e6);
}

static void add_end(const tern_answer *a, json_t *line)
{
    const tern_completion *c = &a->completions[0];
    const bool cut = c->reason == TERN_STOP_LENGTH || c->reason == TERN_STOP_CONTEXT;
    json_object_update_new(line, json_pack("{s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "done", 1, "done_reason",
                                           cut ? "length" : "stop", "total_duration",
                                           ns((tern_serve_seconds() - a->began) * 1e3), "load_duration",
                                           ns(a->queued_ms), "prompt_eval_count", (json_int_t)a->n_prompt,
                                           "prompt_eval_duration", ns(a->prefill_ms), "eval_count",
                                           (json_int_t)a->n_generated, "eval_duration", ns(a->decode_ms)));
}

/* Options that were not known, in the last line. */
static void add_ignored(const tern_answer *a, json_t *line)
{
    if (a->request.ignored) json_object_set(line, "ignored_options", a->request.ignored);
}

/* The ids of prompt and answer, which a later request may send back. */
static void add_context(const tern_answer *a, json_t *line)
{
    if (!a->request.with_context) return;
    json_t *context = json_array();
    for (size_t i = 0; i < a->prompts[0].n; i++) json_array_append_new(context, json_integer(a->prompts[0].ids[i]));
    const tern_tokens *ids = &a->completions[0].ids;
    for (size_t i = 0; i < ids->n; i++) json_array_append_new(context, json_integer(ids->ids[i]));
    json_object_set_new(line, "context", context);
}

static json_t *line_of(const tern_answer *a, bool is_chat, const char *text, size_t n)
{
    json_t *line = head(a), *string = tern_serve_string(text, n);
    if (is_chat) json_object_set_new(line, "message", json_pack("{s:s, s:o}", "role", "assistant", "content", string));
    else json_object_set_new(line, "response", string);
    json_object_set_new(line, "done", json_false());
    return line;
}

static json_t *last_line(const tern_answer *a, bool is_chat, const char *text, size_t n)
{
    json_t *line = line_of(a, is_chat, text, n);
    add_end(a, line);
    add_ignored(a, line);
    add_context(a, line);
    return line;
}

static void chat_piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    (void)c;
    (void)first;
    tern_answer_line(a, line_of(a, true, text, n));
}

static json_t *call_of(const tern_tool_call *call, size_t i)
{
    return json_pack("{s:s, s:{s:I, s:s, s:o}}", "id", call->id, "function", "index", (json_int_t)i, "name", call->name,
                     "arguments", tern_calls_arguments(call));
}

/* A member of the line's message; takes the value. */
static json_t *with(json_t *line, const char *key, json_t *value)
{
    json_object_set_new(json_object_get(line, "message"), key, value);
    return line;
}

/* Arguments are objects here, so a call comes whole. */
static void chat_call(tern_answer *a, tern_completion *c, const tern_call_part *part)
{
    (void)c;
    if (!part->whole) return;
    tern_answer_line(a, with(line_of(a, true, "", 0), "tool_calls", json_pack("[o]", call_of(part->whole, part->i))));
}

static void chat_thought(tern_answer *a, tern_completion *c, const char *text, size_t n)
{
    (void)c;
    tern_answer_line(a, with(line_of(a, true, "", 0), "thinking", tern_serve_string(text, n)));
}

static void finish_chat(tern_answer *a)
{
    tern_answer_line(a, last_line(a, true, "", 0));
}

static json_t *whole_chat(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    size_t n;
    const tern_tool_call *calls = tern_calls_of(a, c, &n);
    json_t *line = last_line(a, true, c->text.data, c->text.size), *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, call_of(&calls[i], i));
    if (n) with(line, "tool_calls", json_incref(list));
    if (c->thoughts.size) with(line, "thinking", tern_serve_string(c->thoughts.data, c->thoughts.size));
    json_decref(list);
    return line;
}

static void generate_piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    (void)c;
    (void)first;
    tern_answer_line(a, line_of(a, false, text, n));
}

static void finish_generate(tern_answer *a)
{
    tern_answer_line(a, last_line(a, false, "", 0));
}

static void generate_thought(tern_answer *a, tern_completion *c, const char *text, size_t n)
{
    (void)c;
    json_t *line = line_of(a, false, "", 0);
    json_object_set_new(line, "thinking", tern_serve_string(text, n));
    tern_answer_line(a, line);
}

static json_t *whole_generate(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    json_t *line = last_line(a, false, c->text.data, c->text.size);
    if (c->thoughts.size) json_object_set_new(line, "thinking", tern_serve_string(c->thoughts.data, c->thoughts.size));
    return line;
}

#define LINES "application/x-ndjson"
const tern_dialect tern_ollama__chat = {.stream_type = LINES,
                                        .piece = chat_piece,
                                        .finish = finish_chat,
                                        .whole = whole_chat,
                                        .call = chat_call,
                                        .thought = chat_thought};
const tern_dialect tern_ollama__generate = {.stream_type = LINES,
                                            .piece = generate_piece,
                                            .finish = finish_generate,
                                            .whole = whole_generate,
                                            .thought = generate_thought};

static json_t *whole_embeddings(tern_answer *a)
{
    return json_pack("{s:s, s:O, s:I, s:i, s:I}", "model", a->exchange->model, "embeddings", a->vectors,
                     "total_duration", ns((tern_serve_seconds() - a->began) * 1e3), "load_duration", 0,
                     "prompt_eval_count", (json_int_t)a->n_prompt);
}

const tern_dialect tern_ollama__embeddings = {.whole = whole_embeddings};

static json_t *whole_one(tern_answer *a)
{
    return json_pack("{s:O}", "embedding", json_array_get(a->vectors, 0));
}

const tern_dialect tern_ollama__one_embedding = {.whole = whole_one};

/* A request that only opens or closes the model, else one that generates. */
tern_status tern_ollama__answer(tern_answer *a, tern_host *host, tern_error *err)
{
    if (!a->request.loads && !a->request.unloads) return tern_handle_generate(a, host, err);
    json_t *line = line_of(a, a->route->dialect == &tern_ollama__chat, "", 0);
    json_object_set_new(line, "done", json_true());
    json_object_set_new(line, "done_reason", json_string(a->request.unloads ? "unload" : "load"));
    if (a->request.loads) tern_answer_keep(a); /* before the client can ask how long */
    tern_exchange_send(a->exchange, 200, line);
    return TERN_OK;
}
