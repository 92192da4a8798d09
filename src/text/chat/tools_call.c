/* One tool call from its JSON, with the arguments as the model wrote them. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/json.h"
#include "text/chat/tools_internal.h"
#include "text/json_text.h"

size_t tern_tools__json_end(tern_span text)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t b = text.data[i];
        if (quoted) {
            if (b == '\\') i++;
            else quoted = b != '"';
            continue;
        }
        quoted = b == '"';
        depth += b == '{' || b == '[';
        if ((b == '}' || b == ']') && depth && --depth == 0) return i + 1;
    }
    return 0;
}

static bool is_object(tern_span text)
{
    json_t *root = NULL;
    const bool is = tern_json_parse(&root, text.data, text.size, "arguments", NULL) == TERN_OK && json_is_object(root);
    tern_json_free(root);
    return is;
}

static char *copy(tern_span s)
{
    return tern_strndup((const char *)s.data, s.size);
}

void tern_tools__free_call(const tern_tool_call *call)
{
    tern_free((void *)(uintptr_t)call->id);
    tern_free((void *)(uintptr_t)call->name);
    tern_free((void *)(uintptr_t)call->arguments);
}

/* The hash of the call's parts, or, where calls are announced before they are whole, of the answer's salt. */
void tern_tools__make_id(const tern_tool_parser *p, tern_span name, tern_span arguments, char id[16])
{
    const uint64_t start = (p->announces ? p->salt : TERN_HASH_START) + p->n;
    uint64_t hash = tern_hash(start, name.data, name.size);
    if (!p->announces) hash = tern_hash(hash, arguments.data, arguments.size);
    snprintf(id, 16, "call_%08x", (unsigned)(hash ^ hash >> 32));
}

static tern_status push(tern_tool_parser *p, tern_span name, tern_span id, tern_span arguments, tern_error *err)
{
    if (p->n >= TERN_TOOLS_MAX_CALLS)
        return tern_fail(err, TERN_LIMIT, "more than %d tool calls in one answer", TERN_TOOLS_MAX_CALLS);
    TERN_TRY(tern_grow((void **)&p->calls, &p->cap, p->n + 1, sizeof *p->calls, err));
    const tern_tool_call call = {copy(id), copy(name), copy(arguments)};
    if (call.id && call.name && call.arguments) {
        p->calls[p->n++] = call;
        return TERN_OK;
    }
    tern_tools__free_call(&call);
    return tern_fail_alloc(err, name.size + arguments.size);
}

tern_status tern_tools__take_announced(tern_tool_parser *p, bool *found, tern_error *err)
{
    const tern_span name = {(const uint8_t *)p->name, strlen(p->name)}, id = {(const uint8_t *)p->id, strlen(p->id)};
    *found = true;
    TERN_TRY(push(p, name, id, tern_tools__announced(p), err));
    tern_free(p->name);
    p->name = NULL;
    return TERN_OK;
}

tern_status tern_tools__take_named(tern_tool_parser *p, tern_span name, tern_span id, tern_span arguments, bool *found,
                                   tern_error *err)
{
    char made[16];
    if (p->name) return tern_tools__take_announced(p, found, err);
    arguments = tern_json__trim(arguments);
    *found = name.size > 0 && name.size < 256 && !memchr(name.data, 0, name.size) && is_object(arguments);
    if (!*found) return TERN_OK;
    tern_tools__make_id(p, name, arguments, made);
    if (id.size == 0 || id.size > 255 || memchr(id.data, 0, id.size)) id = (tern_span){(const uint8_t *)made, 13};
    return push(p, name, id, arguments, err);
}

/* The members of a call that are looked at, raw. */
typedef struct parts {
    tern_span name, id, arguments, function;
} parts;

static bool is_key(tern_span key, const char *name)
{
    return key.size == strlen(name) + 2 && memcmp(key.data + 1, name, key.size - 2) == 0;
}

static bool read_parts(tern_span json, parts *out)
{
    tern_json_walk walk = {.data = json.data, .size = json.size};
    tern_span key, value;
    bool more;
    while (tern_json_walk_next(&walk, &more, &key, &value, NULL) == TERN_OK) {
        if (!more) return true;
        value = tern_json__trim(value);
        if (is_key(key, "name")) out->name = value;
        if (is_key(key, "id")) out->id = value;
        if (is_key(key, "arguments") || is_key(key, "parameters")) out->arguments = value;
        if (is_key(key, "function")) out->function = value;
    }
    return false;
}

/* The raw string's text, where it is one. */
static tern_status text_of(tern_span raw, tern_buf *out, tern_error *err)
{
    if (raw.size == 0 || raw.data[0] != '"') return TERN_OK;
    const tern_status status = tern_json__unescape(raw, out, err);
    if (status == TERN_MALFORMED) out->size = 0;
    return status == TERN_MALFORMED ? TERN_OK : status;
}

static tern_span span_of(const tern_buf *b)
{
    return (tern_span){(const uint8_t *)(b->data ? b->data : ""), b->size};
}

static tern_status take_one(tern_tool_parser *p, tern_span json, bool *found, tern_error *err)
{
    static const tern_span none = {(const uint8_t *)"{}", 2};
    parts at = {0};
    tern_buf name = {0}, id = {0}, arguments = {0};
    tern_status status = TERN_OK;
    *found = false;
    if (!is_object(json) || !read_parts(json, &at)) return TERN_OK;
    if (at.function.size && at.function.data[0] == '{' && !read_parts(at.function, &at)) return TERN_OK;
    if (at.function.size && at.function.data[0] == '"' && !at.name.size) at.name = at.function;
    TERN_GOTO(text_of(at.name, &name, err));
    TERN_GOTO(text_of(at.id, &id, err));
    TERN_GOTO(text_of(at.arguments, &arguments, err)); /* JSON in a string */
    tern_span given = arguments.size ? span_of(&arguments) : at.arguments.size ? at.arguments : none;
    if (at.arguments.size || at.function.size)
        status = tern_tools__take_named(p, span_of(&name), span_of(&id), given, found, err);
fail:
    tern_buf_deinit(&name);
    tern_buf_deinit(&id);
    tern_buf_deinit(&arguments);
    return status;
}

tern_status tern_tools__take(tern_tool_parser *p, tern_span json, bool *found, tern_error *err)
{
    tern_span item;
    bool more = true;
    json = tern_json__trim(json);
    *found = false;
    if (json.size == 0 || json.data[0] != '[') return take_one(p, json, found, err);
    tern_json_items items = {.rest = json};
    while (tern_json__next_item(&items, &more, &item, NULL) == TERN_OK && more) {
        TERN_TRY(take_one(p, tern_json__trim(item), found, err));
        if (!*found) return TERN_OK;
    }
    return TERN_OK;
}
