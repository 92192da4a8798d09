/* Layers with experts on a GPU, against the CPU: the choice, products by expert, gates and sums, as the device is and
 * as lesser ones. */
#include "ops/operands.h"
#include "support/test.h"

#include <math.h>

#include "backend/gpu/caps.h"
#include "backend/open.h"
#include "support/formats.h"
#include "support/op_case.h"

static tern_rng rng;
static tern_backend *small; /* bindings of 64 KiB, so that experts are in slices, and lie across them */

static tern_backend *small_backend(void)
{
    test_gpu_backend(); /* skips where there is no device */
    if (small) return small;
    static const tern_gpu_caps limits = {.workgroup_bytes = 16384,
                                         .workgroup_invocations = 128,
                                         .max_groups = 65535,
                                         .max_binding = 65536,
                                         .binding_alignment = 256};
    return small = test_gpu_open(&limits);
}

static int close_all(void **state)
{
    if (small) small->close(small);
    return test_backends_close(state);
}

/* ROUTE of any logits: the test's, or rows of a few values alone, which are often equal. */
static tern_view add_route(test_case *c, uint32_t n_experts, tern_route_rule rule, bool ties)
{
    tern_view logits = test_case_rows(c, "logits", TERN_ROWS_TOKENS, n_experts + 3, TEST_ORDINARY);
    float *values = test_case_floats(c, logits);
    for (uint32_t i = 0; ties && i < c->graph.max_tokens * logits.cols; i++) values[i] = floorf(values[i] * 3);
    const tern_view routes = test_case_output(c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
    test_case_add(c, (tern_op){.kind = TERN_OP_ROUTE,
                               .n_in = TERN_ROUTE_INPUTS,
                               .in = {[TERN_ROUTE_LOGITS] = test_case_columns(logits, 2, n_experts)},
                               .out = routes,
                               .n_experts = n_experts,
                               .route_rule = rule});
    return routes;
}

static void routes_of_all_sizes(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_experts, k;
    } sizes[] = {{1, 1}, {2, 2}, {8, 2}, {32, 4}, {128, 8}, {130, 16}, {1024, 16}, {1000, 1}};
    test_seed(&rng);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t rule = 0; rule < 3; rule++) {
            test_case c;
            test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 5, .n_routes = sizes[i].k});
            add_route(&c, sizes[i].n_experts, (tern_route_rule)rule, i % 2);
            test_case_compare(&c, test_gpu_backend(), 4, 1, (test_tolerance){.of_value = 2e-5, .absolute = 1e-30});
            test_case_close(&c);
        }
}

/* The experts alone: NaN come last. */
static void logits_that_are_no_numbers(void **state)
{
    (void)state;
    enum { N = 6, K = 4 };
    static const struct {
        float logits[N];
        uint32_t want[K];
    } rows[] = {{{NAN, 1, NAN, -INFINITY, 2, NAN}, {4, 1, 3, 0}},
                {{-0.0f, 0.0f, -1, 0.0f, -0.0f, 1}, {5, 0, 1, 3}},
                {{-INFINITY, INFINITY, -3e38f, 3e38f, -1e-44f, 1e-44f}, {1, 3, 5, 4}},
                {{NAN, NAN, NAN, NAN, NAN, NAN}, {0, 1, 2, 3}}};
    enum { ROWS = sizeof rows / sizeof *rows };
    test_seed(&rng);
    for (uint32_t rule = 0; rule < 3; rule++) {
        test_case c;
        test_results got;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = ROWS, .n_routes = K});
        const tern_view logits = test_case_rows(&c, "logits", TERN_ROWS_TOKENS, N, TEST_ORDINARY),
                        routes = test_case_output(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
        for (uint32_t t = 0; t < ROWS; t++)
            memcpy(test_case_floats(&c, logits) + (size_t)t * N, rows[t].logits, sizeof rows[t].logits);
        test_case_add(&c, (tern_op){.kind = TERN_OP_ROUTE,
                                    .n_in = TERN_ROUTE_INPUTS,
                                    .in = {logits},
                                    .out = routes,
                                    .n_experts = N,
                                    .route_rule = (tern_route_rule)rule});
        test_case_run(&c, test_gpu_backend(), ROWS, 1, 1, &got);
        for (uint32_t r = 0; r < ROWS * K; r++) {
            const float *route = test_results_row(&c, &got, routes, r);
            uint32_t expert;
            memcpy(&expert, route, sizeof expert);
            assert_int_equal(expert, rows[r / K].want[r % K]);
            if (r / K != 1 && (r / K != 0 || rule != TERN_ROUTE_SOFTMAX_TOP || r % K == 0))
                assert_true(isnan(route[1]));
        }
        test_results_free(&got);
        test_case_close(&c);
    }
}

