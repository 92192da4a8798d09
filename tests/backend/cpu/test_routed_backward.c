/* The backward ops of layers with experts on the CPU: what ops/ref/experts.h says, to the bit, with any number of
 * threads. */
#include "support/test.h"

#include "backend/open.h"
#include "ops/ref/backward.h"
#include "ops/ref/experts.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/op_case.h"

enum { N_POOLS = 3, MAX_TOKENS = 40 };

static tern_rng rng;
static tern_backend *pools[N_POOLS]; /* of 1, 2 and 5 threads */

typedef struct shape {
    const char *encoding;
    uint32_t n, k, n_experts, rows, cols; /* tokens; experts of a token; of an expert's matrix */
    bool by_token, residual, q8;
} shape;

static void check(test_case *c, tern_view out, uint32_t n_tokens, uint32_t n_rows, const float *want, const char *what)
{
    const uint32_t cols = c->graph.values[out.value].cols;
    for (int i = 0; i < N_POOLS; i++) {
        test_results got;
        test_case_run(c, pools[i], n_tokens, n_tokens, 1, &got);
        const float *y = (const float *)(const void *)got.bytes[out.value];
        for (uint32_t r = 0; r < n_rows; r++)
            if (!test_same_bits(y + (size_t)r * cols, want + (size_t)r * cols, cols))
                fail_msg("%s, pool %d: row %u of %u", what, i, r, n_rows);
        if (c->graph.values[out.value].kind != TERN_VALUE_STATE)
            assert_null(test_case_touched(c, out.value, n_rows, &got));
        test_results_free(&got);
    }
}

static tern_view routes_of(test_case *c, uint32_t n_experts)
{
    tern_view view = test_case_rows(c, "routes", TERN_ROWS_ROUTED, 2, TEST_ORDINARY);
    c->graph.values[view.value].dtype = TERN_DTYPE_U32;
    tern_route *routes = (tern_route *)(void *)test_case_floats(c, view);
    const uint32_t any = test_between(&rng, 1, n_experts);
    for (uint32_t r = 0; r < c->graph.max_tokens * c->graph.n_routes; r++)
        routes[r].expert = test_between(&rng, 0, any - 1);
    return view;
}

static const tern_route *routes_at(test_case *c, tern_view view)
{
    return (const tern_route *)(const void *)test_case_floats(c, view);
}

/* The weight as floats: codes, where the scale comes to the sums. */
static float *values_of(const tern_weight *w)
{
    const size_t n = (size_t)w->rows * w->cols;
    float *values = malloc(n * sizeof *values);
    tern_error err = {0};
    if (!w->encoding->ternary) {
        assert_ok(tern_decode_rows(w->encoding, w->data, w->rows, w->cols, 0, w->rows, values, &err), err);
        return values;
    }
    int8_t *codes = malloc(n);
    assert_ok(tern_decode_codes(w->encoding, w->data, w->rows, w->cols, 0, w->rows, codes, NULL, NULL, NULL, &err),
              err);
    for (size_t i = 0; i < n; i++) values[i] = codes[i];
    free(codes);
    return values;
}

static void check_dx(const shape *s)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->n + 1, .n_routes = s->k});
    const tern_rows rows = s->by_token ? TERN_ROWS_TOKENS : TERN_ROWS_ROUTED;
    const uint32_t n_out = s->by_token ? s->n : s->n * s->k;
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_ROUTED, s->rows, TEST_ORDINARY), residual = {0};
    tern_view w = test_case_weight(&c, s->encoding, s->n_experts * s->rows, s->cols);
    if (s->residual) residual = test_case_rows(&c, "residual", rows, s->cols, TEST_ORDINARY);
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = rows, .n_in = 2, .in = {dy, w}, .residual = residual};
    op.route = routes_of(&c, s->n_experts);
    op.n_experts = s->n_experts;
    op.out = test_case_output(&c, "dx", rows, TERN_DTYPE_F32, s->cols);
    test_case_add(&c, op);
    const tern_weight *weight = test_case_weight_of(&c, w);
    float *values = values_of(weight), *want = calloc((size_t)n_out * s->cols, sizeof *want);
    if (s->residual) memcpy(want, test_case_floats(&c, residual), (size_t)n_out * s->cols * sizeof *want);
    for (uint32_t r = 0; r < s->n * s->k; r++) { /* the scale comes to each row's chain */
        float *made = calloc(s->cols, sizeof *made), *to = want + (size_t)(s->by_token ? r / s->k : r) * s->cols;
        const tern_routed_rows one = {.routes = routes_at(&c, op.route) + r,
                                      .n = 1,
                                      .each = 1,
                                      .n_rows = s->rows,
                                      .cols = s->cols,
                                      .dy = test_case_floats(&c, dy) + (size_t)r * s->rows};
        tern_ref_routed_dx(&one, values, made, s->cols);
        for (uint32_t i = 0; i < s->cols; i++) to[i] += (weight->encoding->ternary ? weight->scale : 1) * made[i];
        free(made);
    }
    check(&c, op.out, s->n, n_out, want, s->encoding);
    free(want);
    free(values);
    test_case_close(&c);
}

