/* The ops of experts on the CPU, at every level and with several numbers of threads: a routed LINEAR gives the bits of
 * the plain one over all experts, ROUTE and COMBINE those of ops/ref. */
#include "support/test.h"

#include "backend/open.h"
#include "base/cpu.h"
#include "ops/ref/experts.h"
#include "ops/ref/ref.h"
#include "support/op_case.h"

enum { MAX_TOKENS = 40, MAX_ROWS = 100 };

static tern_rng rng;
static tern_backend *backends[8];
static size_t n_backends;

/* Whose experts the tokens have. */
typedef enum spread { SPREAD_ANY, SPREAD_ONE, SPREAD_FEW, N_SPREADS } spread;

typedef struct routed {
    const char *encoding;
    uint32_t cols, rows, n_experts, k; /* rows of an expert */
    bool q8, blocks;
} layer;

/* Experts of a token are different ones. */
static tern_view routes_of(test_case *c, uint32_t n_experts, spread how)
{
    const uint32_t k = c->graph.n_routes, any = how == SPREAD_ONE ? 1 : how == SPREAD_FEW ? 3 : n_experts;
    tern_view view = test_case_rows(c, "routes", TERN_ROWS_ROUTED, 2, TEST_ORDINARY);
    c->graph.values[view.value].dtype = TERN_DTYPE_U32;
    tern_route *routes = (tern_route *)(void *)test_case_floats(c, view);
    for (uint32_t t = 0; t < c->graph.max_tokens; t++) {
        const uint32_t first = test_between(&rng, 0, any - 1), step = test_between(&rng, 0, 1) ? 1 : n_experts - 1;
        for (uint32_t j = 0; j < k; j++)
            routes[t * k + j].expert = (first + (n_experts > 1 ? j * step : 0)) % n_experts;
    }
    return view;
}

/* What a row of the result must be: columns e * R .. of the row that all experts made of the same x. */
static const float *row_of_all(const test_case *c, const test_results *got, tern_view all, uint32_t r, bool by_token,
                               uint32_t expert, uint32_t rows)
{
    return test_results_row(c, got, all, by_token ? r / c->graph.n_routes : r) + (size_t)expert * rows;
}

static void activate(tern_activation activation, float limit, const float *gate, const float *up, uint32_t n, float *y)
{
    if (activation == TERN_ACT_SILU) tern_ref_silu(gate, up, n, y);
    else if (activation == TERN_ACT_SWIGLU_CLAMPED) tern_ref_swiglu_clamped(gate, up, limit, n, y);
    else tern_ref_swiglu_oai(gate, up, limit, n, y);
}

