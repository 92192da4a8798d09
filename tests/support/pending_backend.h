/* Any backend made to be one that never waits, as WebGPU in a browser is. */
#ifndef TERN_TESTS_SUPPORT_PENDING_BACKEND_H
#define TERN_TESTS_SUPPORT_PENDING_BACKEND_H

#include "backend/backend.h"

/* Changes the backend's table: reads and waits give PENDING a random number of times first; a read's bytes are those of
 * its first call, whatever is run or written in between. Writes wait for what runs. A second read under way, and a run
 * or a free while its buffers are still to be read by nobody, fail the test. One such backend at a time. */
void test_make_pending(tern_backend *backend, uint64_t seed);
/* The table as it was. No read may be under way. */
void test_end_pending(tern_backend *backend);
/* How often PENDING was given since it was made so. */
uint64_t test_pending_count(void);
/* Whether a read is under way. */
bool test_pending_reading(void);
/* The n-th read or wait from now on fails with INTERNAL, after its PENDINGs; 0: none does. */
void test_pending_fail_after(uint32_t n);

#endif
