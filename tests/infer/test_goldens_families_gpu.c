/* Gemma 2 and 3, Mixtral, GPT-OSS and Qwen3-MoE on GPUs, of both drivers: PyTorch's numbers (windows, soft caps, norms
 * of heads and after blocks; experts, sinks, clamped gates). */
#include "infer/support.h"
#include "support/gpu_model.h"
#include "support/op_case.h"

enum { ALL = 1000, FEW = 6 };

/* n positions token by token, or, where it is not quick, all; the greedy text is so in any case. */
static void check_in(const char *(*path_of)(const char *), const char *name, uint32_t n)
{
    char golden[64];
    test_pair pair;
    snprintf(golden, sizeof golden, "%s/golden.safetensors", name);
    test_pair_open(&pair, path_of(name), test_all_layers, NULL, 5e-4);
    test_pair_check_golden(&pair, path_of(golden), test_quick() ? n : ALL);
    test_pair_close(&pair);
}

static void check(const char *name, uint32_t n)
{
    check_in(test_fixture, name, n);
}

static void gemma2(void **state)
{
    (void)state;
    check("gemma2", 0);
}

static void gemma3(void **state)
{
    (void)state;
    check("gemma3", 0);
}

/* Prompts take rows by expert, single tokens row by row. */
static void mixtral(void **state)
{
    (void)state;
    check("mixtral", FEW);
}

static void gpt_oss(void **state)
{
    (void)state;
    check("gpt-oss", FEW);
}

static void other_experts(void **state)
{
    (void)state;
    for (const char *const *name = test_made_experts; *name; name++) check_in(test_made, *name, FEW);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gemma2),  cmocka_unit_test(gemma3),        cmocka_unit_test(mixtral),
    cmocka_unit_test(gpt_oss), cmocka_unit_test(other_experts),
};

TEST_GROUP(goldens_families_gpu, "devices swiftshader", tests, .teardown = test_backends_close);
