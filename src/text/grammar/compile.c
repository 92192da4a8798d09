/* From the tree of a grammar to its program. Each part is written after what follows it, whose place it needs. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "text/grammar/program.h"

enum { MOST_COPIES = 1 << 14, MOST_WRITTEN = 1 << 22 };
static const uint32_t NO_PLACE = UINT32_MAX;

typedef struct wanted {
    uint32_t callee, label; /* of the part of the source that called it first */
} wanted;

typedef struct compiler {
    tern_grammar_program *program;
    const tern_grammar_tree *tree;
    tern_grammar_facts *facts; /* [n_rules] */
    uint32_t *rules;           /* [n_rules] where each begins, NO_PLACE until it is written */
    uint32_t *nodes;           /* [n_nodes] the same for nodes that are called */
    /* A rule that is called and not written yet: a rule, or n_rules + a node. Linked through the calls: op.a is such a
     * number until all is written. */
    wanted *wanted;
    size_t n_wanted, cap_wanted, n_written; /* n_written: nodes, copies too */
} compiler;

static tern_status write_node(compiler *c, uint32_t node, uint32_t next, uint32_t *at, tern_error *err);

static uint32_t *place(compiler *c, uint32_t callee)
{
    const uint32_t n_rules = (uint32_t)c->tree->n_rules;
    return callee < n_rules ? &c->rules[callee] : &c->nodes[callee - n_rules];
}

/* A call of what is written once; where nothing but a return follows, a jump. */
static tern_status write_call(compiler *c, uint32_t callee, uint32_t next, uint32_t *at, tern_error *err)
{
    if (*place(c, callee) == NO_PLACE) {
        TERN_TRY(tern_grow((void **)&c->wanted, &c->cap_wanted, c->n_wanted + 1, sizeof *c->wanted, err));
        c->wanted[c->n_wanted++] = (wanted){callee, c->program->label};
        *place(c, callee) = NO_PLACE - 1;
    }
    return tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_CALL, callee, next}, at, err);
}

static tern_status write_rule(compiler *c, uint32_t rule, uint32_t next, uint32_t *at, tern_error *err)
{
    const tern_grammar_facts *f = &c->facts[rule];
    if (f->called || f->size > TERN_GRAMMAR_INLINE) return write_call(c, rule, next, at, err);
    return write_node(c, c->tree->rules[rule].node, next, at, err);
}

static tern_status write_bytes(compiler *c, const tern_grammar_node *n, uint32_t next, uint32_t *at, tern_error *err)
{
    const uint8_t *bytes = (const uint8_t *)c->tree->bytes.data + n->at;
    *at = next;
    for (uint32_t i = n->n; i--;) TERN_TRY(tern_grammar_program__read(c->program, bytes[i], bytes[i], *at, at, err));
    return TERN_OK;
}

static tern_status write_any(compiler *c, const tern_grammar_node *n, uint32_t next, uint32_t *at, tern_error *err)
{
    uint32_t entry = NO_PLACE;
    for (uint32_t i = n->n; i--;) {
        TERN_TRY(write_node(c, c->tree->children[n->at + i], next, at, err));
        if (entry != NO_PLACE)
            TERN_TRY(
                tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_SPLIT, *at, entry}, at, err));
        entry = *at;
    }
    if (entry != NO_PLACE) return TERN_OK;
    return tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_FAIL, 0, 0}, at, err);
}

/* One of several copies of a node: written out, or called where the copies would be too long. */
static tern_status write_copy(compiler *c, uint32_t node, bool call, uint32_t next, uint32_t *at, tern_error *err)
{
    if (call) return write_call(c, (uint32_t)c->tree->n_rules + node, next, at, err);
    return write_node(c, node, next, at, err);
}

static tern_status write_loop(compiler *c, uint32_t node, bool call, uint32_t next, uint32_t *at, tern_error *err)
{
    uint32_t split, body;
    TERN_TRY(tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_SPLIT, next, next}, &split, err));
    TERN_TRY(write_copy(c, node, call, split, &body, err));
    c->program->ops[split].a = body;
    *at = split;
    return TERN_OK;
}

