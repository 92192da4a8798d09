/* String operations that filters and string methods of chat templates share. Results keep the origin of every byte. */
#ifndef TERN_TEXT_JINJA_TEXT_H
#define TERN_TEXT_JINJA_TEXT_H

#include "text/jinja/render.h"

/* Strips white space, or the characters in `chars` when it is not NULL, from the sides asked for. */
tern_status tern_jinja__strip(tern_jinja_render *r, tern_jinja_str s, const tern_jinja_value *chars, bool left,
                              bool right, tern_jinja_value *out);
/* Changes ASCII letters only. Title starts a word after anything that is not a letter (Python's title()), headline
 * after white space, "-" and opening brackets (Jinja's title filter). */
typedef enum tern_jinja_case {
    TERN_JINJA_UPPER,
    TERN_JINJA_LOWER,
    TERN_JINJA_TITLE,
    TERN_JINJA_HEADLINE,
    TERN_JINJA_SWAPPED,
    TERN_JINJA_CAPITAL
} tern_jinja_case;
tern_status tern_jinja__change_case(tern_jinja_render *r, tern_jinja_str s, tern_jinja_case how, tern_jinja_value *out);
/* Whether a string has a letter of ASCII and none in the other case. */
bool tern_jinja__all_in_case(tern_jinja_render *r, tern_jinja_str s, bool upper);
/* Whether all characters, at least one, have a property: isalpha(), isalnum(), ... */
typedef enum tern_jinja_property {
    TERN_JINJA_ALPHA,
    TERN_JINJA_ALNUM,
    TERN_JINJA_DECIMAL,
    TERN_JINJA_DIGIT,
    TERN_JINJA_NUMERIC
} tern_jinja_property;
tern_status tern_jinja__all_are(tern_jinja_render *r, tern_jinja_str s, tern_jinja_property property, bool *out);
/* The first `most` (negative: all) occurrences of `from` become `to`. */
tern_status tern_jinja__replace(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str from, tern_jinja_str to,
                                int64_t most, tern_jinja_value *out);
/* Splits at `separator` (empty: at white space, dropping empty parts) at most `most` times (negative: always). */
tern_status tern_jinja__split(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str separator, int64_t most,
                              tern_jinja_value *out);
/* Like the one above, from the right. */
tern_status tern_jinja__rsplit(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str separator, int64_t most,
                               tern_jinja_value *out);
/* Lines as Python's splitlines() has them; `ends` keeps their line ends. */
tern_status tern_jinja__splitlines(tern_jinja_render *r, tern_jinja_str s, bool ends, tern_jinja_value *out);
/* The text in `width` characters: align as in a tern_jinja_spec, or 'c' for str.center(), which rounds differently. */
tern_status tern_jinja__justify(tern_jinja_render *r, tern_jinja_str s, int64_t width, tern_jinja_str fill, char align,
                                tern_jinja_value *out);
tern_status tern_jinja__join(tern_jinja_render *r, const tern_jinja_list *list, tern_jinja_str separator,
                             tern_jinja_value *out);

/* The argument as a string or an integer, the default when it is absent, or an error that names it. */
tern_status tern_jinja__string_arg(tern_jinja_render *r, const tern_jinja_value *arg, const char *what,
                                   tern_jinja_str absent, tern_jinja_str *out);
tern_status tern_jinja__int_arg(tern_jinja_render *r, const tern_jinja_value *arg, const char *what, int64_t absent,
                                int64_t *out);

#endif