static void check(const layer *l, tern_backend *backend, bool by_token, bool biased, spread how, bool gated)
{
    const tern_rows rows = by_token ? TERN_ROWS_TOKENS : TERN_ROWS_ROUTED;
    const uint32_t n = how == SPREAD_ANY ? test_between(&rng, 1, 4) : test_between(&rng, 5, MAX_TOKENS), R = l->rows;
    test_case c;
    test_results got;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = MAX_TOKENS, .n_routes = l->k});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_parts = 2, .n_in = 3, .int8_blocks = l->blocks}, routed = op;
    op.in[0] = l->q8 ? test_case_q8(&c, "x", rows, l->cols) : test_case_rows(&c, "x", rows, l->cols, TEST_ORDINARY);
    for (uint32_t p = 0; p < 2; p++) {
        op.in[1 + p] = test_case_weight(&c, l->encoding, l->n_experts * R, l->cols);
        if (biased) op.bias[p] = test_case_norm_weight(&c, l->n_experts * R);
    }
    op.rows = rows;
    op.out = test_case_output(&c, "all", rows, TERN_DTYPE_F32, 2 * l->n_experts * R);
    memcpy(routed.in, op.in, sizeof op.in);
    memcpy(routed.bias, op.bias, sizeof op.bias);
    routed.rows = TERN_ROWS_ROUTED;
    routed.route = routes_of(&c, l->n_experts, how);
    routed.n_experts = l->n_experts;
    routed.gated = gated;
    static const tern_activation activations[] = {TERN_ACT_SILU, TERN_ACT_SWIGLU_OAI, TERN_ACT_SWIGLU_CLAMPED};
    routed.activation = activations[test_between(&rng, 0, 2)];
    routed.limit = 0.75f;
    routed.out = test_case_output(&c, "y", TERN_ROWS_ROUTED, TERN_DTYPE_F32, gated ? R : 2 * R);
    test_case_add(&c, op);
    test_case_add(&c, routed);
    test_case_run(&c, backend, n, n, 1, &got);
    const tern_route *routes = (const tern_route *)(const void *)test_case_floats(&c, routed.route);
    for (uint32_t r = 0; r < n * l->k; r++) {
        float want[2 * MAX_ROWS];
        const float *gate = row_of_all(&c, &got, op.out, r, by_token, routes[r].expert, R);
        const float *up = gate + (size_t)l->n_experts * R;
        if (gated) activate(routed.activation, routed.limit, gate, up, R, want);
        else memcpy(want, gate, R * sizeof *want), memcpy(want + R, up, R * sizeof *want);
        if (!test_same_bits(test_results_row(&c, &got, routed.out, r), want, gated ? R : 2 * R))
            fail_msg("%s, %s, %u of %u experts, %u tokens: row %u of expert %u", backend->info.name, l->encoding, l->k,
                     l->n_experts, n, r, routes[r].expert);
    }
    assert_null(test_case_touched(&c, routed.out.value, n * l->k, &got));
    test_results_free(&got);
    test_case_close(&c);
}

static const layer layers[] = {
    {"f32", 40, 13, 5, 2, false, false},   {"f16", 72, 33, 4, 4, false, false},
    {"bf16", 64, 20, 3, 1, false, false},  {"q8_0", 64, 17, 6, 3, false, false},
    {"q4_k", 256, 70, 4, 2, false, false}, {"q6_k", 256, 9, 1, 1, false, false},
    {"q8_0", 96, 18, 6, 3, false, true},   {"q4_k", 256, 70, 8, 2, false, true},
    {"q6_k", 512, 19, 3, 2, false, true},  {"i2_s", 256, 40, 5, 2, true, false},
    {"t160", 130, 33, 4, 3, true, false},  {"tq2_0", 256, 100, 3, 3, true, false},
    {"i2_s", 128, 24, 5, 2, false, false}, {"f32", 48, 12, 4, 2, true, false},
};

static void products(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (size_t b = 0; b < n_backends; b++)
            for (uint32_t how = 0; how < N_SPREADS; how++)
                check(&layers[i], backends[b], test_between(&rng, 0, 1), test_between(&rng, 0, 1), (spread)how,
                      test_between(&rng, 0, 1));
}

/* A step of one token, whose rows stay where they are, in both kinds of x. */
static void one_token(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int round = 0; round < 8; round++)
            check(&layers[i], backends[i % n_backends], round & 1, round & 2, SPREAD_ANY, round & 4);
}