static tern_status write_optional(compiler *c, const tern_grammar_node *n, bool call, uint32_t next, uint32_t *at,
                                  tern_error *err)
{
    uint32_t copy;
    for (uint32_t i = n->least; i < n->most; i++) {
        TERN_TRY(write_copy(c, n->at, call, *at, &copy, err));
        TERN_TRY(tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_SPLIT, copy, next}, at, err));
    }
    return TERN_OK;
}

/* A repetition of calls; see tern_grammar_run for what lies where. */
static tern_status write_run(compiler *c, const tern_grammar_node *n, uint32_t next, uint32_t *at, tern_error *err)
{
    tern_grammar_program *p = c->program;
    tern_grammar_run run = {.first = (uint32_t)p->n_ops, .next = next, .forever = n->most == TERN_GRAMMAR_FOREVER};
    TERN_TRY(tern_grow((void **)&p->runs, &p->cap_runs, p->n_runs + 1, sizeof *p->runs, err));
    if (run.forever) {
        TERN_TRY(write_loop(c, n->at, true, next, at, err));
    } else {
        TERN_TRY(tern_grammar_program__add(p, (tern_grammar_op){TERN_GRAMMAR_OP_JUMP, next, 0}, at, err));
        TERN_TRY(write_optional(c, n, true, next, at, err));
    }
    run.least = (uint32_t)p->n_ops;
    for (uint32_t i = 0; i < n->least; i++) TERN_TRY(write_copy(c, n->at, true, *at, at, err));
    run.end = (uint32_t)p->n_ops;
    p->runs[p->n_runs++] = run;
    return TERN_OK;
}

static tern_status write_repeat(compiler *c, const tern_grammar_node *n, uint32_t next, uint32_t *at, tern_error *err)
{
    const bool forever = n->most == TERN_GRAMMAR_FOREVER;
    const uint32_t copies = forever ? n->least + 1 : n->most;
    const uint64_t size = (uint64_t)tern_grammar_facts__size(c->facts, c->tree, n->at) * copies;
    if (copies > 1 && (size > MOST_COPIES || tern_grammar_facts__broad(c->facts, c->tree, n->at)))
        return write_run(c, n, next, at, err);
    *at = next;
    if (forever) TERN_TRY(write_loop(c, n->at, false, next, at, err));
    else TERN_TRY(write_optional(c, n, false, next, at, err));
    for (uint32_t i = 0; i < n->least; i++) TERN_TRY(write_copy(c, n->at, false, *at, at, err));
    return TERN_OK;
}

static tern_status write_kind(compiler *c, const tern_grammar_node *n, uint32_t next, uint32_t *at, tern_error *err)
{
    switch (n->kind) {
    case TERN_GRAMMAR_BYTES: return write_bytes(c, n, next, at, err);
    case TERN_GRAMMAR_CLASS:
        return tern_grammar_program__class(c->program, c->tree->ranges + n->at, n->n, next, at, err);
    case TERN_GRAMMAR_TOKEN:
        return tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_TAKE, n->at, next}, at, err);
    case TERN_GRAMMAR_ALL:
        *at = next;
        for (uint32_t i = n->n; i--;) TERN_TRY(write_node(c, c->tree->children[n->at + i], *at, at, err));
        return TERN_OK;
    case TERN_GRAMMAR_ANY: return write_any(c, n, next, at, err);
    case TERN_GRAMMAR_REPEAT: return write_repeat(c, n, next, at, err);
    case TERN_GRAMMAR_RULE: return write_rule(c, n->at, next, at, err);
    case TERN_GRAMMAR_AHEAD:
    case TERN_GRAMMAR_AT_END: break;
    }
    return tern_fail(err, TERN_INTERNAL, "node of kind %d in a grammar", (int)n->kind);
}

