/* Generation step by step on a device that cannot be waited for: what its tests share. */
#ifndef TERN_TESTS_INFER_GENERATION_H
#define TERN_TESTS_INFER_GENERATION_H

#include "infer/support.h"

typedef struct generation_fixture {
    tern_engine *engine;
    bool slow; /* a GPU in software: few tokens */
} generation_fixture;

enum { GENERATION_SEED = 20261121, GENERATION_BATCH = 8 };

static const char generation_story[] = "Once upon a time there was a little girl";

/* The fixture on the backend under test, a group's setup; on the CPU, made to choose tokens as a device does; and their
 * teardown. */
int generation_open(void **state);
int generation_open_stepping(void **state);
int generation_close(void **state);

tern_backend *generation_backend(const generation_fixture *f);
tern_session *generation_session(const generation_fixture *f, uint32_t n_ctx);
tern_generate_params generation_params(const generation_fixture *f);
/* What a caller sees of a generation. */
typedef struct generated {
    seen seen;
    tern_generate_result result;
    int32_t tokens[512]; /* the session's in the end */
    uint32_t n_tokens;
} generated;

/* Steps until the end, or until `most` calls are made; returns the last status. */
tern_status run_steps(tern_generation *g, uint32_t most, bool *done, tern_error *err);
tern_generation *open_generation(tern_session *session, const char *prompt, const tern_generate_params *params);
/* All of it, step by step. */
void by_steps(tern_session *session, const char *prompt, tern_generate_params params, generated *out);
void at_once(tern_session *session, const char *prompt, tern_generate_params params, generated *out);
void assert_same_generated(const generated *a, const generated *b);

#endif
