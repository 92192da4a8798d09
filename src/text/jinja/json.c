/* The tojson filter, as the transformers library defines it for chat templates: no HTML escapes, keys in their order.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/filters.h"

typedef struct json_writer {
    tern_jinja_render *r;
    tern_jinja_rope rope;
    tern_jinja_str comma, colon, indent; /* indent: of one level */
    bool lines;                          /* one item a line */
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

static const char *escaped(char c, char out[8])
{
    const char *letters = "\n\r\t\b\f\\\"", *names = "nrtbf\\\"";
    const char *hit = c ? strchr(letters, c) : NULL;
    if (hit) snprintf(out, 8, "\\%c", names[hit - letters]);
    else if ((uint8_t)c < 0x20) snprintf(out, 8, "\\u%04x", (unsigned)(uint8_t)c);
    else return NULL;
    return out;
}

static tern_status write_string(json_writer *w, tern_jinja_str s)
{
    char escape[8];
    size_t from = 0;
    TERN_TRY(tern_jinja__charge(&w->r->pool, s.n / 16));
    TERN_TRY(write_words(w, "\""));
    for (size_t i = 0; i < s.n; i++) {
        if (!escaped(s.data[i], escape)) continue;
        TERN_TRY(tern_jinja__emit(w->r, &w->rope, tern_jinja__slice(s, from, i)));
        TERN_TRY(tern_jinja__emit_words(w->r, &w->rope, escape, tern_jinja__byte_untrusted(s, i)));
        from = i + 1;
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

static tern_status write_dict(json_writer *w, const tern_jinja_dict *dict)
{
    if (dict->n == 0) return write_words(w, "{}");
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
    static const char spaces[] = "                ";
    w->lines = true;
    w->comma = tern_jinja__words(",");
    if (indent->kind == TERN_JINJA_STRING) return w->indent = indent->str, TERN_OK;
    int64_t n = indent->kind == TERN_JINJA_INT ? indent->integer : -1;
    if (n < 0 || n > 16) return tern_jinja__unsupported(w->r, "tojson indent other than 0 to 16");
    w->indent = (tern_jinja_str){.data = spaces, .n = (size_t)n};
    return TERN_OK;
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
    if (arg[0] && tern_jinja__truth(arg[0])) return tern_jinja__unsupported(r, "tojson with ensure_ascii");
    if (arg[3] && tern_jinja__truth(arg[3])) return tern_jinja__unsupported(r, "tojson with sort_keys");
    if (is_set(arg[1])) TERN_TRY(read_indent(&w, arg[1]));
    if (is_set(arg[2])) TERN_TRY(read_separators(&w, arg[2]));
    TERN_TRY(write_value(&w, self));
    return tern_jinja__rope_value(r, &w.rope, out);
}
