/* The tojson filter, as the transformers library defines it for chat templates: no HTML escapes, keys in their order.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/chars.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/text.h"

typedef struct json_writer {
    tern_jinja_render *r;
    tern_jinja_rope rope;
    tern_jinja_str comma, colon, indent; /* indent: of one level */
    bool lines, ascii, sorted;           /* one item a line; beyond ASCII as \u escapes; keys in order */
    unsigned level;
} json_writer;

static tern_status write_value(json_writer *w, const tern_jinja_value *v);

static tern_status write_words(json_writer *w, const char *words)
{
    return tern_jinja__emit(w->r, &w->rope, tern_jinja__words(words));
}

static tern_status break_line(json_writer *w)
{
    if (!w->lines) return TERN_OK;
    TERN_TRY(write_words(w, "\n"));
    for (unsigned i = 0; i < w->level; i++) TERN_TRY(tern_jinja__emit(w->r, &w->rope, w->indent));
    return TERN_OK;
}

/* \uXXXX, twice for a character beyond U+FFFF. */
static void escape_code(uint32_t code, char out[16])
{
    const uint32_t high = code - 0x10000;
    if (code < 0x10000) snprintf(out, 16, "\\u%04x", (unsigned)code);
    else snprintf(out, 16, "\\u%04x\\u%04x", (unsigned)(0xd800 + (high >> 10)), (unsigned)(0xdc00 + (high & 0x3ff)));
}

static const char *escaped(char c, char out[16])
{
    const char *letters = "\n\r\t\b\f\\\"", *names = "nrtbf\\\"";
    const char *hit = c ? strchr(letters, c) : NULL;
    if (hit) snprintf(out, 16, "\\%c", names[hit - letters]);
    else if ((uint8_t)c < 0x20) snprintf(out, 16, "\\u%04x", (unsigned)(uint8_t)c);
    else return NULL;
    return out;
}

static tern_status write_string(json_writer *w, tern_jinja_str s)
{
    char escape[16];
    size_t from = 0;
    TERN_TRY(tern_jinja__charge(&w->r->pool, s.n / 16));
    TERN_TRY(write_words(w, "\""));
    for (size_t i = 0, n = 1; i < s.n; i += n) {
        uint32_t code;
        n = w->ascii ? tern_jinja__char(s.data + i, s.n - i, &code) : 1;
        const bool wide = w->ascii && (uint8_t)s.data[i] >= 0x7f;
        if (wide)
            escape_code(n > 1 || code < 0x80 ? code : 0xfffd, escape); /* a byte that is not part of a character */
        else if (!escaped(s.data[i], escape)) continue;
        TERN_TRY(tern_jinja__emit(w->r, &w->rope, tern_jinja__slice(s, from, i)));
        TERN_TRY(tern_jinja__emit_words(w->r, &w->rope, escape, tern_jinja__byte_untrusted(s, i)));
        from = i + n;
    }
    TERN_TRY(tern_jinja__emit(w->r, &w->rope, tern_jinja__slice(s, from, s.n)));
    return write_words(w, "\"");
}

static tern_status write_list(json_writer *w, const tern_jinja_list *list)
{
    if (list->n == 0) return write_words(w, "[]");
    TERN_TRY(write_words(w, "["));
    w->level++;
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0) TERN_TRY(tern_jinja__emit(w->r, &w->rope, w->comma));
        TERN_TRY(break_line(w));
        TERN_TRY(write_value(w, &list->items[i]));
    }
    w->level--;
    TERN_TRY(break_line(w));
    return write_words(w, "]");
}

static tern_status write_key(json_writer *w, const tern_jinja_value *key)
{
    if (key->kind == TERN_JINJA_STRING) return write_string(w, key->str);
    if (tern_jinja__is_list(key) || key->kind == TERN_JINJA_DICT)
        return tern_jinja__bad(w->r, "tojson: a key is %s", tern_jinja__kind_words(key->kind));
    TERN_TRY(write_words(w, "\""));
    TERN_TRY(write_value(w, key));
    return write_words(w, "\"");
}

/* The entries by key. */
static tern_status sort_entries(json_writer *w, const tern_jinja_dict *dict, tern_jinja_dict *out)
{
    const tern_jinja_value self = {.kind = TERN_JINJA_DICT, .dict = (tern_jinja_dict *)(uintptr_t)dict};
    const tern_jinja_value exact = tern_jinja__bool(true);
    const tern_jinja_value *const args[TERN_JINJA_MAX_ARGS] = {&exact};
    tern_jinja_value pairs;
    TERN_TRY(tern_jinja__filter_dictsort(w->r, &self, args, &pairs));
    *out = (tern_jinja_dict){.n = dict->n};
    out->entries = tern_jinja__alloc(&w->r->pool, dict->n, sizeof *out->entries);
    if (!out->entries) return tern_jinja__status(&w->r->pool);
    for (size_t i = 0; i < dict->n; i++) {
        const tern_jinja_value *pair = pairs.list->items[i].list->items;
        out->entries[i] = (tern_jinja_entry){.key = pair[0], .value = pair[1]};
    }
    return TERN_OK;
}

