/* A trainer on the GPU against PyTorch. */
#include "support/gpu_model.h"
#include "train/trainer_goldens.h"

static const bool exact = false;

static tern_backend *backend(void)
{
    return test_gpu_backend();
}

static tern_engine *engine_of(const char *path)
{
    return test_gpu_engine(path, test_all_layers, NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gradients),
    cmocka_unit_test(adamw),
    cmocka_unit_test(golden_adapter),
    cmocka_unit_test(golden_logits),
};

TEST_GROUP(trainer_goldens_vulkan, "gpu long", tests, .teardown = test_backends_close);
