/* What the tests of sessions share. */
#ifndef TERN_TESTS_INFER_SESSION_CASES_H
#define TERN_TESTS_INFER_SESSION_CASES_H

#include "infer/support.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/file.h"
#include "support/logits.h"

enum { CTX = 96, N_IDS = 70, MAX_BYTES = 1 << 22 };

extern tern_engine *session_engine;

extern tern_session *session_session, *session_other;

extern int32_t session_ids[N_IDS];

extern size_t session_logits_bytes;

int session_setup(void **state);

int session_teardown(void **state);

void session_append(tern_session *s, const int32_t *from, uint32_t n);

/* Both hold the same tokens, and the same logits for the last one and for some that follow. */
void session_assert_same(tern_session *a, tern_session *b);

#endif
