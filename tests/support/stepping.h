/* The CPU backend made to run SAMPLE, several steps at a time, as a GPU does: the same bits as sampling on the host. */
#ifndef TERN_TESTS_SUPPORT_STEPPING_H
#define TERN_TESTS_SUPPORT_STEPPING_H

#include "backend/backend.h"

/* Changes the table of a CPU backend; one such backend at a time. From here on it also counts submits and downloaded
 * bytes. */
void test_make_stepping(tern_backend *cpu);
/* The n-th run from now on fails with INTERNAL; 0: none does. */
void test_stepping_fail_after(uint32_t n);

#endif
