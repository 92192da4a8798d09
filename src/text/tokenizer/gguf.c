/* Tokenizers from GGUF metadata. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf.h"
#include "text/tokenizer/gguf_keys.h"
#include "text/tokenizer/internal.h"

static bool equals(tern_span s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

/* Getters for keys that may be missing: *out stays as it is then. */
static tern_status get_bool(const tern_gguf *g, const char *key, bool *out, tern_error *err)
{
    return tern_gguf_find(g, key) ? tern_gguf_get_bool(g, key, out, err) : TERN_OK;
}

static tern_status get_string(const tern_gguf *g, const char *key, tern_span *out, tern_error *err)
{
    return tern_gguf_find(g, key) ? tern_gguf_get_string(g, key, out, err) : TERN_OK;
}

/* 2^32-1 is how some files say that there is none. */
static tern_status get_id(const tern_gguf *g, const char *key, int32_t *out, tern_error *err)
{
    uint32_t id;
    const tern_gguf_kv *kv = tern_gguf_find(g, key);
    if (!kv || (kv->kind == TERN_GGUF_I32 && tern_load_u32(kv->value.data) == UINT32_MAX)) return TERN_OK;
    TERN_TRY(tern_gguf_get_u32(g, key, &id, err));
    if (id != UINT32_MAX) *out = id > INT32_MAX ? INT32_MAX : (int32_t)id;
    return TERN_OK;
}

static tern_status get_array(const tern_gguf *g, const char *key, tern_gguf_kind element, const tern_gguf_kv **out,
                             tern_error *err)
{
    *out = NULL;
    return tern_gguf_find(g, key) ? tern_gguf_get_array(g, key, element, out, err) : TERN_OK;
}

static bool is_integer(tern_gguf_kind kind)
{
    return kind != TERN_GGUF_F32 && kind != TERN_GGUF_F64 && kind != TERN_GGUF_STRING && kind != TERN_GGUF_ARRAY;
}

static tern_status get_integers(const tern_gguf *g, const char *key, const tern_gguf_kv **out, tern_error *err)
{
    *out = tern_gguf_find(g, key);
    if (!*out || ((*out)->kind == TERN_GGUF_ARRAY && is_integer((*out)->element))) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: an array of integers expected", key);
}

static tern_status check_count(const char *key, const tern_gguf_kv *kv, uint64_t expected, tern_error *err)
{
    if (!kv || kv->count == expected) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: %llu entries, %llu expected as in " KEY_TOKENS, key,
                     (unsigned long long)kv->count, (unsigned long long)expected);
}

static tern_status set_entries(tern_vocab *v, const tern_gguf_kv *tokens, const tern_gguf_kv *types,
                               const tern_gguf_kv *scores, tern_error *err)
{
    tern_cursor c = tern_cursor_open(tokens->value.data, tokens->value.size);
    for (uint32_t id = 0; id < v->n; id++) {
        tern_span piece = tern_gguf_next_string(&c);
        int64_t type = types ? tern_gguf_array_int(types, id) : TERN_TOKEN_NORMAL;
        float score = scores ? tern_load_f32(scores->value.data + 4 * (size_t)id) : 0;
        if (type < TERN_TOKEN_NORMAL || type > TERN_TOKEN_BYTE) type = 0;
        TERN_TRY(tern_vocab__set(v, id, piece.data, piece.size, (tern_token_type)type, score, err));
    }
    return TERN_OK;
}

static tern_status read_vocab(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_kv *tokens, *types, *scores;
    TERN_TRY(tern_gguf_get_array(g, KEY_TOKENS, TERN_GGUF_STRING, &tokens, err));
    TERN_TRY(get_integers(g, KEY_TYPES, &types, err));
    TERN_TRY(get_array(g, KEY_SCORES, TERN_GGUF_F32, &scores, err));
    TERN_TRY(check_count(KEY_TYPES, types, tokens->count, err));
    TERN_TRY(check_count(KEY_SCORES, scores, tokens->count, err));
    if (t->rule == TERN_MERGE_SCORES && !scores) return tern_fail(err, TERN_MALFORMED, KEY_SCORES " is missing");
    TERN_TRY(tern_vocab__resize(&t->vocab, tokens->count > SIZE_MAX ? SIZE_MAX : (size_t)tokens->count, err));
    TERN_TRY(tern_vocab__reserve(&t->vocab, tokens->value.size, err));
    return set_entries(&t->vocab, tokens, types, scores, err);
}

