/* What every test program includes: cmocka in its order, and paths. */
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

/* Path of a file in the shared fixtures ("bitnet/config.json") or models folder; storage is static, eight calls deep.
 * The folder is $TERN_SHARED, or ../shared beside the repository; where neither is there, the calling test is skipped.
 */
const char *test_fixture(const char *name);
const char *test_model(const char *name);
/* Whether TERN_TEST_QUICK is set (CTest sets it in builds with sanitizers and for another CPU, where whole models are
 * slow): a test then takes fewer cases of each kind, and leaves no kind out. */
bool test_quick(void);
/* Skips the calling test where TERN_TEST_DEVICES_ONLY is set (validation, the second driver, sanitizers, another
 * CPU): on the simulated GPU it says the same there. */
void test_on_simulated_gpu(void);
/* A path for a scratch file under the build folder (in a folder of its own for each TERN_TEST_SCRATCH). */
const char *test_scratch(const char *name);
/* A file of n bytes, or of a text. */
void test_write_file(const char *path, const void *bytes, size_t n);
void test_write_text(const char *path, const char *text);

/* Fails the test with err's message when status is not TERN_OK. */
#define assert_ok(status, err)                                                                                         \
    do {                                                                                                               \
        if ((status) != TERN_OK) fail_msg("%s", (err).message);                                                        \
    } while (0)

#endif
