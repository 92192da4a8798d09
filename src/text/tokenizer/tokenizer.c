/* The tokenizer object: its tables, special tokens and properties. */
#include "text/tokenizer/tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "text/tokenizer/alphabet.h"
#include "text/tokenizer/internal.h"

/* Tokens that end a text or a turn in published models, whatever their file says of them; a text's end comes first,
 * since the first one found is the EOS of a file that names none. */
static const char *const END_NAMES[] = {"<|end_of_text|>", "<|endoftext|>", "</s>",       "<eos>",
                                        "<|eot_id|>",      "<|eom_id|>",    "<|im_end|>", "<end_of_turn>",
                                        "<|end|>",         "<|eot|>",       "<EOT>",      "<|end_of_turn|>"};
enum { N_END_NAMES = sizeof END_NAMES / sizeof END_NAMES[0] };

tern_status tern_tokenizer__alloc(tern_tokenizer **t, tern_error *err)
{
    tern_tokenizer *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->bos = made->eos = made->eot = made->eom = made->unk = made->pad = made->closing = -1;
    for (int i = 0; i < TERN_FIM_TOKENS; i++) made->fim[i] = -1;
    *t = made;
    return TERN_OK;
}

void tern_tokenizer_close(tern_tokenizer *t)
{
    if (!t) return;
    tern_vocab__deinit(&t->vocab);
    tern_pairs__deinit(&t->pairs);
    tern_added__deinit(&t->added);
    tern_added__deinit(&t->frozen);
    tern_pretokenizer__deinit(&t->pre);
    tern_charsmap__deinit(&t->norm.charsmap);
    tern_free(t->chat_template);
    tern_free(t->rerank_template);
    tern_free(t);
}

tern_status tern_tokenizer_set_chat_template(tern_tokenizer *t, const void *text, size_t n, tern_error *err)
{
    char *copy = tern_strndup(text, n);
    if (!copy) return tern_fail_alloc(err, n);
    tern_free(t->chat_template);
    t->chat_template = copy;
    return TERN_OK;
}

static bool equals(tern_span s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

static bool starts_with(tern_span s, const char *text)
{
    size_t n = strlen(text);
    return s.size >= n && memcmp(s.data, text, n) == 0;
}

static bool is_end_name(tern_span piece)
{
    for (int i = 0; i < N_END_NAMES; i++)
        if (equals(piece, END_NAMES[i])) return true;
    return false;
}

/* User-defined symbols that structure a conversation: a user's words must never become one. */
static bool is_markup(tern_span piece)
{
    static const char *const NAMES[] = {"<start_of_turn>",
                                        "<start_of_image>",
                                        "<end_of_image>",
                                        "<bos>",
                                        "<s>",
                                        "<pad>",
                                        "<unk>",
                                        "[INST]",
                                        "[/INST]",
                                        "<<SYS>>",
                                        "<</SYS>>",
                                        "[AVAILABLE_TOOLS]",
                                        "[/AVAILABLE_TOOLS]",
                                        "[TOOL_CALLS]",
                                        "[TOOL_RESULTS]",
                                        "[/TOOL_RESULTS]",
                                        "[SYSTEM_PROMPT]",
                                        "[/SYSTEM_PROMPT]"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (equals(piece, NAMES[i])) return true;
    bool bars = piece.size > 4 && starts_with(piece, "<|") && memcmp(piece.data + piece.size - 2, "|>", 2) == 0;
    return bars || is_end_name(piece) || tern_tokenizer__is_fim_name(piece);
}

/* Files call some control tokens user-defined or plain. */
static void mark_control(tern_vocab *v)
{
    for (uint32_t id = 0; id < v->n; id++) {
        const tern_vocab_entry *e = &v->entries[id];
        if (e->piece_size < 3 || v->bytes.data[e->piece_at + e->piece_size - 1] == 0) continue;
        if (e->type != TERN_TOKEN_USER && e->type != TERN_TOKEN_NORMAL) continue;
        tern_span piece = tern_vocab__piece(v, id);
        if (e->type == TERN_TOKEN_USER ? is_markup(piece) : piece.data[0] == '<' && is_end_name(piece))
            tern_vocab__mark(v, id, TERN_TOKEN_CONTROL, e->flags);
    }
}

static tern_status collect_added(tern_tokenizer *t, tern_error *err)
{
    tern_added__deinit(&t->added);
    tern_added__deinit(&t->frozen);
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        const tern_vocab_entry *e = &t->vocab.entries[id];
        if (e->type != TERN_TOKEN_CONTROL && e->type != TERN_TOKEN_USER) continue;
        bool control = e->type == TERN_TOKEN_CONTROL;
        tern_added *list = !control && t->rule == TERN_MERGE_SCORES ? &t->frozen : &t->added;
        unsigned flags = e->flags | (control ? TERN_ADDED_CONTROL : 0u);
        TERN_TRY(tern_added__add(list, tern_vocab__piece(&t->vocab, id), (int32_t)id, flags, err));
    }
    tern_added__index(&t->added);
    tern_added__index(&t->frozen);
    return TERN_OK;
}

tern_status tern_tokenizer__index(tern_tokenizer *t, tern_error *err)
{
    if (t->vocab.n == 0) return tern_fail(err, TERN_MALFORMED, "the vocabulary is empty");
    mark_control(&t->vocab);
    TERN_TRY(tern_vocab__index(&t->vocab, err));
    return collect_added(t, err);
}

tern_status tern_tokenizer__split_merge(tern_span merge, uint32_t index, tern_span *left, tern_span *right,
                                        tern_error *err)
{
    const uint8_t *space = merge.size > 1 ? memchr(merge.data + 1, ' ', merge.size - 1) : NULL;
    if (!space)
        return tern_fail(err, TERN_MALFORMED, "merge %u \"%s\": two pieces with a space between expected", index,
                         tern_show(merge).text);
    *left = (tern_span){merge.data, (size_t)(space - merge.data)};
    *right = (tern_span){space + 1, merge.size - left->size - 1};
    return TERN_OK;
}

static tern_status fail_merge(uint32_t index, tern_span left, tern_span right, const char *which, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "merge %u, \"%s\" and \"%s\": %s is not in the vocabulary", index,
                     tern_show(left).text, tern_show(right).text, which);
}

