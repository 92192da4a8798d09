/* Answers of the Anthropic API. */
#include "serve/anthropic/anthropic.h"

static const char *reason_of(const tern_completion *c)
{
    if (c->reason == TERN_STOP_LENGTH || c->reason == TERN_STOP_CONTEXT) return "max_tokens";
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
    tern_answer_event(a, "content_block_start",
                      json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_start", "index", 0, "content_block",
                                "type", "text", "text", ""));
    tern_answer_event(a, "ping", json_pack("{s:s}", "type", "ping"));
}

static void piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    (void)c;
    (void)first;
    tern_answer_event(a, "content_block_delta",
                      json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index", 0, "delta", "type",
                                "text_delta", "text", tern_serve_string(text, n)));
}

static void finish(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    tern_answer_event(a, "content_block_stop", json_pack("{s:s, s:i}", "type", "content_block_stop", "index", 0));
    tern_answer_event(a, "message_delta",
                      json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta", "stop_reason",
                                reason_of(c), "stop_sequence", c->stop, "usage", usage(a, a->n_prompt)));
    tern_answer_event(a, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static json_t *whole(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    json_t *text = json_pack("{s:s, s:o}", "type", "text", "text", tern_serve_string(c->text.data, c->text.size));
    json_t *document = message(a, a->n_prompt, json_pack("[o]", text));
    json_object_set_new(document, "stop_reason", json_string(reason_of(c)));
    if (c->stop) json_object_set_new(document, "stop_sequence", json_string(c->stop));
    return document;
}

const tern_dialect tern_anthropic__messages = {"text/event-stream", begin, piece, NULL, finish, whole};
