/* Inside the learning of a vocabulary: the pieces of the text, and how often each pair stands in them. */
#ifndef TERN_TEXT_TOKENIZER_BPE_TRAIN_INTERNAL_H
#define TERN_TEXT_TOKENIZER_BPE_TRAIN_INTERNAL_H

#include "base/arena.h"
#include "text/tokenizer/bpe_train.h"
#include "text/tokenizer/internal.h"

/* A piece as symbols; merging shortens it in place. */
typedef struct tern_bpe_word {
    uint32_t first, n; /* in `symbols` */
    uint64_t count;
} tern_bpe_word;

struct tern_bpe_trainer {
    tern_pretokenizer pre;
    tern_arena arena; /* the bytes of the pieces */
    tern_map map;     /* piece to word */
    tern_bpe_word *words;
    size_t n_words, cap_words;
    uint32_t *symbols;
    size_t n_symbols, cap_symbols;
};

/* Two symbols next to each other: how often, and which words have had them (some twice, some no longer). */
typedef struct tern_bpe_pair {
    uint32_t left, right; /* left UINT32_MAX: a free slot */
    int64_t count;
    uint32_t *words;
    size_t n_words, cap_words;
} tern_bpe_pair;

/* An entry of the heap; old once the pair's count is another. */
typedef struct tern_bpe_best {
    int64_t count;
    uint32_t left, right;
} tern_bpe_best;

/* Zero-initialised is empty. */
typedef struct tern_bpe_counts {
    tern_bpe_pair *slots; /* [n_slots], a power of two */
    size_t n_slots, n;
    tern_bpe_best *heap;
    size_t n_heap, cap_heap;
} tern_bpe_counts;

/* Adds `count` (negative: takes away) for a pair in `word`. The heap learns of it by tern_bpe_counts__push. */
tern_status tern_bpe_counts__add(tern_bpe_counts *c, uint32_t left, uint32_t right, int64_t count, uint32_t word,
                                 tern_error *err);
/* NULL when it never was there; valid until the next add. */
tern_bpe_pair *tern_bpe_counts__find(const tern_bpe_counts *c, uint32_t left, uint32_t right);
tern_status tern_bpe_counts__push(tern_bpe_counts *c, const tern_bpe_pair *pair, tern_error *err);
/* The most frequent pair, of equal ones the lowest; false when none occurs twice. */
bool tern_bpe_counts__pop(tern_bpe_counts *c, tern_bpe_best *best);
void tern_bpe_counts__deinit(tern_bpe_counts *c);

#endif
