/* Rendering a chat template: what the files of the evaluator share. */
#ifndef TERN_TEXT_JINJA_RENDER_H
#define TERN_TEXT_JINJA_RENDER_H

#include "format/json.h"
#include "text/jinja/ast.h"

enum {
    TERN_JINJA_MAX_OUTPUT = 16 << 20,
    TERN_JINJA_MAX_MEMORY = 64 << 20,
    TERN_JINJA_MAX_STEPS = 10 * 1000 * 1000,
    TERN_JINJA_MAX_CALLS = 512, /* expressions, statements and macro calls inside each other */
    TERN_JINJA_MAX_ARGS = 6,
    TERN_JINJA_MAX_CALL_ARGS = 1000 /* of *args */
};

typedef struct tern_jinja_variable tern_jinja_variable;
struct tern_jinja_variable {
    tern_jinja_str name;
    tern_jinja_value value;
    tern_jinja_variable *next;
};

/* The names that a loop pass, a macro call or the template itself has set; a lookup goes on to the parent. */
typedef struct tern_jinja_scope tern_jinja_scope;
struct tern_jinja_scope {
    tern_jinja_scope *parent;
    tern_jinja_variable *variables;
};

typedef enum tern_jinja_jump { TERN_JINJA_GO_ON, TERN_JINJA_DO_BREAK, TERN_JINJA_DO_CONTINUE } tern_jinja_jump;

/* One render. Everything it makes lives in `pool`. */
typedef struct tern_jinja_render {
    tern_jinja_pool pool;
    tern_jinja_scope *scope;
    tern_jinja_rope *out;
    tern_jinja_jump jump;
    unsigned depth;
    int64_t now; /* seconds since 1970, UTC */
} tern_jinja_render;

struct tern_jinja_macro {
    const tern_jinja_node *node;
    tern_jinja_scope *scope; /* where it was defined */
};

struct tern_jinja_loop {
    const tern_jinja_list *items;
    size_t index, depth;             /* depth: 0 outside a recursion */
    const tern_jinja_node *node;     /* the {% for %} */
    tern_jinja_scope *scope;         /* where it stands */
    const tern_jinja_value *changed; /* a tuple: what loop.changed saw last, or NULL */
};

/* Evaluated arguments of a call. */
typedef struct tern_jinja_args {
    tern_jinja_value *values; /* n_positional, then one for each of `names` */
    tern_jinja_str *names;
    size_t n_positional, n_named;
} tern_jinja_args;

/* A parsed JSON document (NULL: none) as a value; its strings stay where they are and count as a user's. Whole numbers
 * are integers. Errors: LIMIT, OUT_OF_MEMORY. */
tern_status tern_jinja__of_json(tern_jinja_pool *p, const json_t *json, tern_jinja_value *out);

/* Filters and methods: arg[i] is the argument of the i-th word of `params`, or NULL when it was not given. `apply_open`
 * takes any arguments. Neither: Python has it, and calling it is UNSUPPORTED. */
typedef tern_status (*tern_jinja_filter_fn)(tern_jinja_render *r, const tern_jinja_value *self,
                                            const tern_jinja_value *const *arg, tern_jinja_value *out);
typedef tern_status (*tern_jinja_open_fn)(tern_jinja_render *r, const tern_jinja_value *self,
                                          const tern_jinja_args *args, tern_jinja_value *out);
struct tern_jinja_filter {
    const char *name, *params;
    tern_jinja_filter_fn apply;
    tern_jinja_open_fn apply_open;
};
struct tern_jinja_method {
    tern_jinja_value self;
    const tern_jinja_filter *row;
};
struct tern_jinja_test {
    const char *name, *params;
    tern_status (*apply)(tern_jinja_render *r, const tern_jinja_value *self, const tern_jinja_value *arg, bool *out);
};
struct tern_jinja_function {
    const char *name;
    tern_status (*call)(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out);
};

/* Errors with the line of the template. */
#define tern_jinja__bad(r, ...)         tern_jinja__fail(&(r)->pool, TERN_INVALID_ARGUMENT, __VA_ARGS__)
#define tern_jinja__unsupported(r, ...) tern_jinja__fail(&(r)->pool, TERN_UNSUPPORTED, __VA_ARGS__)

/* Statements and expressions. */
tern_status tern_jinja__run(tern_jinja_render *r, const tern_jinja_node *statements);
tern_status tern_jinja__eval(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out);
/* Runs statements in a scope of its own under `parent`, catching the text. */
tern_status tern_jinja__capture(tern_jinja_render *r, tern_jinja_scope *scope, const tern_jinja_node *statements,
                                tern_jinja_value *out);
tern_status tern_jinja__enter_render(tern_jinja_render *r); /* one level deeper or LIMIT; undone with r->depth-- */
tern_status tern_jinja__scope_open(tern_jinja_render *r, tern_jinja_scope *parent, tern_jinja_scope **scope);
tern_status tern_jinja__scope_set(tern_jinja_render *r, tern_jinja_scope *scope, tern_jinja_str name,
                                  const tern_jinja_value *value);
