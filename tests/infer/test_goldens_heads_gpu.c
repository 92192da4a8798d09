/* Heads that are no multiple of 8 on GPUs, of both drivers: of 20, as the 100 of BitNet b1.58 3B is none. */
#include "infer/support.h"
#include "support/gpu_model.h"
#include "support/op_case.h"

enum { ALL = 1000 };

/* Prompt and tokens one by one, and the greedy text. */
static void odd_heads(void **state)
{
    (void)state;
    test_pair pair;
    test_pair_open(&pair, test_made("llama-heads"), test_all_layers, NULL, 5e-4);
    test_pair_check_golden(&pair, test_made("llama-heads/golden.safetensors"), ALL);
    test_pair_close(&pair);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(odd_heads)};

TEST_GROUP(goldens_heads_gpu, "devices swiftshader", tests, .teardown = test_backends_close);
