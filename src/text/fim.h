/* Fill in the middle: the tokens of a text with a gap (Bavarian et al., 2022, arXiv:2207.14255). */
#ifndef TERN_TEXT_FIM_H
#define TERN_TEXT_FIM_H

#include "text/tokenizer/tokenizer.h"

/* Adds to *tokens, with BOS in front where the tokenizer adds it:
 *
 *   [REPOSITORY] name \n, for each file [FILE] name \n text, [FILE] name \n
 *   [PREFIX] prefix start [SUFFIX] suffix [MIDDLE], or [SUFFIX] suffix [PREFIX] prefix start [MIDDLE]
 *
 * A name stands only where the model has its token; a line of dashes separates files then (llama.cpp's /infill). *cut,
 * which may be NULL: texts were shortened to max_tokens. Errors: UNSUPPORTED (the tokens that are missing),
 * CONTEXT_FULL, OUT_OF_MEMORY. */
tern_status tern_fim_tokenize(const tern_tokenizer *t, const tern_fim *fim, tern_tokens *tokens, bool *cut,
                              tern_error *err);

#endif
