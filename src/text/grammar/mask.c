/* Which tokens may come next. A token is allowed when any item of the state reads it, so the mask of a state is put
 * together from those of its items. Items that read many kinds of bytes, as within strings, have parts that hold
 * wherever their rule is called from; the others end a walk over the tree of tokens soon. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "text/grammar/internal.h"

enum {
    MOST_PARTS = 48, /* of one state; the items beyond are walked */
    MOST_WALKS = 4,  /* over the whole vocabulary, to prepare a grammar */
    HIGH_LEADS = 8,  /* bytes from 0x80 on: their tokens are many */
    KNOWN = 8        /* states whose loops a walk knows */
};

static bool is_allowed(const uint32_t *words, int32_t id)
{
    return words[(uint32_t)id / 32] >> ((uint32_t)id % 32) & 1;
}

/* The tokens below a node leave the rule on their way. */
static tern_status add_leaving(const tern_grammar_vocab *v, tern_grammar_part *part, uint32_t twig, tern_error *err)
{
    const uint32_t first = v->twigs[twig].first, end = v->twigs[v->twigs[twig].skip].first, n = end - first;
    TERN_TRY(
        tern_grow((void **)&part->leaving, &part->cap_leaving, part->n_leaving + n + 1, sizeof *part->leaving, err));
    if (n) memcpy(part->leaving + part->n_leaving, v->tokens + first, n * sizeof *v->tokens);
    part->n_leaving += n;
    part->vain = part->n_leaving > 1024 + v->n_tokens / 16;
    return TERN_OK;
}

/* A state, and the kinds of bytes that all lead from it to itself. */
typedef struct loops {
    uint32_t state;
    uint8_t kinds;
} loops;

/* Finds them for a state, unless they are known. */
static tern_status find_loops(tern_grammar *g, uint32_t state, loops *known, tern_error *err)
{
    uint8_t others = TERN_GRAMMAR_OTHER;
    if (known->state == state) return TERN_OK;
    for (unsigned byte = ' '; byte < 0x7f; byte++) {
        const uint8_t kind = tern_grammar_kind_of((uint8_t)byte);
        uint32_t next;
        if (others & kind) continue;
        TERN_TRY(tern_grammar_machine__read(&g->machine, state, (uint8_t)byte, &next, err));
        if (next != state) others |= kind;
    }
    *known = (loops){state, (uint8_t)~others};
    return TERN_OK;
}

static void allow_range(const tern_grammar_vocab *v, uint32_t first, uint32_t end, uint32_t *words)
{
    for (uint32_t i = first; i < end; i++) tern_grammar__allow(words, v->tokens[i]);
}

tern_status tern_grammar__walk(tern_grammar *g, uint32_t start, uint32_t from, uint32_t to, uint32_t *words,
                               tern_grammar_part *part, tern_error *err)
{
    const tern_grammar_vocab *v = g->vocab;
    uint32_t states[TERN_GRAMMAR_MAX_TOKEN + 1];
    uint32_t noted = 0; /* up to here what escapes is known */
    loops known[KNOWN] = {{0}};
    states[from < to ? v->twigs[from].depth - 1 : 0] = start;
    for (uint32_t i = from; i < to; g->walked++) {
        const tern_grammar_twig *t = &v->twigs[i];
        uint32_t next;
        TERN_TRY(tern_grammar_machine__read(&g->machine, states[t->depth - 1], t->byte, &next, err));
        if (part && i >= noted && g->machine.states[next].escapes) {
            noted = t->skip;
            TERN_TRY(add_leaving(v, part, i, err));
            if (part->vain) return TERN_OK;
        }
        if (next == states[t->depth - 1] && g->machine.states[next].n && !(t->below & TERN_GRAMMAR_OTHER)) {
            TERN_TRY(find_loops(g, next, &known[next % KNOWN], err));
            if (!(t->below & ~known[next % KNOWN].kinds)) {
                allow_range(v, t->first, v->twigs[t->skip].first, words);
                i = t->skip;
                continue;
            }
        }
        if (g->machine.states[next].n || g->machine.states[next].ends) allow_range(v, t->first, t[1].first, words);
        if (!g->machine.states[next].n) next = TERN_GRAMMAR_DEAD;
        states[t->depth] = next;
        i = g->machine.states[next].n ? i + 1 : t->skip;
    }
    return TERN_OK;
}

