/* The backward of attention over packed rows, and of RoPE, on the CPU: the bits of the definitions at every level and
 * with any number of threads. */
#include "backend/cpu/training_rows_cases.h"

#include "quant/weight.h"

static void rope(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t heads = training_rows_between(1, 4),
                       dim = training_rows_between(0, 1) ? 2 * training_rows_between(1, 40) : 64,
                       before = training_rows_between(0, 3);
        training_rows_open_trial(&t, training_rows_between(1, 9));
        const tern_view all = training_rows_rows(&t, "dqkv", before + heads * dim, training_rows_any_fill());
        const tern_view dx = test_case_columns(all, before, heads * dim), table = test_case_rope_table(&t.c, dim);
        const bool adjacent = training_rows_between(0, 1);
        test_case_add(&t.c, (tern_op){.kind = TERN_OP_ROPE_BACKWARD,
                                      .n_in = TERN_ROPE_INPUTS,
                                      .in = {[TERN_ROPE_X] = dx,
                                             [TERN_ROPE_POSITIONS] = test_case_param_view(&t.c, TERN_PARAM_POSITIONS),
                                             [TERN_ROPE_TABLE] = table},
                                      .out.value = TERN_NO_VALUE,
                                      .n_heads = heads,
                                      .head_dim = dim,
                                      .rope_adjacent = adjacent});
        float *rotated = training_rows_want(&t, dx, t.n);
        for (uint32_t r = 0; r < t.n; r++)
            (adjacent ? tern_ref_rope_adjacent_backward : tern_ref_rope_halves_backward)(
                rotated + (size_t)r * dx.cols, heads, dim, training_rows_input(&t, table, 0) + (size_t)r * dim);
        training_rows_check(&t, "rope_backward");
    }
}

/* Documents of random lengths, some of one token. */
static void cut_documents(uint32_t *starts, uint32_t n)
{
    for (uint32_t t = 0, first = 0, how = training_rows_between(0, 2); t < n; t++) {
        if (t && (how == 1 ? training_rows_between(0, 40) == 0 : how == 2 && training_rows_between(0, 2) == 0))
            first = t;
        starts[t] = first;
    }
}

/* Rows of a view, packed. */
static float *packed(trial *t, tern_view view)
{
    float *to = calloc((size_t)t->n * view.cols, sizeof *to);
    for (uint32_t r = 0; r < t->n; r++)
        memcpy(to + (size_t)r * view.cols, training_rows_input(t, view, r), view.cols * sizeof *to);
    return to;
}

typedef struct attention_shape {
    uint32_t n, heads, kv_heads, dim;
} attention_shape;

/* Sizes around those of panels and blocks, as large as the definition's time allows. */
static attention_shape any_attention(void)
{
    const size_t most = test_quick() ? 500000 : 6000000; /* multiply-adds of a product */
    attention_shape s = {.n = training_rows_between(0, 2) ? training_rows_between(1, 70)
                                                          : training_rows_between(120, 700),
                         .kv_heads = training_rows_between(1, 3)};
    s.heads = s.kv_heads * (training_rows_between(0, 4) ? training_rows_between(1, 4) : training_rows_between(1, 20));
    s.dim = training_rows_between(0, 1) ? 8 * training_rows_between(1, 6) : training_rows_between(1, 40);
    while ((size_t)s.n * s.n / 2 * s.heads * s.dim > most) {
        if (s.heads > s.kv_heads) s.heads = s.kv_heads;
        else if (s.dim > 3) s.dim /= 2;
        else if (s.kv_heads > 1) s.heads = s.kv_heads = 1;
        else s.n /= 2;
    }
    return s;
}