static tern_status read_merges(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_kv *merges;
    TERN_TRY(tern_gguf_get_array(g, KEY_MERGES, TERN_GGUF_STRING, &merges, err));
    if (merges->count > UINT32_MAX) return tern_fail(err, TERN_LIMIT, KEY_MERGES ": more than 2^32 entries");
    TERN_TRY(tern_pairs__reserve(&t->pairs, (size_t)merges->count, err));
    tern_cursor c = tern_cursor_open(merges->value.data, merges->value.size);
    for (uint32_t i = 0; i < merges->count; i++) {
        tern_span left, right;
        TERN_TRY(tern_tokenizer__split_merge(tern_gguf_next_string(&c), i, &left, &right, err));
        TERN_TRY(tern_tokenizer__add_merge(t, i, left, right, err));
    }
    return TERN_OK;
}

/* The stages as Tern wrote them. */
static tern_status read_stages(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_kv *patterns, *behaviors;
    TERN_TRY(tern_gguf_get_array(g, KEY_PATTERNS, TERN_GGUF_STRING, &patterns, err));
    TERN_TRY(tern_gguf_get_array(g, KEY_BEHAVIORS, TERN_GGUF_STRING, &behaviors, err));
    if (patterns->count != behaviors->count)
        return tern_fail(err, TERN_MALFORMED, KEY_BEHAVIORS ": %llu entries, %llu expected as in " KEY_PATTERNS,
                         (unsigned long long)behaviors->count, (unsigned long long)patterns->count);
    tern_cursor p = tern_cursor_open(patterns->value.data, patterns->value.size);
    tern_cursor b = tern_cursor_open(behaviors->value.data, behaviors->value.size);
    for (uint64_t i = 0; i < patterns->count; i++) {
        tern_span pattern = tern_gguf_next_string(&p), name = tern_gguf_next_string(&b);
        int behavior = tern_split_behavior__find(name.data, name.size);
        if (behavior < 0)
            return tern_fail(err, TERN_UNSUPPORTED, KEY_BEHAVIORS ": \"%s\" is not known", tern_show(name).text);
        TERN_TRY(tern_pretokenizer__add(&t->pre, pattern, (tern_split_behavior)behavior, err));
    }
    return TERN_OK;
}

/* Files without the key: the official BitNet ones mean LLaMA-3, others are as old as GPT-2. */
static tern_span implied_pre(const tern_gguf *g)
{
    tern_span arch = {(const uint8_t *)"", 0};
    bool known = tern_gguf_find(g, "general.architecture") &&
                 tern_gguf_get_string(g, "general.architecture", &arch, NULL) == TERN_OK;
    bool bitnet = known && (equals(arch, "bitnet-b1.58") || equals(arch, "bitnet-25"));
    return bitnet ? (tern_span){(const uint8_t *)"llama-bpe", 9} : (tern_span){(const uint8_t *)"gpt-2", 5};
}

static tern_status read_pre(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    tern_span name = implied_pre(g);
    TERN_TRY(get_string(g, KEY_PRE, &name, err));
    if (tern_gguf_find(g, KEY_PATTERNS)) return read_stages(t, g, err);
    if (t->vocab.alphabet == TERN_ALPHABET_BYTES) return TERN_OK;
    bool prefix = false;
    TERN_TRY(get_bool(g, KEY_ADD_SPACE, &prefix, err));
    if (prefix)
        TERN_TRY(tern_pretokenizer__add(&t->pre, (tern_span){(const uint8_t *)"", 0}, TERN_SPLIT_PREFIX_SPACE, err));
    const tern_pretokenizer_row *row = tern_pretokenizer__find(name.data, name.size);
    if (!row) return tern_fail(err, TERN_UNSUPPORTED, KEY_PRE " \"%s\" is not known", tern_show(name).text);
    t->ignore_merges = row->ignore_merges;
    t->adds_bos = row->ignore_merges; /* LLaMA-3 and Tekken want a BOS */
    return tern_pretokenizer__add_row(&t->pre, row, err);
}

