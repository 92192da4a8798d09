/* Recurrent ops of the CPU: several sequences in one step against double precision, and one token at a time against a
 * whole prompt, to the bit. */
#include "support/test.h"

#include <math.h>

#include "quant/weight.h"
#include "support/recurrent_case.h"

static tern_rng rng;

static const test_recurrent_shape shapes[] = {
    {.n_runs = 4,
     .lengths = {1, 5, 2, 3},
     .channels = 70,
     .taps = 4,
     .heads = 4,
     .key_heads = 2,
     .keys = 12,
     .values = 16},
    {.n_runs = 2,
     .lengths = {3, 70},
     .channels = 5,
     .taps = 8,
     .heads = 6,
     .key_heads = 2,
     .keys = 32,
     .values = 8,
     .tiled = true},
    {.n_runs = 3,
     .lengths = {1, 1, 1},
     .channels = 64,
     .taps = 2,
     .heads = 2,
     .key_heads = 2,
     .keys = 16,
     .values = 24,
     .joined = true},
    {.n_runs = 1, .lengths = {9}, .channels = 33, .taps = 1, .heads = 3, .key_heads = 1, .keys = 7, .values = 8},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Number `col` of row t of a view, before the run. */
static double number(test_recurrent_case *r, tern_view view, uint32_t t, uint32_t col)
{
    return (double)test_case_floats(&r->c, view)[(size_t)t * r->c.graph.values[view.value].cols + view.first_col + col];
}

static double weight(test_recurrent_case *r, uint32_t input, size_t at)
{
    const uint8_t *data = test_case_weight_of(&r->c, r->c.graph.ops[0].in[input])->data;
    return (double)((const float *)(const void *)data)[at];
}

static void check(const test_recurrent_case *r, const test_results *got, tern_view view, uint32_t row, uint32_t col,
                  double want, double most)
{
    const float found = test_results_row(&r->c, got, view, row)[col];
    if (fabs((double)found - want) > 1e-5 * (1 + most))
        fail_msg("%s: row %u, column %u: %.9g, %.9g expected", r->c.graph.values[view.value].name, row, col,
                 (double)found, want);
}

/* A run of rows `first` to `end` - 1, whose state is in row `from`, or zeros. */
typedef struct run {
    uint32_t index, first, end;
} run;

static bool begins_with_zeros(const run *s)
{
    return s->index % 3 == 0;
}

/* The row that a token's state is kept in, or TERN_NO_STATE. */
static uint32_t kept_in(const test_recurrent_shape *shape, const run *s, uint32_t t)
{
    if (t + 1 == s->end) return 2 * s->index + s->index % 2;
    return t == s->first + 1 && s->end - s->first > 2 ? 2 * shape->n_runs + s->index : TERN_NO_STATE;
}

/* The input of a channel `back` rows before row t. */
static double conv_input(test_recurrent_case *r, const test_recurrent_shape *shape, const run *s, uint32_t t,
                         uint32_t back, uint32_t c)
{
    if (t >= s->first + back) return number(r, r->x, t - back, c);
    const uint32_t row = shape->taps - 1 - (back - (t - s->first));
    return begins_with_zeros(s) ? 0 : number(r, r->state, 2 * s->index, row * shape->channels + c);
}

static void check_conv_row(test_recurrent_case *r, const test_recurrent_shape *shape, const run *s, uint32_t t,
                           const test_results *got)
{
    const uint32_t kept = kept_in(shape, s, t);
    for (uint32_t c = 0; c < shape->channels; c++) {
        double sum = 0;
        for (uint32_t k = 0; k < shape->taps; k++) {
            const double x = conv_input(r, shape, s, t, shape->taps - 1 - k, c);
            sum += weight(r, TERN_CONV_WEIGHT, (size_t)c * shape->taps + k) * x;
            if (k && kept != TERN_NO_STATE) check(r, got, r->state, kept, (k - 1) * shape->channels + c, x, 0);
        }
        check(r, got, r->out, t, c, sum / (1 + exp(-sum)), 1);
    }
}

static void conv(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        test_recurrent_case r;
        test_results got;
        test_conv_case(&r, &rng, &shapes[i]);
        test_case_run(&r.c, test_backend("cpu"), r.n_rows, 1, 1, &got);
        run s = {0};
        for (; s.index < shapes[i].n_runs; s.index++, s.first = s.end) {
            s.end = s.first + shapes[i].lengths[s.index];
            for (uint32_t t = s.first; t < s.end; t++) check_conv_row(&r, &shapes[i], &s, t, &got);
        }
        test_results_free(&got);
        test_case_close(&r.c);
    }
}

