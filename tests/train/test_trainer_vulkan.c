/* Trainers of small models on the GPU. */
#include "train/trainer_cases.h"

static tern_backend *backend(void)
{
    return test_gpu_backend();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_and_order),
    cmocka_unit_test(starts_from_codes),
    cmocka_unit_test(accumulation),
    cmocka_unit_test(freezing),
    cmocka_unit_test(learns),
    cmocka_unit_test(resumes),
    cmocka_unit_test(checkpointing),
    cmocka_unit_test(not_finite),
    cmocka_unit_test(plans),
    cmocka_unit_test(wrong_rows),
    cmocka_unit_test(evaluation),
    cmocka_unit_test(adapters),
    cmocka_unit_test(odd_rank),
    cmocka_unit_test(padded_chunks),
    cmocka_unit_test(from_dense_to_ternary),
};

TEST_GROUP(trainer_vulkan, "gpu long", tests, .teardown = test_backends_close);
