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

/* The status of a program whose group was skipped as a whole; CTest lists it as skipped. */
enum { TEST_SKIPPED = 77 };
/* Skips the calling test for this reason, or from a group's set-up the group, which cmocka's skip() fails. */
#undef skip
#define test_skip(why) test_skip_at(why, __FILE__, __LINE__)
void test_skip_at(const char *why, const char *file, int line);
/* How often it was called, and whether a group's set-up runs. */
uint32_t test_n_skipped(void);
void test_in_setup(bool yes);
/* Skips the calling test, which needs something that this machine lacks, with this message; fails it under CI=true. */
void test_missing(const char *what);
/* Path of a golden file or its model ("bitnet/config.json"), and of a model with a tokenizer ("tiny-stories-bitnet");
 * storage is static, eight calls deep. The build makes them in its folder (tests/data/goldens).
 */
const char *test_fixture(const char *name);
const char *test_model(const char *name);
/* From now on these two are files of $TERN_SHARED, or of ../shared beside the repository; returns whether that is
 * there. */
bool test_use_shared(void);
/* Whether they are: numbers that one of the two sets has differ in the other. */
bool test_on_shared(void);
/* A model or a golden that tests/data/models/make.py has written. */
const char *test_made(const char *name);
/* A seed of a fuzzer ("tiktoken", "ranks"), written as test_scratch(name). */
const char *test_fuzz_seed(const char *fuzzer, const char *name);
/* The families of tests/data/models; NULL ends them. Those with experts are a list of their own. */
extern const char *const test_made_families[], *const test_made_experts[], *const test_made_ternary[];
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
/* Names that folder; called by main before a group runs. `variant` tells runs of one group apart; "": none. */
void test_scratch_for(const char *program, const char *group, const char *variant);
/* A file of n bytes, or of a text. */
void test_write_file(const char *path, const void *bytes, size_t n);
void test_write_text(const char *path, const char *text);

/* Fails the test with err's message when status is not TERN_OK. */
#define assert_ok(status, err)                                                                                         \
    do {                                                                                                               \
        if ((status) != TERN_OK) fail_msg("%s", (err).message);                                                        \
    } while (0)

#endif