static void choices_and_sums(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 90; round++) {
        const uint32_t n_experts = test_between(&rng, 1, 70), most = n_experts < 16 ? n_experts : 16;
        const uint32_t k = test_between(&rng, 1, most), n = test_between(&rng, 1, 9), cols = test_between(&rng, 1, 90);
        tern_route want[16];
        float sum[90];
        test_case c;
        test_results got;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 9, .n_routes = k});
        const tern_view logits = test_case_rows(&c, "logits", TERN_ROWS_TOKENS, n_experts, TEST_MIXED);
        const tern_view y = test_case_rows(&c, "y", TERN_ROWS_ROUTED, cols, TEST_ORDINARY);
        const tern_view residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
        const tern_view routes = test_case_output(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
        tern_op route = {.kind = TERN_OP_ROUTE, .n_in = 1, .in = {logits}, .out = routes, .n_experts = n_experts};
        tern_op combine = {.kind = TERN_OP_COMBINE, .n_in = 2, .in = {y, routes}};
        route.route_rule = (tern_route_rule)(round % 3);
        combine.out = test_case_output(&c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
        if (round & 1) combine.residual = residual;
        test_case_add(&c, route);
        test_case_add(&c, combine);
        test_case_run(&c, backends[round % n_backends], n, n, 1, &got);
        for (uint32_t t = 0; t < n; t++) {
            tern_ref_route(test_case_floats(&c, logits) + t * n_experts, n_experts, k, route.route_rule, want);
            assert_true(test_same_bits(test_results_row(&c, &got, routes, t * k), (const float *)want, 2 * k));
            tern_ref_combine(test_case_floats(&c, y) + t * k * cols, cols, want, k,
                             round & 1 ? test_case_floats(&c, residual) + t * cols : NULL, cols, sum);
            assert_true(test_same_bits(test_results_row(&c, &got, combine.out, t), sum, cols));
        }
        assert_null(test_case_touched(&c, routes.value, n * k, &got));
        test_results_free(&got);
        test_case_close(&c);
    }
}

typedef struct refused {
    uint32_t n_experts, k, rows;
    bool screened;
    const char *message;
} refused;

/* Shapes that make no sense are refused by name. */
static void refusals(void **state)
{
    (void)state;
    static const refused cases[] = {{0, 2, 12, false, "0 experts, 2 of a token: at least 1 expected"},
                                    {4, 0, 12, false, "4 experts, 0 of a token: at least 1 expected"},
                                    {5, 2, 12, false, "12 rows, a multiple of 5 experts expected"},
                                    {4, 2, 12, true, "no screen, sum or norm weight expected"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2, .n_routes = 2});
        tern_op op = {.kind = TERN_OP_LINEAR, .rows = TERN_ROWS_ROUTED, .n_parts = 1, .n_in = 2};
        op.in[0] = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 8, TEST_ORDINARY);
        op.in[1] = test_case_weight(&c, "f32", cases[i].rows, 8);
        op.route = routes_of(&c, 2, SPREAD_ANY);
        op.out = test_case_output(&c, "y", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 3);
        op.n_experts = cases[i].n_experts;
        op.screened = cases[i].screened;
        test_case_add(&c, op);
        c.graph.n_routes = cases[i].k;
        assert_int_not_equal(backends[0]->supports(backends[0], &c.graph, &c.graph.ops[0], &err), TERN_OK);
        if (!strstr(err.message, cases[i].message)) fail_msg("%s", err.message);
        const tern_op route = {.kind = TERN_OP_ROUTE, .n_in = 1, .in = {{.value = op.in[0].value, .cols = 1}}};
        if (cases[i].k != 1)
            assert_int_equal(backends[0]->supports(backends[0], &c.graph, &route, &err), TERN_INVALID_ARGUMENT);
        test_case_close(&c);
    }
}

static int open_backends(void **state)
{
    (void)state;
    static const char *const levels[] = {"scalar", "sse4.1",       "avx2",      "avx-vnni", "avx512-vnni",
                                         "neon",   "neon-dotprod", "neon-i8mm", "simd128"};
    tern_error err = {0};
    test_seed(&rng);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        uint32_t features;
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        const tern_backend_options options = {
            .name = "cpu", .n_threads = (uint32_t)(1 + n_backends % 3), .cpu_features = levels[i]};
        assert_ok(tern_backend_open(&backends[n_backends++], &options, &err), err);
    }
    return n_backends ? 0 : -1;
}

static int close_backends(void **state)
{
    for (size_t i = 0; i < n_backends; i++) backends[i]->close(backends[i]);
    n_backends = 0;
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products),
    cmocka_unit_test(one_token),
    cmocka_unit_test(choices_and_sums),
    cmocka_unit_test(refusals),
};

TEST_GROUP(routed, "web", tests, .setup = open_backends, .teardown = close_backends);
