/* Gemma 2 and 3 on GPUs, of both drivers: PyTorch's numbers (windows, soft caps, norms of heads and after blocks). */
#include "infer/support.h"
#include "support/gpu_model.h"
#include "support/op_case.h"

enum { ALL = 1000 };

/* Token by token where it is not quick; the greedy text is so in any case. */
static void check(const char *name)
{
    char golden[64];
    test_pair pair;
    snprintf(golden, sizeof golden, "%s/golden.safetensors", name);
    test_pair_open(&pair, test_fixture(name), test_all_layers, NULL, 5e-4);
    test_pair_check_golden(&pair, test_fixture(golden), test_quick() ? 0 : ALL);
    test_pair_close(&pair);
}

static void gemma2(void **state)
{
    (void)state;
    check("gemma2");
}

static void gemma3(void **state)
{
    (void)state;
    check("gemma3");
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(gemma2), cmocka_unit_test(gemma3)};

TEST_GROUP(goldens_gemma_gpu, "devices swiftshader", tests, .teardown = test_backends_close);
