/* Memory between two unreadable pages, for finding reads and writes past either end. */
#ifndef TERN_TESTS_SUPPORT_GUARD_H
#define TERN_TESTS_SUPPORT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_guard {
    uint8_t *map, *begin, *end; /* begin .. end is readable, page-aligned on both sides */
} test_guard;

/* At least max_bytes readable bytes, all canaries. Aborts when out of memory. */
test_guard test_guard_open(size_t max_bytes);
void test_guard_close(test_guard *g);

/* Fills everything with canaries and lends `bytes` bytes that end at the unreadable page (or, at_begin, start right
 * after one). */
void *test_guard_lend(test_guard *g, size_t bytes, bool at_begin);
/* Whether every byte outside of what was lent is still a canary. */
bool test_guard_intact(const test_guard *g, const void *lent, size_t bytes);

#endif
