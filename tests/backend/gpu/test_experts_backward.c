/* The gradients of layers with experts on a GPU, against the CPU: products by expert, biases, gates, the choice and the
 * sum, as the device is and as lesser ones. */
#include "ops/operands.h"
#include "quant/weight.h"
#include "support/test.h"

#include "backend/gpu/gradient_cases.h"
#include "ops/ref/experts.h"
#include "support/training_case.h"

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

typedef struct shape {
    const char *encoding;
    uint32_t n, k, n_experts, rows, cols; /* tokens; experts of a token; of an expert's matrix */
    uint32_t n_used;                      /* experts that have rows; 0: all */
    uint32_t gap;                         /* columns before and after dy and, of f32 rows, x */
    bool by_token, residual, in_place, q8, row_scales;
} shape;

/* A token's experts are its own, as ROUTE has it. */
static tern_view routes_of(test_case *c, const shape *s)
{
    const uint32_t n_used = s->n_used ? s->n_used : s->n_experts;
    const tern_view view = test_case_rows(c, "routes", TERN_ROWS_ROUTED, 2, TEST_ORDINARY);
    c->graph.values[view.value].dtype = TERN_DTYPE_U32;
    tern_route *routes = (tern_route *)(void *)test_case_floats(c, view);
    for (uint32_t t = 0; t < c->graph.max_tokens; t++) {
        const uint32_t first = test_between(&rng, 0, n_used - 1);
        for (uint32_t j = 0; j < s->k; j++) routes[t * s->k + j].expert = (first + j) % n_used;
    }
    return view;
}

static tern_view columns_of(test_case *c, const char *name, tern_rows rows, const shape *s, uint32_t cols)
{
    const tern_view whole = test_case_rows(c, name, rows, cols + 2 * s->gap, TEST_ORDINARY);
    return s->gap ? test_case_columns(whole, s->gap, cols) : whole;
}

static test_tolerance sums_of(uint32_t depth)
{
    return (test_tolerance){.of_row = 1e-5, .absolute = 2e-6 * depth};
}

static void run_dx(const shape *s, tern_backend *backend)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->n + 1, .n_routes = s->k});
    const tern_rows rows = s->by_token ? TERN_ROWS_TOKENS : TERN_ROWS_ROUTED;
    const uint32_t all = s->n_experts * s->rows;
    const tern_view w = test_case_weight(&c, s->encoding, all, s->cols);
    float *scales = malloc(all * sizeof *scales);
    for (uint32_t r = 0; r < all; r++) scales[r] = 0.25f + tern_rng_f32(&rng);
    if (s->row_scales) test_case_weight_of(&c, w)->row_scales = scales;
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = rows, .n_in = 2, .n_experts = s->n_experts};
    op.in[TERN_LINEAR_DX_DY] = columns_of(&c, "dy", TERN_ROWS_ROUTED, s, s->rows);
    op.in[TERN_LINEAR_DX_W] = w;
    if (s->residual) op.residual = test_case_rows(&c, "residual", rows, s->cols, TEST_ORDINARY);
    op.route = routes_of(&c, s);
    op.out = s->in_place ? op.residual : test_case_output(&c, "dx", rows, TERN_DTYPE_F32, s->cols);
    test_case_add(&c, op);
    test_case_compare(&c, backend, s->n, 1, sums_of(s->rows * s->k));
    test_case_close(&c);
    free(scales);
}