/* The ids of left, right and both together, by their keys, which lie one behind the other in `keys`. */
static void find_by_keys(const tern_vocab *v, const uint8_t *keys, size_t n_left, size_t n_right, tern_pair *pair)
{
    pair->left = tern_vocab__find(v, keys, n_left);
    pair->right = tern_vocab__find(v, keys + n_left, n_right);
    pair->merged = tern_vocab__find(v, keys, n_left + n_right);
}

/* A byte-level piece is looked up by the bytes it stands for, or as it is when it is written in other characters. */
static size_t put_key(const tern_vocab *v, uint8_t *out, tern_span piece)
{
    size_t n = v->alphabet == TERN_ALPHABET_GPT2 ? tern_alphabet__decode(out, piece.data, piece.size) : SIZE_MAX;
    if (n == SIZE_MAX) memcpy(out, piece.data, n = piece.size);
    return n;
}

static tern_status find_pair(const tern_vocab *v, tern_span left, tern_span right, tern_pair *pair, tern_error *err)
{
    uint8_t local[512];
    size_t size = left.size + right.size;
    uint8_t *keys = size <= sizeof local ? local : tern_alloc(size);
    if (!keys) return tern_fail_alloc(err, size);
    size_t n_left = put_key(v, keys, left);
    find_by_keys(v, keys, n_left, put_key(v, keys + n_left, right), pair);
    if (keys != local) tern_free(keys);
    return TERN_OK;
}

tern_status tern_tokenizer__add_merge(tern_tokenizer *t, uint32_t index, tern_span left, tern_span right,
                                      tern_error *err)
{
    tern_pair pair = {.rank = index};
    TERN_TRY(find_pair(&t->vocab, left, right, &pair, err));
    if (pair.left < 0) return fail_merge(index, left, right, "the first", err);
    if (pair.right < 0) return fail_merge(index, left, right, "the second", err);
    if (pair.merged < 0) return fail_merge(index, left, right, "what they make together", err);
    tern_token_type type = (tern_token_type)t->vocab.entries[pair.merged].type;
    if (type != TERN_TOKEN_NORMAL && type != TERN_TOKEN_USER) return TERN_OK; /* plain text never becomes markup */
    return tern_pairs__add(&t->pairs, pair, err);
}

tern_status tern_tokenizer__add_end(tern_tokenizer *t, int64_t id, tern_error *err)
{
    if (id < 0 || id >= t->vocab.n)
        return tern_fail(err, TERN_MALFORMED, "end-of-text token id %lld: 0 to %u expected", (long long)id,
                         t->vocab.n - 1);
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return TERN_OK;
    if (t->n_ends == TERN_MAX_END_TOKENS)
        return tern_fail(err, TERN_LIMIT, "more than %d end-of-text tokens", TERN_MAX_END_TOKENS);
    t->ends[t->n_ends++] = (int32_t)id;
    return TERN_OK;
}

static tern_status check_id(const tern_tokenizer *t, const char *what, int32_t id, tern_error *err)
{
    if (id < (int64_t)t->vocab.n) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s token id %d: below %u expected", what, id, t->vocab.n);
}

