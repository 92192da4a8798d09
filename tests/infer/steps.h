/* Generation in steps, where the device chooses the tokens of a run: what its tests share. */
#ifndef TERN_TESTS_INFER_STEPS_H
#define TERN_TESTS_INFER_STEPS_H

#include "infer/support.h"

/* The engine under test, and how a session of the reference is opened on it. */
typedef struct steps_fixture {
    tern_engine *engine;
    tern_session_params reference; /* one token at a time */
    bool slow;                     /* a GPU in software: few tokens of each kind */
} steps_fixture;

static const char steps_story[] = "Once upon a time";

/* The fixture on the backend under test, a group's setup: a GPU, or the CPU made to choose tokens as a device does, of
 * which sampling on the host is the reference, to the bit. And its teardown. */
int steps_open(void **state);
int steps_close(void **state);

tern_session *steps_session(const steps_fixture *f, uint32_t n_ctx, uint32_t steps);
tern_session *steps_reference(const steps_fixture *f, uint32_t n_ctx);

#endif
