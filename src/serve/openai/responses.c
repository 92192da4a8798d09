/* Responses of the OpenAI API: one item, the assistant's message. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "serve/openai/openai.h"

#define AT(member) offsetof(tern_ask, member)

static tern_status read_item(tern_ask *ask, const json_t *item, tern_error *err)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!role || (type && strcmp(type, "message") != 0))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "input: an item of the type \"%s\" found, messages expected",
                         type ? tern_show_z(type).text : "");
    if (strcmp(role, "developer") == 0) role = "system";
    return tern_ask_add_message(ask, role, json_object_get(item, "content"), "input.content", err);
}

static tern_status read_input(void *into, const json_t *value, tern_error *err)
{
    if (json_is_string(value)) return tern_ask_add_message(into, "user", value, "input", err);
    if (!json_is_array(value)) return tern_fields_fail("input", value, "a text or a list of messages", err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(read_item(into, json_array_get(value, i), err));
    return TERN_OK;
}

static tern_status read_text(void *into, const json_t *value, tern_error *err)
{
    const json_t *format = json_object_get(value, "format");
    return format ? tern_openai__read_format(into, format, err) : TERN_OK;
}

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"input", TERN_FIELD_READ, .read = read_input},
    {"instructions", TERN_FIELD_TEXT, AT(system)},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"max_output_tokens", TERN_FIELD_U32, AT(max_tokens), 1, 1 << 24},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"text", TERN_FIELD_READ, .read = read_text},
    {"tools", TERN_FIELD_REFUSED},
    {"tool_choice", TERN_FIELD_IGNORED},
    {"parallel_tool_calls", TERN_FIELD_IGNORED},
    {"max_tool_calls", TERN_FIELD_IGNORED},
    {"previous_response_id", TERN_FIELD_REFUSED, .why = "no conversations are kept"},
    {"conversation", TERN_FIELD_REFUSED, .why = "no conversations are kept"},
    {"background", TERN_FIELD_REFUSED},
    {"include", TERN_FIELD_REFUSED},
    {"prompt", TERN_FIELD_REFUSED},
    {"reasoning", TERN_FIELD_REFUSED},
    {"top_logprobs", TERN_FIELD_REFUSED},
    {"truncation", TERN_FIELD_IGNORED},
    {"stream_options", TERN_FIELD_IGNORED},
    {"metadata", TERN_FIELD_IGNORED},
    {"store", TERN_FIELD_IGNORED},
    {"service_tier", TERN_FIELD_IGNORED},
    {"safety_identifier", TERN_FIELD_IGNORED},
    {"prompt_cache_key", TERN_FIELD_IGNORED},
    {"user", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_openai__read_response(tern_ask *ask, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){fields, NULL}, body, ask, err));
    if (!ask->n_messages) return tern_fail(err, TERN_INVALID_ARGUMENT, "input: none found, a text expected");
    ask->stop_in_text = true;
    return ask->system ? tern_ask_put_first(ask, "system", json_object_get(body, "instructions"), "instructions", err)
                       : TERN_OK;
}

static json_t *part_of(const tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text",
                     tern_serve_string(c->text.data, c->text.size), "annotations", "logprobs");
}

static json_t *item_of(const tern_answer *a, const char *status, bool with_text)
{
    char id[48];
    snprintf(id, sizeof id, "msg_%s", a->id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status, "role", "assistant",
                     "content", with_text ? json_pack("[o]", part_of(a)) : json_array());
}

static json_t *document(const tern_answer *a, bool over)
{
    char id[48];
    const bool cut = over && strcmp(tern_openai__reason(&a->completions[0]), "length") == 0;
    const char *status = !over ? "in_progress" : cut ? "incomplete" : "completed";
    snprintf(id, sizeof id, "resp_%s", a->id);
    json_t *d =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:o, s:o, s:b, s:s, s:[], s:f, s:f, s:{}}", "id", id, "object",
                  "response", "created_at", (json_int_t)a->created, "model", a->exchange->model, "status", status,
                  "error", "incomplete_details", cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(),
                  "output", over ? json_pack("[o]", item_of(a, status, true)) : json_array(), "parallel_tool_calls", 0,
                  "tool_choice", "none", "tools", "temperature", (double)a->ask.sampler.temperature, "top_p",
                  (double)a->ask.sampler.top_p, "metadata");
    if (!d || !over) return d;
    json_object_set_new(d, "usage",
                        json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", (json_int_t)a->n_prompt,
                                  "input_tokens_details", "cached_tokens", (json_int_t)a->n_cached, "output_tokens",
                                  (json_int_t)a->n_generated, "output_tokens_details", "reasoning_tokens", 0,
                                  "total_tokens", (json_int_t)a->n_prompt + a->n_generated));
    return d;
}

/* An event, which says its type and its number among all; takes the members. */
static void send(tern_answer *a, const char *type, json_t *members)
{
    json_object_set_new(members, "type", json_string(type));
    json_object_set_new(members, "sequence_number", json_integer((json_int_t)a->n_events++));
    tern_answer_event(a, type, members);
}

/* The members that point to the one part of the one item; takes `value`. */
static json_t *place(const tern_answer *a, const char *name, json_t *value)
{
    char id[48];
    snprintf(id, sizeof id, "msg_%s", a->id);
    return json_pack("{s:s, s:i, s:i, s:o}", "item_id", id, "output_index", 0, "content_index", 0, name, value);
}

static void begin(tern_answer *a)
{
    send(a, "response.created", json_pack("{s:o}", "response", document(a, false)));
    send(a, "response.in_progress", json_pack("{s:o}", "response", document(a, false)));
    send(a, "response.output_item.added",
         json_pack("{s:i, s:o}", "output_index", 0, "item", item_of(a, "in_progress", false)));
    send(a, "response.content_part.added", place(a, "part", part_of(a)));
}

static void piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    (void)c;
    (void)first;
    json_t *members = place(a, "delta", tern_serve_string(text, n));
    json_object_set_new(members, "logprobs", json_array());
    send(a, "response.output_text.delta", members);
}

static void finish(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    const bool cut = strcmp(tern_openai__reason(c), "length") == 0;
    json_t *text = place(a, "text", tern_serve_string(c->text.data, c->text.size));
    json_object_set_new(text, "logprobs", json_array());
    send(a, "response.output_text.done", text);
    send(a, "response.content_part.done", place(a, "part", part_of(a)));
    send(a, "response.output_item.done",
         json_pack("{s:i, s:o}", "output_index", 0, "item", item_of(a, cut ? "incomplete" : "completed", true)));
    send(a, cut ? "response.incomplete" : "response.completed", json_pack("{s:o}", "response", document(a, true)));
}

static json_t *whole(tern_answer *a)
{
    return document(a, true);
}

const tern_dialect tern_openai__response = {
    .stream_type = "text/event-stream", .begin = begin, .piece = piece, .finish = finish, .whole = whole};
