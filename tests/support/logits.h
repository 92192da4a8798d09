/* The logits of a session, where a test expects that there are some. */
#ifndef TERN_TESTS_SUPPORT_LOGITS_H
#define TERN_TESTS_SUPPORT_LOGITS_H

#include "support/test.h"
#include "tern/infer.h"

/* Row `row` of the last append (tern_session_logits); the test fails where there is none. */
static inline float *test_logits(tern_session *session, uint32_t row)
{
    tern_error err = {0};
    float *logits;
    assert_ok(tern_session_logits(session, row, &logits, &err), err);
    return logits;
}

#endif
