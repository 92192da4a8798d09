/* What the tests of sessions and generation share: the trained model, and text that it generates. */
#ifndef TERN_TESTS_INFER_SUPPORT_H
#define TERN_TESTS_INFER_SUPPORT_H

#include "support/test.h"

#include "infer/sample/sampler.h"
#include "infer/session/session.h"

/* The trained model with its tokenizer. */
tern_engine *open_trained(uint32_t n_threads);
/* The same on the backend under test (test_backend_here), not waited for where the device is not. */
tern_engine *open_trained_here(void);

tern_session *open_session(tern_engine *engine, tern_session_params params);
/* The ids of a text after BOS; the caller's to deinit. */
tern_tokens ids_of(const tern_engine *engine, const char *text);
/* What a callback saw. Set stop_after to end the generation from there. */
typedef struct seen {
    tern_buf text;
    int32_t ids[2048];
    uint32_t n_ids, n_pieces, stop_after;
} seen;

bool see(void *context, const tern_piece *piece);
tern_generate_params greedy_params(seen *s, uint32_t max_tokens);
/* Steps that take the same whatever they evaluate: what is drafted then depends on no clock. */
extern const double equal_costs[32];
/* Generates after a prompt from an empty session; fails the test on error. */
tern_generate_result generate(tern_session *session, const char *prompt, const tern_generate_params *params);
void forget(seen *s);

#endif