tern_status tern_tokenizer__finish(tern_tokenizer *t, tern_error *err)
{
    const int32_t ids[] = {t->eos, t->eot, t->eom};
    TERN_TRY(check_id(t, "BOS", t->bos, err));
    TERN_TRY(check_id(t, "unknown", t->unk, err));
    TERN_TRY(check_id(t, "padding", t->pad, err));
    for (int i = 0; i < 3; i++)
        if (ids[i] >= 0) TERN_TRY(tern_tokenizer__add_end(t, ids[i], err));
    for (int i = 0; i < N_END_NAMES; i++) {
        int32_t id = tern_vocab__find_piece(&t->vocab, END_NAMES[i], strlen(END_NAMES[i]));
        if (id < 0 || t->vocab.entries[id].type != TERN_TOKEN_CONTROL) continue;
        TERN_TRY(tern_tokenizer__add_end(t, id, err));
        if (t->eos < 0) t->eos = id;
    }
    TERN_TRY(tern_tokenizer__find_fim(t, err));
    if (!t->bos_decided) t->adds_bos = t->bos != t->eos;
    t->bos_decided = true;
    if (t->bos < 0) t->adds_bos = false;
    return TERN_OK;
}

tern_span tern_token_piece(const tern_tokenizer *t, int32_t id)
{
    if (id < 0 || (uint32_t)id >= t->vocab.n) return (tern_span){(const uint8_t *)"", 0};
    return tern_vocab__piece(&t->vocab, (uint32_t)id);
}

int32_t tern_token_find(const tern_tokenizer *t, const char *piece, size_t n)
{
    return tern_vocab__find_piece(&t->vocab, piece, n);
}

uint32_t tern_tokenizer_size(const tern_tokenizer *t)
{
    return t->vocab.n;
}

int32_t tern_tokenizer_bos(const tern_tokenizer *t)
{
    return t->bos;
}

int32_t tern_tokenizer_eos(const tern_tokenizer *t)
{
    return t->eos;
}

bool tern_tokenizer_adds_bos(const tern_tokenizer *t)
{
    return t->adds_bos;
}

int32_t tern_tokenizer_closing(const tern_tokenizer *t)
{
    return t->closing;
}

bool tern_token_is_end(const tern_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return true;
    return false;
}

const int32_t *tern_tokenizer_ends(const tern_tokenizer *t, size_t *n)
{
    *n = t->n_ends;
    return t->ends;
}

bool tern_token_is_special(const tern_tokenizer *t, int32_t id)
{
    if (id < 0 || (uint32_t)id >= t->vocab.n) return false;
    tern_token_type type = (tern_token_type)t->vocab.entries[id].type;
    return type == TERN_TOKEN_CONTROL || type == TERN_TOKEN_UNKNOWN;
}

const char *tern_tokenizer_chat_template(const tern_tokenizer *t)
{
    return t->chat_template;
}

const char *tern_tokenizer_rerank_template(const tern_tokenizer *t)
{
    return t->rerank_template;
}

/* ---- the merges as a list, as files hold them */

static tern_status each_pair(const tern_tokenizer *t, tern_merge_fn fn, void *user, tern_error *err)
{
    tern_pair *all = NULL;
    TERN_TRY(tern_pairs__sorted(&t->pairs, &all, err));
    tern_status status = TERN_OK;
    for (size_t i = 0; i < t->pairs.n; i++) TERN_GOTO(fn(user, all[i].left, all[i].right, err));
fail:
    tern_free(all);
    return status;
}

enum { MAX_SPLIT_BYTES = 1024 };

/* Every way to make the token of two others, those of the lowest left id first: what tokenizer.json files of tiktoken
 * vocabularies hold. Tokens beyond MAX_SPLIT_BYTES are left out. */
static tern_status each_split(const tern_vocab *v, uint32_t id, tern_merge_fn fn, void *user, tern_error *err)
{
    tern_pair found[MAX_SPLIT_BYTES];
    size_t n = 0;
    tern_span text = tern_vocab__text(v, id);
    for (size_t at = 1; at < text.size && text.size <= MAX_SPLIT_BYTES; at++) {
        tern_pair pair = {.left = tern_vocab__find(v, text.data, at),
                          .right = tern_vocab__find(v, text.data + at, text.size - at)};
        if (pair.left < 0 || pair.right < 0) continue;
        if (v->entries[pair.left].type != TERN_TOKEN_NORMAL || v->entries[pair.right].type != TERN_TOKEN_NORMAL)
            continue;
        size_t place = n++;
        for (; place > 0 && found[place - 1].left > pair.left; place--) found[place] = found[place - 1];
        found[place] = pair;
    }
    for (size_t i = 0; i < n; i++) TERN_TRY(fn(user, found[i].left, found[i].right, err));
    return TERN_OK;
}

tern_status tern_tokenizer__each_merge(const tern_tokenizer *t, tern_merge_fn fn, void *user, tern_error *err)
{
    if (t->rule == TERN_MERGE_PAIRS) return each_pair(t, fn, user, err);
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (t->vocab.entries[id].type == TERN_TOKEN_NORMAL) TERN_TRY(each_split(&t->vocab, id, fn, user, err));
    return TERN_OK;
}
