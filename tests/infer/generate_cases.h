/* What the tests of generation share. */
#ifndef TERN_TESTS_INFER_GENERATE_CASES_H
#define TERN_TESTS_INFER_GENERATE_CASES_H

#include "infer/support.h"

#include "base/alloc.h"
#include "format/json.h"
#include "support/logits.h"

typedef struct fixture {
    tern_engine *engine;
    tern_session *session;
} fixture;

int generate_setup(void **state);

int generate_teardown(void **state);

extern const char generate_story[];

/* The greedy continuation of the story, for the other tests to cut. */
void generate_plain_text(fixture *f, seen *s, uint32_t n);

#endif
