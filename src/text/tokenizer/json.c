/* tokenizer.json: BPE models of the tokenizers library. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "text/json_text.h"
#include "text/tokenizer/json_internal.h"

enum { MAX_PART_BYTES = 1 << 20 }; /* of those that are read as a tree */

/* The parts of the document, raw; those that are missing have size 0. */
typedef struct document {
    tern_span model, added, normalizer, pre_tokenizer, post_processor;
    tern_span type, vocab, merges, unk, byte_fallback, ignore_merges, fuse_unk, prefix, suffix;
    tern_buf scratch, scratch2;
} document;

/* Which part goes where. */
typedef struct slot {
    const char *key;
    tern_span *value;
} slot;

static bool equals(tern_span s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

static bool is_given(tern_span raw)
{
    return raw.size > 0 && !equals(raw, "null");
}

/* Keys are compared as they stand in the file: none of those that matter has a reason to be escaped. */
static tern_status split_object(tern_span raw, const slot *slots, size_t n, tern_error *err)
{
    tern_json_walk walk = {.data = raw.data, .size = raw.size};
    bool more;
    tern_span key, value;
    for (;;) {
        TERN_TRY(tern_json_walk_next(&walk, &more, &key, &value, err));
        if (!more) return TERN_OK;
        for (size_t i = 0; i < n; i++)
            if (equals((tern_span){key.data + 1, key.size - 2}, slots[i].key)) *slots[i].value = tern_json__trim(value);
    }
}

static tern_status split_document(document *d, tern_span file, tern_error *err)
{
    const slot top[] = {{"model", &d->model},
                        {"added_tokens", &d->added},
                        {"normalizer", &d->normalizer},
                        {"pre_tokenizer", &d->pre_tokenizer},
                        {"post_processor", &d->post_processor}};
    const slot model[] = {{"type", &d->type},
                          {"vocab", &d->vocab},
                          {"merges", &d->merges},
                          {"unk_token", &d->unk},
                          {"byte_fallback", &d->byte_fallback},
                          {"ignore_merges", &d->ignore_merges},
                          {"fuse_unk", &d->fuse_unk},
                          {"continuing_subword_prefix", &d->prefix},
                          {"end_of_word_suffix", &d->suffix}};
    TERN_TRY(split_object(tern_json__trim(file), top, sizeof top / sizeof top[0], err));
    if (d->model.size == 0) return tern_fail(err, TERN_MALFORMED, "tokenizer.json has no \"model\"");
    return split_object(d->model, model, sizeof model / sizeof model[0], err);
}

static tern_status check_model(const document *d, tern_error *err)
{
    if (d->type.size && !equals(d->type, "\"BPE\""))
        return tern_fail(err, TERN_UNSUPPORTED, "tokenizer.json: model of type %s, \"BPE\" expected",
                         tern_show(d->type).text);
    if (is_given(d->prefix) && !equals(d->prefix, "\"\""))
        return tern_fail(err, TERN_UNSUPPORTED, "tokenizer.json: continuing_subword_prefix %s",
                         tern_show(d->prefix).text);
    if (is_given(d->suffix) && !equals(d->suffix, "\"\""))
        return tern_fail(err, TERN_UNSUPPORTED, "tokenizer.json: end_of_word_suffix %s", tern_show(d->suffix).text);
    if (d->vocab.size == 0) return tern_fail(err, TERN_MALFORMED, "tokenizer.json: model has no \"vocab\"");
    if (d->merges.size == 0) return tern_fail(err, TERN_MALFORMED, "tokenizer.json: model has no \"merges\"");
    return TERN_OK;
}

static tern_status parse_part(json_t **root, tern_span raw, const char *what, tern_error *err)
{
    *root = NULL;
    if (raw.size > MAX_PART_BYTES)
        return tern_fail(err, TERN_LIMIT, "tokenizer.json: %s of %zu bytes, at most %d expected", what, raw.size,
                         MAX_PART_BYTES);
    return is_given(raw) ? tern_json_parse(root, raw.data, raw.size, what, err) : TERN_OK;
}

static tern_status read_pipeline(tern_tokenizer *t, const document *d, tern_error *err)
{
    json_t *normalizer = NULL, *pre = NULL;
    tern_status status;
    TERN_GOTO(parse_part(&normalizer, d->normalizer, "normalizer", err));
    TERN_GOTO(parse_part(&pre, d->pre_tokenizer, "pre_tokenizer", err));
    TERN_GOTO(tern_tokenizer__read_pipeline(t, normalizer, pre, err));
fail:
    tern_json_free(normalizer);
    tern_json_free(pre);
    return status;
}

/* How many members, and their highest id. */
static tern_status measure_vocab(const document *d, uint32_t *count, uint32_t *highest, tern_error *err)
{
    tern_json_walk walk = {.data = d->vocab.data, .size = d->vocab.size};
    bool more;
    tern_span key, value;
    for (*count = *highest = 0;; ++*count) {
        uint32_t id;
        TERN_TRY(tern_json_walk_next(&walk, &more, &key, &value, err));
        if (!more) return TERN_OK;
        if (tern_json__number(value, &id, err) != TERN_OK)
            return tern_error_prefix(err, "vocab %s", tern_show(key).text), TERN_MALFORMED;
        if (id > *highest) *highest = id;
    }
}

static tern_status fail_id(uint32_t id, tern_span piece, size_t count, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "token \"%s\": id %u in a vocabulary of %zu", tern_show(piece).text, id,
                     count);
}

