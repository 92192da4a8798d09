/* A trainer on the CPU against PyTorch. */
#include "train/trainer_goldens.h"

static const bool exact = true;

static tern_backend *backend(void)
{
    return test_backend("cpu");
}

static tern_engine *engine_of(const char *path)
{
    return test_engine(path, NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gradients),
    cmocka_unit_test(adamw),
    cmocka_unit_test(golden_adapter),
    cmocka_unit_test(golden_logits),
};

TEST_GROUP(trainer_goldens, "", tests, .teardown = test_backends_close);
