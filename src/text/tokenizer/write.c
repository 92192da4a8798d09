/* Tokenizers as GGUF metadata. */
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "text/tokenizer/gguf_keys.h"
#include "text/tokenizer/internal.h"

/* Strings that are made for the file, and the spans over them. */
typedef struct strings {
    tern_buf bytes;
    size_t *ends; /* [n] */
    size_t n, cap;
} strings;

static tern_status end_string(strings *s, tern_error *err)
{
    void *ends = s->ends;
    TERN_TRY(tern_grow(&ends, &s->cap, s->n + 1, sizeof *s->ends, err));
    s->ends = ends;
    s->ends[s->n++] = s->bytes.size;
    return TERN_OK;
}

static tern_status add_string(strings *s, tern_span text, tern_error *err)
{
    TERN_TRY(tern_buf_add(&s->bytes, text.data, text.size, err));
    return end_string(s, err);
}

/* Writes the array and empties s. */
static tern_status write_strings(strings *s, tern_gguf_writer *w, const char *key, tern_error *err)
{
    tern_span *spans = tern_calloc(s->n, sizeof *spans);
    tern_status status = spans ? TERN_OK : tern_fail_alloc(err, s->n * sizeof *spans);
    for (size_t i = 0; spans && i < s->n; i++) {
        size_t start = i ? s->ends[i - 1] : 0;
        spans[i] = (tern_span){(const uint8_t *)s->bytes.data + start, s->ends[i] - start};
    }
    if (status == TERN_OK) status = tern_gguf_add_array(w, key, TERN_GGUF_STRING, spans, s->n, err);
    tern_free(spans);
    tern_buf_deinit(&s->bytes);
    tern_free(s->ends);
    *s = (strings){0};
    return status;
}

static void drop_strings(strings *s)
{
    tern_buf_deinit(&s->bytes);
    tern_free(s->ends);
    *s = (strings){0};
}

/* The entry of an id; behind the last one UNUSED. */
static tern_vocab_entry entry_at(const tern_vocab *v, uint32_t id)
{
    return id < v->n ? v->entries[id] : (tern_vocab_entry){.type = TERN_TOKEN_UNUSED};
}

/* Holes in the numbering, and ids behind the last token, get a name that no other token has; text can never become
 * one. */
static tern_status add_piece(strings *s, const tern_vocab *v, uint32_t id, tern_error *err)
{
    char name[32];
    const tern_span none = {0}, piece = id < v->n ? tern_vocab__piece(v, id) : none;
    if (piece.size) return add_string(s, piece, err);
    int n = snprintf(name, sizeof name, "[PAD%u]", id);
    if (tern_vocab__find_piece(v, name, (size_t)n) >= 0) n = snprintf(name, sizeof name, "<|tern hole %u|>", id);
    return add_string(s, (tern_span){(const uint8_t *)name, (size_t)n}, err);
}

static tern_status write_pieces(const tern_vocab *v, uint32_t n, tern_gguf_writer *w, tern_error *err)
{
    strings s = {0};
    tern_status status = TERN_OK;
    for (uint32_t id = 0; status == TERN_OK && id < n; id++) status = add_piece(&s, v, id, err);
    if (status == TERN_OK) return write_strings(&s, w, KEY_TOKENS, err);
    drop_strings(&s);
    return status;
}

static tern_status write_types(const tern_vocab *v, uint32_t n, tern_gguf_writer *w, tern_error *err)
{
    uint8_t *types = tern_calloc(n, 4);
    if (!types) return tern_fail_alloc(err, (unsigned long long)n * 4);
    for (uint32_t id = 0; id < n; id++) tern_store_u32(types + (size_t)4 * id, entry_at(v, id).type);
    tern_status status = tern_gguf_add_array(w, KEY_TYPES, TERN_GGUF_I32, types, n, err);
    tern_free(types);
    return status;
}

/* Listed merges as scores, for readers that know only those: the rank at which a piece is first made, negated. */
static void scores_of_pairs(const tern_tokenizer *t, uint8_t *scores)
{
    for (size_t id = 0; id < t->vocab.n; id++) tern_store_f32(scores + 4 * id, 0);
    for (size_t i = 0; i < t->pairs.n_slots; i++) {
        const tern_pair *pair = &t->pairs.slots[i];
        if (pair->left < 0) continue;
        uint8_t *score = scores + 4 * (size_t)pair->merged;
        float made = -(float)pair->rank - 1;
        if (!(tern_load_f32(score) < 0) || made > tern_load_f32(score)) tern_store_f32(score, made);
    }
}