static void attention_round(void)
{
    const attention_shape s = any_attention();
    const uint32_t q_cols = s.heads * s.dim, kv_cols = s.kv_heads * s.dim;
    trial t;
    tern_view residual;
    training_rows_open_trial(&t, s.n);
    cut_documents(test_case_param(&t.c, TERN_PARAM_SEQ_STARTS), s.n);
    const tern_view starts = test_case_param_view(&t.c, TERN_PARAM_SEQ_STARTS);
    const tern_view qkv = training_rows_rows(&t, "qkv", q_cols + 2 * kv_cols,
                                             training_rows_between(0, 3) ? TEST_ORDINARY : training_rows_any_fill());
    const tern_view q = test_case_columns(qkv, 0, q_cols), k = test_case_columns(qkv, q_cols, kv_cols);
    const tern_view v = test_case_columns(qkv, q_cols + kv_cols, kv_cols);
    const tern_view statistics = training_rows_output(&t, "statistics", 2 * s.heads),
                    out = training_rows_output(&t, "attention", q_cols);
    const tern_view dout =
        training_rows_rows(&t, "dout", q_cols, training_rows_between(0, 3) ? TEST_ORDINARY : training_rows_any_fill());
    const tern_view dkv = training_rows_output(&t, "dkv", 2 * kv_cols), dk = test_case_columns(dkv, 0, kv_cols);
    const tern_view dv = test_case_columns(dkv, kv_cols, kv_cols);
    tern_op op = {.kind = TERN_OP_VARLEN_ATTENTION,
                  .n_in = TERN_VARLEN_ATTENTION_INPUTS,
                  .in = {[TERN_VARLEN_ATTENTION_Q] = q,
                         [TERN_VARLEN_ATTENTION_K] = k,
                         [TERN_VARLEN_ATTENTION_V] = v,
                         [TERN_VARLEN_ATTENTION_STARTS] = starts,
                         [TERN_VARLEN_ATTENTION_STATISTICS] = statistics},
                  .out = out};
    op.n_heads = s.heads, op.n_kv_heads = s.kv_heads, op.head_dim = s.dim;
    op.scale = training_rows_between(0, 1) ? 0.2f : 0;
    op.softcap = training_rows_between(0, 2) ? 0 : 1.5f;
    op.halves = training_rows_between(0, 2) ? TERN_HALVES_NONE : TERN_HALVES_BF16;
    op.window = training_rows_between(0, 2) ? 0 : training_rows_between(1, s.n + 1);
    if (training_rows_between(0, 1)) op.sinks = test_case_norm_weight(&t.c, s.heads);
    test_case_add(&t.c, op);
    op.kind = TERN_OP_VARLEN_ATTENTION_BACKWARD, op.n_in = TERN_VARLEN_ATTENTION_BACKWARD_INPUTS;
    op.in[TERN_VARLEN_ATTENTION_OUT] = out;
    op.in[TERN_VARLEN_ATTENTION_DOUT] = dout;
    op.in[TERN_VARLEN_ATTENTION_DK] = dk;
    op.in[TERN_VARLEN_ATTENTION_DV] = dv;
    float *dsinks = NULL;
    if (op.sinks.cols && training_rows_between(0, 1)) {
        op.in[op.n_in] =
            test_case_state(&t.c, "dsinks", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, s.heads, TEST_ORDINARY);
        dsinks = training_rows_want(&t, op.in[op.n_in++], 1);
    }
    float *dq = training_rows_add_op(&t, op, training_rows_output(&t, "dq", q_cols), &residual);
    training_rows_start_at_residual(&t, dq, residual, q_cols);
    float *o = training_rows_want(&t, out, s.n), *both = training_rows_want(&t, statistics, s.n),
          *dk_rows = training_rows_want(&t, dk, s.n), *dv_rows = training_rows_want(&t, dv, s.n);
    float *q_rows = packed(&t, q), *k_rows = packed(&t, k), *v_rows = packed(&t, v),
          *m = calloc(2, s.n * s.heads * sizeof *m);
    float *l = m + s.n * s.heads;
    const float *sinks = op.sinks.cols ? (const float *)(const void *)test_case_weight_of(&t.c, op.sinks)->data : NULL;
    const tern_varlen_attention all = {s.n,
                                       s.heads,
                                       s.kv_heads,
                                       s.dim,
                                       q_rows,
                                       k_rows,
                                       v_rows,
                                       q_cols,
                                       kv_cols,
                                       test_case_param(&t.c, TERN_PARAM_SEQ_STARTS),
                                       op.scale > 0 ? op.scale : 1.0f / sqrtf((float)s.dim),
                                       op.softcap,
                                       op.window,
                                       sinks,
                                       op.halves == TERN_HALVES_BF16};
    tern_ref_varlen_attention(&all, o, m, l);
    tern_ref_varlen_attention_backward(&all, o, m, l, training_rows_input(&t, dout, 0), dq, dk_rows, dv_rows, dsinks);
    for (uint32_t i = 0; i < s.n * s.heads; i++) {
        both[i / s.heads * 2 * s.heads + i % s.heads] = m[i];
        both[i / s.heads * 2 * s.heads + s.heads + i % s.heads] = l[i];
    }
    free(q_rows);
    free(k_rows);
    free(v_rows);
    free(m);
    char what[96];
    snprintf(what, sizeof what, "attention of %u tokens, %u of %u heads of %u", s.n, s.heads, s.kv_heads, s.dim);
    training_rows_check(&t, what);
}

static void attention(void **state)
{
    (void)state;
    const int n = test_quick() ? ROUNDS / 3 : 2 * ROUNDS;
    for (int round = 0; round < n; round++) attention_round();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rope),
    cmocka_unit_test(attention),
};

TEST_GROUP(training_attention, "threads web", tests, .setup = training_rows_open_backends,
           .teardown = training_rows_close_backends);