static tern_status read_charsmap(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_kv *kv;
    TERN_TRY(get_integers(g, KEY_CHARSMAP, &kv, err));
    if (!kv) return TERN_OK;
    if (kv->element != TERN_GGUF_U8 && kv->element != TERN_GGUF_I8)
        return tern_fail(err, TERN_MALFORMED, KEY_CHARSMAP ": bytes expected");
    return tern_charsmap__open(&t->norm.charsmap, kv->value, err);
}

static tern_status read_normalizer(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    tern_normalizer *norm = &t->norm;
    bool prefix = true;
    uint32_t kind;
    norm->escape = t->byte_fallback = t->fuse_unk = true;
    TERN_TRY(get_bool(g, KEY_ADD_SPACE, &prefix, err));
    norm->prefix = prefix ? TERN_PREFIX_ALWAYS : TERN_PREFIX_NEVER;
    if (tern_gguf_find(g, KEY_PREFIX)) {
        TERN_TRY(tern_gguf_get_u32(g, KEY_PREFIX, &kind, err));
        if (kind > TERN_PREFIX_ALWAYS) return tern_fail(err, TERN_MALFORMED, KEY_PREFIX ": %u, 0 to 2 expected", kind);
        norm->prefix = (tern_prefix)kind;
    }
    TERN_TRY(get_bool(g, KEY_PREFIX_ONCE, &norm->prefix_once, err));
    TERN_TRY(get_bool(g, KEY_SUFFIX, &norm->suffix, err));
    TERN_TRY(get_bool(g, KEY_ESCAPE, &norm->escape, err));
    TERN_TRY(get_bool(g, KEY_REMOVE_EXTRA, &norm->remove_extra, err));
    return read_charsmap(t, g, err);
}

static tern_status read_rule(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    static const char *const NAMES[] = {"pairs", "ranks", "scores"};
    tern_span model, rule = {(const uint8_t *)"", 0};
    TERN_TRY(tern_gguf_get_string(g, KEY_MODEL, &model, err));
    bool gpt2 = equals(model, "gpt2");
    if (!gpt2 && !equals(model, "llama"))
        return tern_fail(err, TERN_UNSUPPORTED, KEY_MODEL " \"%s\": \"gpt2\" or \"llama\" expected",
                         tern_show(model).text);
    t->vocab.alphabet = gpt2 ? TERN_ALPHABET_GPT2 : TERN_ALPHABET_BYTES;
    t->rule = gpt2 ? TERN_MERGE_PAIRS : TERN_MERGE_SCORES;
    TERN_TRY(get_string(g, KEY_RULE, &rule, err));
    for (int i = 0; i < 3; i++)
        if (equals(rule, NAMES[i])) t->rule = (tern_merge_rule)i;
    return TERN_OK;
}

static tern_status read_flags(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_kv *kv;
    TERN_TRY(get_integers(g, KEY_FLAGS, &kv, err));
    for (uint64_t i = 0; kv && i + 1 < kv->count; i += 2) {
        int64_t id = tern_gguf_array_int(kv, i), flags = tern_gguf_array_int(kv, i + 1);
        if (id < 0 || id >= t->vocab.n || flags < 0 || flags >= TERN_ADDED_CONTROL)
            return tern_fail(err, TERN_MALFORMED, KEY_FLAGS ": token %lld, flags %lld", (long long)id,
                             (long long)flags);
        t->vocab.entries[id].flags = (uint8_t)flags;
    }
    return TERN_OK;
}

static tern_status read_fim(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(get_id(g, KEY_OLD_FIM_PRE, &t->fim[TERN_FIM_PREFIX], err));
    TERN_TRY(get_id(g, KEY_OLD_FIM_SUF, &t->fim[TERN_FIM_SUFFIX], err));
    TERN_TRY(get_id(g, KEY_OLD_FIM_MID, &t->fim[TERN_FIM_MIDDLE], err));
    TERN_TRY(get_id(g, KEY_FIM_PRE, &t->fim[TERN_FIM_PREFIX], err));
    TERN_TRY(get_id(g, KEY_FIM_SUF, &t->fim[TERN_FIM_SUFFIX], err));
    TERN_TRY(get_id(g, KEY_FIM_MID, &t->fim[TERN_FIM_MIDDLE], err));
    TERN_TRY(get_id(g, KEY_FIM_PAD, &t->fim[TERN_FIM_PAD], err));
    TERN_TRY(get_id(g, KEY_FIM_REP, &t->fim[TERN_FIM_REPOSITORY], err));
    return get_id(g, KEY_FIM_SEP, &t->fim[TERN_FIM_FILE], err);
}

