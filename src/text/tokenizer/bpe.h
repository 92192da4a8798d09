/* Byte-pair merging of one piece: neighbours join, best first, until no rule applies. */
#ifndef TERN_TEXT_TOKENIZER_BPE_H
#define TERN_TEXT_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/tokenizer/pairs.h"
#include "text/tokenizer/vocab.h"

/* Which neighbours may join, and in what order. */
typedef enum tern_merge_rule {
    TERN_MERGE_PAIRS, /* those listed, by rank */
    TERN_MERGE_RANKS, /* those whose joined bytes are a token, lowest id first (tiktoken) */
    TERN_MERGE_SCORES /* those whose joined bytes are a token, highest score first (SentencePiece) */
} tern_merge_rule;

/* A run of the piece's bytes; once merged away its size is 0. */
typedef struct tern_bpe_symbol {
    uint32_t at, size;
    int32_t prev, next; /* neighbours, or -1 */
    int32_t id;         /* -1: no token */
    bool frozen;        /* takes part in no merge */
} tern_bpe_symbol;

typedef struct tern_bpe_candidate tern_bpe_candidate;

/* Working storage, reused from piece to piece; zero-initialised is empty. */
typedef struct tern_bpe {
    tern_bpe_symbol *symbols;
    size_t n, cap;
    tern_bpe_candidate *heap;
    size_t n_heap, heap_cap;
} tern_bpe;

/* Adds a symbol behind the others. */
tern_status tern_bpe__add(tern_bpe *bpe, uint32_t at, uint32_t size, int32_t id, bool frozen, tern_error *err);
/* Merges the symbols over `piece`; afterwards those that are left are reached from symbol 0 through `next`. Ties go to
 * the leftmost pair. Time n log n. */
tern_status tern_bpe__merge(tern_bpe *bpe, tern_merge_rule rule, const tern_vocab *vocab, const tern_pairs *pairs,
                            const uint8_t *piece, tern_error *err);
void tern_bpe__deinit(tern_bpe *bpe);

#endif
