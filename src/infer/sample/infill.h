/* The sampler's step for the text of a gap. */
#ifndef TERN_INFER_SAMPLE_INFILL_H
#define TERN_INFER_SAMPLE_INFILL_H

#include "infer/sample/internal.h"

typedef struct tern_tokenizer tern_tokenizer; /* text/tokenizer/tokenizer.h */

/* Each is compared with each other: the likeliest so many are looked at. */
enum { TERN_INFILL_CANDIDATES = 256 };

/* llama.cpp's sampler "infill" on n weighed candidates; p is a candidate's share of the weights.
 *
 *   1. Where 3 n p(ends of text) > p(others), the ends alone stay.
 *   2. If one token's text begins another's, the likelier of both gets the p of the other, which goes.
 *   3. Tokens with p < 0.2 go, except ends. If m others are left, those with a share below 1 / (m + 1) go too.
 *   4. If none is left but ends, the text ends, also where no end was among the candidates.
 *
 * Keeps at least one. */
void tern_infill_apply(tern_candidates *c, const tern_tokenizer *tokenizer);

#endif
