/* Strings of JSON Schema: patterns, formats and lengths, and the names of members. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

#define YEAR      "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                                           \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"              \
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define HEX  "[0-9a-fA-F]"
#define UUID HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define H16  HEX "{1,4}"
/* RFC 4291: eight groups, or fewer around "::" */
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){6}" IPV4 "|(?:" H16 ":){1,7}:|(?:" H16 ":){1,6}(?::" H16 "){1}|"           \
    "(?:" H16 ":){1,5}(?::" H16 "){1,2}|(?:" H16 ":){1,4}(?::" H16 "){1,3}|(?:" H16 ":){1,3}(?::" H16 "){1,4}|"        \
    "(?:" H16 ":){1,2}(?::" H16 "){1,5}|" H16 ":(?::" H16 "){1,6}|:(?::" H16 "){1,7}|::|::(?:" H16 ":){0,5}" IPV4      \
    "|(?:" H16 ":){1,5}:" IPV4 ")"
/* RFC 1123: labels of at most 63, in all at most 253 characters: long labels where there are few of them */
#define LABEL(most) "[A-Za-z0-9](?:[A-Za-z0-9-]{0," most "}[A-Za-z0-9])?"
#define NAMES(size, least, most)                                                                                       \
    "(?:" LABEL(size) "(?:\\." LABEL(size) "){" least ",2}|" LABEL("22") "(?:\\." LABEL("22") "){3," most "})"
#define HOST                 NAMES("61", "0", "9")
#define ATOM(most)           "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1," most "}"
#define ATOMS(size, n, most) ATOM(size) "(?:\\." ATOM(size) "){" n "," most "}"
/* RFC 5321: at most 64 characters before the sign, and 254 in all: long words where there are few of them */
#define LOCAL   "(?:" ATOM("64") "|" ATOMS("31", "1", "1") "|" ATOMS("20", "2", "2") "|" ATOMS("8", "3", "6") ")"
#define EMAIL   LOCAL "@" NAMES("60", "1", "6")
#define ESCAPED "%" HEX HEX
#define PCHAR   "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define TAIL    "(?:\\?(?:[/?]|" PCHAR ")*)?(?:#(?:[/?]|" PCHAR ")*)?"
/* RFC 3986: names of hosts have at most 255 characters */
#define AUTHORITY                                                                                                      \
    "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" ESCAPED ")*@)?[A-Za-z0-9._~!$&'()*+,;=-]{1,255}(?::[0-9]{1,4})?"
#define PATH "(?:/" PCHAR "*)*"
#define URI  "[A-Za-z][A-Za-z0-9+.-]*:(?:" AUTHORITY PATH "|/(?:" PCHAR "+" PATH ")?|" PCHAR "+" PATH ")" TAIL
/* a first step without a colon, which would end a scheme */
#define STEP         "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" ESCAPED ")+"
#define REFERENCE    "(?:" URI "|(?:" AUTHORITY PATH "|/(?:" PCHAR "+" PATH ")?|" STEP PATH ")?" TAIL ")"
#define POINTER      "(?:/(?:[^/~]|~[01])*)*"
#define COUNT        "[0-9]{1,9}"
#define HOURS        "(?:" COUNT "H(?:" COUNT "M(?:" COUNT "S)?)?|" COUNT "M(?:" COUNT "S)?|" COUNT "S)"
#define DAYS         "(?:" COUNT "Y(?:" COUNT "M(?:" COUNT "D)?)?|" COUNT "M(?:" COUNT "D)?|" COUNT "D)"
#define BASE64(a, b) "(?:[" a "]{4})*(?:[" a "]{2}" b b "|[" a "]{3}" b ")?"

/* Formats of strings, without ^ and $. An address within another one's form is one of its: ASCII alone is written. */
static const char *const formats[][2] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:" COUNT "W|" DAYS "(?:T" HOURS ")?|T" HOURS ")"},
    {"uuid", UUID},
    {"guid", UUID},
    {"email", EMAIL},
    {"idn-email", EMAIL},
    {"hostname", HOST},
    {"idn-hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"cidrv4", IPV4 "/(?:3[0-2]|[12]?[0-9])"},
    {"cidrv6", IPV6 "/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"},
    {"uri", URI},
    {"url", URI},
    {"iri", URI},
    {"uri-reference", REFERENCE},
    {"iri-reference", REFERENCE},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]{0,8})(?:#|" POINTER ")"},
    {"byte", BASE64("A-Za-z0-9+/", "=")},
    {"base64", BASE64("A-Za-z0-9+/", "=")},
    {"base64url", "[A-Za-z0-9_-]*"},
    {"jwt", "[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]*"},
    {"ulid", "[0-7][0-9A-HJKMNP-TV-Z]{25}"},
    {"nanoid", "[A-Za-z0-9_-]{21}"},
    {"cuid", "c[a-z0-9]{24}"},
    {"cuid2", "[a-z][a-z0-9]{23}"},
    {"e164", "\\+[1-9][0-9]{6,14}"},
    {"int32", "(?:0|-?[1-9][0-9]{0,8})"},
    {"int64", "(?:0|-?[1-9][0-9]{0,17})"},
    {"uint64", "(?:0|[1-9][0-9]{0,17})"},
};

