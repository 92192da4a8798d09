/* Requests to a batch and what each gives alone; what the tests of batches share. */
#ifndef TERN_TESTS_INFER_BATCH_CASES_H
#define TERN_TESTS_INFER_BATCH_CASES_H

#include "infer/support.h"

#include "base/rng.h"
#include "tern/batch.h"

enum { BATCH_MAX_PROMPT = 160, BATCH_MAX_TEXT = 1024, BATCH_MAX_IDS = 256, BATCH_MAX_COMPLETIONS = 4 };

/* What one completion gave. */
typedef struct batch_text {
    char text[BATCH_MAX_TEXT];
    size_t n_text;
    int32_t ids[BATCH_MAX_IDS];
    uint32_t n_ids, n_echoed, n_ends;
    tern_stop_reason reason;
    tern_request_result result;
    char error[512];
} batch_text;

/* A request, what it gives alone, and what it gave in a batch. */
typedef struct batch_case {
    int32_t prompt[BATCH_MAX_PROMPT];
    tern_request_params params;
    tern_request *request;
    uint32_t stop_after; /* pieces; 0: none */
    batch_text alone[BATCH_MAX_COMPLETIONS], together[BATCH_MAX_COMPLETIONS];
} batch_case;

/* Fills n requests of all kinds with prompts of ids below n_vocab: greedy and drawn, with and without stop strings,
 * penalties, drafts, several completions; some begin alike. */
void batch_fill(batch_case *cases, uint32_t n, uint32_t n_vocab, uint64_t seed);
/* What each gives alone: from an empty session, by tern_generate. */
void batch_run_alone(tern_session *session, batch_case *cases, uint32_t n);

tern_batch *batch_open(tern_engine *engine, tern_batch_params params);
/* Forgets what a case gave, and submits it. */
void batch_submit(tern_batch *batch, batch_case *c);
/* Steps until nothing is left to do. */
void batch_finish(tern_batch *batch);
/* Submits all, every `between` steps another one (0: all at once), and runs them to the end. */
void batch_run_together(tern_batch *batch, batch_case *cases, uint32_t n, uint32_t between);
/* Ids, text and reason of each completion are those that it gave alone; frees the requests. */
void batch_check(batch_case *cases, uint32_t n, const char *what);
/* Whether the ids of all completions, each of which has ended without an error, are those that they are alone. */
bool batch_same_tokens(const batch_case *c);

#endif
