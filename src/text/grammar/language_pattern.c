/* Regular expressions as terms: each part together with what follows it, which look-ahead speaks of. Lengths are put
 * into terms where they can be. */
#include "base/alloc.h"
#include "text/grammar/internal.h"
#include "text/grammar/language.h"

/* The parts of an expression, and those that have look-ahead or ends in them. */
typedef struct reader {
    tern_language *l;
    tern_grammar_tree tree;
    bool *looks; /* [n_nodes] */
} reader;

static tern_status convert(reader *r, uint32_t node, uint32_t rest, uint32_t *out, tern_error *err);

/* Nodes come after what they consist of. */
static void find_looks(reader *r)
{
    const tern_grammar_tree *t = &r->tree;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const tern_grammar_node *n = &t->nodes[i];
        r->looks[i] = n->kind == TERN_GRAMMAR_AHEAD || n->kind == TERN_GRAMMAR_AT_END;
        if (n->kind == TERN_GRAMMAR_REPEAT) r->looks[i] = r->looks[n->at];
        if (n->kind == TERN_GRAMMAR_ALL || n->kind == TERN_GRAMMAR_ANY)
            for (uint32_t k = 0; k < n->n; k++) r->looks[i] = r->looks[i] || r->looks[t->children[n->at + k]];
    }
}

static tern_status convert_repeat(reader *r, const tern_grammar_node *n, uint32_t rest, uint32_t *out, tern_error *err)
{
    uint32_t one;
    if (!r->looks[n->at]) {
        TERN_TRY(convert(r, n->at, TERN_LANGUAGE_BLANK, &one, err));
        TERN_TRY(tern_language__repeat(r->l, one, n->least, n->most, &one, err));
        return tern_language__all(r->l, one, rest, out, err);
    }
    if (n->most != 1) return tern_fail(err, TERN_UNSUPPORTED, "look-ahead or $ in a repetition is not supported");
    TERN_TRY(convert(r, n->at, rest, out, err));
    return n->least ? TERN_OK : tern_language__any(r->l, *out, rest, out, err);
}

static tern_status convert_any(reader *r, const tern_grammar_node *n, uint32_t rest, uint32_t *out, tern_error *err)
{
    const bool looks = r->looks[n - r->tree.nodes];
    uint32_t one;
    *out = TERN_LANGUAGE_NOTHING;
    for (uint32_t i = 0; i < n->n; i++) {
        TERN_TRY(convert(r, r->tree.children[n->at + i], looks ? rest : TERN_LANGUAGE_BLANK, &one, err));
        TERN_TRY(tern_language__any(r->l, one, *out, out, err));
    }
    return looks ? TERN_OK : tern_language__all(r->l, *out, rest, out, err);
}

static tern_status convert_ahead(reader *r, const tern_grammar_node *n, uint32_t rest, uint32_t *out, tern_error *err)
{
    TERN_TRY(convert(r, n->at, TERN_LANGUAGE_EVERYTHING, out, err));
    if (!n->n) TERN_TRY(tern_language__not(r->l, *out, out, err));
    return tern_language__both(r->l, *out, rest, out, err);
}

/* The texts of a node, then those of `rest`. */
static tern_status convert(reader *r, uint32_t node, uint32_t rest, uint32_t *out, tern_error *err)
{
    const tern_grammar_node *n = &r->tree.nodes[node];
    *out = rest;
    switch (n->kind) {
    case TERN_GRAMMAR_CLASS:
        TERN_TRY(tern_language__class(r->l, r->tree.ranges + n->at, n->n, out, err));
        return tern_language__all(r->l, *out, rest, out, err);
    case TERN_GRAMMAR_ALL:
        for (uint32_t i = n->n; i--;) TERN_TRY(convert(r, r->tree.children[n->at + i], *out, out, err));
        return TERN_OK;
    case TERN_GRAMMAR_ANY: return convert_any(r, n, rest, out, err);
    case TERN_GRAMMAR_REPEAT: return convert_repeat(r, n, rest, out, err);
    case TERN_GRAMMAR_AHEAD: return convert_ahead(r, n, rest, out, err);
    case TERN_GRAMMAR_AT_END:
        *out = r->l->terms[rest].skips ? TERN_LANGUAGE_BLANK : TERN_LANGUAGE_NOTHING;
        return TERN_OK;
    case TERN_GRAMMAR_BYTES: return TERN_OK; /* the empty text */
    case TERN_GRAMMAR_TOKEN:
    case TERN_GRAMMAR_RULE: break;
    }
    return tern_fail(err, TERN_INTERNAL, "node of kind %d in a pattern", (int)n->kind);
}

