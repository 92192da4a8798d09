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
                  .n_in = 5,
                  .n_heads = s->n_heads,
                  .n_kv_heads = s->n_kv_heads,
                  .head_dim = s->head_dim};
    op.in[0] = input(c, "q", q_cols, beside);
    op.in[1] = input(c, "k", kv_cols, beside);
    op.in[2] = input(c, "v", kv_cols, 0);
    op.in[3] = test_case_param_view(c, TERN_PARAM_SEQ_STARTS);
    op.in[4] = test_case_output(c, "statistics", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 2 * s->n_heads);
    op.out = output(c, "out", q_cols, beside);
    test_case_add(c, op);
    fill_starts(c, s);
    op.kind = TERN_OP_VARLEN_ATTENTION_BACKWARD;
    op.n_in = 9;
    op.in[5] = op.out;
    op.in[6] = input(c, "dout", q_cols, beside);
    op.in[7] = output(c, "dk", kv_cols, beside);
    op.in[8] = output(c, "dv", kv_cols, 0);
    op.out = output(c, "dq", q_cols, beside);
    test_case_add(c, op);
}
