/* Byte-pair merging with a heap of candidates; those that a merge made stale are dropped when they come up. */
#include "text/tokenizer/bpe.h"

#include <string.h>

#include "base/alloc.h"

struct tern_bpe_candidate {
    uint64_t order; /* rank or score, then position: the least comes first */
    int32_t left, right;
    uint32_t size; /* of both together */
    int32_t merged;
};

/* The state that stays the same during one merge. */
typedef struct merging {
    tern_bpe *bpe;
    tern_merge_rule rule;
    const tern_vocab *vocab;
    const tern_pairs *pairs;
    const uint8_t *piece;
} merging;

tern_status tern_bpe__add(tern_bpe *bpe, uint32_t at, uint32_t size, int32_t id, bool frozen, tern_error *err)
{
    if (bpe->n >= INT32_MAX) return tern_fail(err, TERN_LIMIT, "text of more than 2^31 symbols");
    void *symbols = bpe->symbols;
    TERN_TRY(tern_grow(&symbols, &bpe->cap, bpe->n + 1, sizeof *bpe->symbols, err));
    bpe->symbols = symbols;
    int32_t index = (int32_t)bpe->n++;
    bpe->symbols[index] =
        (tern_bpe_symbol){.at = at, .size = size, .prev = index - 1, .next = -1, .id = id, .frozen = frozen};
    if (index) bpe->symbols[index - 1].next = index;
    return TERN_OK;
}

static bool before(const tern_bpe_candidate *a, const tern_bpe_candidate *b)
{
    return a->order < b->order;
}

static tern_status push(tern_bpe *bpe, tern_bpe_candidate c, tern_error *err)
{
    void *heap = bpe->heap;
    TERN_TRY(tern_grow(&heap, &bpe->heap_cap, bpe->n_heap + 1, sizeof c, err));
    bpe->heap = heap;
    size_t at = bpe->n_heap++;
    for (size_t up; at > 0 && (up = (at - 1) / 2, before(&c, &bpe->heap[up])); at = up) bpe->heap[at] = bpe->heap[up];
    bpe->heap[at] = c;
    return TERN_OK;
}

static tern_bpe_candidate pop(tern_bpe *bpe)
{
    tern_bpe_candidate top = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t at = 0;
    for (;;) {
        size_t down = 2 * at + 1;
        if (down >= bpe->n_heap) break;
        if (down + 1 < bpe->n_heap && before(&bpe->heap[down + 1], &bpe->heap[down])) down++;
        if (!before(&bpe->heap[down], &last)) break;
        bpe->heap[at] = bpe->heap[down];
        at = down;
    }
    bpe->heap[at] = last;
    return top;
}

/* Finite floats as integers in reverse order: the highest score is the least. */
static uint32_t descending(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFFu;
}

static bool may_be_merged_to(const tern_vocab_entry *e)
{
    return e->type == TERN_TOKEN_NORMAL || e->type == TERN_TOKEN_USER;
}

/* The token that left and right make, with its rank; false when they do not join. */
static bool joined(const merging *m, const tern_bpe_symbol *left, const tern_bpe_symbol *right, int32_t *id,
                   uint32_t *rank)
{
    if (m->rule == TERN_MERGE_PAIRS) {
        const tern_pair *pair = left->id < 0 || right->id < 0 ? NULL : tern_pairs__find(m->pairs, left->id, right->id);
        if (!pair) return false;
        *id = pair->merged;
        *rank = pair->rank;
        return true;
    }
    *id = tern_vocab__find(m->vocab, m->piece + left->at, left->size + right->size);
    if (*id < 0 || !may_be_merged_to(&m->vocab->entries[*id])) return false;
    *rank = m->rule == TERN_MERGE_RANKS ? (uint32_t)*id : descending(m->vocab->entries[*id].score);
    return true;
}

static tern_status consider(merging *m, int32_t left, int32_t right, tern_error *err)
{
    if (left < 0 || right < 0) return TERN_OK;
    const tern_bpe_symbol *l = &m->bpe->symbols[left], *r = &m->bpe->symbols[right];
    int32_t id;
    uint32_t rank;
    if (l->frozen || r->frozen || !joined(m, l, r, &id, &rank)) return TERN_OK;
    tern_bpe_candidate c = {.order = (uint64_t)rank << 32 | (uint32_t)left,
                            .left = left,
                            .right = right,
                            .size = l->size + r->size,
                            .merged = id};
    return push(m->bpe, c, err);
}

/* The right symbol goes into the left one. */
static void join(tern_bpe *bpe, const tern_bpe_candidate *c)
{
    tern_bpe_symbol *left = &bpe->symbols[c->left], *right = &bpe->symbols[c->right];
    left->size = c->size;
    left->id = c->merged;
    left->next = right->next;
    right->size = 0;
    if (left->next >= 0) bpe->symbols[left->next].prev = c->left;
}

static bool is_stale(const tern_bpe *bpe, const tern_bpe_candidate *c)
{
    const tern_bpe_symbol *left = &bpe->symbols[c->left], *right = &bpe->symbols[c->right];
    return left->size == 0 || right->size == 0 || left->next != c->right || left->size + right->size != c->size;
}

tern_status tern_bpe__merge(tern_bpe *bpe, tern_merge_rule rule, const tern_vocab *vocab, const tern_pairs *pairs,
                            const uint8_t *piece, tern_error *err)
{
    merging m = {bpe, rule, vocab, pairs, piece};
    bpe->n_heap = 0;
    for (size_t i = 1; i < bpe->n; i++) TERN_TRY(consider(&m, (int32_t)i - 1, (int32_t)i, err));
    while (bpe->n_heap) {
        tern_bpe_candidate c = pop(bpe);
        if (is_stale(bpe, &c)) continue;
        join(bpe, &c);
        TERN_TRY(consider(&m, bpe->symbols[c.left].prev, c.left, err));
        TERN_TRY(consider(&m, c.left, bpe->symbols[c.left].next, err));
    }
    return TERN_OK;
}

void tern_bpe__deinit(tern_bpe *bpe)
{
    tern_free(bpe->symbols);
    tern_free(bpe->heap);
    *bpe = (tern_bpe){0};
}