/* The value of a name seen from the current scope, or NULL. */
const tern_jinja_value *tern_jinja__scope_find(tern_jinja_render *r, tern_jinja_str name);

/* Operators: op as in the BINARY and COMPARE nodes. */
tern_status tern_jinja__binary(tern_jinja_render *r, int op, const tern_jinja_value *a, const tern_jinja_value *b,
                               tern_jinja_value *out);
tern_status tern_jinja__compare(tern_jinja_render *r, int op, const tern_jinja_value *a, const tern_jinja_value *b,
                                bool *out);

/* a.name and a[key]: undefined when there is no such thing; a[from:to:step] (NULL or none: left out). */
tern_status tern_jinja__attribute(tern_jinja_render *r, const tern_jinja_value *object, tern_jinja_str name,
                                  tern_jinja_value *out);
tern_status tern_jinja__item(tern_jinja_render *r, const tern_jinja_value *object, const tern_jinja_value *key,
                             tern_jinja_value *out);
tern_status tern_jinja__slice_value(tern_jinja_render *r, const tern_jinja_value *object,
                                    const tern_jinja_value *const bounds[3], tern_jinja_value *out);
/* "a.b.0" looked up step by step, as the attribute argument of filters; `absent` (or NULL) takes the place of what is
 * undefined at a step. */
tern_status tern_jinja__path(tern_jinja_render *r, const tern_jinja_value *object, const tern_jinja_value *path,
                             const tern_jinja_value *absent, tern_jinja_value *out);
/* The items that a for loop visits, as a list. A string gives its characters, a dict its keys, undefined nothing. A
 * generator gives the items that are left, and is empty afterwards. */
tern_status tern_jinja__iterate(tern_jinja_render *r, const tern_jinja_value *v, const tern_jinja_list **out);

/* Calls. */
tern_status tern_jinja__eval_args(tern_jinja_render *r, const tern_jinja_node *list, tern_jinja_args *args);
/* Sorts args into the slots of params ("a b c"); what: for messages. */
tern_status tern_jinja__bind(tern_jinja_render *r, const char *what, const char *params, const tern_jinja_args *args,
                             const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS]);
/* `caller`: the macro of a {% call %} block, passed under this name, or NULL. */
tern_status tern_jinja__eval_call(tern_jinja_render *r, const tern_jinja_node *node, const tern_jinja_value *caller,
                                  tern_jinja_value *out);
/* The positional arguments from `from` on as a tuple. */
tern_status tern_jinja__rest_of(tern_jinja_render *r, const tern_jinja_args *args, size_t from, tern_jinja_value *out);
/* Calls a macro, function, method, joiner or recursive loop. */
tern_status tern_jinja__call_value(tern_jinja_render *r, const tern_jinja_value *callee, const tern_jinja_args *args,
                                   tern_jinja_value *out);
/* The attribute that Python's type of self has under this name, or NULL. *unsafe: the sandbox keeps it away. */
const tern_jinja_filter *tern_jinja__find_method(const tern_jinja_value *self, tern_jinja_str name, bool *unsafe);
/* loop(items): the text of the loop's body over other items, one level deeper. */
tern_status tern_jinja__run_loop(tern_jinja_render *r, const tern_jinja_loop *loop, const tern_jinja_args *args,
                                 tern_jinja_value *out);
tern_status tern_jinja__call_filter(tern_jinja_render *r, const tern_jinja_filter *filter, const tern_jinja_value *self,
                                    const tern_jinja_args *args, tern_jinja_value *out);
tern_status tern_jinja__call_test(tern_jinja_render *r, const tern_jinja_test *test, const tern_jinja_value *self,
                                  const tern_jinja_args *args, bool *out);
const tern_jinja_function *tern_jinja__find_function(tern_jinja_str name);

/* Text. `str` is Python's str(): "" of undefined, "None", "True"; strings keep their origin. */
tern_status tern_jinja__print(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope);
tern_status tern_jinja__str(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_str *out);
/* Python's repr(). */
tern_status tern_jinja__repr(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope);
/* Adds to a rope, bounded by the size of the output. */
tern_status tern_jinja__emit(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str s);
/* As above for a copy of words, which came from a message when `untrusted`. */
tern_status tern_jinja__emit_words(tern_jinja_render *r, tern_jinja_rope *rope, const char *words, bool untrusted);
tern_status tern_jinja__emit_float(tern_jinja_render *r, tern_jinja_rope *rope, double v);
tern_status tern_jinja__rope_value(tern_jinja_render *r, const tern_jinja_rope *rope, tern_jinja_value *out);

/* strftime in the C locale, UTC. */
tern_status tern_jinja__strftime(tern_jinja_render *r, tern_jinja_str format, tern_jinja_rope *rope);

#endif
