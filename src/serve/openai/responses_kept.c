/* Responses of the OpenAI API that the server keeps: shown, deleted, and the items that they were made from. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "serve/openai/openai.h"
#include "serve/server.h"

enum { MOST_ITEMS = 100, USUAL_ITEMS = 20 };

tern_status tern_openai__show_response(tern_exchange *x, tern_error *err)
{
    const char *stream = tern_exchange_argument(x, "stream");
    char *text;
    if (stream && strcmp(stream, "true") == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "stream: true found, false expected: a stored response comes in one piece");
    TERN_TRY(tern_stored_get(&x->server->stored, x->rest, TERN_STORED_RESPONSE, &text, err));
    tern_exchange_send_text(x, 200, "application/json", text, strlen(text));
    tern_free(text);
    return TERN_OK;
}

tern_status tern_openai__delete_response(tern_exchange *x, tern_error *err)
{
    TERN_TRY(tern_stored_remove(&x->server->stored, x->rest, err));
    tern_exchange_send(x, 200, json_pack("{s:s, s:s, s:b}", "id", x->rest, "object", "response", "deleted", 1));
    return TERN_OK;
}

tern_status tern_openai__count(tern_answer *a, tern_host *host, tern_error *err)
{
    tern_tokens ids = {0};
    const tern_status status = tern_answer_tokens(a, host, 0, &ids, err);
    if (status == TERN_OK)
        tern_exchange_send(
            a->exchange, 200,
            json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", (json_int_t)ids.n));
    tern_tokens_deinit(&ids);
    return status;
}

/* Adds an item with an id of its own, which is the same at each request; takes it. */
static void add_item(json_t *items, const char *prefix, const char *id, json_t *item)
{
    char text[96];
    snprintf(text, sizeof text, "%s_%s_%zu", prefix, id, json_array_size(items));
    json_object_set_new(item, "id", json_string(text));
    json_object_set_new(item, "status", json_string("completed"));
    json_array_append_new(items, item);
}

static void add_calls(json_t *items, const char *id, const json_t *calls)
{
    size_t i;
    json_t *call;
    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        const json_t *function = json_object_get(call, "function");
        char *arguments = tern_serve_dump(json_object_get(function, "arguments"));
        add_item(items, "fc", id,
                 json_pack("{s:s, s:O?, s:O?, s:s}", "type", "function_call", "call_id", json_object_get(call, "id"),
                           "name", json_object_get(function, "name"), "arguments", arguments ? arguments : "{}"));
        tern_free(arguments);
    }
}

static void add_text(json_t *items, const char *id, const char *role, json_t *text)
{
    const bool answers = strcmp(role, "assistant") == 0;
    json_t *part = json_pack("{s:s, s:O}", "type", answers ? "output_text" : "input_text", "text", text);
    if (answers) json_object_set_new(part, "annotations", json_array());
    add_item(items, "msg", id, json_pack("{s:s, s:s, s:[o]}", "type", "message", "role", role, "content", part));
}

/* The items of a message: thoughts, text and calls, or the result of a call. */
static void add_message(json_t *items, const char *id, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *text = json_object_get(message, "content"), *thoughts = json_object_get(message, "reasoning_content");
    const json_t *calls = json_object_get(message, "tool_calls");
    if (strcmp(role, "tool") == 0) {
        add_item(items, "fco", id,
                 json_pack("{s:s, s:O?, s:O}", "type", "function_call_output", "call_id",
                           json_object_get(message, "tool_call_id"), "output", text));
        return;
    }
    if (thoughts)
        add_item(items, "rs", id,
                 json_pack("{s:s, s:[], s:[{s:s, s:O}]}", "type", "reasoning", "summary", "content", "type",
                           "reasoning_text", "text", thoughts));
    if (!calls || json_string_length(text)) add_text(items, id, role, text);
    add_calls(items, id, calls);
}

