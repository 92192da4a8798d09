/* Answers of the Anthropic API. */
#include <string.h>

#include "serve/anthropic/anthropic.h"

static const char *reason_of(const tern_answer *a, const tern_completion *c)
{
    size_t n_calls;
    (void)tern_calls_of(a, c, &n_calls);
    if (c->reason == TERN_STOP_LENGTH || c->reason == TERN_STOP_CONTEXT) return "max_tokens";
    if (n_calls) return "tool_use";
    return c->reason == TERN_STOP_STRING ? "stop_sequence" : "end_turn";
}

static json_t *usage(const tern_answer *a, uint32_t n_prompt)
{
    return json_pack("{s:I, s:I, s:i, s:I}", "input_tokens", (json_int_t)n_prompt - a->n_cached, "output_tokens",
                     (json_int_t)a->n_generated, "cache_creation_input_tokens", 0, "cache_read_input_tokens",
                     (json_int_t)a->n_cached);
}

static json_t *message(const tern_answer *a, uint32_t n_prompt, json_t *content)
{
    char id[48];
    snprintf(id, sizeof id, "msg_%s", a->id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", id, "type", "message", "role", "assistant",
                     "model", a->exchange->model, "content", content, "stop_reason", "stop_sequence", "usage",
                     usage(a, n_prompt));
}

static void begin(tern_answer *a)
{
    tern_answer_event(
        a, "message_start",
        json_pack("{s:s, s:o}", "type", "message_start", "message", message(a, a->n_asked, json_array())));
    tern_answer_event(a, "ping", json_pack("{s:s}", "type", "ping"));
}

/* The blocks of a stream come one after the other, and have numbers; takes `block`. */
static void open_block(tern_answer *a, json_t *block)
{
    tern_answer_event(a, "content_block_start",
                      json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index", (json_int_t)a->n_events,
                                "content_block", block));
}

static void add_to_block(tern_answer *a, const char *type, const char *key, json_t *value)
{
    tern_answer_event(a, "content_block_delta",
                      json_pack("{s:s, s:I, s:{s:s, s:o}}", "type", "content_block_delta", "index",
                                (json_int_t)a->n_events, "delta", "type", type, key, value));
}

static void close_block(tern_answer *a)
{
    tern_answer_event(a, "content_block_stop",
                      json_pack("{s:s, s:I}", "type", "content_block_stop", "index", (json_int_t)a->n_events++));
}

/* The block of text or of thoughts is closed before another begins. */
static void close_text(tern_answer *a)
{
    if (a->in_thoughts) add_to_block(a, "signature_delta", "signature", json_string(""));
    if (a->in_text || a->in_thoughts) close_block(a);
    a->in_text = a->in_thoughts = false;
}

static void open_text(tern_answer *a)
{
    if (a->in_text) return;
    close_text(a);
    open_block(a, json_pack("{s:s, s:s}", "type", "text", "text", ""));
    a->in_text = true;
}

static void thought(tern_answer *a, tern_completion *c, const char *text, size_t n)
{
    (void)c;
    if (!a->in_thoughts) {
        close_text(a);
        open_block(a, json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
    }
    a->in_thoughts = true;
    add_to_block(a, "thinking_delta", "thinking", tern_serve_string(text, n));
}

static void piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    (void)c;
    (void)first;
    open_text(a);
    add_to_block(a, "text_delta", "text", tern_serve_string(text, n));
}

/* A use of a tool; takes its input. */
static json_t *use_of(const char *id, const char *name, json_t *input)
{
    return json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", id, "name", name, "input", input);
}

static void show_call(tern_answer *a, tern_completion *c, const tern_call_part *part)
{
    (void)c;
    close_text(a);
    if (part->first) open_block(a, use_of(part->id, part->name, json_object()));
    if (part->n) add_to_block(a, "input_json_delta", "partial_json", tern_serve_string(part->text, part->n));
    if (part->whole) close_block(a);
}

static void finish(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    if (a->n_events == 0 && !a->in_thoughts) open_text(a); /* an answer without anything is a text of no length */
    close_text(a);
    tern_answer_event(a, "message_delta",
                      json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta", "stop_reason",
                                reason_of(a, c), "stop_sequence", c->stop, "usage", usage(a, a->n_prompt)));
    tern_answer_event(a, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static json_t *content_of(const tern_answer *a, const tern_completion *c)
{
    json_t *content = json_array();
    size_t n;
    const tern_tool_call *calls = tern_calls_of(a, c, &n);
    if (c->thoughts.size)
        json_array_append_new(content,
                              json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                                        tern_serve_string(c->thoughts.data, c->thoughts.size), "signature", ""));
    if (c->text.size || (n == 0 && !c->thoughts.size))
        json_array_append_new(
            content, json_pack("{s:s, s:o}", "type", "text", "text", tern_serve_string(c->text.data, c->text.size)));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(content, use_of(calls[i].id, calls[i].name, tern_calls_arguments(&calls[i])));
    return content;
}

static json_t *whole(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    json_t *document = message(a, a->n_prompt, content_of(a, c));
    json_object_set_new(document, "stop_reason", json_string(reason_of(a, c)));
    if (c->stop) json_object_set_new(document, "stop_sequence", json_string(c->stop));
    return document;
}

const tern_dialect tern_anthropic__messages = {.stream_type = "text/event-stream",
                                               .begin = begin,
                                               .piece = piece,
                                               .finish = finish,
                                               .whole = whole,
                                               .call = show_call,
                                               .thought = thought};