/* A feed-forward network of experts: gate and up, its product, perhaps int8, and down. */
typedef struct network {
    const char *up, *down;
    uint32_t n_experts, k, cols, ff, max_tokens, n_tokens;
    tern_activation activation;
    bool gated, q8, biases, residual, in_place;
} network;

static tern_view biases_of(test_case *c, uint32_t n_experts, uint32_t rows)
{
    return test_case_weight(c, "f32", n_experts, rows);
}

/* LINEAR of one part or two with the route; the gated one has the activation. */
static void add_linear(test_case *c, const network *n, tern_op op, const char *encoding, uint32_t rows)
{
    const uint32_t cols = op.in[TERN_LINEAR_X].cols;
    op.kind = TERN_OP_LINEAR;
    op.rows = TERN_ROWS_ROUTED;
    op.n_in = 1 + op.n_parts;
    op.n_experts = n->n_experts;
    for (uint32_t i = 0; i < op.n_parts; i++) {
        op.in[TERN_LINEAR_W + i] = test_case_weight(c, encoding, n->n_experts * rows, cols);
        if (n->biases) op.bias[i] = biases_of(c, n->n_experts, rows);
    }
    test_case_add(c, op);
}

static tern_view quantized(test_case *c, tern_view x, tern_rows rows)
{
    const tern_view q8 = test_case_output(c, "q8", rows, TERN_DTYPE_Q8, x.cols);
    test_case_add(
        c, (tern_op){.kind = TERN_OP_QUANTIZE, .rows = rows, .n_in = TERN_QUANTIZE_INPUTS, .in = {x}, .out = q8});
    return q8;
}

/* One op, or gate, up and GATE, whose values are apart: WebGPU binds none twice. */
static tern_view add_gate(test_case *c, const network *n, tern_view x, tern_view routes)
{
    const tern_view out = test_case_output(c, "act", TERN_ROWS_ROUTED, TERN_DTYPE_F32, n->ff);
    tern_op op = {.in = {x}, .n_parts = 2, .route = routes, .gated = true, .limit = 0.75f, .out = out};
    op.activation = n->activation;
    if (n->gated) {
        add_linear(c, n, op, n->up, n->ff);
        return out;
    }
    tern_op gate = {.kind = TERN_OP_GATE, .rows = TERN_ROWS_ROUTED, .n_in = TERN_GATE_INPUTS, .out = out};
    gate.activation = n->activation, gate.limit = op.limit;
    op.n_parts = 1, op.gated = false;
    for (uint32_t i = 0; i < TERN_GATE_INPUTS; i++) {
        gate.in[i] = op.out = test_case_output(c, i ? "up" : "gate", TERN_ROWS_ROUTED, TERN_DTYPE_F32, n->ff);
        add_linear(c, n, op, n->up, n->ff);
    }
    test_case_add(c, gate);
    op.n_parts = 2; /* beside each other */
    op.out = test_case_output(c, "gate_up", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 2 * n->ff);
    add_linear(c, n, op, n->up, n->ff);
    return out;
}

static void run(const network *n, tern_backend *backend)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n->max_tokens, .n_routes = n->k});
    const tern_view routes = add_route(&c, n->n_experts, TERN_ROUTE_SOFTMAX_TOP, false);
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, n->cols, TEST_ORDINARY);
    const tern_view residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, n->cols, TEST_ORDINARY);
    if (n->q8) x = quantized(&c, x, TERN_ROWS_TOKENS);
    tern_view h = add_gate(&c, n, x, routes);
    if (n->q8) h = quantized(&c, h, TERN_ROWS_ROUTED);
    const tern_view y = test_case_output(&c, "y", TERN_ROWS_ROUTED, TERN_DTYPE_F32, n->cols);
    add_linear(&c, n, (tern_op){.in = {h}, .n_parts = 1, .route = routes, .out = y}, n->down, n->cols);
    tern_op combine = {.kind = TERN_OP_COMBINE, .n_in = TERN_COMBINE_INPUTS, .in = {y, routes}};
    if (n->residual) combine.residual = residual;
    combine.out = n->in_place ? residual : test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, n->cols);
    test_case_add(&c, combine);
    const double sums = 1e-6 * (n->cols + n->ff);
    test_case_compare(&c, backend, n->n_tokens, 1,
                      (test_tolerance){.of_row = 1e-5 + (n->q8 ? 1e-2 : 0), .absolute = sums});
    test_case_close(&c);
}

