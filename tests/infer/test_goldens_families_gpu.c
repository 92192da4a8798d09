/* Every family besides BitNet and LLaMA on GPUs, of both drivers: the numbers of PyTorch or of plain arithmetic
 * (windows, soft caps, biases, norms of heads, after blocks and before linear layers; experts, sinks, clamped gates;
 * states of sequences; a rotated basis).
 */
#include "infer/support.h"
#include "support/converted.h"
#include "support/gpu_model.h"
#include "support/op_case.h"
#include "support/rotated.h"

enum { ALL = 1000, FEW = 6 };

/* n positions token by token, or, where it is not quick, all; the greedy text is so in any case. */
static void check_in(const char *(*path_of)(const char *), const char *name, uint32_t n, double max_rms)
{
    char golden[64];
    test_pair pair;
    snprintf(golden, sizeof golden, "%s/golden.safetensors", name);
    test_pair_open(&pair, path_of(name), test_all_layers, NULL, max_rms);
    test_pair_check_golden(&pair, path_of(golden), test_quick() ? n : ALL);
    test_pair_close(&pair);
}

static void check(const char *name, uint32_t n)
{
    check_in(test_fixture, name, n, 5e-4);
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

/* Layers that recur, three of four; output gates, some of them with one number for all columns. */
static void recurrent(void **state)
{
    (void)state;
    check("qwen3_5", FEW);
    check("qwen3_5_moe", FEW);
    check("qwen3_next", FEW);
}

/* Weights in a rotated basis, as Bonsai 2 has them. */
static void rotated(void **state)
{
    (void)state;
    test_pair pair;
    if (test_on_shared()) test_skip("the widths are those of the made model");
    const char *path = test_rotated(test_converted(test_fixture("qwen3_5"), "f32", "f32"), "rotated_gpu.gguf");
    test_pair_open(&pair, path, test_all_layers, NULL, 5e-4);
    test_pair_check_golden(&pair, test_fixture("qwen3_5/golden.safetensors"), test_quick() ? FEW : ALL);
    test_pair_close(&pair);
}

static void check_made(const char *const *names, double max_rms)
{
    for (; *names; names++) check_in(test_made, *names, FEW, max_rms);
}

static void other_experts(void **state)
{
    (void)state;
    check_made(test_made_experts, 5e-4);
}

static void other_families(void **state)
{
    (void)state;
    check_made(test_made_families, 5e-4);
}

/* A norm before each linear layer, which is ternary. */
static void linear_norms(void **state)
{
    (void)state;
    check_made(test_made_ternary, 2e-3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gemma2),       cmocka_unit_test(gemma3),        cmocka_unit_test(mixtral),
    cmocka_unit_test(gpt_oss),      cmocka_unit_test(other_experts), cmocka_unit_test(other_families),
    cmocka_unit_test(linear_norms), cmocka_unit_test(recurrent),     cmocka_unit_test(rotated),
};

TEST_GROUP(goldens_families_gpu, "devices swiftshader", tests, .teardown = test_backends_close);
