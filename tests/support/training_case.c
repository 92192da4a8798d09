/* Ops of training for cases made by hand. */
#include "support/training_case.h"

#include "support/test.h"

enum { HEAD = 32 };

/* f32 rows, alone or between other columns. */
static tern_view input(test_case *c, const test_training *t, const char *name, uint32_t cols)
{
    const uint32_t before = t->beside ? test_between(c->rng, 0, 9) : 0,
                   after = t->beside ? test_between(c->rng, 0, 9) : 0;
    tern_view whole = test_case_rows(c, name, t->rows, before + cols + after, t->fill);
    return test_case_columns(whole, before, cols);
}

static tern_view output(test_case *c, const test_training *t, const char *name, uint32_t cols)
{
    const uint32_t before = t->beside ? test_between(c->rng, 0, 9) : 0,
                   after = t->beside ? test_between(c->rng, 0, 9) : 0;
    tern_view whole = test_case_output(c, name, t->rows, TERN_DTYPE_F32, before + cols + after);
    return test_case_columns(whole, before, cols);
}

static void add_input(tern_op *op, tern_view view)
{
    op->in[op->n_in++] = view;
}

static void add_norm(test_case *c, const test_training *t, tern_op *op)
{
    const uint32_t cols = t->n_groups ? t->n_groups * t->cols : t->cols;
    op->eps = 1e-5f;
    add_input(op, input(c, t, "x", cols));
    add_input(op, test_case_norm_weight(c, t->cols));
    add_input(op, input(c, t, "dy", cols));
    if (!t->no_dg)
        add_input(op, test_case_state(c, "dg", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, t->cols, TEST_ORDINARY));
    op->out = t->no_dx ? (tern_view){.value = TERN_NO_VALUE} : output(c, t, "dx", cols);
    if (t->residual) op->residual = input(c, t, "residual", cols);
}

static void add_gate(test_case *c, const test_training *t, tern_op *op)
{
    op->activation = t->activation;
    op->limit = t->limit;
    add_input(op, input(c, t, "gate", t->cols));
    add_input(op, input(c, t, "up", t->cols));
    add_input(op, input(c, t, "dy", t->cols));
    add_input(op, output(c, t, "dup", t->cols));
    op->out = output(c, t, "dgate", t->cols);
    const tern_view gate = op->in[TERN_GATE_BACKWARD_GATE];
    float *g = test_case_floats(c, gate);
    for (uint64_t i = 0; i < c->graph.values[gate.value].bytes / 4; i++) g[i] *= 4;
}

static void add_rope(test_case *c, const test_training *t, tern_op *op)
{
    op->head_dim = HEAD;
    op->n_heads = t->cols / HEAD ? t->cols / HEAD : 1;
    op->rope_adjacent = tern_rng_below(c->rng, 2);
    add_input(op, test_case_rows(c, "dx", TERN_ROWS_TOKENS, op->n_heads * HEAD, t->fill));
    add_input(op, test_case_param_view(c, TERN_PARAM_POSITIONS));
    add_input(op, test_case_rope_table(c, HEAD));
    op->out.value = TERN_NO_VALUE;
}

tern_op test_training_add(test_case *c, const test_training *t)
{
    tern_op op = {.kind = t->kind, .rows = t->rows};
    switch (t->kind) {
    case TERN_OP_RMS_NORM_BACKWARD: add_norm(c, t, &op); break;
    case TERN_OP_GATE_BACKWARD: add_gate(c, t, &op); break;
    case TERN_OP_ROPE_BACKWARD: add_rope(c, t, &op); break;
    case TERN_OP_CROSS_ENTROPY:
        add_input(&op, input(c, t, "logits", t->cols));
        add_input(&op, test_case_param_view(c, TERN_PARAM_LABELS));
        op.out = test_case_output(c, "losses", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 1);
        break;
    case TERN_OP_BIAS_BACKWARD:
        add_input(&op, input(c, t, "dy", t->cols));
        add_input(&op, test_case_state(c, "db", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, t->cols, TEST_ORDINARY));
        op.out.value = TERN_NO_VALUE;
        break;
    case TERN_OP_EMBED_BACKWARD:
        add_input(&op, input(c, t, "dy", t->cols));
        add_input(&op, test_case_param_view(c, TERN_PARAM_IDS));
        add_input(&op, test_case_state(c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, t->n_vocab ? t->n_vocab : 40,
                                       t->cols, TEST_ORDINARY));
        op.out.value = TERN_NO_VALUE;
        break;
    case TERN_OP_SOFTCAP_BACKWARD:
        op.scale = 1.5f;
        op.softcap = t->softcap > 0 ? t->softcap : 0.8f;
        add_input(&op, input(c, t, "x", t->cols));
        add_input(&op, input(c, t, "dy", t->cols));
        op.out = output(c, t, "dx", t->cols);
        break;
    default:
        op.softcap = t->softcap;
        op.scale = t->kind == TERN_OP_SCALE ? -1.7f : 0.25f;
        op.stream = 3;
        add_input(&op, input(c, t, "x", t->cols));
        op.out = output(c, t, "y", t->cols);
    }
    if (t->kind == TERN_OP_DROPOUT || t->kind == TERN_OP_FAKE_QUANTIZE || t->kind == TERN_OP_CROSS_ENTROPY)
        add_input(&op, test_case_param_view(c, TERN_PARAM_TRAINING));
    test_case_add(c, op);
    return op;
}

void test_training_params(test_case *c, uint32_t n_labels, uint32_t n_ids)
{
    const uint32_t n = c->graph.max_tokens, n_positions = c->graph.max_pages * TERN_PAGE_SIZE;
    int32_t *labels = (int32_t *)(void *)test_case_param(c, TERN_PARAM_LABELS);
    tern_train_params *training = (tern_train_params *)(void *)test_case_param(c, TERN_PARAM_TRAINING);
    for (uint32_t t = 0; t < n; t++) {
        labels[t] = tern_rng_below(c->rng, 4) ? (int32_t)tern_rng_below(c->rng, n_labels) : -100;
        test_case_param(c, TERN_PARAM_IDS)[t] = tern_rng_below(c->rng, n_ids);
        test_case_param(c, TERN_PARAM_POSITIONS)[t] = tern_rng_below(c->rng, n_positions);
    }
    *training =
        (tern_train_params){.loss_weight = 0.03f, .blend = 0.4f, .dropout_seed = tern_rng_below(c->rng, 1u << 30)};
}
