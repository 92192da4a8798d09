/* A tool call that is being written: its name and as much of its arguments as is certain. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "text/chat/tools_internal.h"
#include "text/json_text.h"

enum { MOST_DEPTH = 2 /* {"function": {"name": ...}} */ };

static size_t past_space(tern_span t, size_t i)
{
    while (i < t.size && (t.data[i] == ' ' || t.data[i] == '\n' || t.data[i] == '\t' || t.data[i] == '\r')) i++;
    return i;
}

/* Where the string that begins at i ends; 0: not yet. */
static size_t past_string(tern_span t, size_t i)
{
    for (i++; i < t.size; i++) {
        if (t.data[i] == '\\') i++;
        else if (t.data[i] == '"') return i + 1;
    }
    return 0;
}

/* Where the value that begins at i ends; 0: not yet. */
static size_t past_value(tern_span t, size_t i)
{
    if (t.data[i] == '"') return past_string(t, i);
    if (t.data[i] == '{' || t.data[i] == '[') {
        const size_t n = tern_tools__json_end((tern_span){t.data + i, t.size - i});
        return n ? i + n : 0;
    }
    while (i < t.size && t.data[i] != ',' && t.data[i] != '}') i++;
    return i < t.size ? i : 0;
}

static bool is_key(tern_span t, size_t from, size_t to, const char *name)
{
    return to - from == strlen(name) + 2 && memcmp(t.data + from + 1, name, to - from - 2) == 0;
}

/* The raw name, and where the arguments begin. */
typedef struct beginning {
    tern_span name;
    size_t arguments;
} beginning;

/* Reads an object that is not whole yet, from its brace at i, up to the arguments. false: it does not come that far, or
 * has its members in another order. */
static bool read_beginning(tern_span t, size_t i, uint32_t depth, beginning *out)
{
    for (i++;;) {
        i = past_space(t, i);
        if (i < t.size && t.data[i] == ',') i = past_space(t, i + 1);
        if (i >= t.size || t.data[i] != '"') return false;
        const size_t key = i, key_end = past_string(t, i);
        if (!key_end) return false;
        i = past_space(t, key_end);
        if (i >= t.size || t.data[i] != ':') return false;
        i = past_space(t, i + 1);
        if (i >= t.size) return false;
        const bool object = t.data[i] == '{', function = is_key(t, key, key_end, "function");
        if (is_key(t, key, key_end, "arguments") || is_key(t, key, key_end, "parameters")) {
            out->arguments = i;
            return object && out->name.size > 0;
        }
        if (function && object) return depth < MOST_DEPTH && read_beginning(t, i, depth + 1, out);
        const size_t end = past_value(t, i);
        if (!end) return false;
        if (t.data[i] == '"' && (function || is_key(t, key, key_end, "name")))
            out->name = (tern_span){t.data + i, end - i};
        i = end;
    }
}

tern_status tern_tools__announce(tern_tool_parser *p, tern_span name, size_t arguments, tern_error *err)
{
    if (!p->announces || p->name || name.size == 0 || name.size > 255 || memchr(name.data, 0, name.size))
        return TERN_OK;
    tern_tools__make_id(p, name, (tern_span){(const uint8_t *)"", 0}, p->id);
    p->name = tern_strndup((const char *)name.data, name.size);
    p->arguments = arguments;
    return p->name ? TERN_OK : tern_fail_alloc(err, name.size);
}

tern_status tern_tools__watch(tern_tool_parser *p, size_t from, size_t end, tern_error *err)
{
    const tern_span t = {(const uint8_t *)(p->held.data ? p->held.data : ""), end};
    beginning found = {0};
    tern_buf name = {0};
    if (!p->announces || from >= end) return TERN_OK;
    p->end = end;
    if (p->name) return TERN_OK;
    from = past_space(t, from);
    if (from < end && t.data[from] == '[') from = past_space(t, from + 1);
    if (from >= end || t.data[from] != '{' || !read_beginning(t, from, 1, &found)) return TERN_OK;
    tern_status status = tern_json__unescape(found.name, &name, err);
    if (status == TERN_OK)
        status = tern_tools__announce(p, (tern_span){(const uint8_t *)name.data, name.size}, found.arguments, err);
    tern_buf_deinit(&name);
    return status == TERN_MALFORMED ? TERN_OK : status;
}

tern_span tern_tools__announced(const tern_tool_parser *p)
{
    tern_span t = {(const uint8_t *)p->held.data + p->arguments, p->end - p->arguments};
    const size_t n = tern_tools__json_end(t);
    if (n) t.size = n;
    const uint8_t *zero = memchr(t.data, 0, t.size);
    if (zero) t.size = (size_t)(zero - t.data);
    return t;
}

void tern_tool_parser_announce(tern_tool_parser *parser, const char *salt)
{
    parser->announces = true;
    parser->salt = tern_hash(TERN_HASH_START, salt, strlen(salt));
}

bool tern_tool_parser_partial(const tern_tool_parser *parser, tern_tool_partial *out)
{
    if (!parser->name) return false;
    const tern_span arguments = tern_tools__announced(parser);
    *out = (tern_tool_partial){.id = parser->id,
                               .name = parser->name,
                               .arguments = (const char *)arguments.data,
                               .n_arguments = arguments.size};
    return true;
}
