/* How often each pair of symbols stands next to each other: a hash table, and a heap whose old entries are dropped
 * when they come up. */
#include <string.h>

#include "base/alloc.h"
#include "text/tokenizer/bpe_train_internal.h"

enum { FIRST_SLOTS = 1024 };

static tern_bpe_pair *probe(const tern_bpe_counts *c, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    for (size_t at = (size_t)(h >> 32);; at++) {
        tern_bpe_pair *slot = &c->slots[at & (c->n_slots - 1)];
        if (slot->left == UINT32_MAX || (slot->left == left && slot->right == right)) return slot;
    }
}

static tern_status grow(tern_bpe_counts *c, tern_error *err)
{
    tern_bpe_counts grown = *c;
    grown.n_slots = c->n_slots ? c->n_slots * 2 : FIRST_SLOTS;
    grown.slots = tern_alloc(grown.n_slots * sizeof *grown.slots);
    if (!grown.slots) return tern_fail_alloc(err, grown.n_slots * sizeof *grown.slots);
    for (size_t i = 0; i < grown.n_slots; i++) grown.slots[i] = (tern_bpe_pair){.left = UINT32_MAX};
    for (size_t i = 0; i < c->n_slots; i++)
        if (c->slots[i].left != UINT32_MAX) *probe(&grown, c->slots[i].left, c->slots[i].right) = c->slots[i];
    tern_free(c->slots);
    *c = grown;
    return TERN_OK;
}

tern_bpe_pair *tern_bpe_counts__find(const tern_bpe_counts *c, uint32_t left, uint32_t right)
{
    tern_bpe_pair *pair = c->n_slots ? probe(c, left, right) : NULL;
    return pair && pair->left != UINT32_MAX ? pair : NULL;
}

tern_status tern_bpe_counts__add(tern_bpe_counts *c, uint32_t left, uint32_t right, int64_t count, uint32_t word,
                                 tern_error *err)
{
    if (c->n_slots <= c->n * 2) TERN_TRY(grow(c, err));
    tern_bpe_pair *pair = probe(c, left, right);
    if (pair->left == UINT32_MAX) {
        *pair = (tern_bpe_pair){.left = left, .right = right};
        c->n++;
    }
    pair->count += count;
    if (count < 0 || (pair->n_words && pair->words[pair->n_words - 1] == word)) return TERN_OK;
    void *words = pair->words;
    TERN_TRY(tern_grow(&words, &pair->cap_words, pair->n_words + 1, sizeof word, err));
    pair->words = words;
    pair->words[pair->n_words++] = word;
    return TERN_OK;
}

static bool better(const tern_bpe_best *a, const tern_bpe_best *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

tern_status tern_bpe_counts__push(tern_bpe_counts *c, const tern_bpe_pair *pair, tern_error *err)
{
    tern_bpe_best item = {pair->count, pair->left, pair->right};
    void *heap = c->heap;
    if (pair->count < 2) return TERN_OK;
    TERN_TRY(tern_grow(&heap, &c->cap_heap, c->n_heap + 1, sizeof item, err));
    c->heap = heap;
    size_t at = c->n_heap++;
    for (size_t up; at > 0 && (up = (at - 1) / 2, better(&item, &c->heap[up])); at = up) c->heap[at] = c->heap[up];
    c->heap[at] = item;
    return TERN_OK;
}

static tern_bpe_best take(tern_bpe_counts *c)
{
    tern_bpe_best top = c->heap[0], last = c->heap[--c->n_heap];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < c->n_heap; at = down) {
        if (down + 1 < c->n_heap && better(&c->heap[down + 1], &c->heap[down])) down++;
        if (!better(&c->heap[down], &last)) break;
        c->heap[at] = c->heap[down];
    }
    c->heap[at] = last;
    return top;
}

bool tern_bpe_counts__pop(tern_bpe_counts *c, tern_bpe_best *best)
{
    while (c->n_heap) {
        *best = take(c);
        if (tern_bpe_counts__find(c, best->left, best->right)->count == best->count) return true;
    }
    return false;
}

void tern_bpe_counts__deinit(tern_bpe_counts *c)
{
    for (size_t i = 0; i < c->n_slots; i++) tern_free(c->slots[i].words);
    tern_free(c->slots);
    tern_free(c->heap);
    *c = (tern_bpe_counts){0};
}
