/* How steps of several sequences are launched, on a made-up device. No device is asked. */
#include "support/op_case.h"
#include "support/test.h"

#include "backend/cuda/cuda_internal.h"

enum { HEAD_DIM = 128, PAGES = 64, VOCAB = 5000 };

static tern_rng rng = {.state = 1};

/* Where values would lie on a device; nothing is read or written there. */
static uint8_t memory[TEST_CASE_MAX_VALUES][64];

typedef struct rig {
    test_case c;
    tern_buffer buffers[TEST_CASE_MAX_VALUES];
    tern_binding bindings[TEST_CASE_MAX_VALUES];
    tern_cuda_launch launch;
    uint8_t scratch[16];
} rig;

static void lower(rig *r, const tern_op *op)
{
    for (uint32_t i = 0; i < r->c.graph.n_values; i++) {
        r->buffers[i] = (tern_buffer){.data = memory[i]};
        r->bindings[i] = (tern_binding){.buffer = &r->buffers[i]};
    }
    const tern_prepared p = {.graph = &r->c.graph, .bindings = r->bindings, .scratch = r->scratch};
    r->launch = (tern_cuda_launch){.op = op};
    tern_cuda__ops[op->kind].lower(&p, op, &r->launch);
    assert_true(r->launch.run != NULL);
}

static tern_cuda_attention attention_of(uint32_t tokens, uint32_t n_sequences, uint32_t head_dim)
{
    rig r = {0};
    test_case_open(&r.c, &rng, &(test_case_shape){0});
    tern_op op = {.kind = TERN_OP_ATTENTION, .n_in = 4, .n_heads = 20, .n_kv_heads = 5, .head_dim = head_dim};
    op.in[TERN_ATTENTION_Q] = test_case_rows(&r.c, "q", TERN_ROWS_TOKENS, 20 * head_dim, TEST_ORDINARY);
    op.in[TERN_ATTENTION_K_CACHE] = test_case_cache(&r.c, "k", TERN_DTYPE_F16, 1, 5, head_dim);
    op.in[TERN_ATTENTION_V_CACHE] = test_case_cache(&r.c, "v", TERN_DTYPE_F16, 1, 5, head_dim);
    op.in[TERN_ATTENTION_PAGES] = test_case_param_view(&r.c, TERN_PARAM_PAGES);
    op.out = test_case_output(&r.c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 20 * head_dim);
    const uint32_t max_tokens = r.c.graph.max_tokens, max_pages = r.c.graph.max_pages;
    r.c.graph.max_tokens = tokens;
    r.c.graph.n_sequences = n_sequences;
    r.c.graph.max_pages = PAGES;
    lower(&r, &op);
    const tern_cuda_attention a = r.launch.params.attention;
    const size_t partials = tern_cuda__attention_partials(&r.c.graph, &op);
    assert_int_equal(partials, a.splits > 1 ? (size_t)tokens * 20 * a.splits * (head_dim + 2) : 0);
    r.c.graph.max_tokens = max_tokens;
    r.c.graph.max_pages = max_pages;
    r.c.graph.n_sequences = 1;
    test_case_close(&r.c);
    return a;
}

/* Few rows are all cut by positions; of many, those of sequences that decode. */
static void who_has_a_row(void **state)
{
    (void)state;
    const tern_cuda_attention one = attention_of(1, 1, HEAD_DIM), some = attention_of(80, 64, HEAD_DIM);
    assert_true(one.splits == 32 && !one.brief);
    assert_true(some.splits == 1 && !some.brief);
    assert_true(attention_of(16, 16, HEAD_DIM).splits > 1);
    assert_int_equal(attention_of(512, 1, HEAD_DIM).splits, 0); /* one prompt */
    const tern_cuda_attention mixed = attention_of(512, 64, HEAD_DIM);
    assert_true(mixed.splits == 1 && mixed.brief > 1);
    const tern_cuda_attention wide = attention_of(512, 1, 512); /* no tile holds such heads */
    assert_true(wide.splits == 1 && !wide.brief);
}

/* Each row of logits has a token and room for what its slices find. */
static void a_token_of_each_row(void **state)
{
    (void)state;
    rig r = {0};
    test_case_open(&r.c, &rng, &(test_case_shape){.sampler = true});
    tern_op op = {.kind = TERN_OP_SAMPLE, .each_row = true, .n_in = TERN_SAMPLE_INPUTS, .rows = TERN_ROWS_OUTPUTS};
    op.in[TERN_SAMPLE_LOGITS] = test_case_rows(&r.c, "logits", TERN_ROWS_OUTPUTS, VOCAB, TEST_ORDINARY);
    op.in[TERN_SAMPLE_SAMPLER] = test_case_param_view(&r.c, TERN_PARAM_SAMPLER);
    op.out = test_case_output(&r.c, "tokens", TERN_ROWS_OUTPUTS, TERN_DTYPE_U32, 1);
    lower(&r, &op);
    const tern_cuda_sample_rows *s = &r.launch.params.sample_rows;
    assert_int_equal(s->n_vocab, VOCAB);
    assert_true(s->slices > 1);
    assert_true((uint64_t)s->slices * TERN_SAMPLE_MAX_TOP_K * s->count.most * sizeof *s->found ==
                tern_cuda__sample_scratch(&r.c.graph, &op));
    assert_ptr_equal(s->tokens, memory[op.out.value]);
    const tern_cuda cuda = {.limits = {.capability = 90, .multiprocessors = 132, .shared_bytes = 200 << 10}};
    assert_false(tern_cuda__walks(&cuda, &r.c.graph, &op));
    test_case_close(&r.c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(who_has_a_row),
    cmocka_unit_test(a_token_of_each_row),
};

TEST_GROUP(cuda_batch, "", tests);
