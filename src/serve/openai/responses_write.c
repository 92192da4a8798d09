/* Responses of the OpenAI API: items, which are the assistant's message and calls of tools. */
#include <string.h>

#include "serve/openai/openai.h"
#include "serve/server.h"

/* The log-probabilities of tokens from `first` on; empty if they were not wanted. */
static json_t *logprobs_of(const tern_answer *a, size_t first)
{
    json_t *all = tern_openai__chat_logprobs(a, &a->completions[0], first);
    json_t *list = json_object_get(all, "content");
    list = list ? json_incref(list) : json_array();
    json_decref(all);
    return list;
}

static json_t *part_of(const tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text",
                     tern_serve_string(c->text.data, c->text.size), "annotations", "logprobs", logprobs_of(a, 0));
}

static json_t *thoughts_part(const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", tern_serve_string(text, n));
}

/* The item of its thoughts, the first of all. */
static json_t *thoughts_of(const tern_answer *a, const char *status, bool with_text)
{
    const tern_completion *c = &a->completions[0];
    char id[48];
    snprintf(id, sizeof id, "rs_%s", a->id);
    json_t *parts = json_array();
    if (with_text) json_array_append_new(parts, thoughts_part(c->thoughts.data, c->thoughts.size));
    return json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", id, "type", "reasoning", "status", status, "summary",
                     "content", parts);
}

static json_t *item_of(const tern_answer *a, const char *status, bool with_text)
{
    char id[48];
    snprintf(id, sizeof id, "msg_%s", a->id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status, "role", "assistant",
                     "content", with_text ? json_pack("[o]", part_of(a)) : json_array());
}

typedef struct item_id {
    char text[64];
} item_id;

static item_id id_of_call(const tern_answer *a, size_t i)
{
    item_id id;
    snprintf(id.text, sizeof id.text, "fc_%s_%zu", a->id, i);
    return id;
}

static json_t *call_of(const tern_answer *a, size_t i, const char *id, const char *name, const char *arguments,
                       const char *status)
{
    json_t *item =
        json_pack("{s:s, s:s, s:s, s:o, s:s}", "id", id_of_call(a, i).text, "type", "function_call", "call_id", id,
                  "arguments", tern_serve_string(arguments, strlen(arguments)), "status", status);
    tern_openai__set_name(&a->request, item, name);
    return item;
}

/* In a stream the message stands where its first text came, else before all calls. */
static json_t *output_of(const tern_answer *a, const char *status)
{
    const tern_completion *c = &a->completions[0];
    json_t *output = json_array();
    size_t n, next = 0;
    const tern_tool_call *calls = tern_calls_of(a, c, &n);
    const bool thoughts = c->thoughts.size > 0;
    const bool text = a->request.stream ? a->in_text : c->text.size || (!n && !thoughts);
    const size_t text_at = a->request.stream ? a->text_at : thoughts;
    if (thoughts) json_array_append_new(output, thoughts_of(a, "completed", true));
    for (size_t i = thoughts; i < n + text + thoughts; i++) {
        if (text && i == text_at) {
            json_array_append_new(output, item_of(a, status, true));
            continue;
        }
        json_array_append_new(output,
                              call_of(a, next, calls[next].id, calls[next].name, calls[next].arguments, "completed"));
        next++;
    }
    return output;
}

static json_t *choice_of(const tern_api_request *request)
{
    static const char *const words[] = {"auto", "none", "required"};
    if (!request->tool_choice) return json_string(words[request->calls]);
    json_t *choice = json_pack("{s:s}", "type", "function");
    tern_openai__set_name(request, choice, json_string_value(request->tool_choice));
    return choice;
}

void tern_openai__response_id(const tern_answer *a, char id[48])
{
    snprintf(id, 48, "resp_%s", a->id);
}

