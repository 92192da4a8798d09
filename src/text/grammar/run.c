/* The masks of items within runs. If the body of a run can be cut out of a text in only one way, each token needs a
 * fixed number of copies, whatever comes after the run. Tokens are sorted by this number once; the first of them are
 * allowed wherever as many copies may follow. Tokens that leave the run are read on from where they leave it. */
#include <string.h>

#include "base/alloc.h"
#include "text/grammar/internal.h"

enum { STEP = 8192, NONE = 0xffff, MOST_RUNS = 8 };

/* Where the walk is at each depth: its state, the copies that are whole, and whether a copy has just become so. */
typedef struct step {
    uint32_t state;
    uint16_t whole;
    bool between;
} step;

/* A run that items stand in (what returns to its last place comes before it), and how many copies must and may follow
 * theirs. */
typedef struct place {
    const tern_grammar_run *run;
    uint32_t frame, least, most;
} place;

static const tern_grammar_run *find_run(const tern_grammar_program *p, uint32_t pc)
{
    size_t from = 0, to = p->n_runs;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        if (p->runs[middle].end <= pc) from = middle + 1;
        else to = middle;
    }
    return from < p->n_runs && p->runs[from].first <= pc ? &p->runs[from] : NULL;
}

static bool find_place(tern_grammar *g, uint32_t frame, place *out)
{
    const tern_grammar_frame *f = &g->machine.frames[frame];
    const tern_grammar_run *run = frame > TERN_GRAMMAR_BASE ? find_run(&g->program, f->to) : NULL;
    if (!run || run->vain || f->to == run->end - 1 || f->depth > TERN_GRAMMAR_MAX_DEPTH / 2) return false;
    const uint32_t optional = (run->least - 1 - run->first) / 2;
    *out = (place){.run = run, .frame = frame};
    if (f->to >= run->least) out->least = f->to - run->least + 1;
    out->most = out->least ? out->least + optional : (f->to - run->first) / 2;
    if (run->forever) out->most = UINT32_MAX;
    return true;
}

static tern_status note_exit(tern_grammar_tally *tally, uint32_t twig, uint32_t n, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&tally->exits, &tally->cap_exits, tally->n_exits + 1, sizeof *tally->exits, err));
    tally->exits[tally->n_exits++] = (tern_grammar_exit){twig, n};
    return TERN_OK;
}

/* One byte further; at->state is DEAD where it leads nowhere. false: what begins a copy ends it as well as going on. */
static bool go_on(const tern_grammar_machine *m, uint32_t body, step *at, uint32_t next)
{
    at->between = m->states[next].escapes;
    at->state = at->between ? body : next;
    at->whole = (uint16_t)(at->whole + at->between);
    return !at->between || m->states[next].n == 0;
}

/* Finds what each token needs (NONE: it does not end within the run), and the exits. */
static tern_status count(tern_grammar *g, tern_grammar_tally *tally, uint16_t *needs, bool *vain, tern_error *err)
{
    const tern_grammar_vocab *v = g->vocab;
    step steps[TERN_GRAMMAR_MAX_TOKEN + 1];
    steps[0] = (step){.state = tally->start};
    for (uint32_t i = 0; i < v->n_twigs && !*vain; g->walked++) {
        const tern_grammar_twig *t = &v->twigs[i];
        step *at = &steps[t->depth];
        uint32_t next;
        *at = steps[t->depth - 1];
        TERN_TRY(tern_grammar_machine__read(&g->machine, at->state, t->byte, &next, err));
        if (next == TERN_GRAMMAR_DEAD) {
            if (at->between) TERN_TRY(note_exit(tally, i, at->whole - 1u, err));
            i = t->skip;
            continue;
        }
        *vain = !go_on(&g->machine, tally->body, at, next);
        for (uint32_t k = t->first; k < t[1].first; k++) needs[k] = (uint16_t)(at->whole - at->between);
        i++;
    }
    return TERN_OK;
}

/* Sorts tokens by need: ids and ends. */
static void sort(const tern_grammar_vocab *v, tern_grammar_tally *tally, const uint16_t *needs)
{
    uint32_t at[TERN_GRAMMAR_MAX_TOKEN + 1] = {0};
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (needs[i] != NONE) at[needs[i]]++;
    for (uint32_t n = 0, sum = 0; n <= TERN_GRAMMAR_MAX_TOKEN; n++) {
        sum += at[n];
        tally->ends[n] = sum;
        at[n] = sum - at[n];
    }
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (needs[i] != NONE) tally->ids[at[needs[i]]++] = v->tokens[i];
}