static tern_status fill_part(tern_grammar *g, tern_grammar_part *part, tern_error *err)
{
    const tern_grammar_item item = {part->pc, TERN_GRAMMAR_BASE};
    uint32_t state;
    if (!part->words && !(part->words = tern_alloc(tern_grammar__n_words(g) * sizeof *part->words)))
        return tern_fail_alloc(err, tern_grammar__n_words(g) * sizeof *part->words);
    memset(part->words, 0, tern_grammar__n_words(g) * sizeof *part->words);
    part->n_leaving = 0;
    part->vain = false;
    TERN_TRY(tern_grammar_machine__enter(&g->machine, &item, 1, false, &state, err));
    TERN_TRY(tern_grammar__walk(g, state, 0, g->vocab->n_twigs, part->words, part, err));
    part->filled = true;
    return TERN_OK;
}

/* The part of a place, which is made when it is not there, in the stead of the one that was not used for longest. */
static tern_status find_part(tern_grammar *g, uint32_t pc, tern_grammar_part **out, tern_error *err)
{
    tern_grammar_part *oldest = &g->parts[0];
    const uint64_t before = g->machine.work;
    for (size_t i = 0; i < TERN_GRAMMAR_PARTS; i++) {
        tern_grammar_part *part = &g->parts[i];
        if (part->filled && part->pc == pc) {
            part->used = ++g->clock;
            *out = part;
            return tern_grammar_machine__count(&g->machine, part->steps, err);
        }
        if (part->used < oldest->used) oldest = part;
    }
    oldest->filled = false;
    oldest->pc = pc;
    oldest->used = ++g->clock;
    *out = oldest;
    TERN_TRY(tern_grammar_machine__count(&g->machine, 0, err));
    TERN_TRY(fill_part(g, oldest, err));
    oldest->steps = g->machine.work - before;
    return tern_grammar_machine__count(&g->machine, 0, err);
}

static tern_status add_part(tern_grammar *g, uint32_t state, const tern_grammar_part *part, uint32_t *words,
                            tern_error *err)
{
    for (size_t i = 0; i < tern_grammar__n_words(g); i++) words[i] |= part->words[i];
    for (size_t i = 0; i < part->n_leaving; i++) {
        const int32_t id = part->leaving[i];
        const tern_span text = tern_token_bytes(g->vocab->tokenizer, id, false);
        uint32_t next = state;
        if (is_allowed(words, id)) continue;
        TERN_TRY(tern_grammar__read(g, text.data, text.size, &next, err));
        if (next != TERN_GRAMMAR_DEAD) tern_grammar__allow(words, id);
    }
    return TERN_OK;
}

/* Many kinds of bytes, or those that begin the characters of many languages. */
static bool is_wide(const tern_grammar *g, uint32_t pc)
{
    const tern_grammar_op op = g->program.ops[pc];
    unsigned n = 0, high = 0;
    if (op.code != TERN_GRAMMAR_OP_READ) return false;
    const uint32_t *bits = g->program.sets[op.a].bits;
    for (unsigned i = 0; i < 8; i++) n += (unsigned)__builtin_popcount(bits[i]);
    for (unsigned i = 4; i < 8; i++) high += (unsigned)__builtin_popcount(bits[i]);
    return n > TERN_GRAMMAR_WIDE || (high >= HIGH_LEADS && bits[7] != 0);
}

/* Takes the wide items out of `waiting` and adds their parts; *narrow are left. A useless part makes its item a narrow
 * one. */
static tern_status add_wide(tern_grammar *g, uint32_t state, size_t n, uint32_t *words, size_t *narrow, tern_error *err)
{
    tern_grammar_part *part;
    *narrow = 0;
    for (size_t i = 0; i < n; i++) {
        const tern_grammar_item item = g->waiting[i];
        bool left = true;
        if (i < MOST_PARTS && is_wide(g, item.pc)) {
            TERN_TRY(find_part(g, item.pc, &part, err));
            left = part->vain;
            if (!left) TERN_TRY(add_part(g, state, part, words, err));
        }
        if (left) g->waiting[(*narrow)++] = item;
    }
    return TERN_OK;
}

static void allow_tokens(const tern_grammar *g, uint32_t state, uint32_t *words)
{
    const tern_grammar_place *s = &g->machine.states[state];
    size_t n_ends;
    const int32_t *ends = tern_tokenizer_ends(g->vocab->tokenizer, &n_ends);
    for (uint32_t i = 0; i < s->n; i++) {
        const tern_grammar_op op = g->program.ops[g->machine.items[s->first + i].pc];
        if (op.code == TERN_GRAMMAR_OP_TAKE && op.a < g->vocab->n) tern_grammar__allow(words, (int32_t)op.a);
    }
    for (size_t i = 0; i < n_ends && s->ends; i++)
        if (ends[i] >= 0 && (uint32_t)ends[i] < g->vocab->n) tern_grammar__allow(words, ends[i]);
}