static json_t *document(const tern_answer *a, bool over)
{
    char id[48];
    const bool cut = over && strcmp(tern_openai__reason(&a->completions[0]), "length") == 0;
    const char *status = !over ? "in_progress" : cut ? "incomplete" : "completed";
    tern_openai__response_id(a, id);
    json_t *d =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:o, s:o, s:b, s:o, s:o, s:f, s:f, s:o}", "id", id, "object",
                  "response", "created_at", (json_int_t)a->created, "model", a->exchange->model, "status", status,
                  "error", "incomplete_details", cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(),
                  "output", over ? output_of(a, status) : json_array(), "parallel_tool_calls", !a->request.serial,
                  "tool_choice", choice_of(&a->request), "tools", tern_openai__tools(&a->request), "temperature",
                  (double)a->request.sampler.temperature, "top_p", (double)a->request.sampler.top_p, "metadata",
                  a->request.metadata ? json_deep_copy(a->request.metadata) : json_object());
    if (d)
        json_object_set_new(d, "previous_response_id",
                            a->request.previous ? json_string(a->request.previous) : json_null());
    if (!d || !over) return d;
    json_object_set_new(d, "usage",
                        json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)a->n_prompt,
                                  "input_tokens_details", "cached_tokens", (json_int_t)a->n_cached, "output_tokens",
                                  (json_int_t)a->n_generated, "output_tokens_details", "reasoning_tokens",
                                  (json_int_t)tern_thoughts_tokens(a), "total_tokens",
                                  (json_int_t)a->n_prompt + a->n_generated));
    return d;
}

/* An event, which says its type and its number among all; takes the members. */
static void send(tern_answer *a, const char *type, json_t *members)
{
    json_object_set_new(members, "type", json_string(type));
    json_object_set_new(members, "sequence_number", json_integer((json_int_t)a->n_events++));
    tern_answer_event(a, type, members);
}

/* An item at its place among all; takes it. */
static void send_item(tern_answer *a, const char *type, uint32_t at, json_t *item)
{
    send(a, type, json_pack("{s:I, s:o}", "output_index", (json_int_t)at, "item", item));
}

/* The members that point to the one part of the message; takes `value`. */
static json_t *place(const tern_answer *a, const char *name, json_t *value)
{
    char id[48];
    snprintf(id, sizeof id, "msg_%s", a->id);
    return json_pack("{s:s, s:I, s:i, s:o}", "item_id", id, "output_index", (json_int_t)a->text_at, "content_index", 0,
                     name, value);
}

static void begin(tern_answer *a)
{
    send(a, "response.created", json_pack("{s:o}", "response", document(a, false)));
    send(a, "response.in_progress", json_pack("{s:o}", "response", document(a, false)));
}

/* The members that point to the part of the thoughts; takes `value`. */
static json_t *place_thought(const tern_answer *a, const char *name, json_t *value)
{
    char id[48];
    snprintf(id, sizeof id, "rs_%s", a->id);
    return json_pack("{s:s, s:i, s:i, s:o}", "item_id", id, "output_index", 0, "content_index", 0, name, value);
}

static void thought(tern_answer *a, tern_completion *c, const char *text, size_t n)
{
    (void)c;
    if (!a->in_thoughts && a->n_items) return; /* a part of the answer came before */
    if (!a->in_thoughts) {
        a->in_thoughts = true;
        send_item(a, "response.output_item.added", a->n_items++, thoughts_of(a, "in_progress", false));
        send(a, "response.content_part.added", place_thought(a, "part", thoughts_part("", 0)));
    }
    send(a, "response.reasoning_text.delta", place_thought(a, "delta", tern_serve_string(text, n)));
}

static void close_thoughts(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    if (!a->in_thoughts) return;
    a->in_thoughts = false;
    send(a, "response.reasoning_text.done",
         place_thought(a, "text", tern_serve_string(c->thoughts.data, c->thoughts.size)));
    send(a, "response.content_part.done", place_thought(a, "part", thoughts_part(c->thoughts.data, c->thoughts.size)));
    send_item(a, "response.output_item.done", 0, thoughts_of(a, "completed", true));
}

/* The message, which is open from its first text to the end. */
static void open_text(tern_answer *a)
{
    if (a->in_text) return;
    close_thoughts(a);
    a->in_text = true;
    a->text_at = a->n_items++;
    send_item(a, "response.output_item.added", a->text_at, item_of(a, "in_progress", false));
    send(a, "response.content_part.added",
         place(a, "part",
               json_pack("{s:s, s:s, s:[], s:[]}", "type", "output_text", "text", "", "annotations", "logprobs")));
}

