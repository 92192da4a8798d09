/* Messages of earlier turns, which the server has kept. */
#include <string.h>

#include "format/chat_json.h"
#include "format/json.h"
#include "serve/request/request.h"

static json_t *extras_of(const json_t *message)
{
    json_t *more = json_copy((json_t *)(uintptr_t)message);
    json_object_del(more, "role");
    json_object_del(more, "content");
    if (json_object_size(more)) return more;
    json_decref(more);
    return json_null();
}

/* The results of calls that an earlier turn made have no name yet. */
static int name_results(json_t *more)
{
    int bad = 0;
    for (size_t i = 0; i < json_array_size(more); i++) {
        json_t *one = json_array_get(more, i);
        const char *id = json_string_value(json_object_get(one, "tool_call_id"));
        json_t *name = id && !json_object_get(one, "name") ? tern_chat_json_called(more, id) : NULL;
        if (name) bad |= json_object_set(one, "name", name);
    }
    return bad;
}

static tern_status insert_extras(tern_api_request *request, size_t at, size_t n_before, tern_error *err)
{
    int bad = 0;
    if (!request->more) request->more = json_array();
    while (request->more && !bad && json_array_size(request->more) < n_before)
        bad = json_array_append_new(request->more, json_null());
    for (size_t i = 0; i < json_array_size(request->history); i++)
        bad |= json_array_insert_new(request->more, at + i, extras_of(json_array_get(request->history, i)));
    bad |= name_results(request->more);
    return bad ? tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory") : TERN_OK;
}

tern_status tern_api_request_insert_conversation(tern_api_request *request, size_t at, const char *text,
                                                 tern_error *err)
{
    const size_t n_before = request->n_messages;
    TERN_TRY(tern_json_parse(&request->history, text, strlen(text), "the conversation", err));
    const size_t n = json_array_size(request->history);
    for (size_t i = 0; i < n; i++) {
        const json_t *message = json_array_get(request->history, i), *content = json_object_get(message, "content");
        TERN_TRY(tern_api_request_add_text(request, json_string_value(json_object_get(message, "role")),
                                           json_string_value(content), json_string_length(content), err));
    }
    for (size_t i = 0; i < n; i++) {
        const tern_chat_message moved = request->messages[n_before + i];
        memmove(request->messages + at + i + 1, request->messages + at + i, (n_before - at) * sizeof moved);
        request->messages[at + i] = moved;
    }
    return insert_extras(request, at, n_before, err);
}
