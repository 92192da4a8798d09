/* Cases of ops with a state of sequences. */
#include "support/recurrent_case.h"

#include <math.h>

#include "quant/weight.h"
#include "support/test.h"

enum { BEYOND = 2, LATER = 40, BEFORE = 4 /* columns before those that an op takes */ };

static uint32_t sequences_of(const test_recurrent_shape *shape)
{
    return shape->n_sequences ? shape->n_sequences : shape->n_runs;
}

/* Positions, sequences and states of a run, whose first row is t. */
static void place_run(test_recurrent_case *r, const test_recurrent_shape *shape, uint32_t i, uint32_t t)
{
    const uint32_t n = shape->lengths[i], sequence = sequences_of(shape) - 1 - i, cols = r->state.cols;
    uint32_t *states = test_case_param(&r->c, TERN_PARAM_STATES), *kept = states + sequences_of(shape) + t;
    for (uint32_t k = 0; k < n; k++) {
        test_case_param(&r->c, TERN_PARAM_POSITIONS)[t + k] = (i % 3 ? LATER : 0) + k;
        test_case_param(&r->c, TERN_PARAM_SEQUENCES)[t + k] = sequence;
    }
    states[sequence] = 2 * i;
    if (n > 2) kept[1] = 2 * shape->n_runs + i;
    kept[n - 1] = 2 * i + i % 2;
    for (uint32_t c = 0; c < cols && i % 3 == 0; c++) test_case_floats(&r->c, r->state)[2 * i * cols + c] = NAN;
}

static void open_case(test_recurrent_case *r, tern_rng *rng, const test_recurrent_shape *shape, uint32_t state_cols)
{
    *r = (test_recurrent_case){0};
    for (uint32_t i = 0; i < shape->n_runs; i++) r->n_rows += shape->lengths[i];
    test_case_open(
        &r->c, rng,
        &(test_case_shape){.max_tokens = r->n_rows + BEYOND, .n_sequences = sequences_of(shape), .states = true});
    r->state = test_case_recurrent(&r->c, "state", 3 * shape->n_runs, state_cols);
    for (uint32_t i = 0, t = 0; i < shape->n_runs; t += shape->lengths[i++]) place_run(r, shape, i, t);
    for (uint32_t t = r->n_rows; t < r->n_rows + BEYOND; t++)
        test_case_param(&r->c, TERN_PARAM_STATES)[sequences_of(shape) + t] = 0;
}

/* Columns of rows of their own, with others around them. */
static tern_view some_columns(test_recurrent_case *r, const char *name, uint32_t cols)
{
    return test_case_columns(test_case_rows(&r->c, name, TERN_ROWS_TOKENS, BEFORE + cols + BEFORE, TEST_ORDINARY),
                             BEFORE, cols);
}

void test_conv_case(test_recurrent_case *r, tern_rng *rng, const test_recurrent_shape *shape)
{
    open_case(r, rng, shape, (shape->taps > 1 ? shape->taps - 1 : 1) * shape->channels);
    r->x = some_columns(r, "x", shape->channels);
    r->out = test_case_output(&r->c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, shape->channels);
    test_case_add(&r->c,
                  (tern_op){.kind = TERN_OP_CONV,
                            .n_in = TERN_CONV_INPUTS,
                            .in = {[TERN_CONV_X] = r->x,
                                   [TERN_CONV_WEIGHT] = test_case_weight(&r->c, "f32", shape->channels, shape->taps),
                                   [TERN_CONV_POSITIONS] = test_case_param_view(&r->c, TERN_PARAM_POSITIONS),
                                   [TERN_CONV_SEQUENCES] = test_case_param_view(&r->c, TERN_PARAM_SEQUENCES),
                                   [TERN_CONV_STATES] = test_case_param_view(&r->c, TERN_PARAM_STATES),
                                   [TERN_CONV_STATE] = r->state},
                            .out = r->out});
}

static void norm_head(float *x, uint32_t n, double length)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++) x[i] = (float)((double)x[i] * length / sqrt(sum + 1e-6));
}

static void norm_heads(test_recurrent_case *r, const test_recurrent_shape *shape)
{
    const uint32_t stride = r->c.graph.values[r->x.value].cols;
    for (uint32_t t = 0; t < r->n_rows; t++)
        for (uint32_t h = 0; h < 2 * shape->key_heads; h++)
            norm_head(test_case_floats(&r->c, r->x) + (size_t)t * stride + r->x.first_col + h * shape->keys,
                      shape->keys, h < shape->key_heads ? 1 / sqrt((double)shape->keys) : 1);
}

/* [1][heads], of numbers from `low` to 0. */
static tern_view head_numbers(test_recurrent_case *r, uint32_t heads, float low)
{
    const tern_view view = test_case_norm_weight(&r->c, heads);
    float *x = (float *)(void *)(uintptr_t)test_case_weight_of(&r->c, view)->data;
    for (uint32_t h = 0; h < heads; h++) x[h] = low * tern_rng_f32(r->c.rng);
    return view;
}

void test_delta_case(test_recurrent_case *r, tern_rng *rng, const test_recurrent_shape *shape)
{
    const uint32_t heads = shape->heads, values = heads * shape->values;
    open_case(r, rng, shape, values * shape->keys);
    r->x = some_columns(r, "qkv", 2 * shape->key_heads * shape->keys + values);
    norm_heads(r, shape);
    r->a = some_columns(r, "a", shape->joined ? 2 * heads : heads);
    r->b = shape->joined ? test_case_columns(r->a, heads, heads) : some_columns(r, "b", heads);
    r->a.cols = heads;
    r->out = test_case_output(&r->c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, values);
    test_case_add(&r->c,
                  (tern_op){.kind = TERN_OP_GATED_DELTA,
                            .n_in = TERN_GATED_DELTA_INPUTS,
                            .in = {[TERN_GATED_DELTA_QKV] = r->x,
                                   [TERN_GATED_DELTA_A] = r->a,
                                   [TERN_GATED_DELTA_B] = r->b,
                                   [TERN_GATED_DELTA_DECAY] = head_numbers(r, heads, -1),
                                   [TERN_GATED_DELTA_DT] = head_numbers(r, heads, -3),
                                   [TERN_GATED_DELTA_POSITIONS] = test_case_param_view(&r->c, TERN_PARAM_POSITIONS),
                                   [TERN_GATED_DELTA_SEQUENCES] = test_case_param_view(&r->c, TERN_PARAM_SEQUENCES),
                                   [TERN_GATED_DELTA_STATES] = test_case_param_view(&r->c, TERN_PARAM_STATES),
                                   [TERN_GATED_DELTA_STATE] = r->state},
                            .n_heads = heads,
                            .n_kv_heads = shape->key_heads,
                            .head_dim = shape->keys,
                            .tiled_heads = shape->tiled,
                            .out = r->out});
}

void test_recurrent_compare(test_recurrent_case *r, tern_backend *backend)
{
    test_case_compare(&r->c, backend, r->n_rows, 1, tern_op_tolerance(&r->c.graph.ops[0]));
}
