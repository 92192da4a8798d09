/* Attention over packed rows and its backward, for cases made by hand. */
#include "support/test.h"
#include "support/training_case.h"

/* Documents of random length, then rows to spare that start at themselves. */
static void fill_starts(test_case *c, const test_varlen_attention *s)
{
    uint32_t *starts = test_case_param(c, TERN_PARAM_SEQ_STARTS);
    const uint32_t used = s->longest ? s->rows - s->rows / 9 : s->rows;
    for (uint32_t t = 0; t < s->rows;) {
        const uint32_t left = t < used ? used - t : 1;
        uint32_t length = t >= used ? 1 : s->longest ? test_between(c->rng, 1, s->longest) : s->rows;
        if (length > left) length = left;
        for (uint32_t i = 0; i < length; i++) starts[t + i] = t;
        t += length;
    }
}

/* Random rows between other columns that stay as they are. */
static tern_view input(test_case *c, const char *name, uint32_t cols, uint32_t beside)
{
    tern_view whole = test_case_rows(c, name, TERN_ROWS_TOKENS, cols + 2 * beside, TEST_ORDINARY);
    return test_case_columns(whole, beside, cols);
}

static tern_view output(test_case *c, const char *name, uint32_t cols, uint32_t beside)
{
    tern_view whole = test_case_output(c, name, TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols + 2 * beside);
    return test_case_columns(whole, beside, cols);
}

void test_varlen_attention_add(test_case *c, const test_varlen_attention *s)
{
    const uint32_t q_cols = s->n_heads * s->head_dim, kv_cols = s->n_kv_heads * s->head_dim,
                   beside = 4 * tern_rng_below(c->rng, 3);
    tern_op op = {.kind = TERN_OP_VARLEN_ATTENTION,
                  .n_in = TERN_VARLEN_ATTENTION_INPUTS,
                  .n_heads = s->n_heads,
                  .n_kv_heads = s->n_kv_heads,
                  .head_dim = s->head_dim,
                  .scale = s->scale,
                  .softcap = s->softcap,
                  .window = s->window,
                  .halves = s->bf16 ? TERN_HALVES_BF16 : TERN_HALVES_NONE};
    op.in[TERN_VARLEN_ATTENTION_Q] = input(c, "q", q_cols, beside);
    op.in[TERN_VARLEN_ATTENTION_K] = input(c, "k", kv_cols, beside);
    op.in[TERN_VARLEN_ATTENTION_V] = input(c, "v", kv_cols, 0);
    op.in[TERN_VARLEN_ATTENTION_STARTS] = test_case_param_view(c, TERN_PARAM_SEQ_STARTS);
    op.in[TERN_VARLEN_ATTENTION_STATISTICS] =
        test_case_output(c, "statistics", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 2 * s->n_heads);
    op.out = output(c, "out", q_cols, beside);
    if (s->sinks) op.sinks = test_case_norm_weight(c, s->n_heads);
    test_case_add(c, op);
    fill_starts(c, s);
    op.kind = TERN_OP_VARLEN_ATTENTION_BACKWARD;
    op.n_in = TERN_VARLEN_ATTENTION_BACKWARD_INPUTS;
    op.in[TERN_VARLEN_ATTENTION_OUT] = op.out;
    op.in[TERN_VARLEN_ATTENTION_DOUT] = input(c, "dout", q_cols, beside);
    op.in[TERN_VARLEN_ATTENTION_DK] = output(c, "dk", kv_cols, beside);
    op.in[TERN_VARLEN_ATTENTION_DV] = output(c, "dv", kv_cols, 0);
    op.out = output(c, "dq", q_cols, beside);
    if (s->dsinks)
        op.in[op.n_in++] =
            test_case_state(c, "dsinks", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, s->n_heads, TEST_ORDINARY);
    test_case_add(c, op);
}
