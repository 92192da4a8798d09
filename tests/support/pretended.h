/* A CPU that says it is a device with memory of its own, of which so much is free. */
#ifndef TESTS_SUPPORT_PRETENDED_H
#define TESTS_SUPPORT_PRETENDED_H

#include "backend/backend.h"

/* From here on the backend says so. */
void test_pretend_device(tern_backend *b);
/* What all of them have left. */
void test_pretend_left(uint64_t bytes);
/* A new one, with one thread, and so much left. */
tern_backend *test_pretended(uint64_t bytes);

#endif
