/* Rows in a rotated basis on the GPU, to the bit as on the CPU, in blocks of every length; a backend that lacks the op,
 * or a block as long, names the op. */
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_rng rng;

enum { ROWS = 5, BEFORE = 3 };

typedef struct shape {
    uint32_t cols, block, n_heads, n_kv_heads;
} shape;

/* Blocks of less than a warp, of one and of several; Bonsai 2's own, also with the heads of its layers that recur. */
static const shape shapes[] = {{7, 1, 0, 0},         {24, 8, 0, 0},     {96, 32, 0, 0},     {640, 128, 0, 0},
                               {768, 256, 0, 0},     {1536, 512, 0, 0}, {5120, 1024, 0, 0}, {8192, 8192, 0, 0},
                               {6144, 1024, 48, 16}, {768, 256, 6, 2}};

static void compare(const shape *s, bool inverse)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind++) {
        tern_backend *backend = test_gpu_backend_of((test_gpu_kind)kind);
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = ROWS});
        const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, BEFORE + s->cols, TEST_ORDINARY);
        const tern_view signs = test_case_norm_weight(&c, s->cols);
        float *sign = (float *)(void *)(uintptr_t)test_case_weight_of(&c, signs)->data;
        for (uint32_t i = 0; i < s->cols; i++) sign[i] = tern_rng_f32(&rng) < 0.5f ? -1.0f : 1.0f;
        test_case_add(
            &c,
            (tern_op){.kind = TERN_OP_HADAMARD,
                      .n_in = TERN_HADAMARD_INPUTS,
                      .in = {[TERN_HADAMARD_X] = test_case_columns(x, BEFORE, s->cols), [TERN_HADAMARD_SIGNS] = signs},
                      .block = s->block,
                      .inverse = inverse,
                      .n_heads = s->n_heads,
                      .n_kv_heads = s->n_kv_heads,
                      .head_dim = s->n_heads ? s->cols / s->n_heads : 0,
                      .out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, s->cols)});
        test_case_compare_if_supported(&c, backend, ROWS - 1, (test_tolerance){0});
        test_case_close(&c);
    }
}

static void blocks(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        compare(&shapes[i], false);
        if (!shapes[i].n_heads) compare(&shapes[i], true);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(blocks)};

TEST_GROUP(rotated_gpu, "gpu web simulated", tests, .setup = seed, .teardown = test_backends_close);
