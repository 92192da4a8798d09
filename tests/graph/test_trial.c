/* Kernels are tried before they are used: on any backend that has doubts; and how large the terms of a sum are. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "graph/trial/trial_internal.h"
#include "ops/difference.h"
#include "ops/ref/experts.h"
#include "support/op_case.h"

enum { COLS = 96, ROWS = 40, TOKENS = 5 };

static tern_error err;
static tern_rng rng;

/* A CPU backend that doubts each kind of op until it is proven or given up. */
static struct {
    tern_status (*run)(tern_backend *, tern_prepared *, uint32_t, tern_error *);
    const tern_graph *graph;
    bool known;
    int n_proven, n_given_up;
} doubtful;

static const char *doubt(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    (void)b, (void)prepared, (void)op;
    return doubtful.known ? NULL : "KERNEL";
}

static void prove(tern_backend *b, const tern_prepared *prepared)
{
    (void)b, (void)prepared;
    doubtful.n_proven++;
    doubtful.known = true;
}

static void give_up(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    (void)b, (void)prepared, (void)op;
    doubtful.n_given_up++;
    doubtful.known = true;
}

static const tern_backend_trial trial = {.doubt = doubt, .prove = prove, .give_up = give_up};

static tern_status does_nothing(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *e)
{
    (void)b, (void)prepared, (void)n_steps, (void)e;
    return TERN_OK;
}

static tern_status lacks_memory(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *e)
{
    (void)b, (void)prepared, (void)n_steps;
    return tern_fail(e, TERN_OUT_OF_MEMORY, "no memory");
}

static tern_backend *open_doubtful(void)
{
    tern_backend *b;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1}, &err), err);
    memset(&doubtful, 0, sizeof doubtful);
    b->trial = &trial;
    b->info.device = "device";
    b->info.driver = "driver 7";
    return b;
}

static void open_linear(test_case *c, tern_view *x, tern_view *w, tern_view *y, uint32_t rows)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    *x = test_case_rows(c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
    *w = test_case_weight(c, "f32", rows, COLS);
    *y = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, rows);
    const tern_view residual = test_case_rows(c, "residual", TERN_ROWS_TOKENS, rows, TEST_ORDINARY);
    test_case_add(c, (tern_op){.kind = TERN_OP_LINEAR,
                               .n_in = 2,
                               .in = {[TERN_LINEAR_X] = *x, [TERN_LINEAR_W] = *w},
                               .n_parts = 1,
                               .out = *y,
                               .residual = rows > 1 ? residual : (tern_view){0}});
}

static void doubts(void **state)
{
    (void)state;
    test_case c;
    tern_view x, w, y;
    open_linear(&c, &x, &w, &y, ROWS);
    tern_backend *b = open_doubtful();
    tern_bound_graph g;
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    doubtful.run = b->run;
    b->run = does_nothing;
    assert_int_equal(tern_bound_prepare(&g, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cpu: device with driver 7 computes the kernel KERNEL wrong (y: row 0"));
    assert_true(doubtful.n_proven == 0 && doubtful.n_given_up == 0 && !g.prepared);
    b->run = lacks_memory;
    assert_ok(tern_bound_prepare(&g, &err), err);
    assert_true(doubtful.n_proven == 0 && doubtful.n_given_up == 1);
    b->prepared_free(b, g.prepared);
    g.prepared = NULL;
    doubtful.known = false;
    b->run = doubtful.run;
    assert_ok(tern_bound_prepare(&g, &err), err);
    assert_true(doubtful.n_proven == 1 && doubtful.n_given_up == 1);
    tern_bound_close(&g);
    b->run = does_nothing; /* known: not tried again */
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&g, &err), err);
    tern_bound_close(&g);
    doubtful.known = false; /* nothing can be read back at once */
    b->info.never_waits = true;
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&g, &err), err);
    tern_bound_close(&g);
    b->close(b);
    test_case_close(&c);
}

