/* Signs and Hadamard transforms of blocks on the GPU, to the bit as on the CPU; shapes that it refuses by name, and a
 * backend without the op. */
#include "backend/gpu/gpu_internal.h"
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_rng rng;

typedef struct shape {
    uint32_t cols, block, n_heads, n_groups, head_dim;
} shape;

/* Blocks of less than a warp, of one and of several, the longest of all; fewer and more columns than a workgroup takes;
 * heads in groups, Bonsai 2's among them. */
static const shape shapes[] = {
    {.cols = 7, .block = 1},
    {.cols = 6, .block = 2},
    {.cols = 176, .block = 16},
    {.cols = 96, .block = 32},
    {.cols = 1088, .block = 64},
    {.cols = 3072, .block = 1024},
    {.cols = 8192, .block = 8192},
    {.cols = 2560, .block = 512, .n_heads = 20, .n_groups = 4, .head_dim = 128},
    {.cols = 6144, .block = 1024, .n_heads = 48, .n_groups = 16, .head_dim = 128},
    {.cols = 96, .block = 32, .n_heads = 12, .n_groups = 3, .head_dim = 8},
};

static void open_case(test_case *c, const shape *s, bool inverse)
{
    enum { BEFORE = 3 };
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = 5});
    const tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, BEFORE + s->cols, TEST_ORDINARY),
                    signs = test_case_norm_weight(c, s->cols),
                    y = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, s->cols);
    float *values = (float *)(uintptr_t)test_case_weight_of(c, signs)->data;
    for (uint32_t i = 0; i < s->cols; i++) values[i] = tern_rng_below(&rng, 2) ? 1.0f : -1.0f;
    test_case_add(c, (tern_op){.kind = TERN_OP_HADAMARD,
                               .n_in = TERN_HADAMARD_INPUTS,
                               .in = {test_case_columns(x, BEFORE, s->cols), signs},
                               .block = s->block,
                               .inverse = inverse,
                               .n_heads = s->n_heads,
                               .n_kv_heads = s->n_groups,
                               .head_dim = s->head_dim,
                               .out = y});
}

static void both_ways(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < test_gpu_kinds(); kind++) {
            test_case c;
            open_case(&c, &shapes[i / 2], i % 2);
            test_case_compare_if_supported(&c, test_gpu_backend_of((test_gpu_kind)kind), 4, (test_tolerance){0});
            test_case_close(&c);
        }
}

static void refusals(void **state)
{
    (void)state;
    static const shape refused[] = {{.cols = 4096, .block = 2048},
                                    {.cols = 1000, .block = 16},
                                    {.cols = 96, .block = 12},
                                    {.cols = 96, .block = 32, .n_heads = 12, .n_groups = 5, .head_dim = 8}};
    static const char *const why[] = {"op hadamard of 4096 columns in blocks of 2048", "1000 columns in blocks of 16",
                                      "96 columns in blocks of 12", "12 heads of 8 in 5 groups"};
    const tern_gpu_caps caps = {
        .workgroup_bytes = 16384, .workgroup_invocations = 128, .max_groups = 65535, .max_binding = 1u << 27};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tern_error err = {0};
        test_case c;
        open_case(&c, &refused[i], false);
        assert_int_equal(tern_gpu_supports(&c.graph, &c.graph.ops[0], &caps, &err), TERN_UNSUPPORTED);
        if (!strstr(err.message, why[i])) fail_msg("\"%s\", \"%s\" expected in it", err.message, why[i]);
        test_case_close(&c);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways), cmocka_unit_test(refusals)};

TEST_GROUP(hadamard_gpu, "gpu web simulated", tests, .setup = seed, .teardown = test_backends_close);
