/* Cases of the training ops with a state, and their backward. */
#include "support/recurrent_training_case.h"

#include <math.h>

#include "ops/ref/recurrent/recurrent.h"
#include "quant/weight.h"

enum { BEFORE = 5 }; /* columns before those that an op reads or writes */

void test_documents_case(test_case *c, tern_rng *rng, uint32_t n, uint32_t longest)
{
    test_case_open(c, rng, &(test_case_shape){.max_tokens = n, .n_ctx = 256, .training = true});
    uint32_t *starts = test_case_param(c, TERN_PARAM_SEQ_STARTS);
    for (uint32_t t = 0, first = 0; t < n; t++) {
        if (t == 1 || t == 3 || t == 6 || t == first + longest) first = t;
        starts[t] = first;
    }
}

tern_view test_training_input(test_case *c, const char *name, uint32_t cols)
{
    const tern_view all = test_case_rows(c, name, TERN_ROWS_TOKENS, BEFORE + cols, TEST_ORDINARY);
    return test_case_columns(all, BEFORE, cols);
}

tern_view test_training_output(test_case *c, const char *name, uint32_t cols)
{
    const tern_view all = test_case_output(c, name, TERN_ROWS_TOKENS, TERN_DTYPE_F32, BEFORE + cols);
    return test_case_columns(all, BEFORE, cols);
}

static tern_view gradient(test_case *c, const char *name, uint32_t rows, uint32_t cols, bool wanted)
{
    if (!wanted) return (tern_view){.value = TERN_NO_VALUE};
    return test_case_state(c, name, TERN_STATE_GRADIENT, TERN_DTYPE_F32, rows, cols, TEST_ORDINARY);
}

void test_conv_training_add(test_case *c, uint32_t cols, uint32_t taps, bool trained)
{
    tern_op op = {.kind = TERN_OP_VARLEN_CONV,
                  .n_in = TERN_VARLEN_CONV_INPUTS,
                  .in = {[TERN_VARLEN_CONV_X] = test_training_input(c, "x", cols),
                         [TERN_VARLEN_CONV_WEIGHT] = test_case_weight(c, "f32", cols, taps),
                         [TERN_VARLEN_CONV_STARTS] = test_case_param_view(c, TERN_PARAM_SEQ_STARTS)},
                  .out = test_training_output(c, "y", cols)};
    test_case_add(c, op);
    op.kind = TERN_OP_VARLEN_CONV_BACKWARD;
    op.in[TERN_VARLEN_CONV_DOUT] = test_training_input(c, "dy", cols);
    op.in[TERN_VARLEN_CONV_DWEIGHT] = gradient(c, "dweight", cols, taps, trained);
    op.n_in = trained ? TERN_VARLEN_CONV_BACKWARD_INPUTS : TERN_VARLEN_CONV_DWEIGHT;
    op.out = test_training_output(c, "dx", cols);
    test_case_add(c, op);
}

/* Keys of about length 1 and queries of a length that grows less with them, decays below 0: states stay bounded. */
static void scale_inputs(test_case *c, const tern_op *op, uint32_t rows)
{
    for (uint32_t i = 0; i < 2; i++) {
        const tern_view x = op->in[TERN_VARLEN_GATED_DELTA_Q + i];
        for (uint32_t k = 0; k < rows * (x.cols + BEFORE); k++) test_case_floats(c, x)[k] /= sqrtf((float)op->head_dim);
    }
    float *decay = (float *)(uintptr_t)test_case_weight_of(c, op->in[TERN_VARLEN_GATED_DELTA_DECAY])->data;
    for (uint32_t h = 0; h < op->n_heads && !op->log_decay; h++) decay[h] = -fabsf(decay[h]) - 0.1f;
}

void test_delta_training_add(test_case *c, const test_delta_training *s)
{
    const uint32_t keys = s->key_heads * s->keys, values = s->heads * s->values,
                   numbers = s->heads * s->keys * s->values;
    const tern_view states = test_case_output(c, "states", TERN_ROWS_TOKENS, TERN_DTYPE_F32,
                                              (numbers + TERN_DELTA_CHUNK - 1) / TERN_DELTA_CHUNK);
    tern_op op = {.kind = TERN_OP_VARLEN_GATED_DELTA,
                  .n_in = TERN_VARLEN_GATED_DELTA_INPUTS,
                  .in = {[TERN_VARLEN_GATED_DELTA_Q] = test_training_input(c, "q", keys),
                         [TERN_VARLEN_GATED_DELTA_K] = test_training_input(c, "k", keys),
                         [TERN_VARLEN_GATED_DELTA_V] = test_training_input(c, "v", values),
                         [TERN_VARLEN_GATED_DELTA_A] = test_training_input(c, "a", s->heads),
                         [TERN_VARLEN_GATED_DELTA_B] = test_training_input(c, "b", s->heads),
                         [TERN_VARLEN_GATED_DELTA_DECAY] = test_case_norm_weight(c, s->heads),
                         [TERN_VARLEN_GATED_DELTA_DT] = test_case_norm_weight(c, s->heads),
                         [TERN_VARLEN_GATED_DELTA_STARTS] = test_case_param_view(c, TERN_PARAM_SEQ_STARTS),
                         [TERN_VARLEN_GATED_DELTA_STATES] = states},
                  .n_heads = s->heads,
                  .n_kv_heads = s->key_heads,
                  .head_dim = s->keys,
                  .tiled_heads = s->tiled,
                  .log_decay = s->log_decay,
                  .out = test_training_output(c, "y", values)};
    test_case_add(c, op);
    scale_inputs(c, &op, s->rows);
    op.kind = TERN_OP_VARLEN_GATED_DELTA_BACKWARD;
    op.in[TERN_VARLEN_GATED_DELTA_DOUT] = test_training_input(c, "dy", values);
    op.in[TERN_VARLEN_GATED_DELTA_DK] = test_training_output(c, "dk", keys);
    op.in[TERN_VARLEN_GATED_DELTA_DV] = test_training_output(c, "dv", values);
    op.in[TERN_VARLEN_GATED_DELTA_DA] = test_training_output(c, "da", s->heads);
    op.in[TERN_VARLEN_GATED_DELTA_DB] = test_training_output(c, "db", s->heads);
    op.in[TERN_VARLEN_GATED_DELTA_DDECAY] = gradient(c, "ddecay", 1, s->heads, s->decay);
    op.in[TERN_VARLEN_GATED_DELTA_DDT] = gradient(c, "ddt", 1, s->heads, s->dt);
    op.n_in = s->decay || s->dt ? TERN_VARLEN_GATED_DELTA_BACKWARD_INPUTS : TERN_VARLEN_GATED_DELTA_DDECAY;
    op.out = test_training_output(c, "dq", keys);
    test_case_add(c, op);
}
