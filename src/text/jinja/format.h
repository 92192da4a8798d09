/* Python's ways to write a value into a text: % and str.format, and the escapes of Markup. */
#ifndef TERN_TEXT_JINJA_FORMAT_H
#define TERN_TEXT_JINJA_FORMAT_H

#include "text/jinja/render.h"

/* The flags, width and precision between "%" or ":" and the type. */
typedef struct tern_jinja_spec {
    tern_jinja_str fill; /* one character; empty: a space */
    char align;          /* '<', '>', '^', '=' (between sign and digits), or 0: numbers right, texts left */
    char sign;           /* '+', ' ' or 0 */
    char grouping;       /* ',', '_' or 0 */
    char type;           /* 0: by the value */
    bool alternate;      /* '#' */
    int64_t width;       /* in characters */
    int64_t precision;   /* -1: none */
} tern_jinja_spec;

/* Adds the text filled up to the width; the first `sign` bytes of a number stay in front of '=' fill. */
tern_status tern_jinja__pad(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str text, size_t sign,
                            const tern_jinja_spec *spec);
/* `count` times the character (empty: a space). LIMIT beyond the size of the output. */
tern_status tern_jinja__fill(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str fill, int64_t count);
/* A number by spec->type: b c d i o u x X for integers, e E f F g G % for both. UNSUPPORTED: another type. */
tern_status tern_jinja__format_number(tern_jinja_render *r, tern_jinja_rope *rope, const tern_jinja_value *v,
                                      const tern_jinja_spec *spec);

/* format % values. */
tern_status tern_jinja__percent(tern_jinja_render *r, tern_jinja_str format, const tern_jinja_value *values,
                                tern_jinja_value *out);
/* format.format(...). */
tern_status tern_jinja__format(tern_jinja_render *r, const tern_jinja_value *self, const tern_jinja_args *args,
                               tern_jinja_value *out);

/* Adds s with & < > ' " escaped, when `markup` and s is not Markup itself. */
tern_status tern_jinja__emit_escaped(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str s, bool markup);

#endif