/* The norms of a step are one row, in a graph of several tokens as well. */
static void an_output_of_one_row(void **state)
{
    enum { TENSORS = 3 };
    (void)state;
    test_case c;
    tern_bound_graph g;
    tern_backend *b = open_doubtful();
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    const tern_view gradient =
        test_case_state(&c, "gradient", TERN_STATE_GRADIENT, TERN_DTYPE_F32, ROWS, COLS, TEST_ORDINARY);
    tern_view norm = test_case_output(&c, "norms", TERN_ROWS_TOKENS, TERN_DTYPE_F32, TENSORS);
    c.graph.values[norm.value].bytes = TENSORS * sizeof(float);
    norm.first_col = norm.cols = 1;
    test_case_add(&c, (tern_op){.kind = TERN_OP_SUM_SQUARES,
                                .n_in = TERN_SUM_SQUARES_INPUTS,
                                .in = {[TERN_SUM_SQUARES_GRADIENT] = gradient},
                                .out = norm});
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&g, &err), err);
    assert_int_equal(doubtful.n_proven, 1);
    tern_bound_close(&g);
    b->close(b);
    test_case_close(&c);
}

/* What the comparison says of two results of the op that differ by `off` in one element. */
static const char *difference(tern_trial *t, uint32_t value, size_t element, double off)
{
    static char what[256];
    const size_t n = t->graph.n_values;
    uint8_t **got = calloc(n, sizeof *got), **want = calloc(n, sizeof *want);
    const size_t bytes = tern_trial__bytes(t, &t->values[value]);
    float *a = calloc(bytes, 1), *b = calloc(bytes, 1);
    a[element] = (float)off;
    got[value] = (uint8_t *)a;
    want[value] = (uint8_t *)b;
    assert_ok(tern_trial__compare(t, got, want, what, sizeof what, &err), err);
    free(a);
    free(b);
    free(got);
    free(want);
    return what;
}

/* A sum that cancels to nothing may be off by a share of its terms, and by no more. */
static void a_row_that_cancels(void **state)
{
    (void)state;
    test_case c;
    tern_view x, w, y;
    tern_trial t;
    open_linear(&c, &x, &w, &y, 1);
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[0], true, &err), err);
    const float *in = (const float *)(const void *)t.contents[x.value];
    float *weights = (float *)(uintptr_t)test_case_weight_of(&c, w)->data;
    for (int i = 0; i < COLS; i++) weights[i] = (i % 2 ? 1.0f : -1.0f) / in[i]; /* terms of 1, which cancel in row 0 */
    assert_string_equal(difference(&t, y.value, 0, 0.5e-4 * COLS), "");
    assert_non_null(strstr(difference(&t, y.value, 0, 2e-4 * COLS), "y: row 0, column 0 of"));
    assert_non_null(strstr(difference(&t, y.value, 0, NAN), "y: row 0, column 0 of"));
    tern_trial__close(&t);
    test_case_close(&c);
}

static bool op_terms(const tern_trial *t, uint32_t value, uint64_t row, uint32_t cols, double *terms)
{
    const tern_op_inputs inputs = {.op = &t->op,
                                   .values = t->values,
                                   .contents = t->contents,
                                   .max_tokens = t->graph.max_tokens,
                                   .max_outputs = t->graph.max_outputs,
                                   .n_routes = t->graph.n_routes,
                                   .n_tokens = t->n_tokens,
                                   .n_outputs = t->n_outputs};
    return tern_op_terms(&inputs, value, row, cols, terms);
}

static double at(const tern_trial *t, tern_view view, uint32_t row, uint32_t col)
{
    return fabs((double)((const float *)(const void *)t->contents[view.value])[row * t->values[view.value].cols + col]);
}

static double weight_at(test_case *c, tern_view w, uint32_t row, uint32_t col)
{
    return fabs((double)((const float *)(const void *)test_case_weight_of(c, w)->data)[row * COLS + col]);
}