static tern_status fill_mask(tern_grammar *g, uint32_t state, uint32_t *words, tern_error *err)
{
    const size_t n = g->machine.states[state].n;
    size_t left, narrow;
    uint32_t rest;
    memset(words, 0, tern_grammar__n_words(g) * sizeof *words);
    allow_tokens(g, state, words);
    TERN_TRY(tern_grow((void **)&g->waiting, &g->cap_waiting, 2 * n + 1, sizeof *g->waiting, err));
    if (n) memcpy(g->waiting, g->machine.items + g->machine.states[state].first, n * sizeof *g->waiting);
    TERN_TRY(tern_grammar__add_runs(g, n, words, &left, err));
    TERN_TRY(add_wide(g, state, left, words, &narrow, err));
    if (narrow == 0) return TERN_OK;
    TERN_TRY(tern_grammar_machine__enter(&g->machine, g->waiting, narrow, false, &rest, err));
    return tern_grammar__walk(g, rest, 0, g->vocab->n_twigs, words, NULL, err);
}

tern_status tern_grammar__mask(tern_grammar *g, uint32_t state, const uint32_t **words, tern_error *err)
{
    tern_grammar_mask *oldest = &g->masks[0];
    for (size_t i = 0; i < TERN_GRAMMAR_MASKS; i++) {
        tern_grammar_mask *mask = &g->masks[i];
        if (mask->state == state) {
            mask->used = ++g->clock;
            *words = mask->words;
            return tern_grammar_machine__count(&g->machine, mask->steps, err);
        }
        if (mask->used < oldest->used) oldest = mask;
    }
    oldest->state = 0;
    if (!oldest->words && !(oldest->words = tern_alloc(tern_grammar__n_words(g) * sizeof *oldest->words)))
        return tern_fail_alloc(err, tern_grammar__n_words(g) * sizeof *oldest->words);
    const uint64_t before = g->machine.work;
    TERN_TRY(tern_grammar_machine__count(&g->machine, 0, err));
    TERN_TRY(fill_mask(g, state, oldest->words, err));
    oldest->steps = g->machine.work - before;
    oldest->state = state;
    oldest->used = ++g->clock;
    *words = oldest->words;
    return TERN_OK;
}

/* Whether more may be prepared: two or three milliseconds are taken for each walk over a large vocabulary. */
static bool may_prepare(const tern_grammar *g)
{
    return g->walked < (uint64_t)MOST_WALKS * g->vocab->n_twigs && !tern_grammar_machine__is_full(&g->machine);
}

static tern_status prepare(tern_grammar *g, tern_error *err)
{
    tern_grammar_part *part;
    size_t n = 0;
    for (size_t i = 0; i < g->program.n_runs && i < TERN_GRAMMAR_TALLIES && may_prepare(g); i++)
        TERN_TRY(tern_grammar__prepare_run(g, &g->program.runs[i], err));
    for (uint32_t pc = 0; pc < g->program.n_ops && n < TERN_GRAMMAR_PARTS && may_prepare(g); pc++) {
        if (!is_wide(g, pc) || tern_grammar__is_tallied(g, pc)) continue;
        TERN_TRY(find_part(g, pc, &part, err));
        n++;
    }
    return TERN_OK;
}

/* Masks without room are computed when they are needed. */
void tern_grammar__prepare(tern_grammar *g)
{
    tern_error err;
    tern_grammar_machine__begin(&g->machine, TERN_GRAMMAR_TOKEN_STEPS);
    prepare(g, &err);
}

void tern_grammar__masks_forget(tern_grammar *g)
{
    for (size_t i = 0; i < TERN_GRAMMAR_MASKS; i++) g->masks[i].state = 0;
    tern_grammar__tallies_forget(g);
}

void tern_grammar__masks_deinit(tern_grammar *g)
{
    for (size_t i = 0; i < TERN_GRAMMAR_MASKS; i++) tern_free(g->masks[i].words);
    for (size_t i = 0; i < TERN_GRAMMAR_PARTS; i++) {
        tern_free(g->parts[i].words);
        tern_free(g->parts[i].leaving);
    }
    tern_grammar__tallies_deinit(g);
    tern_free(g->waiting);
}
