/* Backends of every level and number of threads, and rows to compare on them. */
#include "backend/cpu/training_rows_cases.h"

tern_rng training_rows_rng;

training_level training_rows_backends[MAX_BACKENDS];

size_t training_rows_n_backends;

uint32_t training_rows_between(uint32_t low, uint32_t high)
{
    return test_between(&training_rows_rng, low, high);
}

test_fill training_rows_any_fill(void)
{
    return (test_fill)training_rows_between(0, TEST_N_FILLS - 1);
}

void training_rows_open_trial(trial *t, uint32_t n)
{
    *t = (trial){.n = n};
    test_case_open(&t->c, &training_rows_rng,
                   &(test_case_shape){.max_tokens = n + training_rows_between(0, 3), .training = true, .n_ctx = n + 3});
}

float *training_rows_want(trial *t, tern_view view, uint32_t n_rows)
{
    const size_t n = (size_t)n_rows * view.cols, stride = t->c.graph.values[view.value].cols;
    float *training_rows_rows = calloc(n ? n : 1, sizeof *training_rows_rows);
    const float *initial = test_case_floats(&t->c, view);
    for (uint32_t r = 0; r < n_rows && initial; r++)
        memcpy(training_rows_rows + (size_t)r * view.cols, initial + (view.first_row + r) * stride + view.first_col,
               view.cols * sizeof *training_rows_rows);
    assert_true(t->n_wanted < MAX_EXPECTED);
    t->wanted[t->n_wanted++] = (expected){view, n_rows, training_rows_rows};
    return training_rows_rows;
}

const float *training_rows_input(trial *t, tern_view view, uint32_t row)
{
    return test_case_floats(&t->c, view) + (size_t)(view.first_row + row) * t->c.graph.values[view.value].cols +
           view.first_col;
}

void training_rows_compare(const trial *t, const expected *e, const test_results *got, const char *what,
                           const char *backend)
{
    for (uint32_t r = 0; r < e->n_rows; r++) {
        const float *row = test_results_row(&t->c, got, e->view, e->view.first_row + r);
        for (uint32_t c = 0; c < e->view.cols; c++)
            if (!test_same_bits(&row[c], &e->rows[(size_t)r * e->view.cols + c], 1))
                fail_msg("%s on %s: %s row %u of %u, column %u of %u: %a, %a expected", what, backend,
                         t->c.graph.values[e->view.value].name, r, e->n_rows, c, e->view.cols, (double)row[c],
                         (double)e->rows[(size_t)r * e->view.cols + c]);
    }
}

void training_rows_check(trial *t, const char *what)
{
    for (size_t b = 0; b < training_rows_n_backends; b++) {
        test_results got;
        test_case_run(&t->c, training_rows_backends[b].backend, t->n, t->n, 1, &got);
        for (size_t i = 0; i < t->n_wanted; i++) {
            const tern_value *v = &t->c.graph.values[t->wanted[i].view.value];
            training_rows_compare(t, &t->wanted[i], &got, what, training_rows_backends[b].name);
            const char *touched = v->kind == TERN_VALUE_STATE
                                      ? NULL
                                      : test_case_touched(&t->c, t->wanted[i].view.value,
                                                          t->wanted[i].view.first_row + t->wanted[i].n_rows, &got);
            if (touched) fail_msg("%s on %s: %s", what, training_rows_backends[b].name, touched);
        }
        test_results_free(&got);
    }
    for (size_t i = 0; i < t->n_wanted; i++) free(t->wanted[i].rows);
    test_case_close(&t->c);
}

tern_view training_rows_rows(trial *t, const char *name, uint32_t cols, test_fill fill)
{
    return test_case_rows(&t->c, name, TERN_ROWS_TOKENS, cols, fill);
}

tern_view training_rows_output(trial *t, const char *name, uint32_t cols)
{
    return test_case_output(&t->c, name, TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
}

float *training_rows_add_op(trial *t, tern_op op, tern_view out, tern_view *residual)
{
    op.out = out;
    *residual = (tern_view){.value = TERN_NO_VALUE};
    if (training_rows_between(0, 1))
        op.residual = *residual = training_rows_rows(t, "residual", out.cols, TEST_ORDINARY);
    test_case_add(&t->c, op);
    if (residual->value == TERN_NO_VALUE || training_rows_between(0, 1)) return training_rows_want(t, out, t->n);
    t->c.graph.values[out.value].kind = TERN_VALUE_ACTIVATION;
    t->c.graph.values[out.value].offset = t->c.graph.values[residual->value].offset;
    return training_rows_want(t, *residual, t->n);
}

void training_rows_start_at_residual(trial *t, float *out, tern_view residual, uint32_t cols)
{
    for (uint32_t r = 0; r < t->n && residual.value != TERN_NO_VALUE; r++)
        memcpy(out + (size_t)r * cols, training_rows_input(t, residual, r), cols * sizeof *out);
}

void training_rows_open_backend(uint32_t features, uint32_t n_threads, const char *level)
{
    tern_error err = {0};
    const tern_cpu_options options = {.n_threads = n_threads, .features = features, .features_set = true};
    assert_true(training_rows_n_backends < MAX_BACKENDS);
    assert_ok(tern_cpu_open(&training_rows_backends[training_rows_n_backends].backend, &options, &err), err);
    snprintf(training_rows_backends[training_rows_n_backends].name, sizeof training_rows_backends->name,
             "%s, %u threads", level, n_threads);
    training_rows_n_backends++;
}

int training_rows_open_backends(void **state)
{
    (void)state;
    const uint32_t all = tern_cpu_features();
    test_seed(&training_rows_rng);
    training_rows_open_backend(0, 1, "scalar");
#define TERN_CPU_LEVEL(level, words, needed)                                                                           \
    if ((all & (needed)) == (needed)) training_rows_open_backend(needed, 1, words);
    TERN_CPU_LEVEL_LIST(TERN_CPU_LEVEL)
#undef TERN_CPU_LEVEL
    training_rows_open_backend(all, 2, "all");
    training_rows_open_backend(all, 3, "all");
    training_rows_open_backend(all, 8, "all");
    return 0;
}

int training_rows_close_backends(void **state)
{
    (void)state;
    for (size_t i = 0; i < training_rows_n_backends; i++)
        training_rows_backends[i].backend->close(training_rows_backends[i].backend);
    return test_backends_close(state);
}