static void check_dw(const shape *s)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->n, .n_routes = s->k});
    const tern_rows rows = s->by_token ? TERN_ROWS_TOKENS : TERN_ROWS_ROUTED;
    const uint32_t all = s->n_experts * s->rows, each = s->by_token ? s->k : 1;
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_ROUTED, s->rows, TEST_ORDINARY);
    tern_view x = s->q8 ? test_case_q8(&c, "x", rows, s->cols) : test_case_rows(&c, "x", rows, s->cols, TEST_ORDINARY);
    tern_view dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, all, s->cols, TEST_ORDINARY);
    tern_op op = {.kind = TERN_OP_LINEAR_DW, .rows = TERN_ROWS_ROUTED, .n_in = 3, .in = {dy, x, dw}};
    op.out.value = TERN_NO_VALUE;
    op.route = routes_of(&c, s->n_experts);
    op.n_experts = s->n_experts;
    test_case_add(&c, op);
    float *want = malloc((size_t)all * s->cols * sizeof *want);
    memcpy(want, test_case_floats(&c, dw), (size_t)all * s->cols * sizeof *want);
    for (uint32_t r = 0; r < s->n * s->k; r++) {
        const float *from = test_case_floats(&c, dy) + (size_t)r * s->rows;
        float *to = want + (size_t)routes_at(&c, op.route)[r].expert * s->rows * s->cols;
        const uint32_t at = r / each;
        if (!s->q8) {
            tern_ref_linear_dw(from, s->rows, test_case_floats(&c, x) + (size_t)at * s->cols, s->cols, 1, s->rows,
                               s->cols, to);
            continue;
        }
        const uint8_t *bytes = c.initial[x.value];
        const uint32_t n_x = tern_graph_max_rows(&c.graph, rows);
        const tern_q8_rows q = {.x = (const int8_t *)bytes + at * tern_q8_stride(s->cols), .n = 1};
        const float *scales = (const float *)(const void *)(bytes + tern_q8_scales_offset(s->cols, n_x));
        tern_ref_linear_dw_q8(from, s->rows, &q, scales + at, s->rows, s->cols, to);
    }
    check(&c, dw, s->n, all, want, "dw");
    free(want);
    test_case_close(&c);
}

static void products(void **state)
{
    static const struct {
        const char *encoding;
        uint32_t grain;
    } formats[] = {{"f32", 1}, {"bf16", 1}, {"q8_0", 32}, {"q4_k", 256}, {"mxfp4", 32}, {"i2_s", 128}, {"t160", 1}};
    (void)state;
    for (uint32_t i = 0; i < 4 * sizeof formats / sizeof *formats; i++) {
        const size_t f = i % (sizeof formats / sizeof *formats);
        shape s = {.encoding = formats[f].encoding, .by_token = i & 1, .residual = i & 2, .q8 = i & 4};
        s.n = test_between(&rng, 1, MAX_TOKENS);
        s.n_experts = test_between(&rng, 1, 9);
        s.k = test_between(&rng, 1, 4);
        s.rows = test_between(&rng, 1, 40);
        s.cols = test_between(&rng, 1, 1 + 400 / formats[f].grain) * formats[f].grain;
        check_dx(&s);
        check_dw(&s);
    }
}

static void biases(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t n_experts = test_between(&rng, 1, 6), cols = test_between(&rng, 1, 200), n = 9, k = 3;
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n, .n_routes = k});
        tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_ROUTED, cols, TEST_ORDINARY);
        tern_view db = test_case_state(&c, "db", TERN_STATE_GRADIENT, TERN_DTYPE_F32, n_experts, cols, TEST_ORDINARY);
        tern_op op = {.kind = TERN_OP_BIAS_BACKWARD, .rows = TERN_ROWS_ROUTED, .n_in = 2, .in = {dy, db}};
        op.out.value = TERN_NO_VALUE;
        op.route = routes_of(&c, n_experts);
        op.n_experts = n_experts;
        test_case_add(&c, op);
        float *want = malloc((size_t)n_experts * cols * sizeof *want);
        memcpy(want, test_case_floats(&c, db), (size_t)n_experts * cols * sizeof *want);
        for (uint32_t r = 0; r < n * k; r++)
            tern_ref_bias_backward(test_case_floats(&c, dy) + (size_t)r * cols, cols, 1, cols,
                                   want + (size_t)routes_at(&c, op.route)[r].expert * cols);
        check(&c, db, n, n_experts, want, "bias");
        free(want);
        test_case_close(&c);
    }
}

