/* The values a chat template computes with; every string knows which of its bytes came from a message. */
#ifndef TERN_TEXT_JINJA_VALUE_H
#define TERN_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

/* An arena with a bound, a bound on work, and the error that whoever fails leaves behind. `line` is the template line
 * being worked on. Lives during one parse or one render. */
typedef struct tern_jinja_pool {
    tern_arena arena;
    size_t used, max_bytes;
    uint64_t steps, max_steps;
    uint32_t line;
    tern_status status; /* why the last allocation failed */
    tern_error *err;
} tern_jinja_pool;

/* Zeroed memory, alive as long as the pool. NULL, with the error set, when out of memory or over the bound. */
void *tern_jinja__alloc(tern_jinja_pool *p, size_t count, size_t bytes);
/* Counts n steps of work; LIMIT when that is too many. */
tern_status tern_jinja__charge(tern_jinja_pool *p, uint64_t n);
/* Why the last tern_jinja__alloc gave NULL. */
tern_status tern_jinja__status(const tern_jinja_pool *p);
/* Sets the error "chat template line N: ..." and returns code. */
tern_status tern_jinja__fail(tern_jinja_pool *p, tern_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As in base/error.h: tells the static analyzer that these are never OK. */
#if defined(__clang_analyzer__)
#define tern_jinja__fail(p, code, ...) (tern_jinja__fail(p, code, __VA_ARGS__), (code))
#define tern_jinja__status(p)          (tern_jinja__status(p), TERN_LIMIT)
#endif

/* A borrowed run of bytes (UTF-8, or any bytes). Byte i came from a message when `untrusted`, or, when mask is not
 * NULL, when mask[i] is 1; `untrusted` is then true too and means "some of them". `markup`: Markup of the filter safe,
 * which escapes strings that are added to it. */
typedef struct tern_jinja_str {
    const char *data;
    size_t n;
    const uint8_t *mask;
    bool untrusted, markup;
} tern_jinja_str;

typedef enum tern_jinja_kind {
    TERN_JINJA_UNDEFINED, /* str: what was looked up, for messages */
    TERN_JINJA_NONE,
    TERN_JINJA_BOOL,
    TERN_JINJA_INT,
    TERN_JINJA_FLOAT,
    TERN_JINJA_STRING,
    TERN_JINJA_LIST,
    TERN_JINJA_TUPLE,
    TERN_JINJA_RANGE,     /* list */
    TERN_JINJA_VIEW,      /* list: keys, values or items of a dict */
    TERN_JINJA_GENERATOR, /* items that are read once */
    TERN_JINJA_DICT,
    TERN_JINJA_NAMESPACE, /* a dict whose entries {% set %} may write */
    TERN_JINJA_MACRO,
    TERN_JINJA_FUNCTION,
    TERN_JINJA_METHOD, /* of a value */
    TERN_JINJA_JOINER, /* a cycle whose first item is empty and whose second stays */
    TERN_JINJA_CYCLER, /* a cycle */
    TERN_JINJA_LOOP
} tern_jinja_kind;

typedef struct tern_jinja_value tern_jinja_value;
typedef struct tern_jinja_list tern_jinja_list;
typedef struct tern_jinja_dict tern_jinja_dict;
typedef struct tern_jinja_macro tern_jinja_macro;
typedef struct tern_jinja_function tern_jinja_function;
typedef struct tern_jinja_method tern_jinja_method;
typedef struct tern_jinja_cycle tern_jinja_cycle;
typedef struct tern_jinja_loop tern_jinja_loop;

struct tern_jinja_value {
    tern_jinja_kind kind;
    union {
        bool flag;
        int64_t integer;
        double real;
        tern_jinja_str str;
        const tern_jinja_list *list;
        tern_jinja_dict *dict;
        const tern_jinja_macro *macro;
        const tern_jinja_function *function;
        const tern_jinja_method *method;
        tern_jinja_cycle *cycle; /* of a generator too */
        tern_jinja_loop *loop;
    };
};

/* Lists and tuples never change. `name`: Python's name of a view's type; a range as Python writes it; the members
 * of a tuple as attributes ("grouper list"). Or NULL. */
struct tern_jinja_list {
    tern_jinja_value *items;
    size_t n;
    const char *name;
};

/* Items that are taken one after another. */
struct tern_jinja_cycle {
    const tern_jinja_list *items;
    size_t at;
};

typedef struct tern_jinja_entry {
    tern_jinja_value key, value;
} tern_jinja_entry;

/* Entries in the order of insertion. */
struct tern_jinja_dict {
    tern_jinja_entry *entries;
    size_t n, cap;
};

/* Text under construction: a chain of borrowed pieces, so that nothing is copied before it is whole. Zero is empty. */
typedef struct tern_jinja_piece tern_jinja_piece;
struct tern_jinja_piece {
    tern_jinja_str str;
    tern_jinja_piece *next;
};
typedef struct tern_jinja_rope {
    tern_jinja_piece *first, *last;
    size_t n;
} tern_jinja_rope;

/* UNSUPPORTED: what "name", as in filter "x". */
tern_status tern_jinja__unknown(tern_jinja_pool *p, const char *what, tern_jinja_str name);

/* Strings. Words are literals of ours and trusted. */
tern_jinja_str tern_jinja__words(const char *words);
tern_jinja_str tern_jinja__slice(tern_jinja_str s, size_t from, size_t to);
bool tern_jinja__str_equal(tern_jinja_str a, tern_jinja_str b);
bool tern_jinja__str_is(tern_jinja_str s, const char *words);
int tern_jinja__str_compare(tern_jinja_str a, tern_jinja_str b);
bool tern_jinja__byte_untrusted(tern_jinja_str s, size_t at);
/* Offset of the first `needle` at or after `from`, or SIZE_MAX. */
size_t tern_jinja__str_find(tern_jinja_str s, tern_jinja_str needle, size_t from);
/* Offset of the last `needle`, or SIZE_MAX. */
size_t tern_jinja__str_rfind(tern_jinja_str s, tern_jinja_str needle);

/* Values. */
tern_jinja_value tern_jinja__undefined(tern_jinja_str name);
tern_jinja_value tern_jinja__none(void);
tern_jinja_value tern_jinja__bool(bool flag);
tern_jinja_value tern_jinja__int(int64_t integer);
tern_jinja_value tern_jinja__float(double real);
tern_jinja_value tern_jinja__string(tern_jinja_str str);
/* A list or tuple of n zeroed items, to be filled by the caller through *items. */
tern_status tern_jinja__list(tern_jinja_pool *p, tern_jinja_kind kind, size_t n, tern_jinja_value *out,
                             tern_jinja_value **items);
bool tern_jinja__is_number(const tern_jinja_value *v); /* int, float or bool, as in Python */
bool tern_jinja__is_list(const tern_jinja_value *v);   /* list or tuple */
bool tern_jinja__is_sized(const tern_jinja_value *v);  /* that, a range or a view: what `list` holds */
double tern_jinja__as_float(const tern_jinja_value *v);
int64_t tern_jinja__as_int(const tern_jinja_value *v); /* of an int or bool */
bool tern_jinja__truth(const tern_jinja_value *v);
/* The word for a kind in messages: "string", "list", ... */
const char *tern_jinja__kind_words(tern_jinja_kind kind);
/* Python's ==. Nesting beyond 64 uses up all steps; without steps everything counts as different, until the next charge
 * fails. */
bool tern_jinja__equal(tern_jinja_pool *p, const tern_jinja_value *a, const tern_jinja_value *b);

/* Dicts. */
tern_status tern_jinja__dict(tern_jinja_pool *p, tern_jinja_kind kind, tern_jinja_value *out);
const tern_jinja_value *tern_jinja__dict_find(tern_jinja_pool *p, const tern_jinja_dict *d,
                                              const tern_jinja_value *key);
/* Lists and dicts cannot be keys. */
bool tern_jinja__is_hashable(const tern_jinja_value *key);
tern_status tern_jinja__dict_set(tern_jinja_pool *p, tern_jinja_dict *d, const tern_jinja_value *key,
                                 const tern_jinja_value *value);

/* Ropes. `rope_str` joins the pieces into one string whose bytes keep their origin. */
tern_status tern_jinja__rope_add(tern_jinja_pool *p, tern_jinja_rope *rope, tern_jinja_str s);
tern_status tern_jinja__rope_str(tern_jinja_pool *p, const tern_jinja_rope *rope, tern_jinja_str *out);
/* Writes the origin of each byte of s: 1 for a message's. */
void tern_jinja__str_mask(tern_jinja_str s, uint8_t *mask);

#endif