/* Ids may leave holes, but not more than there are tokens. */
static bool is_far(uint32_t id, size_t count)
{
    return id / 2 >= count + 512;
}

static tern_token_type type_of_piece(const tern_tokenizer *t, tern_span piece)
{
    bool byte = t->byte_fallback && piece.size == 6 && memcmp(piece.data, "<0x", 3) == 0 && piece.data[5] == '>';
    return byte ? TERN_TOKEN_BYTE : TERN_TOKEN_NORMAL;
}

static tern_status read_vocab(tern_tokenizer *t, document *d, tern_error *err)
{
    uint32_t count, highest, id;
    TERN_TRY(measure_vocab(d, &count, &highest, err));
    if (is_far(highest, count)) return fail_id(highest, (tern_span){(const uint8_t *)"...", 3}, count, err);
    TERN_TRY(tern_vocab__resize(&t->vocab, count ? (size_t)highest + 1 : 0, err));
    tern_json_walk walk = {.data = d->vocab.data, .size = d->vocab.size};
    for (;;) {
        bool more;
        tern_span key, value;
        TERN_TRY(tern_json_walk_next(&walk, &more, &key, &value, err));
        if (!more) return TERN_OK;
        d->scratch.size = 0;
        TERN_TRY(tern_json__unescape(key, &d->scratch, err));
        TERN_TRY(tern_json__number(value, &id, err));
        tern_span piece = {(const uint8_t *)d->scratch.data, d->scratch.size};
        TERN_TRY(tern_vocab__set(&t->vocab, id, piece.data, piece.size, type_of_piece(t, piece), 0, err));
    }
}

static unsigned added_flags(const json_t *token)
{
    return (tern_json__flag(token, "lstrip", false) ? TERN_ADDED_LSTRIP : 0u) |
           (tern_json__flag(token, "rstrip", false) ? TERN_ADDED_RSTRIP : 0u) |
           (tern_json__flag(token, "single_word", false) ? TERN_ADDED_SINGLE_WORD : 0u);
}

tern_status tern_tokenizer__add_token(tern_tokenizer *t, uint32_t id, const json_t *token, tern_error *err)
{
    tern_span piece;
    tern_vocab *v = &t->vocab;
    TERN_TRY(tern_json_get_string(token, "content", &piece, err));
    tern_token_type type = tern_json__flag(token, "special", false) ? TERN_TOKEN_CONTROL : TERN_TOKEN_USER;
    if (is_far(id, v->n)) return fail_id(id, piece, v->n, err);
    TERN_TRY(tern_vocab__resize(v, (size_t)id + 1, err));
    tern_span there = tern_vocab__piece(v, id);
    bool same = there.size == piece.size && memcmp(there.data, piece.data, piece.size) == 0;
    if (!same && v->entries[id].type == TERN_TOKEN_CONTROL)
        v->entries[id].piece_size = 0; /* a reserved one gets its name */
    if (!same) TERN_TRY(tern_vocab__set(v, id, piece.data, piece.size, type, 0, err));
    if (piece.size) tern_vocab__mark(v, id, type, added_flags(token));
    return TERN_OK;
}

static tern_status read_added_item(tern_tokenizer *t, tern_span raw, tern_error *err)
{
    json_t *token = NULL;
    uint32_t id;
    TERN_TRY(tern_json_parse(&token, raw.data, raw.size, "token", err));
    tern_status status;
    TERN_GOTO(tern_json_get_u32(token, "id", &id, err));
    TERN_GOTO(tern_tokenizer__add_token(t, id, token, err));
fail:
    tern_json_free(token);
    return status;
}

static tern_status read_added(tern_tokenizer *t, const document *d, tern_error *err)
{
    tern_json_items items = {.rest = d->added};
    if (!is_given(d->added)) return TERN_OK;
    for (size_t i = 0;; i++) {
        bool more;
        tern_span item;
        TERN_TRY(tern_json__next_item(&items, &more, &item, err));
        if (!more) return TERN_OK;
        tern_status status = read_added_item(t, item, err);
        if (status != TERN_OK) return tern_error_prefix(err, "added_tokens[%zu]", i), status;
    }
}

/* ["a", "b"] */
static tern_status add_merge_pair(tern_tokenizer *t, document *d, uint32_t index, tern_span raw, tern_error *err)
{
    tern_json_items items = {.rest = raw};
    tern_span item;
    bool more;
    d->scratch2.size = 0;
    for (int i = 0; i < 2; i++) {
        TERN_TRY(tern_json__next_item(&items, &more, &item, err));
        if (!more) return tern_fail(err, TERN_MALFORMED, "merge %u: two pieces expected", index);
        TERN_TRY(tern_json__unescape(item, i ? &d->scratch2 : &d->scratch, err));
    }
    TERN_TRY(tern_json__next_item(&items, &more, &item, err));
    if (more) return tern_fail(err, TERN_MALFORMED, "merge %u: two pieces expected", index);
    return tern_tokenizer__add_merge(t, index, (tern_span){(const uint8_t *)d->scratch.data, d->scratch.size},
                                     (tern_span){(const uint8_t *)d->scratch2.data, d->scratch2.size}, err);
}