/* One token of one head in double precision, S [keys][values]; what is kept and what comes out. */
static void check_delta_token(test_recurrent_case *r, const test_recurrent_shape *m, const run *s, uint32_t t,
                              uint32_t h, double *S, const test_results *got)
{
    const uint32_t group = m->heads / m->key_heads, q = (m->tiled ? h % m->key_heads : h / group) * m->keys,
                   k = m->key_heads * m->keys + q, v = 2 * m->key_heads * m->keys + h * m->values,
                   kept = kept_in(m, s, t);
    const double x = number(r, r->a, t, h) + weight(r, TERN_GATED_DELTA_DT, h),
                 decay = exp(weight(r, TERN_GATED_DELTA_DECAY, h) * log1p(exp(x))),
                 beta = 1 / (1 + exp(-number(r, r->b, t, h)));
    for (uint32_t j = 0; j < m->values; j++) {
        double seen = 0, out = 0;
        for (uint32_t i = 0; i < m->keys; i++) S[i * m->values + j] *= decay;
        for (uint32_t i = 0; i < m->keys; i++) seen += S[i * m->values + j] * number(r, r->x, t, k + i);
        const double d = (number(r, r->x, t, v + j) - seen) * beta;
        for (uint32_t i = 0; i < m->keys; i++) {
            S[i * m->values + j] += number(r, r->x, t, k + i) * d;
            out += S[i * m->values + j] * number(r, r->x, t, q + i);
        }
        check(r, got, r->out, t, h * m->values + j, out, 1);
    }
    for (uint32_t at = 0; kept != TERN_NO_STATE && at < m->keys * m->values; at++)
        check(r, got, r->state, kept, h * m->keys * m->values + at, S[at], 1);
}

static void delta(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        const test_recurrent_shape *m = &shapes[i];
        test_recurrent_case r;
        test_results got;
        static double S[32 * 24];
        test_delta_case(&r, &rng, m);
        test_case_run(&r.c, test_backend("cpu"), r.n_rows, 1, 1, &got);
        run s = {0};
        for (; s.index < m->n_runs; s.index++, s.first = s.end) {
            s.end = s.first + m->lengths[s.index];
            for (uint32_t h = 0; h < m->heads; h++) {
                for (uint32_t at = 0; at < m->keys * m->values; at++)
                    S[at] = begins_with_zeros(&s) ? 0 : number(&r, r.state, 2 * s.index, h * m->keys * m->values + at);
                for (uint32_t t = s.first; t < s.end; t++) check_delta_token(&r, m, &s, t, h, S, &got);
            }
        }
        test_results_free(&got);
        test_case_close(&r.c);
    }
}

/* Row t of every value of rows becomes its row 0. */
static void take_row(test_recurrent_case *r, const float *const *rows, uint32_t t)
{
    const tern_view views[] = {r->x, r->a, r->b};
    for (int i = 0; i < 3; i++) {
        const uint32_t cols = r->c.graph.values[views[i].value].cols;
        if (rows[i]) memcpy(test_case_floats(&r->c, views[i]), rows[i] + (size_t)t * cols, cols * sizeof(float));
    }
}

