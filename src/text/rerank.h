/* The prompt by which a model says whether a document answers a query. */
#ifndef TERN_TEXT_RERANK_H
#define TERN_TEXT_RERANK_H

#include "text/tokenizer/tokenizer.h"

/* The tokens of the answers "yes" and "no". false: the vocabulary does not have them, or not those of the prompt. */
bool tern_rerank_answers(const tern_tokenizer *t, int32_t *yes, int32_t *no);

/* Two texts of any bytes, borrowed. */
typedef struct tern_rerank_pair {
    const char *query, *document;
    size_t n_query, n_document;
} tern_rerank_pair;

/* Adds the tokens of a query and a document, in which nothing becomes a special token: by the file's
 * own template; else, for a model that answers in words, by that of Qwen3-Reranker; else with the tokens of text's
 * beginning and end around each. Errors: OUT_OF_MEMORY, those of tokenizing. */
tern_status tern_rerank_tokenize(const tern_tokenizer *t, bool in_words, const tern_rerank_pair *pair,
                                 tern_tokens *tokens, tern_error *err);

#endif
