/* Layers of which a squared ReLU makes rows and columns irrelevant: the bits of reading all of them, at every level,
 * with several numbers of threads and tokens; and rows whose gate is closed are not looked at. */
#include "support/test.h"

#include "backend/counters.h"
#include "backend/open.h"
#include "base/cpu.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/op_case.h"

enum { MAX_TOKENS = 9, COLS = 512, ROWS = 300 };

static tern_rng rng;
static tern_error err;

static tern_backend *open_cpu(const char *level, uint32_t n_threads, tern_ffn_mode ffn)
{
    tern_backend *b;
    assert_ok(
        tern_backend_open(&b, &(tern_backend_options){.cpu_features = level, .n_threads = n_threads, .ffn = ffn}, &err),
        err);
    return b;
}

/* The gate of ROWS rows, or the layer behind it with a residual; x as the encoding wants it. */
static tern_view build(test_case *c, const char *encoding, uint32_t cols, bool gated)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = MAX_TOKENS});
    const bool ternary = tern_encoding_by_name(encoding)->ternary;
    tern_op op = {.kind = TERN_OP_LINEAR,
                  .rows = TERN_ROWS_TOKENS,
                  .n_parts = gated ? 2 : 1,
                  .n_in = gated ? 3 : 2,
                  .gated = gated,
                  .sparse = true,
                  .activation = TERN_ACT_RELU2};
    op.in[0] = ternary ? test_case_q8(c, "x", TERN_ROWS_TOKENS, cols)
                       : test_case_rows(c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    for (uint32_t p = 0; p < op.n_parts; p++) op.in[1 + p] = test_case_weight(c, encoding, ROWS, cols);
    if (!gated) op.residual = test_case_rows(c, "residual", TERN_ROWS_TOKENS, ROWS, TEST_ORDINARY);
    op.out = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS);
    test_case_add(c, op);
    return op.out;
}

static void same(test_case *c, tern_view y, tern_backend *backend, uint32_t n, const test_results *want,
                 const char *what)
{
    test_results got;
    test_case_run(c, backend, n, n, 1, &got);
    print_message("%s, %s, %u tokens\n", c->graph.values[c->graph.ops[0].in[1].value].name, what, n);
    for (uint32_t t = 0; t < n; t++)
        assert_memory_equal(test_results_row(c, &got, y, t), test_results_row(c, want, y, t), ROWS * sizeof(float));
    test_results_free(&got);
}

static const char *const levels[] = {"scalar", "sse4.1",       "avx2",      "avx512-vnni", "amx-int8",
                                     "neon",   "neon-dotprod", "neon-i8mm", "simd128"};

static void the_same_bits(void **state)
{
    static const struct {
        const char *encoding;
        uint32_t cols;
    } weights[] = {{"i2_s", COLS}, {"i2_s", 96}, {"tq2_0", COLS}, {"tq1_0", COLS},
                   {"t160", COLS}, {"t160", 36}, {"f16", COLS},   {"q8_0", COLS}};
    static const uint32_t n_tokens[] = {1, 2, 5, 8, 9};
    (void)state;
    test_seed(&rng);
    tern_backend *dense = open_cpu("scalar", 1, TERN_FFN_DENSE), *sparse[16];
    size_t n_sparse = 0;
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        uint32_t features;
        if (tern_cpu_features_parse(levels[l], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        sparse[n_sparse++] = open_cpu(levels[l], 1, TERN_FFN_SPARSE);
        sparse[n_sparse++] = open_cpu(levels[l], 3, TERN_FFN_SPARSE);
    }
    for (size_t e = 0; e < sizeof weights / sizeof *weights; e++)
        for (uint32_t i = 0; i < 2 * sizeof n_tokens / sizeof *n_tokens; i++) {
            test_case c;
            test_results want;
            const uint32_t n = n_tokens[i / 2];
            const tern_view y = build(&c, weights[e].encoding, weights[e].cols, i % 2);
            test_case_run(&c, dense, n, n, 1, &want);
            for (size_t s = 0; s < n_sparse; s++) same(&c, y, sparse[s], n, &want, weights[e].encoding);
            test_results_free(&want);
            test_case_close(&c);
        }
    while (n_sparse) sparse[n_sparse - 1]->close(sparse[n_sparse - 1]), n_sparse--;
    dense->close(dense);
}

/* Rows whose gate is closed are overwritten between two runs, which makes no difference; the counters say how many. */
static void closed_rows_are_not_read(void **state)
{
    (void)state;
    test_seed(&rng);
    tern_backend *sparse = open_cpu(NULL, 1, TERN_FFN_SPARSE);
    test_case c;
    test_results want;
    tern_backend_counters counters;
    const tern_view y = build(&c, "i2_s", COLS, true);
    uint8_t *up = (uint8_t *)(uintptr_t)test_case_weight_of(&c, c.graph.ops[0].in[2])->data;
    memset(up, 0xaa, (size_t)ROWS * COLS / 4); /* ones: the product is 0 where the gate is closed alone */
    test_case_run(&c, sparse, 1, 1, 1, &want);
    uint32_t n_open = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        if (test_results_row(&c, &want, y, 0)[r] != 0) n_open++;
        else memset(up + (size_t)r * COLS / 4, 0, COLS / 4);
    }
    sparse->counters(sparse, &counters);
    assert_true(n_open > ROWS / 4 && n_open < ROWS * 3 / 4);
    assert_int_equal(counters.ffn_rows, ROWS);
    assert_int_equal(counters.ffn_rows_read, n_open);
    same(&c, y, sparse, 1, &want, "overwritten");
    test_results_free(&want);
    test_case_close(&c);
    sparse->close(sparse);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_same_bits),
    cmocka_unit_test(closed_rows_are_not_read),
};

TEST_GROUP(sparse, "web", tests);
