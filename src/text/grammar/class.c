/* Characters as bytes: a class of code points as ops that read their UTF-8. */
#include "base/alloc.h"
#include "text/grammar/program.h"
#include "text/utf8.h"

/* One class under way. `tails[k]` reads k + 1 continuation bytes of any value and goes on; 0: not made yet. */
typedef struct writer {
    tern_grammar_program *program;
    uint32_t next, tails[3];
    uint32_t entry; /* of what is written so far */
    bool any;
} writer;

/* The op that is added next comes from the part that `label` names. */
static tern_status note_origin(tern_grammar_program *p, tern_error *err)
{
    if (p->n_origins && p->origins[p->n_origins - 1].label == p->label) return TERN_OK;
    TERN_TRY(tern_grow((void **)&p->origins, &p->cap_origins, p->n_origins + 1, sizeof *p->origins, err));
    p->origins[p->n_origins++] = (tern_grammar_origin){(uint32_t)p->n_ops, p->label};
    return TERN_OK;
}

tern_status tern_grammar_program__add(tern_grammar_program *program, tern_grammar_op op, uint32_t *at, tern_error *err)
{
    if (program->n_ops >= TERN_GRAMMAR_MAX_OPS)
        return tern_fail(err, TERN_LIMIT, "the grammar compiles to more than %d steps", TERN_GRAMMAR_MAX_OPS);
    TERN_TRY(note_origin(program, err));
    TERN_TRY(tern_grow((void **)&program->ops, &program->cap_ops, program->n_ops + 1, sizeof *program->ops, err));
    *at = (uint32_t)program->n_ops;
    program->ops[program->n_ops++] = op;
    return TERN_OK;
}

static tern_status add_set(tern_grammar_program *p, const tern_grammar_set *set, uint32_t *at, tern_error *err)
{
    for (size_t i = p->n_sets; i-- && p->n_sets - i <= 64;) { /* most are one of the last few */
        bool same = true;
        for (size_t k = 0; k < 8; k++) same = same && p->sets[i].bits[k] == set->bits[k];
        if (!same) continue;
        *at = (uint32_t)i;
        return TERN_OK;
    }
    TERN_TRY(tern_grow((void **)&p->sets, &p->cap_sets, p->n_sets + 1, sizeof *p->sets, err));
    *at = (uint32_t)p->n_sets;
    p->sets[p->n_sets++] = *set;
    return TERN_OK;
}

static void put(tern_grammar_set *set, uint32_t first, uint32_t last)
{
    for (uint32_t b = first; b <= last; b++) set->bits[b / 32] |= (uint32_t)1 << b % 32;
}

tern_status tern_grammar_program__read(tern_grammar_program *program, uint8_t first, uint8_t last, uint32_t next,
                                       uint32_t *at, tern_error *err)
{
    tern_grammar_set set = {{0}};
    uint32_t index;
    put(&set, first, last);
    TERN_TRY(add_set(program, &set, &index, err));
    return tern_grammar_program__add(program, (tern_grammar_op){TERN_GRAMMAR_OP_READ, index, next}, at, err);
}

/* Another way to begin. */
static tern_status join(writer *w, uint32_t at, tern_error *err)
{
    if (w->any)
        TERN_TRY(
            tern_grammar_program__add(w->program, (tern_grammar_op){TERN_GRAMMAR_OP_SPLIT, at, w->entry}, &at, err));
    w->entry = at;
    w->any = true;
    return TERN_OK;
}

static tern_status tail(writer *w, unsigned n, uint32_t *at, tern_error *err)
{
    *at = w->next;
    for (unsigned k = 0; k < n; k++) {
        if (!w->tails[k]) TERN_TRY(tern_grammar_program__read(w->program, 0x80, 0xbf, *at, &w->tails[k], err));
        *at = w->tails[k];
    }
    return TERN_OK;
}

static bool spans_all(const uint8_t *low, const uint8_t *high, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (low[i] != 0x80 || high[i] != 0xbf) return false;
    return true;
}

/* The sequences of n bytes from low to high, which differ in one byte followed by full ranges alone. */
static tern_status chain(writer *w, const uint8_t *low, const uint8_t *high, unsigned n, uint32_t *at, tern_error *err)
{
    unsigned full = 0;
    while (full < n && spans_all(low + n - full - 1, high + n - full - 1, full + 1)) full++;
    TERN_TRY(tail(w, full, at, err));
    for (unsigned i = n - full; i--;) TERN_TRY(tern_grammar_program__read(w->program, low[i], high[i], *at, at, err));
    return TERN_OK;
}

/* Cuts first..last, of one length in UTF-8, where all later bytes run from 80 to BF, and writes each part. */
static tern_status cut(writer *w, uint32_t first, uint32_t last, tern_error *err)
{
    uint8_t low[4], high[4];
    while (first <= last) {
        uint32_t end = last, at;
        for (unsigned bits = 18; bits; bits -= 6) {
            const uint32_t mask = ((uint32_t)1 << bits) - 1;
            if ((first & ~mask) == (end & ~mask)) continue;
            if (first & mask) end = first | mask;
            else if ((end & mask) != mask) end = (end & ~mask) - 1;
        }
        const unsigned n = tern_utf8__encode(low, first);
        tern_utf8__encode(high, end);
        TERN_TRY(chain(w, low, high, n, &at, err));
        TERN_TRY(join(w, at, err));
        first = end + 1;
    }
    return TERN_OK;
}

static tern_status wide(writer *w, tern_grammar_range r, tern_error *err)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff, TERN_GRAMMAR_LAST_CODE};
    for (unsigned i = 1; i < 4; i++) {
        const uint32_t first = r.first > ends[i - 1] ? r.first : ends[i - 1] + 1;
        const uint32_t last = r.last < ends[i] ? r.last : ends[i];
        if (first <= last) TERN_TRY(cut(w, first, last, err));
    }
    return TERN_OK;
}

tern_status tern_grammar_program__class(tern_grammar_program *program, const tern_grammar_range *ranges, size_t n,
                                        uint32_t next, uint32_t *at, tern_error *err)
{
    writer w = {.program = program, .next = next};
    tern_grammar_set ascii = {{0}};
    bool some = false;
    uint32_t index;
    for (size_t i = 0; i < n; i++) {
        TERN_TRY(wide(&w, ranges[i], err));
        if (ranges[i].first > 0x7f) continue;
        put(&ascii, ranges[i].first, ranges[i].last < 0x7f ? ranges[i].last : 0x7f);
        some = true;
    }
    if (some) {
        TERN_TRY(add_set(program, &ascii, &index, err));
        TERN_TRY(tern_grammar_program__add(program, (tern_grammar_op){TERN_GRAMMAR_OP_READ, index, next}, at, err));
        TERN_TRY(join(&w, *at, err));
    }
    if (!w.any) return tern_grammar_program__add(program, (tern_grammar_op){TERN_GRAMMAR_OP_FAIL, 0, 0}, at, err);
    *at = w.entry;
    return TERN_OK;
}
