/* Answers of chat and completions of the OpenAI API. */
#include <string.h>

#include "serve/openai/openai.h"

const char *tern_openai__reason(const tern_completion *c)
{
    return c->reason == TERN_STOP_LENGTH || c->reason == TERN_STOP_CONTEXT ? "length" : "stop";
}

json_t *tern_openai__usage(const tern_answer *a)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)a->n_prompt, "completion_tokens",
                     (json_int_t)a->n_generated, "total_tokens", (json_int_t)a->n_prompt + a->n_generated,
                     "prompt_tokens_details", "cached_tokens", (json_int_t)a->n_cached, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)tern_thoughts_tokens(a));
}

static json_t *head(const tern_answer *a, const char *prefix, const char *object)
{
    char id[48];
    snprintf(id, sizeof id, "%s-%s", prefix, a->id);
    return json_pack("{s:s, s:s, s:I, s:s}", "id", id, "object", object, "created", (json_int_t)a->created, "model",
                     a->exchange->model);
}

static void send_choice(tern_answer *a, json_t *document, json_t *choice)
{
    json_object_set_new(document, "choices", choice ? json_pack("[o]", choice) : json_array());
    if (a->request.stream_usage) json_object_set_new(document, "usage", choice ? json_null() : tern_openai__usage(a));
    tern_answer_event(a, NULL, document);
}

static void send_delta(tern_answer *a, const tern_completion *c, json_t *delta, json_t *logprobs, const char *reason)
{
    send_choice(a, head(a, "chatcmpl", "chat.completion.chunk"),
                json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)c->index, "delta", delta, "logprobs", logprobs,
                          "finish_reason", reason));
}

static void begin_chat(tern_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        send_delta(a, &a->completions[i], json_pack("{s:s, s:s}", "role", "assistant", "content", ""), json_null(),
                   NULL);
}

static void chat_piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    json_t *logprobs = c->n_tokens > first ? tern_openai__chat_logprobs(a, c, first) : json_null();
    send_delta(a, c, json_pack("{s:o}", "content", tern_serve_string(text, n)), logprobs, NULL);
}

static json_t *call_of(const tern_tool_call *call)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", call->id, "type", "function", "function", "name", call->name,
                     "arguments", call->arguments);
}

/* The delta of a call; takes `function`. `head`: its first, which has its id. */
static void send_call(tern_answer *a, const tern_completion *c, const tern_call_part *part, bool head, json_t *function)
{
    json_t *one = head ? json_pack("{s:I, s:s, s:s, s:o}", "index", (json_int_t)part->i, "id", part->id, "type",
                                   "function", "function", function)
                       : json_pack("{s:I, s:o}", "index", (json_int_t)part->i, "function", function);
    json_t *delta =
        a->request.old_calls ? json_pack("{s:O}", "function_call", function) : json_pack("{s:[O]}", "tool_calls", one);
    json_decref(one);
    send_delta(a, c, delta, json_null(), NULL);
}

/* The first delta has no arguments: some clients take it for the head alone. */
static void chat_call(tern_answer *a, tern_completion *c, const tern_call_part *part)
{
    if (part->first) send_call(a, c, part, true, json_pack("{s:s, s:s}", "name", part->name, "arguments", ""));
    if (!part->n) return;
    send_call(a, c, part, false, json_pack("{s:o}", "arguments", tern_serve_string(part->text, part->n)));
}

static void chat_thought(tern_answer *a, tern_completion *c, const char *text, size_t n)
{
    send_delta(a, c, json_pack("{s:o}", "reasoning_content", tern_serve_string(text, n)), json_null(), NULL);
}

/* Calls that are whole are what the model wanted to say, unless it was cut off. */
static const char *chat_reason(const tern_answer *a, const tern_completion *c)
{
    size_t n;
    const char *reason = tern_openai__reason(c);
    (void)tern_calls_of(a, c, &n);
    if (!n || strcmp(reason, "stop") != 0) return reason;
    return a->request.old_calls ? "function_call" : "tool_calls";
}