static tern_status write_dict(json_writer *w, const tern_jinja_dict *dict)
{
    tern_jinja_dict ordered;
    if (dict->n == 0) return write_words(w, "{}");
    if (w->sorted) {
        TERN_TRY(sort_entries(w, dict, &ordered));
        dict = &ordered;
    }
    TERN_TRY(write_words(w, "{"));
    w->level++;
    for (size_t i = 0; i < dict->n; i++) {
        if (i > 0) TERN_TRY(tern_jinja__emit(w->r, &w->rope, w->comma));
        TERN_TRY(break_line(w));
        TERN_TRY(write_key(w, &dict->entries[i].key));
        TERN_TRY(tern_jinja__emit(w->r, &w->rope, w->colon));
        TERN_TRY(write_value(w, &dict->entries[i].value));
    }
    w->level--;
    TERN_TRY(break_line(w));
    return write_words(w, "}");
}

static tern_status write_float(json_writer *w, double v)
{
    if (isnan(v)) return write_words(w, "NaN");
    if (isinf(v)) return write_words(w, v < 0 ? "-Infinity" : "Infinity");
    return tern_jinja__emit_float(w->r, &w->rope, v);
}

static tern_status write_kind(json_writer *w, const tern_jinja_value *v)
{
    switch (v->kind) {
    case TERN_JINJA_NONE: return write_words(w, "null");
    case TERN_JINJA_BOOL: return write_words(w, v->flag ? "true" : "false");
    case TERN_JINJA_INT: return tern_jinja__print(w->r, v, &w->rope);
    case TERN_JINJA_FLOAT: return write_float(w, v->real);
    case TERN_JINJA_STRING: return write_string(w, v->str);
    case TERN_JINJA_LIST:
    case TERN_JINJA_TUPLE: return write_list(w, v->list);
    case TERN_JINJA_DICT: return write_dict(w, v->dict);
    default: return tern_jinja__bad(w->r, "tojson: cannot write %s", tern_jinja__kind_words(v->kind));
    }
}

static tern_status write_value(json_writer *w, const tern_jinja_value *v)
{
    TERN_TRY(tern_jinja__enter_render(w->r));
    TERN_TRY(write_kind(w, v));
    w->r->depth--;
    return TERN_OK;
}

/* indent=4 or indent="  ". */
static tern_status read_indent(json_writer *w, const tern_jinja_value *indent)
{
    tern_jinja_rope spaces = {0};
    int64_t n;
    w->lines = true;
    w->comma = tern_jinja__words(",");
    if (indent->kind == TERN_JINJA_STRING) return w->indent = indent->str, TERN_OK;
    TERN_TRY(tern_jinja__int_arg(w->r, indent, "indent of tojson", 0, &n));
    TERN_TRY(tern_jinja__fill(w->r, &spaces, (tern_jinja_str){0}, n));
    return tern_jinja__rope_str(&w->r->pool, &spaces, &w->indent);
}

static tern_status read_separators(json_writer *w, const tern_jinja_value *pair)
{
    bool good = tern_jinja__is_list(pair) && pair->list->n == 2 && pair->list->items[0].kind == TERN_JINJA_STRING &&
                pair->list->items[1].kind == TERN_JINJA_STRING;
    if (!good) return tern_jinja__bad(w->r, "tojson separators must be two strings");
    w->comma = pair->list->items[0].str;
    w->colon = pair->list->items[1].str;
    return TERN_OK;
}

static bool is_set(const tern_jinja_value *v)
{
    return v && v->kind != TERN_JINJA_NONE;
}

/* Parameters: ensure_ascii indent separators sort_keys. */
tern_status tern_jinja__filter_tojson(tern_jinja_render *r, const tern_jinja_value *self,
                                      const tern_jinja_value *const *arg, tern_jinja_value *out)
{
    json_writer w = {.r = r, .comma = tern_jinja__words(", "), .colon = tern_jinja__words(": ")};
    w.ascii = arg[0] && tern_jinja__truth(arg[0]);
    w.sorted = arg[3] && tern_jinja__truth(arg[3]);
    if (is_set(arg[1])) TERN_TRY(read_indent(&w, arg[1]));
    if (is_set(arg[2])) TERN_TRY(read_separators(&w, arg[2]));
    TERN_TRY(write_value(&w, self));
    return tern_jinja__rope_value(r, &w.rope, out);
}