static tern_status write_scores(const tern_tokenizer *t, uint32_t n, tern_gguf_writer *w, tern_error *err)
{
    uint8_t *scores = tern_calloc(n, 4);
    if (!scores) return tern_fail_alloc(err, (unsigned long long)n * 4);
    for (uint32_t id = 0; id < n; id++) tern_store_f32(scores + (size_t)4 * id, entry_at(&t->vocab, id).score);
    if (t->rule == TERN_MERGE_PAIRS) scores_of_pairs(t, scores);
    tern_status status = tern_gguf_add_array(w, KEY_SCORES, TERN_GGUF_F32, scores, n, err);
    tern_free(scores);
    return status;
}

/* "left right" in the list of a writing. */
typedef struct merges {
    strings *s;
    const tern_vocab *v;
} merges;

static tern_status add_merge(void *user, int32_t left, int32_t right, tern_error *err)
{
    const merges *m = user;
    tern_span l = tern_vocab__piece(m->v, (uint32_t)left), r = tern_vocab__piece(m->v, (uint32_t)right);
    TERN_TRY(tern_buf_add(&m->s->bytes, l.data, l.size, err));
    TERN_TRY(tern_buf_add(&m->s->bytes, " ", 1, err));
    return add_string(m->s, r, err);
}

static tern_status write_merges(const tern_tokenizer *t, tern_gguf_writer *w, tern_error *err)
{
    strings s = {0};
    tern_status status = tern_tokenizer__each_merge(t, add_merge, &(merges){&s, &t->vocab}, err);
    if (status == TERN_OK) return write_strings(&s, w, KEY_MERGES, err);
    drop_strings(&s);
    return status;
}

static tern_status write_vocab(const tern_tokenizer *t, uint32_t n, tern_gguf_writer *w, tern_error *err)
{
    if (n < t->vocab.n) n = (uint32_t)t->vocab.n;
    TERN_TRY(write_pieces(&t->vocab, n, w, err));
    TERN_TRY(write_types(&t->vocab, n, w, err));
    if (t->vocab.alphabet == TERN_ALPHABET_BYTES) TERN_TRY(write_scores(t, n, w, err));
    if (t->rule != TERN_MERGE_SCORES) TERN_TRY(write_merges(t, w, err));
    if (t->rule == TERN_MERGE_RANKS) return tern_gguf_add_string(w, KEY_RULE, "ranks", 5, err);
    if (t->rule == TERN_MERGE_PAIRS && t->vocab.alphabet == TERN_ALPHABET_BYTES)
        return tern_gguf_add_string(w, KEY_RULE, "pairs", 5, err);
    return TERN_OK;
}

static tern_status write_stages(const tern_tokenizer *t, tern_gguf_writer *w, tern_error *err)
{
    strings patterns = {0}, behaviors = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < t->pre.n; i++) {
        const char *name = tern_split_behavior__name(tern_splitter__behavior(t->pre.stages[i]));
        TERN_GOTO(add_string(&patterns, tern_splitter__pattern(t->pre.stages[i]), err));
        TERN_GOTO(add_string(&behaviors, (tern_span){(const uint8_t *)name, strlen(name)}, err));
    }
    TERN_GOTO(write_strings(&patterns, w, KEY_PATTERNS, err));
    TERN_GOTO(write_strings(&behaviors, w, KEY_BEHAVIORS, err));
fail:
    drop_strings(&patterns);
    drop_strings(&behaviors);
    return status;
}

/* By name where the table has it, else stage by stage. */
static tern_status write_pre(const tern_tokenizer *t, tern_gguf_writer *w, tern_error *err)
{
    bool bytes = t->vocab.alphabet == TERN_ALPHABET_BYTES;
    const tern_pretokenizer_row *row = bytes ? NULL : tern_pretokenizer__row_of(&t->pre, t->ignore_merges);
    size_t n = row ? strcspn(row->names, ",") : 0;
    TERN_TRY(tern_gguf_add_bool(w, KEY_IGNORE_MERGES, t->ignore_merges, err));
    if (row) return tern_gguf_add_string(w, KEY_PRE, row->names, n, err);
    const char *name = bytes ? "default" : "custom";
    TERN_TRY(tern_gguf_add_string(w, KEY_PRE, name, strlen(name), err));
    return bytes && t->pre.n == 0 ? TERN_OK : write_stages(t, w, err);
}

static tern_status write_normalizer(const tern_tokenizer *t, tern_gguf_writer *w, tern_error *err)
{
    const tern_normalizer *norm = &t->norm;
    const tern_buf *map = &norm->charsmap.blob;
    TERN_TRY(tern_gguf_add_bool(w, KEY_ADD_SPACE, norm->prefix != TERN_PREFIX_NEVER, err));
    TERN_TRY(tern_gguf_add_u32(w, KEY_PREFIX, norm->prefix, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_PREFIX_ONCE, norm->prefix_once, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_SUFFIX, norm->suffix, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_ESCAPE, norm->escape, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_REMOVE_EXTRA, norm->remove_extra, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_BYTE_FALLBACK, t->byte_fallback, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_FUSE_UNK, t->fuse_unk, err));
    return map->size ? tern_gguf_add_array(w, KEY_CHARSMAP, TERN_GGUF_U8, map->data, map->size, err) : TERN_OK;
}

