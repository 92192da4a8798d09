/* The terms of languages: each is made once, in its simplest form, and derived by characters. */
#include "text/grammar/language.h"

#include <string.h>

#include "base/alloc.h"
#include "text/utf8.h"

enum { MOST_TERMS = 1 << 18, MOST_DEPTH = 2048 };
static const uint32_t FOREVER = TERN_GRAMMAR_FOREVER;

static tern_status step(tern_language *l, tern_error *err)
{
    if (++l->work <= TERN_LANGUAGE_STEPS) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "a text's pattern, format and lengths together take more than %d steps",
                     TERN_LANGUAGE_STEPS);
}

static uint32_t mix(uint32_t h, uint32_t a)
{
    const uint64_t product = ((uint64_t)h << 32 | a) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(product >> 32) ^ (uint32_t)product;
}

static uint32_t hash_term(const tern_language_term *t)
{
    return mix(mix(mix(mix((uint32_t)t->kind, t->a), t->b), t->least), t->most);
}

static uint32_t hash_derived(const tern_language_derived *d)
{
    return mix(d->term, d->code);
}

/* Room for another number in a table of *cap slots; whether they must be put again. */
static tern_status make_room(uint32_t **slots, size_t *cap, size_t n, bool *again, tern_error *err)
{
    *again = n * 2 >= *cap;
    if (!*again) return TERN_OK;
    const size_t more = *cap ? *cap * 2 : 256;
    uint32_t *fresh = tern_calloc(more, sizeof *fresh);
    if (!fresh) return tern_fail_alloc(err, more * sizeof *fresh);
    tern_free(*slots);
    *slots = fresh;
    *cap = more;
    return TERN_OK;
}

static void put(uint32_t *slots, size_t cap, uint32_t hash, size_t number)
{
    size_t at = hash & (cap - 1);
    while (slots[at]) at = (at + 1) & (cap - 1);
    slots[at] = (uint32_t)number + 1;
}

static uint32_t add_lengths(uint32_t a, uint32_t b)
{
    return a >= FOREVER - b ? FOREVER : a + b;
}

