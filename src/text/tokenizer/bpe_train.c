/* Learning a byte-level BPE vocabulary: pieces are counted once; a merge touches only the words that have the pair. */
#include "text/tokenizer/bpe_train.h"

#include <string.h>

#include "base/alloc.h"
#include "text/tokenizer/bpe_train_internal.h"

static const char *const special_names[TERN_BPE_N_SPECIAL] = {"<|begin_of_text|>", "<|end_of_text|>",
                                                              "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};

static const tern_pretokenizer_row *cut(void)
{
    return tern_pretokenizer__find("llama-bpe", strlen("llama-bpe"));
}

tern_status tern_bpe_trainer_open(tern_bpe_trainer **trainer, tern_error *err)
{
    tern_bpe_trainer *t = tern_calloc(1, sizeof *t);
    if (!t) return tern_fail_alloc(err, sizeof *t);
    tern_status status = tern_pretokenizer__add_row(&t->pre, cut(), err);
    if (status == TERN_OK) *trainer = t;
    else tern_bpe_trainer_close(t);
    return status;
}

void tern_bpe_trainer_close(tern_bpe_trainer *t)
{
    if (!t) return;
    tern_pretokenizer__deinit(&t->pre);
    tern_map_deinit(&t->map);
    tern_arena_deinit(&t->arena);
    tern_free(t->words);
    tern_free(t->symbols);
    tern_free(t);
}

static tern_status new_word(tern_bpe_trainer *t, tern_span piece, uint32_t *index, tern_error *err)
{
    void *words = t->words, *symbols = t->symbols;
    bool added;
    if (t->n_words >= UINT32_MAX || t->n_symbols + piece.size > UINT32_MAX)
        return tern_fail(err, TERN_LIMIT, "text of more than 2^32 - 1 different pieces, or bytes in them");
    TERN_TRY(tern_grow(&words, &t->cap_words, t->n_words + 1, sizeof *t->words, err));
    t->words = words;
    TERN_TRY(tern_grow(&symbols, &t->cap_symbols, t->n_symbols + piece.size, sizeof *t->symbols, err));
    t->symbols = symbols;
    const char *key = tern_arena_strndup(&t->arena, (const char *)piece.data, piece.size);
    if (!key) return tern_fail_alloc(err, piece.size);
    *index = (uint32_t)t->n_words;
    TERN_TRY(tern_map_add(&t->map, (tern_span){(const uint8_t *)key, piece.size}, *index, &added, err));
    t->words[t->n_words++] = (tern_bpe_word){.first = (uint32_t)t->n_symbols, .n = (uint32_t)piece.size};
    for (size_t i = 0; i < piece.size; i++) t->symbols[t->n_symbols++] = piece.data[i];
    return TERN_OK;
}

static tern_status count_piece(void *user, tern_span piece, tern_error *err)
{
    tern_bpe_trainer *t = user;
    uint32_t index;
    if (!tern_map_find(&t->map, piece, &index)) TERN_TRY(new_word(t, piece, &index, err));
    t->words[index].count++;
    return TERN_OK;
}

tern_status tern_bpe_trainer_add(tern_bpe_trainer *trainer, const void *text, size_t n, tern_error *err)
{
    return tern_pretokenizer__run(&trainer->pre, text, n, count_piece, trainer, err);
}

size_t tern_bpe_trainer_n_pieces(const tern_bpe_trainer *trainer)
{
    return trainer->n_words;
}

/* The working copies of merging: the words' lengths and symbols, so that the trainer stays as it is. */
typedef struct learning {
    tern_bpe_trainer *t;
    tern_bpe_counts counts;
    uint32_t *symbols, *lengths;
    tern_arena arena; /* of the texts */
    tern_span *texts; /* [n_tokens]: 256 bytes, then what merges made */
    tern_map ids;     /* by text */
    uint32_t n_tokens, wanted;
    tern_pair *merges; /* [n_merges]; two may make the same token ("a" + "bc", "ab" + "c") */
    size_t n_merges, cap_merges;
} learning;

/* The token of this text, new or not. */
static tern_status token_of(learning *l, const void *text, size_t n, uint32_t *id, tern_error *err)
{
    bool added;
    if (tern_map_find(&l->ids, (tern_span){text, n}, id)) return TERN_OK;
    const char *kept = tern_arena_strndup(&l->arena, text, n);
    if (!kept) return tern_fail_alloc(err, n);
    *id = l->n_tokens;
    l->texts[l->n_tokens++] = (tern_span){(const uint8_t *)kept, n};
    return tern_map_add(&l->ids, l->texts[*id], *id, &added, err);
}

static tern_status add_merge(learning *l, const tern_bpe_best *pair, uint32_t *merged, tern_error *err)
{
    tern_span left = l->texts[pair->left], right = l->texts[pair->right];
    tern_buf text = {0};
    void *merges = l->merges;
    tern_status status;
    TERN_GOTO(tern_buf_add(&text, left.data, left.size, err));
    TERN_GOTO(tern_buf_add(&text, right.data, right.size, err));
    TERN_GOTO(token_of(l, text.data, text.size, merged, err));
    TERN_GOTO(tern_grow(&merges, &l->cap_merges, l->n_merges + 1, sizeof *l->merges, err));
    l->merges = merges;
    l->merges[l->n_merges] =
        (tern_pair){(int32_t)pair->left, (int32_t)pair->right, (int32_t)*merged, (uint32_t)l->n_merges};
    l->n_merges++;
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status count_pairs(learning *l, tern_error *err)
{
    for (size_t w = 0; w < l->t->n_words; w++) {
        const uint32_t *s = l->symbols + l->t->words[w].first;
        for (uint32_t i = 1; i < l->lengths[w]; i++)
            TERN_TRY(tern_bpe_counts__add(&l->counts, s[i - 1], s[i], (int64_t)l->t->words[w].count, (uint32_t)w, err));
    }
    for (size_t i = 0; i < l->counts.n_slots; i++)
        if (l->counts.slots[i].left != UINT32_MAX)
            TERN_TRY(tern_bpe_counts__push(&l->counts, &l->counts.slots[i], err));
    return TERN_OK;
}

/* All pairs of a word, added or taken away. */
static tern_status recount(learning *l, uint32_t w, int64_t sign, tern_error *err)
{
    const uint32_t *s = l->symbols + l->t->words[w].first;
    int64_t count = sign * (int64_t)l->t->words[w].count;
    for (uint32_t i = 1; i < l->lengths[w]; i++)
        TERN_TRY(tern_bpe_counts__add(&l->counts, s[i - 1], s[i], count, w, err));
    return TERN_OK;
}

static tern_status push_pairs(learning *l, uint32_t w, tern_error *err)
{
    const uint32_t *s = l->symbols + l->t->words[w].first;
    for (uint32_t i = 1; i < l->lengths[w]; i++)
        TERN_TRY(tern_bpe_counts__push(&l->counts, tern_bpe_counts__find(&l->counts, s[i - 1], s[i]), err));
    return TERN_OK;
}

/* Joins left and right, from the start on, wherever they meet. */
static void join(learning *l, uint32_t w, const tern_bpe_best *pair, uint32_t merged)
{
    uint32_t *s = l->symbols + l->t->words[w].first, n = 0;
    for (uint32_t i = 0; i < l->lengths[w]; i++) {
        bool both = i + 1 < l->lengths[w] && s[i] == pair->left && s[i + 1] == pair->right;
        s[n++] = both ? merged : s[i];
        i += both;
    }
    l->lengths[w] = n;
}

static bool contains(const learning *l, uint32_t w, const tern_bpe_best *pair)
{
    const uint32_t *s = l->symbols + l->t->words[w].first;
    for (uint32_t i = 1; i < l->lengths[w]; i++)
        if (s[i - 1] == pair->left && s[i] == pair->right) return true;
    return false;
}

/* Every word is counted anew; pairs that became rarer are pushed with their new count as well, since their old entry is
 * dropped when it comes up. */
static tern_status merge(learning *l, const tern_bpe_best *pair, tern_error *err)
{
    uint32_t merged;
    TERN_TRY(add_merge(l, pair, &merged, err));
    tern_bpe_pair *found = tern_bpe_counts__find(&l->counts, pair->left, pair->right);
    uint32_t *words = found->words;
    size_t n = found->n_words;
    *found = (tern_bpe_pair){.left = pair->left, .right = pair->right, .count = found->count};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n; i++) {
        uint32_t w = words[i];
        if (!contains(l, w, pair)) continue;
        TERN_GOTO(recount(l, w, -1, err));
        TERN_GOTO(push_pairs(l, w, err));
        join(l, w, pair, merged);
        TERN_GOTO(recount(l, w, 1, err));
        TERN_GOTO(push_pairs(l, w, err));
    }
fail:
    tern_free(words);
    return status;
}

static tern_status learn(learning *l, bool (*progress)(void *, float), void *context, tern_error *err)
{
    tern_bpe_best best;
    TERN_TRY(count_pairs(l, err));
    while (l->n_tokens < l->wanted && tern_bpe_counts__pop(&l->counts, &best)) {
        TERN_TRY(merge(l, &best, err));
        if (progress && l->n_merges % 64 == 0 && !progress(context, (float)l->n_tokens / (float)l->wanted))
            return tern_fail(err, TERN_CANCELLED, "learning the vocabulary was cancelled");
    }
    return TERN_OK;
}

static tern_status fill_vocab(const learning *l, tern_vocab *v, tern_error *err)
{
    TERN_TRY(tern_vocab__resize(v, l->n_tokens + TERN_BPE_N_SPECIAL, err));
    for (uint32_t id = 0; id < l->n_tokens; id++)
        TERN_TRY(tern_vocab__set_text(v, id, l->texts[id].data, l->texts[id].size, TERN_TOKEN_NORMAL, err));
    for (uint32_t i = 0; i < TERN_BPE_N_SPECIAL; i++)
        TERN_TRY(tern_vocab__set(v, l->n_tokens + i, special_names[i], strlen(special_names[i]), TERN_TOKEN_CONTROL, 0,
                                 err));
    return TERN_OK;
}

static tern_status build(const learning *l, tern_tokenizer *t, tern_error *err)
{
    const int32_t first = (int32_t)l->n_tokens;
    t->vocab.alphabet = TERN_ALPHABET_GPT2;
    t->rule = TERN_MERGE_PAIRS;
    t->ignore_merges = cut()->ignore_merges;
    t->bos = first;
    t->eos = first + 1;
    t->eot = first + 4;
    t->adds_bos = t->bos_decided = true;
    TERN_TRY(tern_pretokenizer__add_row(&t->pre, cut(), err));
    TERN_TRY(fill_vocab(l, &t->vocab, err));
    TERN_TRY(tern_tokenizer__index(t, err));
    TERN_TRY(tern_pairs__reserve(&t->pairs, l->n_merges, err));
    for (size_t i = 0; i < l->n_merges; i++) TERN_TRY(tern_pairs__add(&t->pairs, l->merges[i], err));
    return tern_tokenizer__finish(t, err);
}

static tern_status make_tokenizer(const learning *l, tern_tokenizer **tokenizer, tern_error *err)
{
    tern_tokenizer *made = NULL;
    TERN_TRY(tern_tokenizer__alloc(&made, err));
    tern_status status = build(l, made, err);
    if (status == TERN_OK) *tokenizer = made;
    else tern_tokenizer_close(made);
    return status;
}

static tern_status begin(learning *l, tern_error *err)
{
    const tern_bpe_trainer *t = l->t;
    l->symbols = tern_calloc(t->n_symbols + 1, sizeof *l->symbols);
    l->lengths = tern_calloc(t->n_words + 1, sizeof *l->lengths);
    l->texts = tern_calloc(l->wanted, sizeof *l->texts);
    if (!l->symbols || !l->lengths || !l->texts) return tern_fail_alloc(err, t->n_symbols * sizeof *l->symbols);
    if (t->n_symbols) memcpy(l->symbols, t->symbols, t->n_symbols * sizeof *l->symbols);
    for (size_t i = 0; i < t->n_words; i++) l->lengths[i] = t->words[i].n;
    for (uint32_t b = 0, id; b < 256; b++) TERN_TRY(token_of(l, &(uint8_t){(uint8_t)b}, 1, &id, err));
    return TERN_OK;
}

tern_status tern_bpe_trainer_finish(tern_bpe_trainer *trainer, uint32_t n_vocab, bool (*progress)(void *, float),
                                    void *context, tern_tokenizer **tokenizer, tern_error *err)
{
    if (n_vocab < TERN_BPE_MIN_VOCAB || n_vocab > TERN_BPE_MAX_VOCAB)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "vocabulary of %u tokens: %d to %d expected", n_vocab,
                         TERN_BPE_MIN_VOCAB, TERN_BPE_MAX_VOCAB);
    learning l = {.t = trainer, .wanted = n_vocab - TERN_BPE_N_SPECIAL};
    tern_status status;
    TERN_GOTO(begin(&l, err));
    TERN_GOTO(learn(&l, progress, context, err));
    TERN_GOTO(make_tokenizer(&l, tokenizer, err));
fail:
    tern_bpe_counts__deinit(&l.counts);
    tern_free(l.symbols);
    tern_free(l.lengths);
    tern_free(l.merges);
    tern_free(l.texts);
    tern_map_deinit(&l.ids);
    tern_arena_deinit(&l.arena);
    return status;
}
