/* Options of a generation beside sampling: a grammar or calls of tools, and log-probabilities of its tokens. */
#ifndef TERN_WEB_FILTER_H
#define TERN_WEB_FILTER_H

#include <jansson.h>

#include "tern.h"

enum { TERN_WEB_MAX_TOP = 20 };

typedef struct web_filter {
    tern_session *session;
    tern_grammar_vocab *vocab;
    tern_grammar *grammar;
    tern_grammar_state *state;
    tern_token_filter constraint; /* the state's; `mask` NULL: any text */
    tern_token_filter filter;     /* what the generation is given */
    bool logprobs;
    uint32_t n_top; /* of the highest, at most TERN_WEB_MAX_TOP */
    uint32_t n_vocab;
    float *logits; /* [n_vocab] of the token that is being chosen */
    /* The log-probabilities of the last token that was chosen: its own, then those of the n_top highest, the highest
     * first. */
    tern_token_logprob last[1 + TERN_WEB_MAX_TOP];
} web_filter;

/* The filter of the options grammar ({kind: "schema" | "json" | "gbnf" | "regex", source}) and tools ({list, name,
 * parallel}); either may be NULL, not both given. `logprobs` and n_top are set by the caller. The filter stays where it
 * is. Errors: INVALID_ARGUMENT, those of tern_grammar_open and tern_grammar_open_tools. */
tern_status tern_web__filter_open(web_filter *f, tern_session *session, const json_t *grammar, const json_t *tools,
                                  tern_error *err);
/* The inputs of the generation; NULL: it needs none. */
const tern_token_filter *tern_web__filter_of(const web_filter *f);
void tern_web__filter_close(web_filter *f);

#endif
