/* Merge rules: two tokens next to each other become one, lowest rank first. */
#ifndef TERN_TEXT_TOKENIZER_PAIRS_H
#define TERN_TEXT_TOKENIZER_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_pair {
    int32_t left, right; /* left -1: a free slot */
    int32_t merged;
    uint32_t rank;
} tern_pair;

/* A hash table; zero-initialised is empty. */
typedef struct tern_pairs {
    tern_pair *slots;
    size_t n_slots, n;
    uint64_t seed;
} tern_pairs;

/* Room for n pairs in all. */
tern_status tern_pairs__reserve(tern_pairs *pairs, size_t n, tern_error *err);
/* Adds a rule; the first one for a pair stays. */
tern_status tern_pairs__add(tern_pairs *pairs, tern_pair pair, tern_error *err);
/* The rule for this pair, or NULL. */
const tern_pair *tern_pairs__find(const tern_pairs *pairs, int32_t left, int32_t right);
/* All rules by rank, in storage of tern_alloc. */
tern_status tern_pairs__sorted(const tern_pairs *pairs, tern_pair **out, tern_error *err);
void tern_pairs__deinit(tern_pairs *pairs);

#endif