static void run_dw(const shape *s, tern_backend *backend)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->n + 1, .n_routes = s->k});
    const tern_rows rows = s->by_token ? TERN_ROWS_TOKENS : TERN_ROWS_ROUTED;
    tern_op op = {.kind = TERN_OP_LINEAR_DW, .rows = TERN_ROWS_ROUTED, .n_in = 3, .n_experts = s->n_experts};
    op.in[TERN_LINEAR_DW_DY] = columns_of(&c, "dy", TERN_ROWS_ROUTED, s, s->rows);
    op.in[TERN_LINEAR_DW_X] = s->q8 ? test_case_q8(&c, "x", rows, s->cols) : columns_of(&c, "x", rows, s, s->cols);
    op.in[TERN_LINEAR_DW_DW] =
        test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, s->n_experts * s->rows, s->cols, TEST_ORDINARY);
    op.out.value = TERN_NO_VALUE;
    op.route = routes_of(&c, s);
    test_case_add(&c, op);
    test_case_compare(&c, backend, s->n, 1, sums_of(s->n * s->k));
    test_case_close(&c);
}

/* In every format, for more and fewer rows of an expert than a tile has, none included. */
static void products(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_FORMATS; i++) {
        if (!test_takes(i, 7, 8 * 5 * 3)) continue;
        const uint32_t f = i % N_FORMATS, block = gradient_formats[f].block;
        const shape s = {.encoding = gradient_formats[f].name,
                         .n = i % 3 == 0 ? 90 : test_between(&rng, 1, 20),
                         .k = test_between(&rng, 1, 3),
                         .n_experts = i % 4 == 1 ? 9 : 4,
                         .n_used = i % 4 == 1 ? 3 : 0,
                         .rows = test_between(&rng, 1, 70),
                         .cols = block * test_between(&rng, 1, 1 + 150 / block),
                         .gap = i % 5,
                         .by_token = i & 1,
                         .residual = i & 2,
                         .in_place = i % 8 == 2 || i % 8 == 7,
                         .q8 = i & 4,
                         .row_scales = f == 0};
        print_message("%s: %u of %u experts, %u x %u, %u tokens\n", s.encoding, s.k, s.n_experts, s.rows, s.cols, s.n);
        run_dx(&s, test_gpu_backend_of((test_gpu_kind)(i % TEST_GPU_N_KINDS)));
        run_dw(&s, test_gpu_backend_of((test_gpu_kind)(i % TEST_GPU_N_KINDS)));
    }
}

/* Tiles of 128 rows and 128 columns, full ones and others, and the ranks of adapters. */
static void many_rows(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {.encoding = "f32", .n = 140, .k = 2, .n_experts = 2, .rows = 130, .cols = 132, .by_token = true},
        {.encoding = "bf16", .n = 75, .k = 4, .n_experts = 4, .n_used = 4, .rows = 150, .cols = 96, .residual = true},
        {.encoding = "f32", .n = 70, .k = 2, .n_experts = 3, .rows = 8, .cols = 200, .by_token = true, .q8 = true},
        {.encoding = "f32", .n = 70, .k = 2, .n_experts = 3, .rows = 200, .cols = 8}};
    test_seed(&rng);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        run_dx(&shapes[i], test_gpu_backend());
        run_dw(&shapes[i], test_gpu_backend());
    }
}

static void slices(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 8; i++) {
        const shape s = {.encoding = i % 2 ? "f32" : "f16",
                         .n = 12,
                         .k = 2,
                         .n_experts = 5,
                         .n_used = i % 3 ? 0 : 2,
                         .rows = 4 * test_between(&rng, 20, 40),
                         .cols = i % 3 == 2 ? 256 : 128,
                         .by_token = i & 1,
                         .residual = i & 2,
                         .in_place = i == 2 || i == 7,
                         .q8 = i & 4};
        print_message("%s: %u x %u\n", s.encoding, s.rows, s.cols);
        run_dx(&s, small_backend());
        run_dw(&s, small_backend());
    }
}