static void near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-9 * want);
}

static void terms_of_products(void **state)
{
    (void)state;
    test_case c;
    tern_view x, w, y;
    tern_trial t;
    double terms[COLS];
    open_linear(&c, &x, &w, &y, ROWS);
    const tern_view bias = c.graph.ops[0].bias[0] = test_case_norm_weight(&c, ROWS);
    float *biases = (float *)(uintptr_t)test_case_weight_of(&c, bias)->data;
    biases[1] = -3;
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[0], true, &err), err);
    assert_true(op_terms(&t, y.value, 3, ROWS, terms));
    for (uint32_t r = 0; r < ROWS; r++) {
        double want = at(&t, t.op.residual, 3, r) + fabs((double)biases[r]);
        for (uint32_t i = 0; i < COLS; i++) want += at(&t, x, 3, i) * weight_at(&c, w, r, i);
        near(terms[r], want);
    }
    assert_false(op_terms(&t, x.value, 3, COLS, terms));
    tern_trial__close(&t);
    test_case_close(&c);
}

/* Of the row's expert, with the token's x. */
static void terms_of_experts(void **state)
{
    (void)state;
    enum { EXPERTS = 5, K = 3 };
    test_case c;
    tern_trial t;
    double terms[ROWS];
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS, .n_routes = K});
    const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY),
                    w = test_case_weight(&c, "f32", EXPERTS * ROWS, COLS),
                    bias = test_case_norm_weight(&c, EXPERTS * ROWS),
                    routes = test_case_activation(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2),
                    y = test_case_output(&c, "y", TERN_ROWS_ROUTED, TERN_DTYPE_F32, ROWS);
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR,
                                .rows = TERN_ROWS_ROUTED,
                                .n_in = 2,
                                .in = {x, w},
                                .n_parts = 1,
                                .bias = {bias},
                                .route = routes,
                                .n_experts = EXPERTS,
                                .out = y});
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[0], true, &err), err);
    const tern_route *made = (const tern_route *)(const void *)t.contents[routes.value];
    const float *biases = (const float *)(const void *)test_case_weight_of(&c, bias)->data;
    for (uint32_t row = 0; row < t.n_tokens * K; row++) {
        const uint32_t first = made[row].expert * ROWS;
        assert_true(made[row].expert < EXPERTS && (row % K == 0 || made[row].expert != made[row - 1].expert));
        assert_true(op_terms(&t, y.value, row, ROWS, terms));
        for (uint32_t r = 0; r < ROWS; r++) {
            double want = fabs((double)biases[first + r]);
            for (uint32_t i = 0; i < COLS; i++) want += at(&t, x, row / K, i) * weight_at(&c, w, first + r, i);
            near(terms[r], want);
        }
    }
    tern_trial__close(&t);
    test_case_close(&c);
}

static void terms_of_gradients(void **state)
{
    (void)state;
    test_case c;
    tern_trial t;
    double terms[COLS];
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS, .training = true});
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_TOKENS, ROWS, TEST_ORDINARY),
              x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY),
              w = test_case_weight(&c, "f32", ROWS, COLS),
              dx = test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS),
              dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, ROWS, COLS, TEST_ORDINARY);
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DX,
                                .n_in = TERN_LINEAR_DX_INPUTS,
                                .in = {[TERN_LINEAR_DX_DY] = dy, [TERN_LINEAR_DX_W] = w},
                                .out = dx});
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DW,
                                .n_in = TERN_LINEAR_DW_INPUTS,
                                .in = {[TERN_LINEAR_DW_DY] = dy, [TERN_LINEAR_DW_X] = x, [TERN_LINEAR_DW_DW] = dw},
                                .out = {.value = TERN_NO_VALUE}});
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[0], true, &err), err);
    assert_true(op_terms(&t, dx.value, 2, COLS, terms));
    for (uint32_t i = 0; i < COLS; i++) {
        double want = 0;
        for (uint32_t r = 0; r < ROWS; r++) want += at(&t, dy, 2, r) * weight_at(&c, w, r, i);
        near(terms[i], want);
    }
    tern_trial__close(&t);
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[1], true, &err), err);
    assert_true(op_terms(&t, dw.value, 7, COLS, terms));
    for (uint32_t i = 0; i < COLS; i++) {
        double want = at(&t, dw, 7, i);
        for (uint32_t n = 0; n < TOKENS; n++) want += at(&t, dy, n, 7) * at(&t, x, n, i);
        near(terms[i], want);
    }
    tern_trial__close(&t);
    test_case_close(&c);
}

