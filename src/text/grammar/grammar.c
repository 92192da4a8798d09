/* Grammars and the states on them: what the public functions do, under the grammar's lock. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "text/grammar/internal.h"

static tern_status parse(tern_grammar_tree *tree, const tern_grammar_vocab *vocab, tern_grammar_kind kind,
                         tern_span source, tern_error *err)
{
    static const char any_object[] = "{\"type\": \"object\"}";
    switch (kind) {
    case TERN_GRAMMAR_GBNF: return tern_grammar__parse_gbnf(tree, vocab, source, err);
    case TERN_GRAMMAR_SCHEMA: return tern_grammar__parse_schema(tree, source, err);
    case TERN_GRAMMAR_REGEX: return tern_grammar__parse_regex(tree, source, err);
    case TERN_GRAMMAR_JSON:
        return tern_grammar__parse_schema(tree, (tern_span){(const uint8_t *)any_object, sizeof any_object - 1}, err);
    }
    return tern_fail(err, TERN_INVALID_ARGUMENT, "grammar of kind %d: GBNF, SCHEMA, REGEX or JSON expected", (int)kind);
}

tern_status tern_grammar_open(tern_grammar **grammar, const tern_grammar_vocab *vocab, tern_grammar_kind kind,
                              const char *source, size_t n, tern_error *err)
{
    tern_grammar_tree tree = {0};
    TERN_NEED(grammar, err);
    *grammar = NULL;
    if (n) TERN_NEED(source, err);
    if (n > TERN_GRAMMAR_MAX_SOURCE)
        return tern_fail(err, TERN_LIMIT, "a grammar of %zu bytes: at most %d expected", n, TERN_GRAMMAR_MAX_SOURCE);
    const tern_span span = {(const uint8_t *)(source ? source : ""), n};
    tern_status status = parse(&tree, vocab, kind, span, err);
    if (status == TERN_OK) status = tern_grammar__make(grammar, vocab, &tree, err);
    tern_grammar_tree__deinit(&tree);
    return status;
}

static tern_status start(tern_grammar *g, uint32_t *state, tern_error *err)
{
    const tern_grammar_item first = {g->program.start, TERN_GRAMMAR_BOTTOM};
    tern_grammar_machine__begin(&g->machine, TERN_GRAMMAR_TOKEN_STEPS);
    return tern_grammar_machine__enter(&g->machine, &first, 1, false, state, err);
}

/* The first state and its mask, which are kept: what cannot begin is refused before anybody waits for it. */
static tern_status try_first(tern_grammar *g, tern_error *err)
{
    uint32_t state;
    const uint32_t *words;
    TERN_TRY(start(g, &state, err));
    return g->vocab ? tern_grammar__mask(g, state, &words, err) : TERN_OK;
}

tern_status tern_grammar__make(tern_grammar **grammar, const tern_grammar_vocab *vocab, const tern_grammar_tree *tree,
                               tern_error *err)
{
    tern_grammar *g = tern_calloc(1, sizeof *g);
    if (!g) return tern_fail_alloc(err, sizeof *g);
    g->vocab = vocab;
    pthread_mutex_init(&g->lock, NULL);
    tern_status status = tern_grammar_program__compile(&g->program, tree, err);
    if (status == TERN_OK) status = tern_grammar_machine__init(&g->machine, &g->program, err);
    if (status == TERN_OK) status = try_first(g, err);
    if (status == TERN_OK && vocab) tern_grammar__prepare(g);
    if (status == TERN_OK) *grammar = g;
    else tern_grammar_close(g);
    return status;
}

void tern_grammar_close(tern_grammar *g)
{
    if (!g) return;
    tern_grammar__masks_deinit(g);
    tern_grammar_machine__deinit(&g->machine);
    tern_grammar_program__deinit(&g->program);
    pthread_mutex_destroy(&g->lock);
    tern_free(g);
}

tern_status tern_grammar__read(tern_grammar *g, const uint8_t *bytes, size_t n, uint32_t *state, tern_error *err)
{
    uint32_t at = *state;
    for (size_t i = 0; i < n && at != TERN_GRAMMAR_DEAD; i++)
        TERN_TRY(tern_grammar_machine__read(&g->machine, at, bytes[i], &at, err));
    *state = at;
    return TERN_OK;
}

