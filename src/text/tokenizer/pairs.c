/* Merge rules in a hash table: open addressing, linear probing, at most half full. */
#include "text/tokenizer/pairs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_SLOTS = 64 };

/* Seeded, so that a file cannot make its pairs collide. */
static size_t first_slot(const tern_pairs *pairs, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ pairs->seed;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return (size_t)(h ^ h >> 32) & (pairs->n_slots - 1);
}

static tern_pair *probe(const tern_pairs *pairs, int32_t left, int32_t right)
{
    size_t at = first_slot(pairs, left, right);
    for (;; at = (at + 1) & (pairs->n_slots - 1)) {
        tern_pair *slot = &pairs->slots[at];
        if (slot->left < 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

tern_status tern_pairs__reserve(tern_pairs *pairs, size_t n, tern_error *err)
{
    if (n <= pairs->n_slots / 2) return TERN_OK;
    tern_pairs grown = {.n_slots = FIRST_SLOTS, .n = pairs->n, .seed = pairs->seed};
    while (grown.n_slots / 2 < n) grown.n_slots *= 2;
    grown.slots = tern_alloc(grown.n_slots * sizeof *grown.slots);
    if (!grown.slots) return tern_fail_alloc(err, grown.n_slots * sizeof *grown.slots);
    if (!pairs->slots) grown.seed = (uint64_t)(uintptr_t)grown.slots * 0x9E3779B97F4A7C15u;
    memset(grown.slots, 0xFF, grown.n_slots * sizeof *grown.slots);
    for (size_t i = 0; pairs->slots && i < pairs->n_slots; i++)
        if (pairs->slots[i].left >= 0) *probe(&grown, pairs->slots[i].left, pairs->slots[i].right) = pairs->slots[i];
    tern_free(pairs->slots);
    *pairs = grown;
    return TERN_OK;
}

tern_status tern_pairs__add(tern_pairs *pairs, tern_pair pair, tern_error *err)
{
    TERN_TRY(tern_pairs__reserve(pairs, pairs->n + 1, err));
    tern_pair *slot = probe(pairs, pair.left, pair.right);
    if (slot->left >= 0) return TERN_OK;
    *slot = pair;
    pairs->n++;
    return TERN_OK;
}

const tern_pair *tern_pairs__find(const tern_pairs *pairs, int32_t left, int32_t right)
{
    if (pairs->n == 0) return NULL;
    const tern_pair *slot = probe(pairs, left, right);
    return slot->left < 0 ? NULL : slot;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const tern_pair *)a)->rank, y = ((const tern_pair *)b)->rank;
    return (x > y) - (x < y);
}

tern_status tern_pairs__sorted(const tern_pairs *pairs, tern_pair **out, tern_error *err)
{
    tern_pair *all = tern_alloc(pairs->n * sizeof *all);
    if (!all) return tern_fail_alloc(err, pairs->n * sizeof *all);
    size_t n = 0;
    for (size_t i = 0; pairs->slots && i < pairs->n_slots; i++)
        if (pairs->slots[i].left >= 0) all[n++] = pairs->slots[i];
    if (n) qsort(all, n, sizeof *all, by_rank);
    *out = all;
    return TERN_OK;
}

void tern_pairs__deinit(tern_pairs *pairs)
{
    tern_free(pairs->slots);
    *pairs = (tern_pairs){0};
}
