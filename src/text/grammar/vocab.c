/* Making a vocabulary ready for grammars: its tokens in the order of their bytes, and the tree that they span. */
#include "text/grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

typedef struct named {
    tern_span bytes;
    int32_t id;
} named;

static int compare(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const size_t n = x->bytes.size < y->bytes.size ? x->bytes.size : y->bytes.size;
    const int order = memcmp(x->bytes.data, y->bytes.data, n);
    if (order) return order;
    if (x->bytes.size != y->bytes.size) return x->bytes.size < y->bytes.size ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The tokens that text can be made of, into names[n ids]; *bytes becomes the sum of their sizes. */
static uint32_t gather(const tern_tokenizer *t, named *names, size_t *bytes)
{
    uint32_t n = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < tern_tokenizer_size(t); i++) {
        const int32_t id = (int32_t)i;
        const tern_span text = tern_token_bytes(t, id, false);
        if (text.size == 0 || text.size > TERN_GRAMMAR_MAX_TOKEN) continue;
        if (tern_token_is_special(t, id) || tern_token_is_end(t, id)) continue;
        names[n++] = (named){text, id};
        *bytes += text.size;
    }
    qsort(names, n, sizeof *names, compare);
    return n;
}

/* Closes the nodes that are deeper than `depth`: what comes next does not descend from them. */
static void close_twigs(tern_grammar_vocab *v, uint32_t *path, size_t *open, size_t depth)
{
    while (*open > depth) v->twigs[path[--*open]].skip = v->n_twigs;
}

static void grow_tree(tern_grammar_vocab *v, const named *names)
{
    uint32_t path[TERN_GRAMMAR_MAX_TOKEN];
    size_t open = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const tern_span s = names[i].bytes;
        size_t same = 0;
        while (same < open && same < s.size && v->twigs[path[same]].byte == s.data[same]) same++;
        close_twigs(v, path, &open, same);
        for (; open < s.size; open++) {
            v->twigs[v->n_twigs] = (tern_grammar_twig){.first = i, .depth = (uint16_t)(open + 1), .byte = s.data[open]};
            path[open] = v->n_twigs++;
        }
        v->tokens[i] = names[i].id;
    }
    close_twigs(v, path, &open, 0);
    v->twigs[v->n_twigs] = (tern_grammar_twig){.skip = v->n_twigs, .first = v->n_tokens};
}

/* Finds the kinds below each node: those of its children, and those below them. */
static void find_kinds(tern_grammar_vocab *v)
{
    for (uint32_t i = v->n_twigs; i--;) {
        tern_grammar_twig *t = &v->twigs[i];
        for (uint32_t child = i + 1; child < t->skip; child = v->twigs[child].skip)
            t->below |= tern_grammar_kind_of(v->twigs[child].byte) | v->twigs[child].below;
    }
}

static tern_status fill(tern_grammar_vocab *v, named *names, tern_error *err)
{
    size_t bytes;
    v->n_tokens = gather(v->tokenizer, names, &bytes);
    v->twigs = tern_alloc((bytes + 1) * sizeof *v->twigs);
    v->tokens = tern_alloc(v->n_tokens * sizeof *v->tokens);
    if (!v->twigs || !v->tokens) return tern_fail_alloc(err, (bytes + 1) * sizeof *v->twigs);
    grow_tree(v, names);
    find_kinds(v);
    void *smaller = tern_realloc(v->twigs, (v->n_twigs + (size_t)1) * sizeof *v->twigs);
    if (smaller) v->twigs = smaller;
    return TERN_OK;
}

tern_status tern_grammar_vocab_open(tern_grammar_vocab **vocab, const tern_tokenizer *tokenizer, tern_error *err)
{
    TERN_NEED(vocab, err);
    *vocab = NULL;
    TERN_NEED(tokenizer, err);
    const uint32_t n = tern_tokenizer_size(tokenizer);
    tern_grammar_vocab *v = tern_calloc(1, sizeof *v);
    named *names = tern_alloc(n * sizeof *names);
    tern_status status = v && names ? TERN_OK : tern_fail_alloc(err, n * sizeof *names);
    if (status == TERN_OK) {
        *v = (tern_grammar_vocab){.tokenizer = tokenizer, .n = n};
        status = fill(v, names, err);
    }
    tern_free(names);
    if (status == TERN_OK) *vocab = v;
    else tern_grammar_vocab_close(v);
    return status;
}

void tern_grammar_vocab_close(tern_grammar_vocab *vocab)
{
    if (!vocab) return;
    tern_free(vocab->twigs);
    tern_free(vocab->tokens);
    tern_free(vocab);
}