static uint32_t times(uint32_t length, uint32_t count)
{
    const uint64_t product = (uint64_t)length * count;
    if (length == 0 || count == 0) return 0;
    return product < FOREVER ? (uint32_t)product : FOREVER;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Fills what follows from the parts of a term. */
static void measure(const tern_language *l, tern_language_term *t)
{
    static const tern_language_term none = {.plain = true};
    const bool has_a = t->kind > TERN_LANGUAGE_CLASS, has_b = has_a && t->kind < TERN_LANGUAGE_NOT;
    const tern_language_term *a = has_a ? &l->terms[t->a] : &none, *b = has_b ? &l->terms[t->b] : &none;
    t->plain = a->plain && b->plain && t->kind != TERN_LANGUAGE_BOTH;
    if (t->kind == TERN_LANGUAGE_NOT) t->plain = t->a == TERN_LANGUAGE_NOTHING;
    t->depth = has_a ? larger(a->depth, b->depth) + 1 : 0;
    switch (t->kind) {
    case TERN_LANGUAGE_NONE: t->shortest = FOREVER; break;
    case TERN_LANGUAGE_EMPTY: t->skips = true; break;
    case TERN_LANGUAGE_CLASS: t->shortest = t->longest = 1; break;
    case TERN_LANGUAGE_ALL:
        t->skips = a->skips && b->skips;
        t->shortest = add_lengths(a->shortest, b->shortest);
        t->longest = add_lengths(a->longest, b->longest);
        break;
    case TERN_LANGUAGE_ANY:
        t->skips = a->skips || b->skips;
        t->shortest = smaller(a->shortest, b->shortest);
        t->longest = larger(a->longest, b->longest);
        break;
    case TERN_LANGUAGE_BOTH:
        t->skips = a->skips && b->skips;
        t->shortest = larger(a->shortest, b->shortest);
        t->longest = smaller(a->longest, b->longest);
        break;
    case TERN_LANGUAGE_NOT:
        t->skips = !a->skips;
        t->longest = FOREVER;
        break;
    case TERN_LANGUAGE_REPEAT:
        t->skips = t->least == 0 || a->skips;
        t->shortest = times(a->shortest, t->least);
        t->longest = t->most == FOREVER && a->longest ? FOREVER : times(a->longest, t->most);
        break;
    }
}

/* The term, which is there already or is made. */
static tern_status make(tern_language *l, tern_language_term t, uint32_t *out, tern_error *err)
{
    bool again;
    TERN_TRY(step(l, err));
    TERN_TRY(make_room(&l->slots, &l->n_slots, l->n_terms, &again, err));
    for (size_t i = 0; again && i < l->n_terms; i++) put(l->slots, l->n_slots, hash_term(&l->terms[i]), i);
    for (size_t at = hash_term(&t) & (l->n_slots - 1); l->slots[at]; at = (at + 1) & (l->n_slots - 1)) {
        const tern_language_term *o = &l->terms[l->slots[at] - 1];
        *out = l->slots[at] - 1;
        if (o->kind == t.kind && o->a == t.a && o->b == t.b && o->least == t.least && o->most == t.most) return TERN_OK;
    }
    measure(l, &t);
    if (l->n_terms >= MOST_TERMS || t.depth > MOST_DEPTH)
        return tern_fail(err, TERN_LIMIT, "a text's pattern has more than %d parts, or more than %d in one another",
                         MOST_TERMS, MOST_DEPTH);
    TERN_TRY(tern_grow((void **)&l->terms, &l->cap_terms, l->n_terms + 1, sizeof *l->terms, err));
    *out = (uint32_t)l->n_terms;
    l->terms[l->n_terms++] = t;
    put(l->slots, l->n_slots, hash_term(&t), *out);
    return TERN_OK;
}

tern_status tern_language__init(tern_language *l, tern_error *err)
{
    uint32_t ignored;
    TERN_TRY(make(l, (tern_language_term){.kind = TERN_LANGUAGE_NONE}, &ignored, err));
    TERN_TRY(make(l, (tern_language_term){.kind = TERN_LANGUAGE_EMPTY}, &ignored, err));
    return make(l, (tern_language_term){.kind = TERN_LANGUAGE_NOT, .a = TERN_LANGUAGE_NOTHING}, &ignored, err);
}

void tern_language__deinit(tern_language *l)
{
    tern_free(l->terms);
    tern_free(l->classes);
    tern_free(l->ranges.items);
    tern_free(l->slots);
    tern_free(l->derived_slots);
    tern_free(l->derived);
    *l = (tern_language){0};
}

tern_status tern_language__class(tern_language *l, const tern_grammar_range *ranges, size_t n, uint32_t *out,
                                 tern_error *err)
{
    if (n == 0) {
        *out = TERN_LANGUAGE_NOTHING;
        return TERN_OK;
    }
    uint32_t i = 0;
    for (; i < l->n_classes; i++) {
        const tern_language_class *c = &l->classes[i];
        if (c->n == n && memcmp(l->ranges.items + c->first, ranges, n * sizeof *ranges) == 0) break;
    }
    l->work += i;
    if (i == l->n_classes) {
        const tern_language_class c = {(uint32_t)l->ranges.n, (uint32_t)n};
        for (size_t k = 0; k < n; k++)
            TERN_TRY(tern_grammar_ranges__add(&l->ranges, ranges[k].first, ranges[k].last, err));
        TERN_TRY(tern_grow((void **)&l->classes, &l->cap_classes, l->n_classes + 1, sizeof *l->classes, err));
        l->classes[l->n_classes++] = c;
    }
    return make(l, (tern_language_term){.kind = TERN_LANGUAGE_CLASS, .a = i}, out, err);
}

tern_status tern_language__all(tern_language *l, uint32_t a, uint32_t b, uint32_t *out, tern_error *err)
{
    const tern_language_term first = l->terms[a];
    if (a == TERN_LANGUAGE_NOTHING || b == TERN_LANGUAGE_NOTHING) *out = TERN_LANGUAGE_NOTHING;
    else if (a == TERN_LANGUAGE_BLANK) *out = b;
    else if (b == TERN_LANGUAGE_BLANK || (a == b && a == TERN_LANGUAGE_EVERYTHING)) *out = a;
    else if (first.kind != TERN_LANGUAGE_ALL)
        return make(l, (tern_language_term){.kind = TERN_LANGUAGE_ALL, .a = a, .b = b}, out, err);
    else {
        TERN_TRY(tern_language__all(l, first.b, b, &b, err));
        return tern_language__all(l, first.a, b, out, err);
    }
    return TERN_OK;
}

/* Puts one term into a chain of a kind, which is ordered. */
static tern_status insert(tern_language *l, tern_language_kind kind, uint32_t one, uint32_t chain, uint32_t *out,
                          tern_error *err)
{
    tern_grammar_list above = {0};
    tern_status status = TERN_OK;
    while (l->terms[chain].kind == kind && l->terms[chain].a > one) {
        TERN_GOTO(step(l, err));
        TERN_GOTO(tern_grammar_list__add(&above, l->terms[chain].a, err));
        chain = l->terms[chain].b;
    }
    const bool is_chain = l->terms[chain].kind == kind;
    *out = chain;
    if (one != chain && !(is_chain && l->terms[chain].a == one)) {
        const bool swap = !is_chain && chain > one;
        TERN_GOTO(
            make(l, (tern_language_term){.kind = kind, .a = swap ? chain : one, .b = swap ? one : chain}, out, err));
    }
    while (above.n)
        TERN_GOTO(make(l, (tern_language_term){.kind = kind, .a = above.nodes[--above.n], .b = *out}, out, err));
fail:
    tern_grammar_list__deinit(&above);
    return status;
}

/* A chain of the terms of two chains. `none` changes nothing beside others, `full` takes all. */
static tern_status join(tern_language *l, tern_language_kind kind, uint32_t a, uint32_t b, uint32_t none, uint32_t full,
                        uint32_t *out, tern_error *err)
{
    *out = b;
    for (bool more = true; more;) {
        const tern_language_term t = l->terms[a];
        more = t.kind == kind;
        const uint32_t one = more ? t.a : a;
        if (one == full || *out == full) *out = full;
        else if (*out == none) *out = one;
        else if (one != none) TERN_TRY(insert(l, kind, one, *out, out, err));
        a = t.b;
    }
    return TERN_OK;
}

tern_status tern_language__any(tern_language *l, uint32_t a, uint32_t b, uint32_t *out, tern_error *err)
{
    return join(l, TERN_LANGUAGE_ANY, a, b, TERN_LANGUAGE_NOTHING, TERN_LANGUAGE_EVERYTHING, out, err);
}

tern_status tern_language__both(tern_language *l, uint32_t a, uint32_t b, uint32_t *out, tern_error *err)
{
    if (a == TERN_LANGUAGE_BLANK || b == TERN_LANGUAGE_BLANK) {
        *out = l->terms[a].skips && l->terms[b].skips ? TERN_LANGUAGE_BLANK : TERN_LANGUAGE_NOTHING;
        return TERN_OK;
    }
    return join(l, TERN_LANGUAGE_BOTH, a, b, TERN_LANGUAGE_EVERYTHING, TERN_LANGUAGE_NOTHING, out, err);
}

tern_status tern_language__not(tern_language *l, uint32_t a, uint32_t *out, tern_error *err)
{
    *out = l->terms[a].a;
    if (l->terms[a].kind == TERN_LANGUAGE_NOT) return TERN_OK;
    return make(l, (tern_language_term){.kind = TERN_LANGUAGE_NOT, .a = a}, out, err);
}

static bool is_any_character(const tern_language *l, uint32_t a)
{
    const tern_language_term *t = &l->terms[a];
    if (t->kind != TERN_LANGUAGE_CLASS || l->classes[t->a].n != 2) return false;
    const tern_grammar_range *r = &l->ranges.items[l->classes[t->a].first]; /* around the surrogates */
    return r[0].first == 0 && r[0].last == 0xd7ff && r[1].first == 0xe000 && r[1].last == TERN_GRAMMAR_LAST_CODE;
}

tern_status tern_language__repeat(tern_language *l, uint32_t a, uint32_t least, uint32_t most, uint32_t *out,
                                  tern_error *err)
{
    if (l->terms[a].skips) least = 0;
    *out = a;
    if (a == TERN_LANGUAGE_NOTHING && least) return TERN_OK;
    if (least == 1 && most == 1) return TERN_OK;
    *out = TERN_LANGUAGE_BLANK;
    if (most == 0 || a <= TERN_LANGUAGE_BLANK) return TERN_OK;
    *out = TERN_LANGUAGE_EVERYTHING;
    if (most && a == TERN_LANGUAGE_EVERYTHING) return TERN_OK;
    if (least == 0 && most == FOREVER && is_any_character(l, a)) return TERN_OK;
    return make(l, (tern_language_term){.kind = TERN_LANGUAGE_REPEAT, .a = a, .least = least, .most = most}, out, err);
}

tern_status tern_language__text(tern_language *l, const char *text, size_t n, uint32_t *out, tern_error *err)
{
    tern_grammar_list classes = {0};
    tern_status status = TERN_OK;
    uint32_t code = 0, one;
    *out = TERN_LANGUAGE_BLANK;
    for (size_t i = 0; i < n; i += tern_utf8__decode((const uint8_t *)text + i, n - i, &code)) {
        tern_utf8__decode((const uint8_t *)text + i, n - i, &code);
        TERN_GOTO(tern_language__class(l, &(tern_grammar_range){code, code}, 1, &one, err));
        TERN_GOTO(tern_grammar_list__add(&classes, one, err));
    }
    while (classes.n) TERN_GOTO(tern_language__all(l, classes.nodes[--classes.n], *out, out, err));
fail:
    tern_grammar_list__deinit(&classes);
    return status;
}

static bool class_has(const tern_language *l, uint32_t class, uint32_t code)
{
    const tern_language_class c = l->classes[class];
    for (uint32_t i = 0; i < c.n; i++)
        if (l->ranges.items[c.first + i].first <= code && code <= l->ranges.items[c.first + i].last) return true;
    return false;
}

/* a without its first character, then b. */
static tern_status derive_all(tern_language *l, tern_language_term t, uint32_t code, uint32_t *out, tern_error *err)
{
    uint32_t rest;
    TERN_TRY(tern_language__derive(l, t.a, code, &rest, err));
    TERN_TRY(tern_language__all(l, rest, t.b, out, err));
    if (!l->terms[t.a].skips) return TERN_OK;
    TERN_TRY(tern_language__derive(l, t.b, code, &rest, err));
    return tern_language__any(l, rest, *out, out, err);
}

static tern_status derive_chain(tern_language *l, tern_language_term t, uint32_t code, uint32_t *out, tern_error *err)
{
    uint32_t one;
    TERN_TRY(tern_language__derive(l, t.b, code, out, err));
    TERN_TRY(tern_language__derive(l, t.a, code, &one, err));
    if (t.kind == TERN_LANGUAGE_ANY) return tern_language__any(l, one, *out, out, err);
    return tern_language__both(l, one, *out, out, err);
}

static tern_status derive_repeat(tern_language *l, tern_language_term t, uint32_t code, uint32_t *out, tern_error *err)
{
    uint32_t one, rest;
    TERN_TRY(tern_language__derive(l, t.a, code, &one, err));
    TERN_TRY(
        tern_language__repeat(l, t.a, t.least ? t.least - 1 : 0, t.most == FOREVER ? FOREVER : t.most - 1, &rest, err));
    return tern_language__all(l, one, rest, out, err);
}

static tern_status derive(tern_language *l, tern_language_term t, uint32_t code, uint32_t *out, tern_error *err)
{
    *out = TERN_LANGUAGE_NOTHING;
    switch (t.kind) {
    case TERN_LANGUAGE_NONE:
    case TERN_LANGUAGE_EMPTY: return TERN_OK;
    case TERN_LANGUAGE_CLASS:
        if (class_has(l, t.a, code)) *out = TERN_LANGUAGE_BLANK;
        return TERN_OK;
    case TERN_LANGUAGE_ALL: return derive_all(l, t, code, out, err);
    case TERN_LANGUAGE_ANY:
    case TERN_LANGUAGE_BOTH: return derive_chain(l, t, code, out, err);
    case TERN_LANGUAGE_NOT:
        TERN_TRY(tern_language__derive(l, t.a, code, out, err));
        return tern_language__not(l, *out, out, err);
    case TERN_LANGUAGE_REPEAT: return derive_repeat(l, t, code, out, err);
    }
    return TERN_OK;
}

/* Derivatives of what consists of parts are kept. */
tern_status tern_language__derive(tern_language *l, uint32_t term, uint32_t code, uint32_t *out, tern_error *err)
{
    const tern_language_term t = l->terms[term];
    tern_language_derived d = {.term = term, .code = code};
    bool again;
    TERN_TRY(step(l, err));
    if (t.kind <= TERN_LANGUAGE_CLASS) return derive(l, t, code, out, err);
    TERN_TRY(make_room(&l->derived_slots, &l->n_derived_slots, l->n_derived, &again, err));
    for (size_t i = 0; again && i < l->n_derived; i++)
        put(l->derived_slots, l->n_derived_slots, hash_derived(&l->derived[i]), i);
    for (size_t at = hash_derived(&d) & (l->n_derived_slots - 1); l->derived_slots[at];
         at = (at + 1) & (l->n_derived_slots - 1)) {
        const tern_language_derived *o = &l->derived[l->derived_slots[at] - 1];
        *out = o->to;
        if (o->term == term && o->code == code) return TERN_OK;
    }
    TERN_TRY(derive(l, t, code, out, err));
    d.to = *out;
    TERN_TRY(make_room(&l->derived_slots, &l->n_derived_slots, l->n_derived, &again, err));
    for (size_t i = 0; again && i < l->n_derived; i++)
        put(l->derived_slots, l->n_derived_slots, hash_derived(&l->derived[i]), i);
    TERN_TRY(tern_grow((void **)&l->derived, &l->cap_derived, l->n_derived + 1, sizeof *l->derived, err));
    put(l->derived_slots, l->n_derived_slots, hash_derived(&d), l->n_derived);
    l->derived[l->n_derived++] = d;
    return TERN_OK;
}

tern_status tern_language__has(tern_language *l, uint32_t term, const char *text, size_t n, bool *has, tern_error *err)
{
    uint32_t code = 0;
    for (size_t i = 0, size; i < n && term != TERN_LANGUAGE_NOTHING; i += size) {
        size = tern_utf8__decode((const uint8_t *)text + i, n - i, &code);
        if (size == 0) term = TERN_LANGUAGE_NOTHING, size = 1;
        else TERN_TRY(tern_language__derive(l, term, code, &term, err));
    }
    *has = l->terms[term].skips;
    return TERN_OK;
}