/* Those that say nothing of a string's characters. */
static const char *const silent[] = {"password", "binary", "text",  "textarea", "markdown", "string", "float",
                                     "double",   "int8",   "int16", "uint8",    "uint16",   "uint32", NULL};

static tern_status add_format(tern_schema *s, const char *format, tern_language *l, uint32_t *term, tern_error *err)
{
    *term = TERN_LANGUAGE_EVERYTHING;
    for (size_t i = 0; silent[i]; i++)
        if (strcmp(silent[i], format) == 0) return TERN_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char text[4096];
        if (strcmp(format, formats[i][0]) != 0) continue;
        const int n = snprintf(text, sizeof text, "^(?:%s)$", formats[i][1]);
        return tern_language__pattern(l, text, (size_t)n, "format", term, err);
    }
    return tern_schema__fail(s, TERN_UNSUPPORTED, "format",
                             "date, time, date-time, duration, email, hostname, ipv4, ipv6, uri, uri-reference, uuid, "
                             "json-pointer, base64 or another of the guide's expected",
                             err);
}

static tern_status add_pattern(tern_schema *s, const json_t *pattern, tern_language *l, uint32_t *term, tern_error *err)
{
    if (tern_language__pattern(l, json_string_value(pattern), json_string_length(pattern), "pattern", term, err) ==
        TERN_OK)
        return TERN_OK;
    return tern_error_prefix(err, "schema: %.200s/pattern", s->path);
}

tern_status tern_schema__begin_language(tern_schema *s, tern_language *l, tern_error *err)
{
    l->work = s->language_work;
    return tern_language__init(l, err);
}

void tern_schema__end_language(tern_schema *s, tern_language *l)
{
    s->language_work = l->work;
    tern_language__deinit(l);
}

tern_status tern_schema__language(tern_schema *s, const json_t *plain, tern_language *l, uint32_t *term,
                                  tern_error *err)
{
    const uint32_t least = tern_schema__count(plain, "minLength", 0);
    const uint32_t most = tern_schema__count(plain, "maxLength", TERN_GRAMMAR_FOREVER);
    size_t i;
    json_t *one;
    uint32_t other;
    *term = TERN_LANGUAGE_EVERYTHING;
    json_array_foreach(json_object_get(plain, "pattern"), i, one)
    {
        TERN_TRY(add_pattern(s, one, l, &other, err));
        TERN_TRY(tern_language__both(l, *term, other, term, err));
    }
    json_array_foreach(json_object_get(plain, "format"), i, one)
    {
        TERN_TRY(add_format(s, json_string_value(one), l, &other, err));
        TERN_TRY(tern_language__both(l, *term, other, term, err));
    }
    return tern_language__restrict(l, *term, least, most, term, err);
}