static void biases(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * TEST_GPU_N_KINDS; i++) {
        const shape s = {.n = i % 2 ? 100 : 3,
                         .k = test_between(&rng, 1, 4),
                         .n_experts = 7,
                         .n_used = i % 3 ? 0 : 5,
                         .rows = test_between(&rng, 1, 100),
                         .gap = i};
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s.n + 2, .n_routes = s.k});
        tern_op op = {.kind = TERN_OP_BIAS_BACKWARD, .rows = TERN_ROWS_ROUTED, .n_in = 2, .n_experts = s.n_experts};
        op.in[TERN_BIAS_BACKWARD_DY] = columns_of(&c, "dy", TERN_ROWS_ROUTED, &s, s.rows);
        op.in[TERN_BIAS_BACKWARD_DBIAS] =
            test_case_state(&c, "db", TERN_STATE_GRADIENT, TERN_DTYPE_F32, s.n_experts, s.rows, TEST_ORDINARY);
        op.out.value = TERN_NO_VALUE;
        op.route = routes_of(&c, &s);
        test_case_add(&c, op);
        test_case_compare(&c, test_gpu_backend_of((test_gpu_kind)(i % TEST_GPU_N_KINDS)), s.n, 1, sums_of(s.n * s.k));
        test_case_close(&c);
    }
}

/* ROUTE and its backward: on the GPU's own choice, with a gradient that is there, apart and in its place, and none. */
static void choices(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_experts, k;
    } sizes[] = {{1, 1}, {8, 2}, {32, 4}, {129, 8}, {1024, 16}};
    test_seed(&rng);
    for (uint32_t i = 0; i < 3 * sizeof sizes / sizeof *sizes; i++) {
        const uint32_t n_experts = sizes[i / 3].n_experts;
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 7, .n_routes = sizes[i / 3].k});
        const tern_view logits = test_case_rows(&c, "logits", TERN_ROWS_TOKENS, n_experts, TEST_ORDINARY);
        const tern_view d = test_case_rows(&c, "d", TERN_ROWS_ROUTED, 1, TEST_ORDINARY);
        const tern_view routes = test_case_output(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
        tern_op op = {.kind = TERN_OP_ROUTE, .n_in = TERN_ROUTE_INPUTS, .in = {logits}, .out = routes};
        op.n_experts = n_experts;
        op.route_rule = (tern_route_rule)(i % 3);
        test_case_add(&c, op);
        op.kind = TERN_OP_ROUTE_BACKWARD;
        op.n_in = TERN_ROUTE_BACKWARD_INPUTS;
        op.in[TERN_ROUTE_BACKWARD_ROUTES] = routes;
        op.in[TERN_ROUTE_BACKWARD_DWEIGHTS] = d;
        if (i % 4) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, n_experts, TEST_ORDINARY);
        op.out = i % 4 == 3 ? op.residual : test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, n_experts);
        test_case_add(&c, op);
        test_case_compare(&c, test_gpu_backend(), 6, 1,
                          (test_tolerance){.of_value = 2e-5, .of_row = 1e-5, .absolute = 1e-30});
        test_case_close(&c);
    }
}

/* Both results of COMBINE_BACKWARD, and each alone. */
static void sums(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 6; i++) {
        const shape s = {.n = 5, .k = test_between(&rng, 1, 5), .n_experts = 6, .gap = i % 3};
        const uint32_t cols = test_between(&rng, 1, i < 3 ? 90 : 1000);
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s.n + 1, .n_routes = s.k});
        tern_op op = {.kind = TERN_OP_COMBINE_BACKWARD, .rows = TERN_ROWS_ROUTED, .n_in = 3};
        op.in[TERN_COMBINE_BACKWARD_Y] = columns_of(&c, "y", TERN_ROWS_ROUTED, &s, cols);
        op.in[TERN_COMBINE_BACKWARD_ROUTES] = routes_of(&c, &s);
        op.in[TERN_COMBINE_BACKWARD_DOUT] = columns_of(&c, "dout", TERN_ROWS_TOKENS, &s, cols);
        op.out.value = TERN_NO_VALUE;
        if (i % 3) op.in[op.n_in++] = test_case_output(&c, "dweights", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 1);
        if (i % 3 != 1) op.out = test_case_output(&c, "dx", TERN_ROWS_ROUTED, TERN_DTYPE_F32, cols);
        test_case_add(&c, op);
        test_case_compare(&c, test_gpu_backend(), s.n, 1, sums_of(cols));
        test_case_close(&c);
    }
}

