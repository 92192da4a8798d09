/* A trainer on the GPU against PyTorch. */
#include "train/trainer_goldens.h"

static const bool exact = false;

static tern_backend *backend(void)
{
    return test_gpu_backend();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(adamw),
        cmocka_unit_test(golden_adapter),
    };
    return cmocka_run_group_tests(tests, NULL, test_backends_close);
}