/* Puts the state into the grammar's list. */
static void enlist(tern_grammar_state *s, tern_grammar *g)
{
    s->grammar = g;
    s->after = g->states;
    if (s->after) s->after->before = s;
    g->states = s;
}

tern_status tern_grammar_state_open(tern_grammar_state **state, tern_grammar *grammar, tern_error *err)
{
    TERN_NEED(state, err);
    *state = NULL;
    TERN_NEED(grammar, err);
    tern_grammar_state *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    pthread_mutex_lock(&grammar->lock);
    tern_status status = start(grammar, &s->at, err);
    if (status == TERN_OK) enlist(s, grammar);
    pthread_mutex_unlock(&grammar->lock);
    if (status == TERN_OK) *state = s;
    else tern_free(s);
    return status;
}

tern_status tern_grammar_state_clone(tern_grammar_state **copy, const tern_grammar_state *state, tern_error *err)
{
    TERN_NEED(copy, err);
    *copy = NULL;
    TERN_NEED(state, err);
    tern_grammar_state *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    pthread_mutex_lock(&state->grammar->lock);
    *s = *state;
    s->before = NULL;
    enlist(s, state->grammar);
    pthread_mutex_unlock(&state->grammar->lock);
    *copy = s;
    return TERN_OK;
}

void tern_grammar_state_close(tern_grammar_state *s)
{
    if (!s) return;
    tern_grammar *g = s->grammar;
    pthread_mutex_lock(&g->lock);
    if (s->before) s->before->after = s->after;
    else g->states = s->after;
    if (s->after) s->after->before = s->before;
    pthread_mutex_unlock(&g->lock);
    tern_free(s);
}

tern_status tern_grammar_state_reset(tern_grammar_state *state, tern_error *err)
{
    TERN_NEED(state, err);
    uint32_t at;
    pthread_mutex_lock(&state->grammar->lock);
    tern_status status = start(state->grammar, &at, err);
    if (status == TERN_OK) {
        state->at = at;
        state->ended = state->masked = false;
        state->spent = state->n_accepted = 0;
    }
    pthread_mutex_unlock(&state->grammar->lock);
    return status;
}

/* Counts the steps since tern_grammar_machine__begin against those of the whole text. */
static tern_status spend(tern_grammar_state *s, tern_error *err)
{
    const uint64_t most = TERN_GRAMMAR_TEXT_STEPS + (uint64_t)TERN_GRAMMAR_MEAN_STEPS * s->n_accepted;
    s->spent += s->grammar->machine.work;
    if (s->spent <= most) return TERN_OK;
    return tern_fail(err, TERN_LIMIT,
                     "%s takes more than %llu steps for a text of %llu tokens: fewer or smaller repetitions within "
                     "repetitions expected",
                     tern_grammar_machine__label(&s->grammar->machine, s->at), (unsigned long long)most,
                     (unsigned long long)s->n_accepted);
}

/* Goes on to a place that was found. */
static tern_status move(tern_grammar_state *s, uint32_t at, tern_error *err)
{
    TERN_TRY(spend(s, err));
    s->at = at;
    s->n_accepted++;
    s->masked = false;
    return TERN_OK;
}

static tern_status go_on(tern_grammar_state *s, const uint8_t *text, size_t n, tern_error *err)
{
    uint32_t at = s->at;
    TERN_TRY(tern_grammar__read(s->grammar, text, n, &at, err));
    if (s->ended || at == TERN_GRAMMAR_DEAD)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "\"%s\" is not allowed here by the grammar",
                         tern_show((tern_span){text, n}).text);
    return move(s, at, err);
}

/* Before n bytes. */
static tern_status begin(tern_grammar_state *s, size_t n, tern_error *err)
{
    TERN_TRY(tern_grammar__trim(s->grammar, err));
    const uint64_t most = TERN_GRAMMAR_TOKEN_STEPS + (uint64_t)TERN_GRAMMAR_BYTE_STEPS * n;
    tern_grammar_machine__begin(&s->grammar->machine, most);
    return TERN_OK;
}

tern_status tern_grammar_state_accept_text(tern_grammar_state *state, const char *text, size_t n, tern_error *err)
{
    TERN_NEED(state, err);
    if (n) TERN_NEED(text, err);
    if (n == 0) return TERN_OK;
    pthread_mutex_lock(&state->grammar->lock);
    tern_status status = begin(state, n, err);
    if (status == TERN_OK) status = go_on(state, (const uint8_t *)text, n, err);
    pthread_mutex_unlock(&state->grammar->lock);
    return status;
}