/* All items before the answer; NULL: out of memory. */
static json_t *items_of(const char *id, const json_t *messages)
{
    json_t *items = json_array();
    for (size_t i = 0; i + 1 < json_array_size(messages); i++) add_message(items, id, json_array_get(messages, i));
    return items;
}

/* Which items are wanted: `most` from `at` on, in the order of `step`. */
typedef struct page {
    size_t most;
    int64_t at, step;
} page;

static tern_status read_limit(const tern_exchange *x, page *p, tern_error *err)
{
    const char *limit = tern_exchange_argument(x, "limit");
    p->most = USUAL_ITEMS;
    if (!limit) return TERN_OK;
    const bool digits = *limit && strlen(limit) < 4 && strspn(limit, "0123456789") == strlen(limit);
    p->most = digits ? strtoul(limit, NULL, 10) : 0;
    if (p->most >= 1 && p->most <= MOST_ITEMS) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "limit: \"%s\" found, a whole number from 1 to %d expected",
                     tern_show_z(limit).text, MOST_ITEMS);
}

static tern_status read_order(const tern_exchange *x, page *p, tern_error *err)
{
    const char *order = tern_exchange_argument(x, "order");
    p->step = order && strcmp(order, "asc") == 0 ? 1 : -1;
    if (!order || p->step > 0 || strcmp(order, "desc") == 0) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "order: \"%s\" found, asc or desc expected", tern_show_z(order).text);
}

static tern_status read_page(const tern_exchange *x, const json_t *items, page *p, tern_error *err)
{
    const char *after = tern_exchange_argument(x, "after");
    const size_t n = json_array_size(items);
    size_t i = 0;
    TERN_TRY(read_limit(x, p, err));
    TERN_TRY(read_order(x, p, err));
    p->at = p->step > 0 ? 0 : (int64_t)n - 1;
    if (!after) return TERN_OK;
    while (i < n && strcmp(json_string_value(json_object_get(json_array_get(items, i), "id")), after) != 0) i++;
    p->at = (int64_t)i + p->step;
    if (i < n) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "after: \"%s\" found, the id of an item of this list expected",
                     tern_show_z(after).text);
}

static json_t *id_of(const json_t *data, size_t i)
{
    json_t *id = json_object_get(json_array_get(data, i), "id");
    return id ? json_incref(id) : json_null();
}

static void send_page(tern_exchange *x, const json_t *items, page p)
{
    const int64_t n = (int64_t)json_array_size(items);
    json_t *data = json_array();
    for (; p.at >= 0 && p.at < n && json_array_size(data) < p.most; p.at += p.step)
        json_array_append(data, json_array_get(items, (size_t)p.at));
    const size_t n_data = json_array_size(data);
    tern_exchange_send(x, 200,
                       json_pack("{s:s, s:o, s:o, s:o, s:b}", "object", "list", "data", data, "first_id",
                                 id_of(data, 0), "last_id", id_of(data, n_data - 1), "has_more",
                                 p.at >= 0 && p.at < n));
}

tern_status tern_openai__list_input(tern_exchange *x, tern_error *err)
{
    char id[sizeof((tern_stored_one *)0)->id + 1]; /* one more than any that is kept */
    char *text = NULL;
    json_t *messages = NULL, *items = NULL;
    page p;
    tern_status status;
    snprintf(id, sizeof id, "%.*s", (int)(strlen(x->rest) - strlen(TERN_OPENAI_INPUT_ITEMS)), x->rest);
    TERN_GOTO(tern_stored_get(&x->server->stored, id, TERN_STORED_MESSAGES, &text, err));
    TERN_GOTO(tern_json_parse(&messages, text, strlen(text), "the conversation", err));
    items = items_of(id, messages);
    TERN_GOTO(read_page(x, items, &p, err));
    send_page(x, items, p);
fail:
    json_decref(items);
    tern_json_free(messages);
    tern_free(text);
    return status;
}
