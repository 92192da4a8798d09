/* Generation step by step on a GPU, made to be a device that cannot be waited for: the tokens that it gives at once. */
#include "infer/generation_cases.h"

#include "support/op_case.h"

static generation_fixture fixture;

/* Skipped where there is no GPU, and the other tests with it. */
static void opens(void **state)
{
    (void)state;
    test_gpu_backend();
    tern_error err = {0};
    tern_model *model;
    tern_engine_params params = {.backend = {.name = "vulkan", .device = getenv("TERN_TEST_DEVICE")}};
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&fixture.engine, model, &params, &err), err);
    fixture.slow = true;
}

static int setup(void **state)
{
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_engine_close(fixture.engine);
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {GENERATION_CASES};

TEST_GROUP(generation_vulkan, "gpu long", tests, .first = opens, .setup = setup, .teardown = teardown);