static tern_status fail_token(const tern_grammar *g, int32_t id, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "token %d (\"%s\") is not allowed here by the grammar", id,
                     tern_show(tern_token_piece(g->vocab->tokenizer, id)).text);
}

static tern_status go_on_by(tern_grammar_state *s, int32_t id, tern_error *err)
{
    tern_grammar *g = s->grammar;
    const tern_span text = tern_token_bytes(g->vocab->tokenizer, id, false);
    uint32_t taken;
    if (s->ended) return fail_token(g, id, err);
    TERN_TRY(begin(s, 0, err));
    TERN_TRY(tern_grammar_machine__take(&g->machine, s->at, (uint32_t)id, &taken, err));
    if (taken != TERN_GRAMMAR_DEAD) return move(s, taken, err);
    if (tern_token_is_end(g->vocab->tokenizer, id)) {
        s->ended = g->machine.states[s->at].ends;
        return s->ended ? TERN_OK : fail_token(g, id, err);
    }
    if (text.size == 0 || text.size > TERN_GRAMMAR_MAX_TOKEN || tern_token_is_special(g->vocab->tokenizer, id))
        return fail_token(g, id, err);
    return go_on(s, text.data, text.size, err);
}

tern_status tern_grammar_state_accept(tern_grammar_state *state, int32_t id, tern_error *err)
{
    TERN_NEED(state, err);
    const tern_grammar_vocab *v = state->grammar->vocab;
    if (!v) return tern_fail(err, TERN_INVALID_ARGUMENT, "token %d for a grammar without a vocabulary", id);
    if (id < 0 || (uint32_t)id >= v->n)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "token %d: 0 to %u expected", id, v->n - 1);
    pthread_mutex_lock(&state->grammar->lock);
    tern_status status = go_on_by(state, id, err);
    pthread_mutex_unlock(&state->grammar->lock);
    return status;
}

bool tern_grammar_state_may_end(const tern_grammar_state *state)
{
    pthread_mutex_lock(&state->grammar->lock);
    const bool ends = state->ended || state->grammar->machine.states[state->at].ends;
    pthread_mutex_unlock(&state->grammar->lock);
    return ends;
}

static tern_status copy_mask(tern_grammar_state *s, uint32_t *words, size_t n, tern_error *err)
{
    const uint32_t *found;
    TERN_TRY(begin(s, 0, err));
    TERN_TRY(tern_grammar__mask(s->grammar, s->at, &found, err));
    if (!s->masked) TERN_TRY(spend(s, err));
    s->masked = true;
    memcpy(words, found, n * sizeof *words);
    return TERN_OK;
}

tern_status tern_grammar_state_mask(tern_grammar_state *state, uint32_t *words, size_t n_words, tern_error *err)
{
    TERN_NEED(state, err);
    TERN_NEED(words, err);
    const tern_grammar_vocab *v = state->grammar->vocab;
    if (!v) return tern_fail(err, TERN_INVALID_ARGUMENT, "a mask of a grammar without a vocabulary");
    const size_t need = ((size_t)v->n + 31) / 32;
    if (n_words < need)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a mask of %zu words: %zu expected for %u tokens", n_words, need,
                         v->n);
    memset(words, 0, n_words * sizeof *words);
    if (state->ended) return TERN_OK;
    pthread_mutex_lock(&state->grammar->lock);
    tern_status status = copy_mask(state, words, need, err);
    pthread_mutex_unlock(&state->grammar->lock);
    return status;
}

static tern_status filter_mask(void *context, uint32_t *words, size_t n_words, tern_error *err)
{
    tern_grammar_state *s = context;
    TERN_TRY(tern_grammar_state_mask(s, words, n_words, err));
    for (size_t i = 0; i < n_words; i++)
        if (words[i]) return TERN_OK;
    if (tern_grammar_state_may_end(s)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "the grammar allows no token of the vocabulary here");
}

static tern_status filter_accept(void *context, int32_t id, tern_error *err)
{
    return tern_grammar_state_accept(context, id, err);
}

tern_token_filter tern_grammar_state_filter(tern_grammar_state *state)
{
    return (tern_token_filter){.mask = filter_mask, .accept = filter_accept, .context = state};
}
