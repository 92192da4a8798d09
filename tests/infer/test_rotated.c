/* A model whose weights were rotated, as Bonsai 2's are, computes what it computed before. */
#include "support/rotated.h"

#include "support/converted.h"
#include "support/golden.h"
#include "support/test.h"

static void goldens(void **state)
{
    (void)state;
    if (test_on_shared()) test_skip("the widths are those of the made model");
    test_golden_check(test_rotated(test_converted(test_fixture("qwen3_5"), "f32", "f32"), "rotated.gguf"),
                      test_fixture("qwen3_5/golden.safetensors"), NULL, 5e-4);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(goldens)};

TEST_GROUP(rotated, "", tests);