static tern_status quoted(tern_schema *s, uint32_t inner, uint32_t *node, tern_error *err)
{
    uint32_t items[3] = {0, inner, 0};
    TERN_TRY(tern_grammar_tree__text(s->tree, "\"", &items[0], err));
    items[2] = items[0];
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

/* A string of any characters, in any of their forms, of which there are least to most. */
static tern_status counted(tern_schema *s, uint32_t least, uint32_t most, uint32_t *node, tern_error *err)
{
    if (least == 0 && most == TERN_GRAMMAR_FOREVER) return tern_grammar_tree__call(s->tree, s->string, node, err);
    if (least > most) return tern_schema__nothing(s, "maxLength", "it is less than minLength", node);
    TERN_TRY(tern_grammar_tree__call(s->tree, s->character, node, err));
    TERN_TRY(tern_grammar_tree__repeat(s->tree, *node, least, most, node, err));
    return quoted(s, *node, node, err);
}

/* The node of what a pattern or a format allows, labelled with the keyword. */
static tern_status expressed(tern_schema *s, const json_t *plain, tern_language *l, uint32_t *node, tern_error *err)
{
    const char *key = json_object_get(plain, "pattern") ? "pattern" : "format";
    uint32_t term;
    bool none;
    TERN_TRY(tern_schema__language(s, plain, l, &term, err));
    if (term == TERN_LANGUAGE_EVERYTHING) return counted(s, 0, TERN_GRAMMAR_FOREVER, node, err);
    TERN_TRY(tern_language__write(l, term, s->tree, node, &none, err));
    if (none) return tern_schema__nothing(s, key, "no text fits it and what stands beside it", node);
    TERN_TRY(quoted(s, *node, node, err));
    const size_t before = tern_schema__enter(s, key);
    TERN_TRY(tern_schema__label(s, *node, err));
    tern_schema__leave(s, before);
    return TERN_OK;
}

tern_status tern_schema__text(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    tern_language l = {0};
    tern_status status;
    if (!json_object_get(plain, "pattern") && !json_object_get(plain, "format"))
        return counted(s, tern_schema__count(plain, "minLength", 0),
                       tern_schema__count(plain, "maxLength", TERN_GRAMMAR_FOREVER), node, err);
    TERN_GOTO(tern_schema__begin_language(s, &l, err));
    status = expressed(s, plain, &l, node, err);
    if (status == TERN_LIMIT && !strstr(err->message, "schema: "))
        tern_error_prefix(err, "schema: %.200s", s->path[0] ? s->path : "at its top");
fail:
    tern_schema__end_language(s, &l);
    return status;
}

tern_status tern_schema__matches(tern_schema *s, const char *pattern, const char *name, bool *matches, tern_error *err)
{
    tern_language l = {0};
    uint32_t term;
    tern_status status;
    TERN_GOTO(tern_schema__begin_language(s, &l, err));
    TERN_GOTO(tern_language__pattern(&l, pattern, strlen(pattern), "patternProperties", &term, err));
    status = tern_language__has(&l, term, name, strlen(name), matches, err);
fail:
    tern_schema__end_language(s, &l);
    return status == TERN_OK ? status : tern_error_prefix(err, "schema: %.200s", s->path[0] ? s->path : "at its top");
}

/* The strings of a plain schema's values. */
static tern_status add_listed(tern_schema *s, const json_t *plain, tern_language *l, uint32_t *term, tern_error *err)
{
    size_t i;
    json_t *value;
    uint32_t one;
    bool holds;
    *term = TERN_LANGUAGE_NOTHING;
    json_array_foreach(json_object_get(plain, "enum"), i, value)
    {
        TERN_TRY(tern_schema__plain_holds(s, plain, value, &holds, err));
        if (!holds || !json_is_string(value)) continue;
        TERN_TRY(tern_language__text(l, json_string_value(value), json_string_length(value), &one, err));
        TERN_TRY(tern_language__any(l, one, *term, term, err));
    }
    return TERN_OK;
}

/* The strings of any alternative of a schema. */
static tern_status add_names(tern_schema *s, const json_t *names, tern_language *l, uint32_t *term, tern_error *err)
{
    tern_schema_ways ways = {0};
    tern_status status = TERN_OK;
    uint32_t one;
    *term = TERN_LANGUAGE_EVERYTHING;
    if (!names) return TERN_OK;
    *term = TERN_LANGUAGE_NOTHING;
    TERN_GOTO(tern_schema__flatten(s, names, &ways, err));
    for (size_t i = 0; i < ways.n; i++) {
        if (!(tern_schema__types(ways.items[i]) & TERN_SCHEMA_STRING)) continue;
        if (json_object_get(ways.items[i], "enum")) TERN_GOTO(add_listed(s, ways.items[i], l, &one, err));
        else TERN_GOTO(tern_schema__language(s, ways.items[i], l, &one, err));
        TERN_GOTO(tern_language__any(l, one, *term, term, err));
    }
fail:
    tern_free(ways.items);
    return status;
}

/* Takes names out of a term, as far as they are in it. */
static tern_status take_out(tern_language *l, const tern_schema_names *n, uint32_t *term, tern_error *err)
{
    uint32_t taken = TERN_LANGUAGE_NOTHING, one;
    bool has;
    for (size_t i = 0; i < n->n_taken; i++) {
        TERN_TRY(tern_language__has(l, *term, n->taken[i], strlen(n->taken[i]), &has, err));
        if (!has) continue;
        TERN_TRY(tern_language__text(l, n->taken[i], strlen(n->taken[i]), &one, err));
        TERN_TRY(tern_language__any(l, one, taken, &taken, err));
    }
    if (taken == TERN_LANGUAGE_NOTHING) return TERN_OK;
    TERN_TRY(tern_language__not(l, taken, &taken, err));
    return tern_language__both(l, *term, taken, term, err);
}

static tern_status find_names(tern_schema *s, const tern_schema_names *n, tern_language *l, uint32_t *term,
                              tern_error *err)
{
    uint32_t one;
    TERN_TRY(add_names(s, n->names, l, term, err));
    for (size_t i = 0; i < n->n_patterns; i++) {
        TERN_TRY(tern_language__pattern(l, n->patterns[i], strlen(n->patterns[i]), "patternProperties", &one, err));
        if (!n->with[i]) TERN_TRY(tern_language__not(l, one, &one, err));
        TERN_TRY(tern_language__both(l, *term, one, term, err));
    }
    return take_out(l, n, term, err);
}

tern_status tern_schema__names(tern_schema *s, const tern_schema_names *names, uint32_t *node, tern_error *err)
{
    tern_language l = {0};
    uint32_t term;
    bool none;
    tern_status status;
    *node = TERN_SCHEMA_NOTHING;
    TERN_GOTO(tern_schema__begin_language(s, &l, err));
    TERN_GOTO(find_names(s, names, &l, &term, err));
    TERN_GOTO(tern_language__write(&l, term, s->tree, node, &none, err));
    if (none) *node = TERN_SCHEMA_NOTHING;
    else status = quoted(s, *node, node, err);
fail:
    tern_schema__end_language(s, &l);
    return status;
}