static tern_status keep(tern_grammar *g, tern_grammar_tally *tally, const uint16_t *needs, tern_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->vocab->n_tokens; i++) n += needs[i] != NONE;
    const size_t n_words = tern_grammar__n_words(g), bytes = n / STEP * n_words * sizeof(uint32_t);
    tally->ids = tern_alloc((n + (size_t)1) * sizeof *tally->ids);
    tally->sets = tern_alloc(bytes + sizeof(uint32_t));
    if (!tally->ids || !tally->sets) return tern_fail_alloc(err, n * sizeof *tally->ids + bytes);
    sort(g->vocab, tally, needs);
    uint32_t *set = tally->sets;
    for (uint32_t i = 0; i < n / STEP; i++, set += n_words) {
        if (i) memcpy(set, set - n_words, n_words * sizeof *set);
        else memset(set, 0, n_words * sizeof *set);
        for (uint32_t k = i * STEP; k < (i + 1) * STEP; k++) tern_grammar__allow(set, tally->ids[k]);
    }
    return TERN_OK;
}

static void empty(tern_grammar_tally *tally)
{
    tern_free(tally->ids);
    tern_free(tally->sets);
    tern_free(tally->exits);
    *tally = (tern_grammar_tally){0};
}

static tern_status fill(tern_grammar *g, tern_grammar_tally *tally, uint32_t start, uint32_t body, tern_error *err)
{
    const uint64_t before = g->machine.work;
    uint16_t *needs = tern_alloc((g->vocab->n_tokens + (size_t)1) * sizeof *needs);
    if (!needs) return tern_fail_alloc(err, g->vocab->n_tokens * sizeof *needs);
    memset(needs, 0xff, g->vocab->n_tokens * sizeof *needs);
    empty(tally);
    *tally = (tern_grammar_tally){.start = start, .body = body, .used = ++g->clock};
    tally->vain = g->machine.states[start].escapes || g->machine.states[body].escapes;
    tern_status status = tern_grammar_machine__count(&g->machine, 0, err);
    if (status == TERN_OK) status = count(g, tally, needs, &tally->vain, err);
    if (status == TERN_OK && !tally->vain) status = keep(g, tally, needs, err);
    tally->steps = g->machine.work - before;
    tern_free(needs);
    if (status != TERN_OK) empty(tally);
    return status == TERN_OK ? tern_grammar_machine__count(&g->machine, 0, err) : status;
}

/* The tally of a state on its own within a body, made when it is not there. */
static tern_status find_tally(tern_grammar *g, uint32_t start, uint32_t body, tern_grammar_tally **out, tern_error *err)
{
    tern_grammar_tally *oldest = &g->tallies[0];
    for (size_t i = 0; i < TERN_GRAMMAR_TALLIES; i++) {
        tern_grammar_tally *tally = &g->tallies[i];
        if (tally->start == start && tally->body == body) {
            tally->used = ++g->clock;
            *out = tally;
            return tern_grammar_machine__count(&g->machine, tally->steps, err);
        }
        if (tally->used < oldest->used) oldest = tally;
    }
    *out = oldest;
    return fill(g, oldest, start, body, err);
}

/* Whether some byte begins a copy and what comes after the run as well. */
static tern_status overlap(tern_grammar *g, uint32_t body, uint32_t after, bool *found, tern_error *err)
{
    *found = after == TERN_GRAMMAR_DEAD;
    for (unsigned byte = 0; byte < 256 && !*found; byte++) {
        uint32_t copy, other;
        TERN_TRY(tern_grammar_machine__read(&g->machine, body, (uint8_t)byte, &copy, err));
        if (copy == TERN_GRAMMAR_DEAD) continue;
        TERN_TRY(tern_grammar_machine__read(&g->machine, after, (uint8_t)byte, &other, err));
        *found = other != TERN_GRAMMAR_DEAD;
    }
    return TERN_OK;
}

static void allow_first(const tern_grammar *g, const tern_grammar_tally *tally, uint32_t n, uint32_t *words)
{
    const size_t n_words = tern_grammar__n_words(g);
    const uint32_t *set = n / STEP ? tally->sets + (n / STEP - 1) * n_words : NULL;
    for (size_t i = 0; i < n_words && set; i++) words[i] |= set[i];
    for (uint32_t i = n / STEP * STEP; i < n; i++) tern_grammar__allow(words, tally->ids[i]);
}

static tern_status allow_leaving(tern_grammar *g, const tern_grammar_tally *tally, const place *at, uint32_t after,
                                 uint32_t *words, tern_error *err)
{
    for (size_t i = 0; i < tally->n_exits; i++) {
        const tern_grammar_exit *e = &tally->exits[i];
        const tern_grammar_twig *t = &g->vocab->twigs[e->twig];
        uint32_t next;
        if (e->n < at->least || e->n > at->most) continue;
        TERN_TRY(tern_grammar_machine__read(&g->machine, after, t->byte, &next, err));
        if (next == TERN_GRAMMAR_DEAD) continue;
        TERN_TRY(tern_grammar__walk(g, after, e->twig, t->skip, words, NULL, err));
    }
    return TERN_OK;
}

