/* One generation under way; for generate.c and generate_steps.c. */
#ifndef TERN_INFER_GENERATE_STATE_H
#define TERN_INFER_GENERATE_STATE_H

#include "infer/draft.h"
#include "infer/sampler.h"
#include "infer/session_state.h"
#include "infer/stop.h"

typedef struct tern_generation {
    tern_session *session;
    const tern_generate_params *params;
    tern_generate_result *result;
    const tern_tokenizer *tokenizer;
    tern_sampler *sampler;
    tern_text_stream stream;
    tern_stop_filter filter;
    bool stopped;
    /* Tokens chosen on the host: `position` tokens of the session are decided. Beyond them it may hold drafted ones,
     * evaluated already; the logits of the last decided token are in row `row`. */
    uint32_t position, row;
    tern_draft draft;
    int32_t *batch;   /* a token and what is drafted after it */
    uint32_t n_right; /* of the last drafted tokens */
} tern_generation;

void tern_generation__stop(tern_generation *g, tern_stop_reason reason);
bool tern_generation__is_end(const tern_generation *g, int32_t id);
/* Counts the token, adds its text and shows what can be shown of it; may stop. */
tern_status tern_generation__emit(tern_generation *g, int32_t id, tern_error *err);

/* Whether the device chooses the tokens: the session is made for it, and the sampler fits. */
bool tern_generation__on_device(const tern_session *session, const tern_generate_params *params);
/* From a session whose last token is not evaluated: decodes until stopped, session->steps tokens at once. The session
 * ends with the tokens that were shown, the last one not evaluated. */
tern_status tern_generation__loop_steps(tern_generation *g, tern_error *err);

#endif
