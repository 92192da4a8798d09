/* The merges of a tokenizer as a list, as files hold them. */
#include "base/alloc.h"
#include "text/tokenizer_internal.h"

static tern_status each_pair(const tern_tokenizer *t, tern_merge_fn fn, void *user, tern_error *err)
{
    tern_pair *all = NULL;
    TERN_TRY(tern_pairs__sorted(&t->pairs, &all, err));
    tern_status status = TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < t->pairs.n; i++) status = fn(user, all[i].left, all[i].right, err);
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
