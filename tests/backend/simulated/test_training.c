/* The training ops that go by rows, and attention over rows, on simulated GPUs (support/spirv.h) that are not at hand:
 * against the CPU, and for races, bounds and barriers. */
#include "support/experts_case.h"
#include "support/simulated.h"
#include "support/test.h"
#include "support/training_case.h"

static tern_rng rng;

typedef struct device {
    const char *name;
    uint32_t subgroup, workgroup_bytes, invocations;
} device;

static const device devices[] = {{"no subgroups, the least of all", 0, 16384, 128},
                                 {"subgroups of 32", 32, 49152, 1024},
                                 {"no subgroups", 0, 32768, 256},
                                 {"subgroups of 4", 4, 16384, 256},
                                 {"subgroups of 64", 64, 65536, 1024},
                                 {"subgroups of 128", 128, 32768, 256}};

enum { N_DEVICES = sizeof devices / sizeof *devices };

static tern_backend *backends[N_DEVICES];

static tern_backend *backend(size_t i)
{
    tern_error err = {0};
    const device *d = &devices[i];
    const tern_gpu_caps caps = {.subgroup_min = d->subgroup,
                                .subgroup_max = d->subgroup,
                                .workgroup_bytes = d->workgroup_bytes,
                                .workgroup_invocations = d->invocations,
                                .max_groups = 65535,
                                .max_binding = 128u << 20,
                                .binding_alignment = 256,
                                .device_fences = true};
    if (!backends[i]) assert_ok(test_simulated_open(&backends[i], &caps, &err), err);
    return backends[i];
}

static int close_all(void **state)
{
    for (size_t i = 0; i < N_DEVICES; i++)
        if (backends[i]) backends[i]->close(backends[i]);
    return test_backends_close(state);
}

static void rows_on(size_t i, tern_op_kind kind, uint32_t cols, tern_activation activation)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 7, .training = true});
    test_training_add(&c, &(test_training){.kind = kind, .cols = cols, .activation = activation, .n_vocab = 4});
    test_training_params(&c, cols, 4);
    test_case_compare(&c, backend(i), 7, 7, (test_tolerance){.of_value = 2e-5, .of_row = 2e-6, .absolute = 1e-30});
    test_case_close(&c);
}

/* Norms of groups of columns, backward. */
static void groups_on(size_t i, uint32_t cols, uint32_t n_groups)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 20, .training = true});
    test_training_add(
        &c, &(test_training){.kind = TERN_OP_RMS_NORM_BACKWARD, .cols = cols, .n_groups = n_groups, .residual = true});
    test_case_compare(&c, backend(i), 20, 20, (test_tolerance){.of_value = 2e-5, .of_row = 2e-6, .absolute = 1e-30});
    test_case_close(&c);
}

static void rows(void **state)
{
    (void)state;
    static const tern_op_kind kinds[] = {TERN_OP_SCALE,          TERN_OP_DROPOUT,           TERN_OP_FAKE_QUANTIZE,
                                         TERN_OP_CROSS_ENTROPY,  TERN_OP_RMS_NORM_BACKWARD, TERN_OP_ROPE_BACKWARD,
                                         TERN_OP_GATE_BACKWARD,  TERN_OP_GATE_BACKWARD,     TERN_OP_GATE_BACKWARD,
                                         TERN_OP_EMBED_BACKWARD, TERN_OP_BIAS_BACKWARD};
    static const uint32_t widths[] = {5, 1284};
    for (size_t i = 0; i < N_DEVICES; i++) {
        if (!test_takes(i, 3, 1)) continue;
        print_message("%s\n", devices[i].name);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (int w = 0; w < 2; w++) rows_on(i, kinds[k], widths[w], (tern_activation)(k % 3));
        groups_on(i, 12, 4);
        groups_on(i, 520, 2);
    }
}

static void attention_on(size_t i, const test_varlen_attention *s)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->rows, .training = true});
    test_varlen_attention_add(&c, s);
    test_case_compare(&c, backend(i), s->rows, s->rows, (test_tolerance){.of_row = 4e-6, .absolute = 5e-7});
    test_case_close(&c);
}

/* More rows than a block has, a head of fewer columns than the kernel's. */
static void attention(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        if (!test_takes(i, 2, 1)) continue;
        print_message("%s\n", devices[i].name);
        attention_on(
            i, &(test_varlen_attention){.rows = 67, .n_heads = 2, .n_kv_heads = 1, .head_dim = 20, .longest = 40});
        attention_on(i, &(test_varlen_attention){.rows = 34, .n_heads = 1, .n_kv_heads = 1, .head_dim = 68});
        attention_on(i, &(test_varlen_attention){.rows = 69,
                                                 .n_heads = 2,
                                                 .n_kv_heads = 1,
                                                 .head_dim = 20,
                                                 .softcap = 2,
                                                 .window = 18,
                                                 .sinks = true,
                                                 .dsinks = true});
        if (test_takes(i, 4, 1))
            attention_on(i, &(test_varlen_attention){.rows = 5, .n_heads = 1, .n_kv_heads = 1, .head_dim = 144});
    }
}

/* Experts of a few rows and of none, of more than a tile has; rows of no whole vector. */
static void experts(void **state)
{
    (void)state;
    static const struct {
        test_experts of;
        uint32_t n, k;
    } cases[] = {{{"bf16", 5, 9, 20}, 12, 2}, {{"f32", 2, 12, 36}, 66, 2}, {{"q8_0", 140, 4, 32}, 6, 3}};
    for (size_t i = 0; i < N_DEVICES; i++) {
        if (!test_takes(i, 2, 3)) continue;
        test_case c;
        print_message("%s\n", devices[i].name);
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = cases[i % 3].n, .n_routes = cases[i % 3].k});
        test_experts_backward_add(&c, &cases[i % 3].of, (tern_route_rule)(i % 3));
        test_case_compare(&c, backend(i), cases[i % 3].n, 1, (test_tolerance){.of_row = 2e-5, .absolute = 2e-5});
        test_case_close(&c);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(attention),
                                          cmocka_unit_test(experts)};

TEST_GROUP(training, "slow", tests, .setup = seed, .teardown = close_all);