static float *copy_of(test_recurrent_case *r, tern_view view)
{
    const size_t bytes = r->c.graph.values[view.value].bytes;
    return view.cols ? memcpy(malloc(bytes), test_case_floats(&r->c, view), bytes) : NULL;
}

/* A prompt at once, and its tokens one at a time, each of which goes on from what the one before has left. */
static void steps_equal_the_whole(void (*make)(test_recurrent_case *, tern_rng *, const test_recurrent_shape *))
{
    const test_recurrent_shape shape = {
        .n_runs = 1, .lengths = {11}, .channels = 40, .taps = 4, .heads = 4, .key_heads = 2, .keys = 16, .values = 24};
    test_recurrent_case r;
    test_results whole, step;
    make(&r, &rng, &shape);
    test_case_run(&r.c, test_backend("cpu"), r.n_rows, 1, 1, &whole);
    float *rows[] = {copy_of(&r, r.x), copy_of(&r, r.a), copy_of(&r, r.b)};
    uint32_t *states = test_case_param(&r.c, TERN_PARAM_STATES);
    states[1] = 0; /* of the step's only row */
    for (uint32_t t = 0; t < r.n_rows; t++) {
        take_row(&r, (const float *const *)rows, t);
        test_case_param(&r.c, TERN_PARAM_POSITIONS)[0] = t;
        test_case_run(&r.c, test_backend("cpu"), 1, 1, 1, &step);
        memcpy(test_case_floats(&r.c, r.state), step.bytes[r.state.value], r.c.graph.values[r.state.value].bytes);
        assert_memory_equal(test_results_row(&r.c, &step, r.out, 0), test_results_row(&r.c, &whole, r.out, t),
                            r.out.cols * sizeof(float));
        test_results_free(&step);
    }
    assert_memory_equal(test_case_floats(&r.c, r.state), whole.bytes[r.state.value], r.state.cols * sizeof(float));
    for (int i = 0; i < 3; i++) free(rows[i]);
    test_results_free(&whole);
    test_case_close(&r.c);
}

static void conv_by_steps(void **state)
{
    (void)state;
    steps_equal_the_whole(test_conv_case);
}

static void delta_by_steps(void **state)
{
    (void)state;
    steps_equal_the_whole(test_delta_case);
}

/* A gate of one column is that of all columns, whatever their number; beside other columns. */
static void gates_of_one_column(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 5, 63, 64, 65, 128, 200};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const uint32_t cols = widths[i];
        test_case c;
        test_results got;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 3});
        const tern_view gates = test_case_rows(&c, "gates", TERN_ROWS_TOKENS, cols + 2, TEST_ORDINARY),
                        up = test_case_rows(&c, "up", TERN_ROWS_TOKENS, cols, TEST_ORDINARY),
                        out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
        test_case_add(&c, (tern_op){.kind = TERN_OP_GATE,
                                    .n_in = TERN_GATE_INPUTS,
                                    .in = {test_case_columns(gates, 1, 1), up},
                                    .activation = TERN_ACT_SIGMOID,
                                    .out = out});
        test_case_run(&c, test_backend("cpu"), 3, 1, 1, &got);
        for (uint32_t t = 0; t < 3; t++)
            for (uint32_t k = 0; k < cols; k++) {
                const double g = (double)test_case_floats(&c, gates)[t * (cols + 2) + 1],
                             u = (double)test_case_floats(&c, up)[t * cols + k],
                             found = (double)test_results_row(&c, &got, out, t)[k];
                if (fabs(found - u / (1 + exp(-g))) > 1e-6) fail_msg("row %u, column %u of %u", t, k, cols);
            }
        test_results_free(&got);
        test_case_close(&c);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conv),
    cmocka_unit_test(delta),
    cmocka_unit_test(conv_by_steps),
    cmocka_unit_test(delta_by_steps),
    cmocka_unit_test(gates_of_one_column),
};

TEST_GROUP(recurrent_ops, "web", tests, .setup = seed, .teardown = test_backends_close);