static void piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    if (!n) return;
    (void)c;
    open_text(a);
    json_t *members = place(a, "delta", tern_serve_string(text, n));
    json_object_set_new(members, "logprobs", logprobs_of(a, first));
    send(a, "response.output_text.delta", members);
}

/* The members that point to the call under way, the last item so far; takes `value`. */
static json_t *place_call(const tern_answer *a, size_t i, const char *name, json_t *value)
{
    return json_pack("{s:s, s:I, s:o}", "item_id", id_of_call(a, i).text, "output_index", (json_int_t)a->n_items - 1,
                     name, value);
}

static void call(tern_answer *a, tern_completion *c, const tern_call_part *part)
{
    (void)c;
    close_thoughts(a);
    if (part->first)
        send_item(a, "response.output_item.added", a->n_items++,
                  call_of(a, part->i, part->id, part->name, "", "in_progress"));
    if (part->n)
        send(a, "response.function_call_arguments.delta",
             place_call(a, part->i, "delta", tern_serve_string(part->text, part->n)));
    if (!part->whole) return;
    const char *arguments = part->whole->arguments;
    json_t *done = place_call(a, part->i, "arguments", tern_serve_string(arguments, strlen(arguments)));
    tern_openai__set_name(&a->request, done, part->name);
    send(a, "response.function_call_arguments.done", done);
    send_item(a, "response.output_item.done", a->n_items - 1,
              call_of(a, part->i, part->id, part->name, arguments, "completed"));
}

/* Keeps the response, and the conversation with this answer, so that another request may go on with it. */
static void store(tern_answer *a, const json_t *response)
{
    const tern_completion *c = &a->completions[0];
    char id[48];
    size_t n;
    const tern_tool_call *calls = tern_calls_of(a, c, &n);
    if (a->request.unstored) return;
    json_t *messages = tern_api_request_conversation(&a->request, a->request.n_front);
    json_t *message =
        json_pack("{s:s, s:o}", "role", "assistant", "content", tern_serve_string(c->text.data, c->text.size));
    if (c->thoughts.size)
        json_object_set_new(message, "reasoning_content", tern_serve_string(c->thoughts.data, c->thoughts.size));
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", calls[i].id, "type", "function", "function",
                                        "name", calls[i].name, "arguments", tern_calls_arguments(&calls[i])));
    if (n) json_object_set(message, "tool_calls", list);
    json_decref(list);
    tern_openai__response_id(a, id);
    if (json_array_append_new(messages, message) == 0)
        tern_stored_put(&a->exchange->server->stored, id, messages, response);
    json_decref(messages);
}

static void close_text(tern_answer *a, bool cut)
{
    const tern_completion *c = &a->completions[0];
    if (!a->in_text) return;
    json_t *text = place(a, "text", tern_serve_string(c->text.data, c->text.size));
    json_object_set_new(text, "logprobs", logprobs_of(a, 0));
    send(a, "response.output_text.done", text);
    send(a, "response.content_part.done", place(a, "part", part_of(a)));
    send_item(a, "response.output_item.done", a->text_at, item_of(a, cut ? "incomplete" : "completed", true));
}

static void finish(tern_answer *a)
{
    const bool cut = strcmp(tern_openai__reason(&a->completions[0]), "length") == 0;
    if (!a->n_items) open_text(a); /* an answer without anything is a text of no length */
    close_thoughts(a);
    close_text(a, cut);
    json_t *response = document(a, true);
    store(a, response);
    send(a, cut ? "response.incomplete" : "response.completed", json_pack("{s:o}", "response", response));
}

static json_t *whole(tern_answer *a)
{
    json_t *response = document(a, true);
    store(a, response);
    return response;
}

const tern_dialect tern_openai__response = {.stream_type = "text/event-stream",
                                            .begin = begin,
                                            .piece = piece,
                                            .finish = finish,
                                            .whole = whole,
                                            .call = call,
                                            .thought = thought};