static tern_status write_node(compiler *c, uint32_t node, uint32_t next, uint32_t *at, tern_error *err)
{
    const tern_grammar_node *n = &c->tree->nodes[node];
    const uint32_t around = c->program->label;
    if (n->label) c->program->label = n->label;
    if (++c->n_written > MOST_WRITTEN)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d parts, written out", MOST_WRITTEN);
    TERN_TRY(write_kind(c, n, next, at, err));
    c->program->label = around;
    return TERN_OK;
}

/* Writes what is called, and what that calls. */
static tern_status write_wanted(compiler *c, tern_error *err)
{
    const uint32_t n_rules = (uint32_t)c->tree->n_rules;
    while (c->n_wanted) {
        const wanted next = c->wanted[--c->n_wanted];
        const uint32_t callee = next.callee;
        uint32_t end, at;
        c->program->label = next.label;
        TERN_TRY(tern_grammar_program__add(c->program, (tern_grammar_op){TERN_GRAMMAR_OP_RETURN, 0, 0}, &end, err));
        TERN_TRY(write_node(c, callee < n_rules ? c->tree->rules[callee].node : callee - n_rules, end, &at, err));
        *place(c, callee) = at;
    }
    return TERN_OK;
}

/* Puts places into calls, and makes jumps of those that only return afterwards. */
static void link_calls(compiler *c)
{
    tern_grammar_op *ops = c->program->ops;
    for (size_t i = 0; i < c->program->n_ops; i++) {
        if (ops[i].code != TERN_GRAMMAR_OP_CALL) continue;
        ops[i].a = *place(c, ops[i].a);
        if (ops[ops[i].b].code == TERN_GRAMMAR_OP_RETURN) ops[i].code = TERN_GRAMMAR_OP_JUMP;
    }
}

static tern_status compile(compiler *c, tern_error *err)
{
    TERN_TRY(tern_grammar_facts__find(c->facts, c->tree, err));
    TERN_TRY(tern_buf_add(&c->program->labels, c->tree->labels.data, c->tree->labels.size, err));
    TERN_TRY(write_call(c, c->tree->root, 0, &c->program->start, err));
    c->program->n_ops = c->program->n_origins = 0; /* the root is called by nobody */
    TERN_TRY(write_wanted(c, err));
    link_calls(c);
    c->program->start = c->rules[c->tree->root];
    return TERN_OK;
}

tern_status tern_grammar_program__compile(tern_grammar_program *program, const tern_grammar_tree *tree, tern_error *err)
{
    compiler c = {.program = program, .tree = tree};
    const size_t n = tree->n_rules + tree->n_nodes;
    c.facts = tern_calloc(tree->n_rules, sizeof *c.facts);
    c.rules = tern_alloc(n * sizeof *c.rules);
    c.nodes = c.rules ? c.rules + tree->n_rules : NULL;
    for (size_t i = 0; c.rules && i < n; i++) c.rules[i] = NO_PLACE;
    tern_status status = c.facts && c.rules ? compile(&c, err) : tern_fail_alloc(err, n * sizeof *c.rules);
    tern_free(c.facts);
    tern_free(c.rules);
    tern_free(c.wanted);
    if (status != TERN_OK) tern_grammar_program__deinit(program);
    return status;
}

const char *tern_grammar_program__label(const tern_grammar_program *program, uint32_t op)
{
    size_t from = 0, to = program->n_origins;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        if (program->origins[middle].first <= op) from = middle + 1;
        else to = middle;
    }
    const uint32_t label = from ? program->origins[from - 1].label : 0;
    return label ? (const char *)program->labels.data + label - 1 : NULL;
}

void tern_grammar_program__deinit(tern_grammar_program *program)
{
    tern_free(program->ops);
    tern_free(program->sets);
    tern_free(program->runs);
    tern_free(program->origins);
    tern_buf_deinit(&program->labels);
    *program = (tern_grammar_program){0};
}