/* What goes by rows, on routed ones: gates of every activation, cut ones too, masks, fake int8. */
static void rows_of_experts(void **state)
{
    (void)state;
    static const tern_op_kind kinds[] = {TERN_OP_SCALE, TERN_OP_DROPOUT, TERN_OP_FAKE_QUANTIZE};
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    test_seed(&rng);
    for (uint32_t i = 0; i < N_KINDS + 5; i++) {
        const uint32_t cols = test_between(&rng, 1, 300);
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 9, .n_routes = 3, .training = true});
        test_training t = {
            .kind = i < N_KINDS ? kinds[i] : TERN_OP_GATE_BACKWARD, .cols = cols, .rows = TERN_ROWS_ROUTED};
        if (i >= N_KINDS) t.activation = (tern_activation)(i - N_KINDS), t.limit = 1.5f;
        test_training_add(&c, &t);
        test_training_params(&c, 4, 4);
        test_case_compare(&c, test_gpu_backend(), 8, 1,
                          (test_tolerance){.of_value = 2e-5, .of_row = 2e-6, .absolute = 1e-30});
        test_case_close(&c);
    }
}

/* What no graph has, but a caller may: no experts, rows that are no multiple of them; slices that cut a vector. */
static void refused(void **state)
{
    (void)state;
    tern_error err = {0};
    test_case c;
    tern_backend *gpu = test_gpu_backend();
    test_seed(&rng);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 4, .n_routes = 2});
    const shape s = {.k = 2, .n_experts = 2};
    const tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_ROUTED, 5, TEST_ORDINARY), routes = routes_of(&c, &s);
    const tern_view dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 12, 5, TEST_ORDINARY);
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = TERN_ROWS_ROUTED, .n_in = 2, .route = routes};
    op.in[0] = dy, op.in[TERN_LINEAR_DX_W] = test_case_weight(&c, "f32", 12, 3);
    op.out = test_case_output(&c, "dx", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 3);
    for (; op.n_experts <= 2; op.n_experts += 2) {
        assert_int_equal(gpu->supports(gpu, &c.graph, &op, &err), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "12 rows found, 5 for each of"));
    }
    op = (tern_op){.kind = TERN_OP_LINEAR_DW, .rows = TERN_ROWS_ROUTED, .n_in = 3, .in = {dy, dy, dw}, .route = routes};
    op.n_experts = 2, op.out.value = TERN_NO_VALUE;
    assert_int_equal(gpu->supports(gpu, &c.graph, &op, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "12 rows found, 5 for each of 2 experts expected"));
    op.kind = TERN_OP_BIAS_BACKWARD, op.n_in = 2, op.in[TERN_BIAS_BACKWARD_DBIAS] = dw;
    assert_int_equal(gpu->supports(gpu, &c.graph, &op, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "12 rows found, 1 for each of 2 experts expected"));
    op = (tern_op){.kind = TERN_OP_LINEAR_DX, .n_in = 2, .route = routes, .n_experts = 2};
    op.in[0] = test_case_rows(&c, "wide", TERN_ROWS_ROUTED, 101, TEST_ORDINARY);
    op.in[TERN_LINEAR_DX_W] = test_case_weight(&c, "f32", 202, 128);
    op.out = test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 128);
    assert_int_equal(small_backend()->supports(small, &c.graph, &op, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "slices of experts' rows that are no multiple of 4"));
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products), cmocka_unit_test(many_rows),       cmocka_unit_test(slices),
    cmocka_unit_test(biases),   cmocka_unit_test(choices),         cmocka_unit_test(sums),
    cmocka_unit_test(refused),  cmocka_unit_test(rows_of_experts),
};

TEST_GROUP(experts_backward_gpu, "gpu kernels web", tests, .teardown = close_all);