/* Gradients with a route, of tokens and of the matrices: large ones are cut, of each expert alike. */
static void terms_of_expert_gradients(void **state)
{
    (void)state;
    enum { EXPERTS = 300, WIDE = 60, CUT = 35, K = 3, ROW = 7 };
    test_case c;
    tern_trial t;
    double terms[COLS];
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS, .n_routes = K, .training = true});
    const tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_ROUTED, WIDE, TEST_ORDINARY),
                    x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY),
                    w = test_case_weight(&c, "f32", EXPERTS * WIDE, COLS),
                    dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, EXPERTS * WIDE, COLS,
                                         TEST_ORDINARY);
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .n_in = TERN_LINEAR_DX_INPUTS, .in = {dy, w}, .n_experts = EXPERTS};
    const tern_view routes = op.route = test_case_activation(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
    const tern_view dx = op.out = test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
    test_case_add(&c, op);
    op.kind = TERN_OP_LINEAR_DW, op.rows = TERN_ROWS_ROUTED, op.n_in = TERN_LINEAR_DW_INPUTS;
    op.in[TERN_LINEAR_DW_X] = x, op.in[TERN_LINEAR_DW_DW] = dw, op.out.value = TERN_NO_VALUE;
    test_case_add(&c, op);
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[0], true, &err), err);
    const tern_route *made = (const tern_route *)(const void *)t.contents[routes.value];
    assert_true(op_terms(&t, dx.value, 2, COLS, terms));
    for (uint32_t i = 0; i < COLS; i++) {
        double want = 0;
        for (uint32_t n = 2 * K; n < 3 * K; n++)
            for (uint32_t r = 0; r < WIDE; r++)
                want += at(&t, dy, n, r) * weight_at(&c, w, made[n].expert * WIDE + r, i);
        near(terms[i], want);
    }
    tern_trial__close(&t);
    assert_ok(tern_trial__open(&t, &c.graph, &c.graph.ops[1], true, &err), err);
    made = (const tern_route *)(const void *)t.contents[routes.value];
    const uint32_t expert = made[4].expert, row = expert * CUT + ROW;
    assert_int_equal(t.values[dw.value].n_rows, EXPERTS * CUT);
    assert_int_equal(t.op.in[TERN_LINEAR_DW_DY].cols, CUT);
    assert_true(op_terms(&t, dw.value, row, COLS, terms));
    for (uint32_t i = 0; i < COLS; i++) {
        double want = at(&t, dw, row, i);
        for (uint32_t n = 0; n < t.n_tokens * K; n++)
            if (made[n].expert == expert) want += at(&t, dy, n, ROW) * at(&t, x, n / K, i);
        near(terms[i], want);
    }
    tern_trial__close(&t);
    test_case_close(&c);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(doubts),
    cmocka_unit_test(an_output_of_one_row),
    cmocka_unit_test(a_row_that_cancels),
    cmocka_unit_test(terms_of_products),
    cmocka_unit_test(terms_of_experts),
    cmocka_unit_test(terms_of_gradients),
    cmocka_unit_test(terms_of_expert_gradients),
};

TEST_GROUP(graph_trial, "", tests, .setup = seed);
