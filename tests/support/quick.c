/* Quick runs: which cases of a loop they take. */
#include "support/test.h"

static bool is_set(const char *name)
{
    const char *text = getenv(name);
    return text && *text && strcmp(text, "0") != 0;
}

bool test_quick(void)
{
    return is_set("TERN_TEST_QUICK") && !is_set("TERN_TEST_WHOLE");
}

uint64_t test_offset(void)
{
    static bool printed;
    const char *text = getenv("TERN_TEST_OFFSET");
    char *end = NULL;
    const unsigned long long offset = text && *text ? strtoull(text, &end, 10) : 0;
    if (end && *end) fail_msg("TERN_TEST_OFFSET: \"%s\", a number expected", text);
    if (!printed) print_message("quick: cases are taken from TERN_TEST_OFFSET=%llu on\n", offset);
    printed = true;
    return offset;
}

static uint32_t common_factor(uint32_t a, uint32_t b)
{
    return b ? common_factor(b, a % b) : a;
}

bool test_takes_at(uint64_t offset, size_t index, uint32_t stride, uint32_t walked)
{
    const uint32_t factor = common_factor(stride, walked);
    if (factor != 1)
        fail_msg("every %u-th case of a walk over a product of %u: the common factor is %u, 1 expected", stride, walked,
                 factor);
    return (index + offset) % stride == 0;
}

bool test_takes(size_t index, uint32_t stride, uint32_t walked)
{
    const bool taken = test_takes_at(test_quick() ? test_offset() : 0, index, stride, walked);
    return taken || !test_quick();
}
