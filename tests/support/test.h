/* What every test file includes: cmocka in its order, groups of cases, and paths. */
#ifndef TERN_TESTS_SUPPORT_TEST_H
#define TERN_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tern/status.h"

/* A group of cases: one test of CTest, run in a process of its own. Its labels are words that say what it needs and
 * where it runs; cmake/tests.cmake has the list. */
typedef struct test_group {
    const char *name, *labels;
    const struct CMUnitTest *cases;
    size_t n_cases;
    CMFixtureFunction setup, teardown; /* around all cases */
} test_group;

/* The groups of this program, up to a NULL: the build lists every TEST_GROUP of a folder. */
extern const test_group *const test_groups[];

/* Makes an array of cases a group: TEST_GROUP(rows, "gpu web", cases, .setup = seed); */
#define TEST_GROUP(group, words, array, ...)                                                                           \
    extern const test_group test_group_##group;                                                                        \
    const test_group test_group_##group = {                                                                            \
        .name = #group, .labels = words, .cases = array, .n_cases = sizeof(array) / sizeof *(array), __VA_ARGS__}

/* Skips the calling test, which needs something that this machine lacks, with this message; fails it under CI=true. */
void test_missing(const char *what);
/* Path of a file in the shared fixtures ("bitnet/config.json") or models folder; storage is static, eight calls deep.
 * The folder is $TERN_SHARED, or ../shared beside the repository; where neither is there, it is test_missing.
 */
const char *test_fixture(const char *name);
/* A model or a golden that tests/data/models/make.py has written. */
const char *test_made(const char *name);
/* A seed of a fuzzer ("tiktoken", "ranks"), written as test_scratch(name). */
const char *test_fuzz_seed(const char *fuzzer, const char *name);
/* The families of tests/data/models; NULL ends them. Those with experts are a list of their own. */
extern const char *const test_made_families[], *const test_made_experts[], *const test_made_ternary[];
const char *test_model(const char *name);
/* Whether TERN_TEST_QUICK is set (CTest sets it where tests are slow: on GPUs of software, with sanitizers, for another
 * CPU) and TERN_TEST_WHOLE is not: a test then takes fewer cases of each kind. */
bool test_quick(void);
/* Whether this run takes case `index` of a loop: a quick one takes every stride-th, any other one all.
 *
 *   walked  product of what the index chooses from: 3 * 5 where it says `sizes[i % 3]` and `kinds[i % 5]`; 1 where it
 *           chooses one thing. It shares no factor with the stride (else the test fails), so that in the long run the
 *           cases taken have each value with each other.
 *
 * Quick runs begin at TERN_TEST_OFFSET (0): over `stride` offsets in a row each case is taken once. */
bool test_takes(size_t index, uint32_t stride, uint32_t walked);
/* The same for an offset, in a quick run. */
bool test_takes_at(uint64_t offset, size_t index, uint32_t stride, uint32_t walked);
/* TERN_TEST_OFFSET, which is printed once. */
uint64_t test_offset(void);
/* Skips the calling test where TERN_TEST_DEVICES_ONLY is set (validation, the second driver, sanitizers, another
 * CPU): on the simulated GPU it says the same there. */
void test_on_simulated_gpu(void);
/* A path for a scratch file under the build folder, in a folder of the running group's own: groups run side by side.
 * The same group on another driver at the same time needs another TERN_TEST_SCRATCH.
 */
const char *test_scratch(const char *name);
/* Names that folder; called by main before a group runs. */
void test_scratch_for(const char *program, const char *group, const char *backend);
/* A file of n bytes, or of a text. */
void test_write_file(const char *path, const void *bytes, size_t n);
void test_write_text(const char *path, const char *text);

/* Fails the test with err's message when status is not TERN_OK. */
#define assert_ok(status, err)                                                                                         \
    do {                                                                                                               \
        if ((status) != TERN_OK) fail_msg("%s", (err).message);                                                        \
    } while (0)

#endif