static void every_format(void **state)
{
    (void)state;
    static const char *const formats[] = {TEST_DENSE_NAMES};
    test_seed(&rng);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const bool floats = f < 3;
        const network n = {.up = formats[f],
                           .down = formats[(f + 1) % 3],
                           .n_experts = 5,
                           .k = 3,
                           .cols = floats ? 4 * test_between(&rng, 1, 40) : 256 * test_between(&rng, 1, 2),
                           .ff = floats ? 4 * test_between(&rng, 1, 40) : 20,
                           .max_tokens = 4,
                           .n_tokens = test_between(&rng, 1, 4),
                           .activation = (tern_activation)(f % 5),
                           .gated = f % 3 == 0,
                           .biases = f % 2,
                           .residual = f % 5 > 1,
                           .in_place = f % 5 == 3};
        print_message("%s: %u x %u\n", n.up, n.cols, n.ff);
        run(&n, test_gpu_backend_of((test_gpu_kind)(f % TEST_GPU_N_KINDS)));
        run(&n, small_backend());
    }
}

static void ternary(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 8; i++) {
        const network n = {.up = i % 4 < 2 ? "i2_s" : "tq2_0",
                           .down = "i2_s",
                           .n_experts = 7,
                           .k = 2,
                           .cols = 256,
                           .ff = 4 * test_between(&rng, 50, 60),
                           .max_tokens = 3,
                           .n_tokens = 1 + i % 3,
                           .activation = (tern_activation)(i % 3),
                           .gated = i % 2 == 0,
                           .biases = i == 5,
                           .q8 = i >= 4};
        run(&n, test_gpu_backend_of((test_gpu_kind)(i % TEST_GPU_N_KINDS)));
        run(&n, small_backend());
    }
}

/* More tokens than few, all experts of every token, or all but a few: tiles of 64 rows, full ones and others. */
static void many_tokens(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t k = 5; k <= 8; k += 3) {
        if (!test_takes(k / 6, 2, 1)) continue;
        const network n = {.up = "bf16",
                           .down = "q8_0",
                           .n_experts = 8,
                           .k = k,
                           .cols = 64,
                           .ff = 96,
                           .max_tokens = 80,
                           .n_tokens = 66,
                           .activation = TERN_ACT_SILU,
                           .gated = true,
                           .biases = k == 5};
        run(&n, test_gpu_backend());
    }
}

/* So many tokens that rows are put together by expert, in steps that are smaller too, where experts have no row. */
static void grouped(const char *format, uint32_t i, bool q8, tern_backend *backend)
{
    const uint32_t tokens[] = {20, 1, 17};
    const network n = {.up = format,
                       .down = q8 ? "i2_s" : "f16",
                       .n_experts = 7,
                       .k = 2,
                       .cols = 256,
                       .ff = 4 * test_between(&rng, 30, 40),
                       .max_tokens = 20,
                       .n_tokens = tokens[i % 3],
                       .activation = (tern_activation)(i % (q8 ? 3 : 4)),
                       .gated = i % 3 != 1,
                       .biases = i % 2,
                       .residual = i % 4 == 0,
                       .q8 = q8};
    print_message("%s: %u tokens, %u x %u\n", n.up, n.n_tokens, n.cols, n.ff);
    run(&n, backend);
}

static void rows_by_expert(void **state)
{
    (void)state;
    static const char *const formats[] = {TEST_DENSE_NAMES "i2_s", "tq2_0"};
    test_seed(&rng);
    for (uint32_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        if (!test_takes(f, 7, 3 * 4)) continue;
        grouped(formats[f], f, false,
                f % 2 ? small_backend() : test_gpu_backend_of((test_gpu_kind)(f / 2 % TEST_GPU_N_KINDS)));
    }
    for (uint32_t i = 0; i < 4; i++)
        if (test_takes(i, 3, 2))
            grouped(i % 2 ? "i2_s" : "tq2_0", i, true, i < 2 ? test_gpu_backend() : small_backend());
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(routes_of_all_sizes), cmocka_unit_test(logits_that_are_no_numbers),
    cmocka_unit_test(every_format),        cmocka_unit_test(ternary),
    cmocka_unit_test(many_tokens),         cmocka_unit_test(rows_by_expert),
};

TEST_GROUP(experts_gpu, "gpu kernels web", tests, .teardown = close_all);