tern_status tern_language__pattern(tern_language *l, const char *text, size_t n, const char *what, uint32_t *out,
                                   tern_error *err)
{
    reader r = {.l = l};
    uint32_t node;
    tern_status status;
    TERN_GOTO(tern_grammar_regex__parse(&r.tree, (tern_span){(const uint8_t *)text, n}, what, true, &node, err));
    r.looks = tern_calloc(r.tree.n_nodes, sizeof *r.looks);
    if (!r.looks) TERN_GOTO(tern_fail_alloc(err, r.tree.n_nodes));
    find_looks(&r);
    status = convert(&r, node, TERN_LANGUAGE_BLANK, out, err);
fail:
    tern_free(r.looks);
    tern_grammar_tree__deinit(&r.tree);
    return status;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t less(uint32_t n, uint32_t by)
{
    if (n == TERN_GRAMMAR_FOREVER) return n;
    return n > by ? n - by : 0;
}

static bool is_fixed(const tern_language_term *t)
{
    return t->shortest == t->longest && t->longest != TERN_GRAMMAR_FOREVER;
}

/* A sequence: the lengths fall to the part whose own may vary. */
static tern_status restrict_all(tern_language *l, tern_language_term t, uint32_t least, uint32_t most, uint32_t *out,
                                tern_error *err)
{
    const tern_language_term a = l->terms[t.a], b = l->terms[t.b];
    if (is_fixed(&a)) {
        TERN_TRY(tern_language__restrict(l, t.b, less(least, a.longest), less(most, a.longest), out, err));
        return tern_language__all(l, t.a, *out, out, err);
    }
    TERN_TRY(tern_language__restrict(l, t.a, less(least, b.longest), less(most, b.longest), out, err));
    return tern_language__all(l, *out, t.b, out, err);
}

static tern_status restrict_any(tern_language *l, tern_language_term t, uint32_t least, uint32_t most, uint32_t *out,
                                tern_error *err)
{
    uint32_t one;
    TERN_TRY(tern_language__restrict(l, t.a, least, most, &one, err));
    TERN_TRY(tern_language__restrict(l, t.b, least, most, out, err));
    return tern_language__any(l, one, *out, out, err);
}

/* Copies of one length: fewer of them. */
static tern_status restrict_repeat(tern_language *l, tern_language_term t, uint32_t least, uint32_t most, uint32_t *out,
                                   tern_error *err)
{
    const uint32_t size = l->terms[t.a].longest, fewest = (least + size - 1) / size;
    const uint32_t largest = most == TERN_GRAMMAR_FOREVER ? most : most / size;
    if (fewest > t.least) t.least = fewest;
    if (largest < t.most) t.most = largest;
    *out = TERN_LANGUAGE_NOTHING;
    return t.least > t.most ? TERN_OK : tern_language__repeat(l, t.a, t.least, t.most, out, err);
}

/* least to most characters of any kind. */
static tern_status any_text(tern_language *l, uint32_t least, uint32_t most, uint32_t *out, tern_error *err)
{
    static const tern_grammar_range all[] = {{0, 0xd7ff}, {0xe000, TERN_GRAMMAR_LAST_CODE}};
    TERN_TRY(tern_language__class(l, all, 2, out, err));
    return tern_language__repeat(l, *out, least, most, out, err);
}

static tern_status cap(tern_language *l, uint32_t a, uint32_t most, uint32_t *out, tern_error *err);

/* Parts of a sequence that may vary: each gets the same share of what the shortest texts leave. */
static tern_status cap_all(tern_language *l, tern_language_term t, uint32_t most, uint32_t *out, tern_error *err)
{
    const tern_language_term a = l->terms[t.a], b = l->terms[t.b];
    uint32_t parts = 1, rest = t.b;
    for (uint32_t at = t.b; l->terms[at].kind == TERN_LANGUAGE_ALL; at = l->terms[at].b)
        parts += !is_fixed(&l->terms[l->terms[at].a]);
    const uint32_t spare = most - t.shortest, share = is_fixed(&b) ? spare : spare / (parts + 1);
    TERN_TRY(cap(l, t.a, a.shortest + share, out, err));
    TERN_TRY(cap(l, rest, most - smaller(l->terms[*out].longest, most), &rest, err));
    return tern_language__all(l, *out, rest, out, err);
}

/* Copies: as many as there is room for, of a part of the room each where they have no end. */
static tern_status cap_repeat(tern_language *l, tern_language_term t, uint32_t most, uint32_t *out, tern_error *err)
{
    const tern_language_term a = l->terms[t.a];
    uint32_t size = larger(a.shortest, smaller(a.longest, larger(most / 16, smaller(most, 24))));
    if (t.least > most / size) size = most / t.least;
    const uint32_t copies = smaller(t.most, most / size);
    TERN_TRY(cap(l, t.a, size, out, err));
    return tern_language__repeat(l, *out, t.least, copies, out, err);
}

static tern_status cap_any(tern_language *l, tern_language_term t, uint32_t most, uint32_t *out, tern_error *err)
{
    uint32_t one;
    TERN_TRY(cap(l, t.a, most, &one, err));
    TERN_TRY(cap(l, t.b, most, out, err));
    return tern_language__any(l, one, *out, out, err);
}

/* Texts of plain term a with at most so many characters: not all of them, in as few states as the term itself. */
static tern_status cap(tern_language *l, uint32_t a, uint32_t most, uint32_t *out, tern_error *err)
{
    const tern_language_term t = l->terms[a];
    *out = a;
    if (t.longest <= most) return TERN_OK;
    *out = TERN_LANGUAGE_NOTHING;
    if (t.shortest > most) return TERN_OK;
    if (most == 0) *out = TERN_LANGUAGE_BLANK;
    if (most == 0) return TERN_OK;
    if (a == TERN_LANGUAGE_EVERYTHING) return any_text(l, 0, most, out, err);
    if (t.kind == TERN_LANGUAGE_ALL) return cap_all(l, t, most, out, err);
    if (t.kind == TERN_LANGUAGE_ANY) return cap_any(l, t, most, out, err);
    return cap_repeat(l, t, most, out, err);
}

/* About how many states a language's terms have, where no lengths are counted. */
static uint64_t size_of(const tern_language *l)
{
    uint64_t n = l->n_terms;
    for (size_t i = 0; i < l->n_terms; i++) {
        const tern_language_term *t = &l->terms[i];
        if (t->kind == TERN_LANGUAGE_REPEAT) n += t->most == TERN_GRAMMAR_FOREVER ? t->least : t->most;
    }
    return n;
}

/* Whether lengths fall to one part of a term, whatever they are. */
static bool is_counted(const tern_language *l, const tern_language_term *t)
{
    while (t->kind == TERN_LANGUAGE_ALL) {
        const tern_language_term *a = &l->terms[t->a], *b = &l->terms[t->b];
        if (!is_fixed(a) && !is_fixed(b)) return false;
        t = is_fixed(a) ? b : a;
    }
    return t->kind == TERN_LANGUAGE_REPEAT && is_fixed(&l->terms[t->a]);
}

tern_status tern_language__restrict(tern_language *l, uint32_t a, uint32_t least, uint32_t most, uint32_t *out,
                                    tern_error *err)
{
    const tern_language_term t = l->terms[a];
    uint32_t length;
    if (t.longest > most && t.plain && !is_counted(l, &t) && size_of(l) * most > TERN_LANGUAGE_STATES) {
        TERN_TRY(cap(l, a, most, &a, err));
        return tern_language__restrict(l, a, least, TERN_GRAMMAR_FOREVER, out, err);
    }
    *out = a;
    if (t.shortest >= least && (t.longest <= most || most == TERN_GRAMMAR_FOREVER)) return TERN_OK;
    *out = TERN_LANGUAGE_NOTHING;
    if (least > most || t.longest < least || t.shortest > most) return TERN_OK;
    if (t.kind == TERN_LANGUAGE_ALL && (is_fixed(&l->terms[t.a]) || is_fixed(&l->terms[t.b])))
        return restrict_all(l, t, least, most, out, err);
    if (t.kind == TERN_LANGUAGE_ANY) return restrict_any(l, t, least, most, out, err);
    if (t.kind == TERN_LANGUAGE_REPEAT && is_fixed(&l->terms[t.a]) && l->terms[t.a].longest)
        return restrict_repeat(l, t, least, most, out, err);
    TERN_TRY(any_text(l, least, most, &length, err));
    return tern_language__both(l, a, length, out, err);
}
