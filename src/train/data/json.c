/* Reading JSON arrays of documents, one element at a time. */
#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "train/data/read_internal.h"

/* Passes over white space, counting lines. */
static void skip_space(tern_train_reading *r, tern_span *rest)
{
    while (rest->size && memchr(" \t\r\n", *rest->data, 4)) {
        r->line += *rest->data == '\n';
        rest->data++;
        rest->size--;
    }
}

/* Bytes of the value that `rest` begins with: up to the bracket that closes it, or, of a plain one, up to what ends it.
 */
static size_t value_bytes(tern_span rest)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < rest.size; i++) {
        const uint8_t c = rest.data[i];
        if (quoted) {
            if (c == '\\') i++;
            else quoted = c != '"';
        } else if (c == '"') quoted = true;
        else if (c == '{' || c == '[') depth++;
        else if (c == '}' || c == ']') {
            if (depth == 0) return i;
            if (--depth == 0) return i + 1;
        } else if (depth == 0 && memchr(", \t\r\n", c, 5)) return i;
    }
    return rest.size;
}

static tern_status expected(const tern_train_reading *r, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s:%llu: %s expected", tern_show_z(r->path).text,
                     (unsigned long long)r->line, what);
}

static tern_status add_element(tern_train_reading *r, tern_span *rest, tern_error *err)
{
    size_t n = value_bytes(*rest);
    if (n == 0) return expected(r, "an object", err);
    TERN_TRY(tern_train_reading__add_line(r, (tern_span){rest->data, n}, err));
    for (size_t i = 0; i < n; i++) r->line += rest->data[i] == '\n';
    *rest = (tern_span){rest->data + n, rest->size - n};
    skip_space(r, rest);
    return TERN_OK;
}

static bool skip_char(tern_span *rest, char c)
{
    if (rest->size == 0 || *rest->data != (uint8_t)c) return false;
    *rest = (tern_span){rest->data + 1, rest->size - 1};
    return true;
}

static tern_status read_array(tern_train_reading *r, tern_span bytes, tern_span *rest, tern_error *err)
{
    skip_space(r, rest);
    if (skip_char(rest, ']')) return TERN_OK;
    for (uint64_t i = 1;; i++) {
        TERN_TRY(add_element(r, rest, err));
        if (skip_char(rest, ']')) return TERN_OK;
        if (!skip_char(rest, ',')) return expected(r, "\",\" or \"]\"", err);
        skip_space(r, rest);
        if (i % 64 == 0) TERN_TRY(tern_train_reading__update(r, bytes.size - rest->size, err));
    }
}

tern_status tern_train_reading__json(tern_train_reading *r, tern_span bytes, tern_error *err)
{
    tern_span rest = bytes;
    r->line = 1;
    skip_space(r, &rest);
    if (skip_char(&rest, '[')) TERN_TRY(read_array(r, bytes, &rest, err));
    else TERN_TRY(add_element(r, &rest, err));
    skip_space(r, &rest);
    return rest.size ? expected(r, "the end of the file", err) : TERN_OK;
}