/* ROUTE_BACKWARD on the routes of ROUTE, with and without a gradient that is there. */
static void choices(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 18; i++) {
        const uint32_t n_experts = test_between(&rng, 1, 40), most = n_experts < 16 ? n_experts : 16, n = 7;
        const uint32_t k = test_between(&rng, 1, most);
        const tern_route_rule rule = (tern_route_rule)(i % 3);
        float want[7 * 40] = {0};
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n, .n_routes = k});
        tern_view logits = test_case_rows(&c, "logits", TERN_ROWS_TOKENS, n_experts, TEST_ORDINARY);
        tern_view d = test_case_rows(&c, "d", TERN_ROWS_ROUTED, 1, TEST_ORDINARY);
        tern_view residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, n_experts, TEST_ORDINARY);
        tern_view routes = routes_of(&c, n_experts);
        tern_op op = {.kind = TERN_OP_ROUTE_BACKWARD,
                      .n_in = TERN_ROUTE_BACKWARD_INPUTS,
                      .in = {logits, routes, d},
                      .n_experts = n_experts,
                      .route_rule = rule};
        op.out = test_case_output(&c, "dlogits", TERN_ROWS_TOKENS, TERN_DTYPE_F32, n_experts);
        if (i & 1) op.residual = residual;
        test_case_add(&c, op);
        for (uint32_t t = 0; t < n; t++) {
            tern_route *at = (tern_route *)(void *)test_case_floats(&c, routes) + t * k;
            const float *l = test_case_floats(&c, logits) + t * n_experts;
            tern_ref_route(l, n_experts, k, rule, at);
            tern_ref_route_backward(l, n_experts, k, rule, at, test_case_floats(&c, d) + t * k, want + t * n_experts);
        }
        for (uint32_t e = 0; e < n * n_experts && i & 1; e++) want[e] = test_case_floats(&c, residual)[e] + want[e];
        check(&c, op.out, n, n, want, "route_backward");
        test_case_close(&c);
    }
}

/* Both results, and each alone. */
static void sums(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        const uint32_t n = 5, k = test_between(&rng, 1, 5), cols = test_between(&rng, 1, 90);
        float dy[25 * 90], dweights[25];
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n, .n_routes = k});
        tern_view y = test_case_rows(&c, "y", TERN_ROWS_ROUTED, cols, TEST_ORDINARY);
        tern_view dout = test_case_rows(&c, "dout", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
        tern_view routes = routes_of(&c, 4);
        tern_op op = {.kind = TERN_OP_COMBINE_BACKWARD, .rows = TERN_ROWS_ROUTED, .n_in = 3, .in = {y, routes, dout}};
        op.out.value = TERN_NO_VALUE;
        tern_view made = test_case_output(&c, "dweights", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 1);
        if (i % 3) op.in[op.n_in++] = made;
        if (i % 3 != 1) op.out = test_case_output(&c, "dy", TERN_ROWS_ROUTED, TERN_DTYPE_F32, cols);
        test_case_add(&c, op);
        for (uint32_t r = 0; r < n * k; r++) {
            tern_route *at = (tern_route *)(void *)test_case_floats(&c, routes) + r;
            at->weight = 0.3f + (float)r;
            dweights[r] = tern_ref_combine_backward(test_case_floats(&c, y) + r * cols, at->weight,
                                                    test_case_floats(&c, dout) + r / k * cols, cols, dy + r * cols);
        }
        if (i % 3) check(&c, made, n, n * k, dweights, "dweights");
        if (i % 3 != 1) check(&c, op.out, n, n * k, dy, "dy");
        test_case_close(&c);
    }
}

/* What no graph has, but a caller may: no experts, rows that are no multiple of them. */
static void refused(void **state)
{
    (void)state;
    tern_error err = {0};
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 4, .n_routes = 2});
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_ROUTED, 5, TEST_ORDINARY);
    tern_view w = test_case_weight(&c, "f32", 12, 3), routes = routes_of(&c, 2);
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = TERN_ROWS_ROUTED, .n_in = 2, .in = {dy, w}, .route = routes};
    op.out = test_case_output(&c, "dx", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 3);
    assert_int_equal(pools[0]->supports(pools[0], &c.graph, &op, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "linear_dx with a route: 0 experts, 2 of a token: at least 1 expected"));
    op.n_experts = 2;
    assert_int_equal(pools[0]->supports(pools[0], &c.graph, &op, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "12 rows, 5 for each of 2 experts expected"));
    test_case_close(&c);
}

static int open_pools(void **state)
{
    static const uint32_t threads[N_POOLS] = {1, 2, 5};
    tern_error err = {0};
    (void)state;
    test_seed(&rng);
    for (int i = 0; i < N_POOLS; i++) {
        const tern_backend_options options = {.name = "cpu", .n_threads = threads[i]};
        if (tern_backend_open(&pools[i], &options, &err) == TERN_OK) continue;
        print_error("%s\n", err.message);
        return 1;
    }
    return 0;
}

static int close_pools(void **state)
{
    (void)state;
    for (int i = 0; i < N_POOLS; i++) pools[i]->close(pools[i]);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products), cmocka_unit_test(biases),  cmocka_unit_test(choices),
    cmocka_unit_test(sums),     cmocka_unit_test(refused),
};

TEST_GROUP(routed_backward, "arm64", tests, .setup = open_pools, .teardown = close_pools);