static tern_status enter_body(tern_grammar *g, const tern_grammar_run *run, uint32_t *body, tern_error *err)
{
    const tern_grammar_item copy = {g->program.ops[run->first + 1].a, TERN_GRAMMAR_BASE};
    return tern_grammar_machine__enter(&g->machine, &copy, 1, false, body, err);
}

/* The states at a copy's begin and after the run, and that of the frame's items on their own. */
static tern_status enter(tern_grammar *g, size_t n, const place *at, uint32_t *start, uint32_t *body, uint32_t *after,
                         tern_error *err)
{
    tern_grammar_machine *m = &g->machine;
    const tern_grammar_item next = {at->run->next, m->frames[at->frame].parent};
    size_t some = 0;
    for (size_t i = 0; i < n; i++)
        if (g->waiting[i].frame == at->frame)
            g->waiting[n + some++] = (tern_grammar_item){g->waiting[i].pc, TERN_GRAMMAR_BASE};
    TERN_TRY(tern_grammar_machine__enter(m, g->waiting + n, some, false, start, err));
    TERN_TRY(enter_body(g, at->run, body, err));
    return tern_grammar_machine__enter(m, &next, 1, false, after, err);
}

/* *added: the items of the place's frame need nothing else. */
static tern_status add_run(tern_grammar *g, size_t n, const place *at, uint32_t *words, bool *added, tern_error *err)
{
    uint32_t start, body, after;
    bool mixed;
    tern_grammar_tally *tally;
    *added = false;
    TERN_TRY(enter(g, n, at, &start, &body, &after, err));
    TERN_TRY(overlap(g, body, after, &mixed, err));
    if (mixed) return TERN_OK;
    TERN_TRY(find_tally(g, start, body, &tally, err));
    if (tally->vain) return TERN_OK;
    const uint32_t most = at->most < TERN_GRAMMAR_MAX_TOKEN ? at->most : TERN_GRAMMAR_MAX_TOKEN;
    allow_first(g, tally, tally->ends[most], words);
    *added = true;
    return allow_leaving(g, tally, at, after, words, err);
}

static size_t drop(tern_grammar *g, size_t n, uint32_t frame)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (g->waiting[i].frame != frame) g->waiting[left++] = g->waiting[i];
    return left;
}

tern_status tern_grammar__add_runs(tern_grammar *g, size_t n, uint32_t *words, size_t *left, tern_error *err)
{
    uint32_t known = TERN_GRAMMAR_BASE; /* the frame that was looked at last */
    bool added;
    place at;
    *left = n;
    for (size_t i = 0, tried = 0; i < *left && tried < MOST_RUNS; i++) {
        const uint32_t frame = g->waiting[i].frame;
        if (frame == known || !find_place(g, frame, &at)) continue;
        known = frame;
        tried++;
        TERN_TRY(add_run(g, *left, &at, words, &added, err));
        if (!added) continue;
        *left = drop(g, *left, frame);
        i = (size_t)-1;
    }
    return TERN_OK;
}

tern_status tern_grammar__prepare_run(tern_grammar *g, tern_grammar_run *run, tern_error *err)
{
    uint32_t body;
    tern_grammar_tally *tally;
    TERN_TRY(enter_body(g, run, &body, err));
    TERN_TRY(find_tally(g, body, body, &tally, err));
    run->vain = tally->vain;
    return TERN_OK;
}

bool tern_grammar__is_tallied(const tern_grammar *g, uint32_t pc)
{
    for (size_t i = 0; i < TERN_GRAMMAR_TALLIES; i++) {
        const tern_grammar_tally *tally = &g->tallies[i];
        if (!tally->start || tally->vain || tally->start != tally->body) continue;
        const tern_grammar_place *s = &g->machine.states[tally->start];
        for (uint32_t k = 0; k < s->n; k++)
            if (g->machine.items[s->first + k].pc == pc) return true;
    }
    return false;
}

void tern_grammar__tallies_forget(tern_grammar *g)
{
    for (size_t i = 0; i < TERN_GRAMMAR_TALLIES; i++) g->tallies[i].start = 0;
}

void tern_grammar__tallies_deinit(tern_grammar *g)
{
    for (size_t i = 0; i < TERN_GRAMMAR_TALLIES; i++) empty(&g->tallies[i]);
}