static void chat_ended(tern_answer *a, tern_completion *c)
{
    send_delta(a, c, json_object(), json_null(), chat_reason(a, c));
}

static void finish(tern_answer *a, const char *prefix, const char *object)
{
    if (a->request.stream_usage) send_choice(a, head(a, prefix, object), NULL);
    tern_exchange_write(a->exchange, "data: [DONE]\n\n", 14);
}

static void finish_chat(tern_answer *a)
{
    finish(a, "chatcmpl", "chat.completion.chunk");
}

static json_t *whole(tern_answer *a, const char *prefix, const char *object,
                     json_t *(*choice)(const tern_answer *, const tern_completion *))
{
    json_t *document = head(a, prefix, object), *choices = json_array();
    uint32_t index = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (i % a->request.best_of >= a->request.n) continue;
        json_t *one = choice(a, &a->completions[i]);
        json_object_set_new(one, "index", json_integer((json_int_t)index++));
        json_array_append_new(choices, one);
    }
    json_object_set_new(document, "choices", choices);
    json_object_set_new(document, "usage", tern_openai__usage(a));
    return document;
}

static json_t *chat_message(const tern_answer *a, const tern_completion *c)
{
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                tern_serve_string(c->text.data, c->text.size), "refusal");
    size_t n;
    const tern_tool_call *calls = tern_calls_of(a, c, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, call_of(&calls[i]));
    if (n && a->request.old_calls)
        json_object_set(message, "function_call", json_object_get(json_array_get(list, 0), "function"));
    else if (n) json_object_set(message, "tool_calls", list);
    if (n && !c->text.size) json_object_set_new(message, "content", json_null());
    if (c->thoughts.size)
        json_object_set_new(message, "reasoning_content", tern_serve_string(c->thoughts.data, c->thoughts.size));
    json_decref(list);
    return message;
}

static json_t *chat_choice(const tern_answer *a, const tern_completion *c)
{
    return json_pack("{s:o, s:o, s:s}", "message", chat_message(a, c), "logprobs", tern_openai__chat_logprobs(a, c, 0),
                     "finish_reason", chat_reason(a, c));
}

static json_t *whole_chat(tern_answer *a)
{
    return whole(a, "chatcmpl", "chat.completion", chat_choice);
}

const tern_dialect tern_openai__chat = {.stream_type = "text/event-stream",
                                        .begin = begin_chat,
                                        .piece = chat_piece,
                                        .ended = chat_ended,
                                        .finish = finish_chat,
                                        .whole = whole_chat,
                                        .call = chat_call,
                                        .thought = chat_thought};

static void send_text(tern_answer *a, const tern_completion *c, json_t *text, json_t *logprobs, const char *reason)
{
    send_choice(a, head(a, "cmpl", "text_completion"),
                json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)c->index, "text", text, "logprobs", logprobs,
                          "finish_reason", reason));
}

static void text_piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    json_t *logprobs = c->n_tokens > first ? tern_openai__text_logprobs(a, c, first) : json_null();
    send_text(a, c, tern_serve_string(text, n), logprobs, NULL);
}

static void text_ended(tern_answer *a, tern_completion *c)
{
    send_text(a, c, json_string(""), json_null(), tern_openai__reason(c));
}

static void finish_text(tern_answer *a)
{
    finish(a, "cmpl", "text_completion");
}

static json_t *text_choice(const tern_answer *a, const tern_completion *c)
{
    return json_pack("{s:o, s:o, s:s}", "text", tern_serve_string(c->text.data, c->text.size), "logprobs",
                     tern_openai__text_logprobs(a, c, 0), "finish_reason", tern_openai__reason(c));
}

static json_t *whole_text(tern_answer *a)
{
    return whole(a, "cmpl", "text_completion", text_choice);
}

const tern_dialect tern_openai__completion = {.stream_type = "text/event-stream",
                                              .piece = text_piece,
                                              .ended = text_ended,
                                              .finish = finish_text,
                                              .whole = whole_text};
