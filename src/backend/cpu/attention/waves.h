/* The order in which the backward of attention takes pairs of a block of queries and a block of keys.
 *
 * dq of the queries and dk, dv of the keys are chains, so a pair comes after those of the same queries with earlier
 * keys, and of the same keys with earlier queries. Pairs whose turn it is at once are a wave, and share nothing. */
#ifndef TERN_BACKEND_CPU_ATTENTION_WAVES_H
#define TERN_BACKEND_CPU_ATTENTION_WAVES_H

#include "backend/cpu/attention/varlen.h"

typedef struct tern_attention_pair {
    uint32_t queries, keys; /* blocks */
} tern_attention_pair;

typedef struct tern_attention_waves {
    uint32_t n;
    uint32_t *end; /* [n] one past the last of a wave's pairs */
    tern_attention_pair *pairs;
} tern_attention_waves;

/* Floats of memory for n tokens in blocks of `block`. */
size_t tern_attention_waves__floats(uint32_t n, uint32_t block);
/* All pairs of which some query sees some key. */
tern_attention_waves tern_attention_waves__make(const tern_attention_job *j, uint32_t block, float *memory);

/* The tokens of a block. */
tern_range tern_attention_waves__tokens(const tern_attention_job *j, uint32_t block, uint32_t index);

#endif