static tern_status read_ids(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(get_id(g, KEY_BOS, &t->bos, err));
    TERN_TRY(get_id(g, KEY_EOS, &t->eos, err));
    TERN_TRY(get_id(g, KEY_EOT, &t->eot, err));
    TERN_TRY(get_id(g, KEY_EOM, &t->eom, err));
    TERN_TRY(get_id(g, KEY_UNK, &t->unk, err));
    TERN_TRY(get_id(g, KEY_PAD, &t->pad, err));
    TERN_TRY(read_fim(t, g, err));
    if (t->vocab.alphabet == TERN_ALPHABET_BYTES) t->adds_bos = true;
    t->bos_decided = true;
    bool adds_eos = false;
    TERN_TRY(get_bool(g, KEY_ADD_EOS, &adds_eos, err));
    if (adds_eos) t->closing = t->eos;
    return get_bool(g, KEY_ADD_BOS, &t->adds_bos, err);
}

static void mark_id(tern_tokenizer *t, int32_t id)
{
    if (id >= 0 && (uint32_t)id < t->vocab.n && t->vocab.entries[id].piece_size > 2)
        tern_vocab__mark(&t->vocab, (uint32_t)id, TERN_TOKEN_CONTROL, 0);
}

/* A file without token types: at least its own special tokens are not plain text. */
static void mark_ids(tern_tokenizer *t, const tern_gguf *g)
{
    const int32_t ids[] = {t->bos, t->eos, t->eot, t->eom, t->pad};
    if (tern_gguf_find(g, KEY_TYPES)) return;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) mark_id(t, ids[i]);
    for (size_t i = 0; i < TERN_FIM_TOKENS; i++) mark_id(t, t->fim[i]);
}

static tern_status read_ends(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_kv *kv;
    tern_span text = {NULL, 0};
    TERN_TRY(get_integers(g, KEY_ENDS, &kv, err));
    for (uint64_t i = 0; kv && i < kv->count; i++)
        TERN_TRY(tern_tokenizer__add_end(t, tern_gguf_array_int(kv, i), err));
    TERN_TRY(get_string(g, KEY_RERANK, &text, err));
    if (text.data && !(t->rerank_template = tern_strndup((const char *)text.data, text.size)))
        return tern_fail_alloc(err, text.size);
    text = (tern_span){NULL, 0};
    TERN_TRY(get_string(g, KEY_TEMPLATE, &text, err));
    return text.data ? tern_tokenizer_set_chat_template(t, text.data, text.size, err) : TERN_OK;
}

static tern_status build(tern_tokenizer *t, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(read_rule(t, g, err));
    if (t->vocab.alphabet == TERN_ALPHABET_BYTES) TERN_TRY(read_normalizer(t, g, err));
    TERN_TRY(read_pre(t, g, err));
    TERN_TRY(get_bool(g, KEY_IGNORE_MERGES, &t->ignore_merges, err));
    TERN_TRY(get_bool(g, KEY_BYTE_FALLBACK, &t->byte_fallback, err));
    TERN_TRY(get_bool(g, KEY_FUSE_UNK, &t->fuse_unk, err));
    TERN_TRY(get_bool(g, KEY_NFC, &t->nfc, err));
    TERN_TRY(read_vocab(t, g, err));
    TERN_TRY(read_ids(t, g, err));
    TERN_TRY(read_flags(t, g, err));
    mark_ids(t, g);
    TERN_TRY(tern_tokenizer__index(t, err));
    if (t->rule == TERN_MERGE_PAIRS) TERN_TRY(read_merges(t, g, err));
    TERN_TRY(read_ends(t, g, err));
    return tern_tokenizer__finish(t, err);
}

tern_status tern_tokenizer_open_gguf(tern_tokenizer **t, const tern_gguf *gguf, tern_error *err)
{
    tern_tokenizer *made = NULL;
    TERN_TRY(tern_tokenizer__alloc(&made, err));
    tern_status status = build(made, gguf, err);
    if (status == TERN_OK) *t = made;
    else tern_tokenizer_close(made);
    return status;
}
