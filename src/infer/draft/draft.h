/* Prompt-lookup drafting: what followed the last few tokens when they came before. */
#ifndef TERN_INFER_DRAFT_DRAFT_H
#define TERN_INFER_DRAFT_DRAFT_H

#include <stdint.h>

#include "base/error.h"

enum { TERN_DRAFT_LONGEST = 3 };

/* The tokens so far, and for each n-gram length a table from the n-gram to where it last ended. */
typedef struct tern_draft {
    int32_t *tokens; /* [capacity] */
    uint32_t n_tokens, capacity, n_indexed;
    uint32_t *tables; /* [TERN_DRAFT_LONGEST][table_size]: place of the last token + 1; 0: none */
    uint32_t table_size;
} tern_draft;

/* Room for `capacity` tokens; all memory is taken here. */
tern_status tern_draft_init(tern_draft *draft, uint32_t capacity, tern_error *err);
void tern_draft_deinit(tern_draft *draft);
/* Forgets all, and begins with these. */
void tern_draft_reset(tern_draft *draft, const int32_t *tokens, uint32_t n);
/* At most capacity tokens in all. */
void tern_draft_add(tern_draft *draft, int32_t token);

/* How many of the last tokens, up to TERN_DRAFT_LONGEST_MATCH, came before what is proposed as well, at least
 * `shortest`; 0: nothing is proposed. *next: the first proposed token. Constant time. */
uint32_t tern_draft_match(tern_draft *draft, uint32_t shortest, int32_t *next);

/* Proposes up to n tokens: those that followed the latest earlier occurrence of the last three tokens, else of the last
 * two, else of the last, but of no fewer than `shortest`. A proposal that reaches the end goes on with itself. Returns
 * how many. Constant time for each token added and proposed. */
uint32_t tern_draft_propose(tern_draft *draft, uint32_t shortest, int32_t *out, uint32_t n);

#endif
