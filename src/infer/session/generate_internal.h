/* One generation under way; for generate.c, generate_host.c and generate_steps.c. */
#ifndef TERN_INFER_SESSION_GENERATE_INTERNAL_H
#define TERN_INFER_SESSION_GENERATE_INTERNAL_H

#include "infer/draft/draft.h"
#include "infer/draft/model.h"
#include "infer/draft/speculation.h"
#include "infer/sample/sampler.h"
#include "infer/sample/stop.h"
#include "infer/session/internal.h"
#include "text/tokenizer/tokenizer.h"

struct tern_generation {
    tern_session *session;
    tern_generate_params params;
    tern_generate_result result;
    const tern_tokenizer *tokenizer;
    tern_sampler *sampler;
    tern_text_stream stream;
    tern_stop_filter filter;
    bool on_device;        /* which chooses the tokens */
    bool prompt_evaluated; /* the prompt is evaluated */
    bool stop_requested;   /* by tern_generation_stop */
    bool stopped;          /* there is a reason to end; the session's evaluation under way comes first */
    bool over;             /* nothing more will happen: done, or failed */
    tern_status failed;
    tern_logits_needed needed;        /* by the sampler */
    tern_logits_needed needed_before; /* the session's, given back in the end */
    double start_ms, decode_start_ms;
    uint64_t start_bytes;
    /* Tokens chosen on the host: `position` tokens of the session are decided. Beyond them it may hold drafted ones,
     * evaluated already; the logits of the last decided token are in row `row`. */
    uint32_t position, row;
    bool committing;   /* the session evaluates a token that was shown, which will be at `position`, and what is drafted
                        after it */
    bool reevaluating; /* the session evaluates the last decided token again, for all its logits */
    tern_draft draft;
    int32_t *batch; /* a token and what is drafted after it */
    tern_step_costs costs;
    tern_accept_rates rates;
    uint32_t match;           /* of the look-up after the last decided token */
    int32_t lookup_id;        /* what it would be followed by; with match above 0 */
    uint32_t n_model_drafted; /* by the draft model, of the tokens that the session holds beyond the decided ones */
    uint32_t n_rows;          /* of the step under way, and when it began */
    double step_start_ms;
    uint32_t *filter_mask; /* the mask of the filter, n_allowed words; NULL without one */
    size_t n_filter_words;
    /* Tokens chosen on the device. */
    uint32_t n_running; /* that it is choosing now */
    double run_start_ms;
    uint32_t chosen[1 + TERN_SAMPLE_MAX_STEPS];
};

double tern_generation__now_ms(void);
void tern_generation__stop(tern_generation *g, tern_stop_reason reason);
bool tern_generation__is_end(const tern_generation *g, int32_t id);
/* Counts the token, adds its text and shows what can be shown of it; may stop. */
tern_status tern_generation__emit(tern_generation *g, int32_t id, tern_error *err);

/* ---- the host chooses */

tern_status tern_generation__host_init(tern_generation *g, tern_error *err);
void tern_generation__host_deinit(tern_generation *g);
/* Starts the session's evaluation of the prompt, with the logits of its last token. */
tern_status tern_generation__host_begin(tern_generation *g, const int32_t *prompt, uint32_t n, tern_error *err);
/* One token: chosen, shown, decided; or the start of a shift. The session may be evaluating it then. */
tern_status tern_generation__host_step(tern_generation *g, tern_error *err);
/* The due tokens are evaluated. */
void tern_generation__host_evaluated(tern_generation *g);
/* Leaves the session with the decided tokens alone. */
void tern_generation__host_end(tern_generation *g);

/* ---- the device chooses: several tokens in one run */

/* Whether it does: the session is made for it, and the sampler fits. */
bool tern_generation__on_device(const tern_session *session, const tern_generate_params *params);
/* From a session whose last token is not evaluated: a run, or the start of a shift. The session ends with the tokens
 * that were shown, the last one not evaluated. */
tern_status tern_generation__device_step(tern_generation *g, tern_error *err);

#endif