static tern_status add_merge(tern_tokenizer *t, document *d, uint32_t index, tern_span raw, tern_error *err)
{
    d->scratch.size = 0;
    if (raw.data[0] == '[') return add_merge_pair(t, d, index, raw, err);
    tern_span left, right;
    TERN_TRY(tern_json__unescape(raw, &d->scratch, err));
    TERN_TRY(tern_tokenizer__split_merge((tern_span){(const uint8_t *)d->scratch.data, d->scratch.size}, index, &left,
                                         &right, err));
    return tern_tokenizer__add_merge(t, index, left, right, err);
}

static tern_status read_merges(tern_tokenizer *t, document *d, tern_error *err)
{
    tern_json_items items = {.rest = d->merges};
    tern_span item;
    bool more;
    for (uint32_t index = 0;; index++) {
        TERN_TRY(tern_json__next_item(&items, &more, &item, err));
        if (!more) return TERN_OK;
        TERN_TRY(add_merge(t, d, index, item, err));
    }
}

/* The special token of a part of a template, or -1. */
static int32_t special_of(const tern_tokenizer *t, const json_t *part)
{
    const char *name = tern_json__text(json_object_get(part, "SpecialToken"), "id");
    return *name ? tern_vocab__find_piece(&t->vocab, name, strlen(name)) : -1;
}

/* A template that begins with a special token says that a BOS goes in front, and which; one that ends with one, what
 * follows a text. */
static void read_frame(tern_tokenizer *t, const json_t *node)
{
    const json_t *members = tern_json__members(node, "processors");
    for (size_t i = 0; i < json_array_size(members); i++) read_frame(t, json_array_get(members, i));
    const json_t *single = json_object_get(node, "single");
    const size_t n = json_array_size(single);
    const int32_t first = special_of(t, json_array_get(single, 0));
    if (first >= 0) t->bos = first, t->adds_bos = t->bos_decided = true;
    if (n > 1) t->closing = special_of(t, json_array_get(single, n - 1));
}

static tern_status read_post_processor(tern_tokenizer *t, const document *d, tern_error *err)
{
    json_t *root = NULL;
    TERN_TRY(parse_part(&root, d->post_processor, "post_processor", err));
    read_frame(t, root);
    tern_json_free(root);
    return TERN_OK;
}

static tern_status read_unknown(tern_tokenizer *t, document *d, tern_error *err)
{
    if (!is_given(d->unk)) return TERN_OK;
    d->scratch.size = 0;
    TERN_TRY(tern_json__unescape(d->unk, &d->scratch, err));
    t->unk = tern_vocab__find_piece(&t->vocab, d->scratch.data, d->scratch.size);
    if (t->unk < 0)
        return tern_fail(err, TERN_MALFORMED, "unk_token %s is not in the vocabulary", tern_show(d->unk).text);
    return TERN_OK;
}

static tern_status build(tern_tokenizer *t, document *d, tern_span file, tern_error *err)
{
    TERN_TRY(split_document(d, file, err));
    TERN_TRY(check_model(d, err));
    t->rule = TERN_MERGE_PAIRS;
    t->byte_fallback = equals(d->byte_fallback, "true");
    t->ignore_merges = equals(d->ignore_merges, "true");
    t->fuse_unk = equals(d->fuse_unk, "true");
    TERN_TRY(read_pipeline(t, d, err));
    TERN_TRY(tern_vocab__reserve(&t->vocab, d->vocab.size, err));
    TERN_TRY(read_vocab(t, d, err));
    TERN_TRY(read_added(t, d, err));
    TERN_TRY(tern_tokenizer__index(t, err));
    TERN_TRY(read_merges(t, d, err));
    TERN_TRY(read_unknown(t, d, err));
    TERN_TRY(read_post_processor(t, d, err));
    return TERN_OK;
}

tern_status tern_tokenizer__read_json(tern_tokenizer **t, tern_span file, tern_error *err)
{
    document d = {0};
    tern_tokenizer *made = NULL;
    TERN_TRY(tern_tokenizer__alloc(&made, err));
    tern_status status = build(made, &d, file, err);
    tern_buf_deinit(&d.scratch);
    tern_buf_deinit(&d.scratch2);
    if (status == TERN_OK) *t = made;
    else tern_tokenizer_close(made);
    return status;
}

tern_status tern_tokenizer_parse_json(tern_tokenizer **t, const void *data, size_t size, tern_error *err)
{
    tern_tokenizer *made = NULL;
    TERN_TRY(tern_tokenizer__read_json(&made, (tern_span){data, size}, err));
    tern_status status = tern_tokenizer__finish(made, err);
    if (status == TERN_OK) *t = made;
    else tern_tokenizer_close(made);
    return status;
}