static tern_status write_id(tern_gguf_writer *w, const char *key, int32_t id, tern_error *err)
{
    return id < 0 ? TERN_OK : tern_gguf_add_u32(w, key, (uint32_t)id, err);
}

static tern_status write_flags(const tern_vocab *v, tern_gguf_writer *w, tern_error *err)
{
    tern_buf pairs = {0};
    tern_status status = TERN_OK;
    for (uint32_t id = 0; id < v->n; id++) {
        uint8_t pair[8];
        tern_store_u32(pair, id);
        tern_store_u32(pair + 4, v->entries[id].flags);
        if (v->entries[id].flags) TERN_GOTO(tern_buf_add(&pairs, pair, sizeof pair, err));
    }
    if (pairs.size) TERN_GOTO(tern_gguf_add_array(w, KEY_FLAGS, TERN_GGUF_U32, pairs.data, pairs.size / 4, err));
fail:
    tern_buf_deinit(&pairs);
    return status;
}

static tern_status write_fim(const tern_tokenizer *t, tern_gguf_writer *w, tern_error *err)
{
    static const char *const keys[TERN_FIM_TOKENS] = {
        [TERN_FIM_PREFIX] = KEY_FIM_PRE, [TERN_FIM_SUFFIX] = KEY_FIM_SUF,     [TERN_FIM_MIDDLE] = KEY_FIM_MID,
        [TERN_FIM_PAD] = KEY_FIM_PAD,    [TERN_FIM_REPOSITORY] = KEY_FIM_REP, [TERN_FIM_FILE] = KEY_FIM_SEP};
    for (int i = 0; i < TERN_FIM_TOKENS; i++) TERN_TRY(write_id(w, keys[i], t->fim[i], err));
    return TERN_OK;
}

static tern_status write_specials(const tern_tokenizer *t, tern_gguf_writer *w, tern_error *err)
{
    uint8_t ends[4 * TERN_MAX_END_TOKENS];
    TERN_TRY(write_id(w, KEY_BOS, t->bos, err));
    TERN_TRY(write_id(w, KEY_EOS, t->closing >= 0 ? t->closing : t->eos, err)); /* what add_eos_token adds */
    if (t->closing >= 0) TERN_TRY(tern_gguf_add_bool(w, KEY_ADD_EOS, true, err));
    TERN_TRY(write_id(w, KEY_EOT, t->eot, err));
    TERN_TRY(write_id(w, KEY_EOM, t->eom, err));
    TERN_TRY(write_id(w, KEY_UNK, t->unk, err));
    TERN_TRY(write_id(w, KEY_PAD, t->pad, err));
    TERN_TRY(write_fim(t, w, err));
    TERN_TRY(tern_gguf_add_bool(w, KEY_ADD_BOS, t->adds_bos, err));
    TERN_TRY(write_flags(&t->vocab, w, err));
    for (size_t i = 0; i < t->n_ends; i++) tern_store_u32(ends + 4 * i, (uint32_t)t->ends[i]);
    if (t->n_ends) TERN_TRY(tern_gguf_add_array(w, KEY_ENDS, TERN_GGUF_U32, ends, t->n_ends, err));
    if (t->rerank_template)
        TERN_TRY(tern_gguf_add_string(w, KEY_RERANK, t->rerank_template, strlen(t->rerank_template), err));
    return t->chat_template ? tern_gguf_add_string(w, KEY_TEMPLATE, t->chat_template, strlen(t->chat_template), err)
                            : TERN_OK;
}

tern_status tern_tokenizer_write_gguf(const tern_tokenizer *t, uint32_t n_rows, tern_gguf_writer *w, tern_error *err)
{
    const char *model = t->vocab.alphabet == TERN_ALPHABET_GPT2 ? "gpt2" : "llama";
    TERN_TRY(tern_gguf_add_string(w, KEY_MODEL, model, strlen(model), err));
    TERN_TRY(write_pre(t, w, err));
    if (t->nfc) TERN_TRY(tern_gguf_add_bool(w, KEY_NFC, true, err));
    if (t->vocab.alphabet == TERN_ALPHABET_BYTES) TERN_TRY(write_normalizer(t, w, err));
    TERN_TRY(write_vocab(t, n_rows, w, err));
    return write_specials(t, w, err);
}
