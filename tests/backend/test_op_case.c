/* The tester of ops: what the CPU computes in a case is what ops/ref says, and every kind of difference is found. */
#include "support/test.h"

#include <math.h>

#include "ops/ref/ref.h"
#include "quant/weight.h"
#include "support/op_case.h"

static tern_rng rng;

static const test_tolerance exact = {0};

/* Two runs of a linear op on int8 rows, against the definition. */
static void linear_is_the_definition(void **state)
{
    (void)state;
    enum { ROWS = 37, COLS = 384, TOKENS = 5, USED = 3 };
    test_case c;
    test_results got;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    tern_view x = test_case_q8(&c, "x", TERN_ROWS_TOKENS, COLS), w = test_case_weight(&c, "i2_s", ROWS, COLS);
    tern_view y = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS);
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR,
                                .n_in = TERN_LINEAR_W + 1,
                                .in = {[TERN_LINEAR_X] = x, [TERN_LINEAR_W] = w},
                                .n_parts = 1,
                                .out = y});
    test_case_run(&c, test_backend("cpu"), USED, USED, 1, &got);
    const uint8_t *q = c.initial[x.value];
    const float *scales = (const float *)(const void *)(q + tern_q8_scales_offset(COLS, TOKENS));
    const tern_q8_rows rows = {.x = (const int8_t *)q,
                               .stride = tern_q8_stride(COLS),
                               .n = USED,
                               .sums = (const int32_t *)(const void *)(q + tern_q8_sums_offset(COLS, TOKENS))};
    int32_t dots[USED * ROWS];
    const tern_weight *weight = test_case_weight_of(&c, w);
    tern_ref_i2_s(weight->data, COLS / 4, ROWS, COLS, &rows, dots, ROWS);
    for (uint32_t t = 0; t < USED; t++)
        for (uint32_t r = 0; r < ROWS; r++) {
            const float want = (float)dots[t * ROWS + r] * (scales[t] * weight->scale);
            const float y_tr = test_results_row(&c, &got, y, t)[r];
            if (!test_near(y_tr, want, 0, (test_tolerance){.of_value = 1e-6}))
                fail_msg("%u %u: %g, %g expected", t, r, (double)y_tr, (double)want);
        }
    assert_null(test_case_touched(&c, y.value, USED, &got));
    assert_non_null(test_case_touched(&c, y.value, USED - 1, &got));
    test_results_free(&got);
    test_case_close(&c);
}

/* The ops of a layer, once each: they run, and agree with themselves. */
static void every_kind_of_value(void **state)
{
    (void)state;
    enum { DIM = 16, HEADS = 4, KV = 2, TOKENS = 6 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS, .max_outputs = 2, .n_ctx = 64});
    tern_view q = test_case_rows(&c, "qkv", TERN_ROWS_TOKENS, (HEADS + 2 * KV) * DIM, TEST_ORDINARY);
    tern_view k = test_case_cache(&c, "k", TERN_DTYPE_F16, 2, KV, DIM),
              v = test_case_cache(&c, "v", TERN_DTYPE_F16, 2, KV, DIM);
    tern_view table = test_case_rope_table(&c, DIM), norm_weight = test_case_norm_weight(&c, HEADS * DIM);
    tern_view positions = test_case_param_view(&c, TERN_PARAM_POSITIONS),
              sequences = test_case_param_view(&c, TERN_PARAM_SEQUENCES);
    tern_view pages = test_case_param_view(&c, TERN_PARAM_PAGES),
              outputs = test_case_param_view(&c, TERN_PARAM_OUTPUTS);
    tern_view mixed = test_case_activation(&c, "mixed", TERN_ROWS_TOKENS, TERN_DTYPE_F32, HEADS * DIM);
    tern_view int8 = test_case_output(&c, "int8", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, HEADS * DIM);
    tern_view last = test_case_output(&c, "last", TERN_ROWS_OUTPUTS, TERN_DTYPE_F32, HEADS * DIM);
    const tern_op heads = {.n_heads = HEADS, .n_kv_heads = KV, .head_dim = DIM, .eps = 1e-5f};
    tern_op op = heads;
    op.kind = TERN_OP_ROPE_KV, op.n_in = TERN_ROPE_KV_INPUTS, op.out = (tern_view){.value = TERN_NO_VALUE};
    op.in[TERN_ROPE_KV_QKV] = q;
    op.in[TERN_ROPE_KV_POSITIONS] = positions;
    op.in[TERN_ROPE_KV_TABLE] = table;
    op.in[TERN_ROPE_KV_K_CACHE] = k;
    op.in[TERN_ROPE_KV_V_CACHE] = v;
    op.in[TERN_ROPE_KV_SEQUENCES] = sequences;
    op.in[TERN_ROPE_KV_PAGES] = pages;
    test_case_add(&c, op);
    op.kind = TERN_OP_ATTENTION, op.n_in = TERN_ATTENTION_INPUTS, op.out = mixed;
    op.in[TERN_ATTENTION_Q] = test_case_columns(q, 0, HEADS * DIM);
    op.in[TERN_ATTENTION_K_CACHE] = k;
    op.in[TERN_ATTENTION_V_CACHE] = v;
    op.in[TERN_ATTENTION_POSITIONS] = positions;
    op.in[TERN_ATTENTION_SEQUENCES] = sequences;
    op.in[TERN_ATTENTION_PAGES] = pages;
    test_case_add(&c, op);
    test_case_add(&c, (tern_op){.kind = TERN_OP_NORM_QUANT,
                                .n_in = TERN_NORM_INPUTS,
                                .in = {[TERN_NORM_X] = mixed, [TERN_NORM_WEIGHT] = norm_weight},
                                .out = int8,
                                .eps = 1e-5f});
    test_case_add(&c, (tern_op){.kind = TERN_OP_GATHER,
                                .n_in = TERN_GATHER_INPUTS,
                                .in = {[TERN_GATHER_X] = mixed, [TERN_GATHER_OUTPUTS] = outputs},
                                .out = last,
                                .rows = TERN_ROWS_OUTPUTS});
    test_case_param(&c, TERN_PARAM_OUTPUTS)[0] = 2;
    test_case_compare(&c, test_backend("cpu"), 4, 1, exact);
    test_results got;
    test_case_run(&c, test_backend("cpu"), 4, 1, 1, &got);
    assert_memory_equal(got.bytes[last.value], test_results_row(&c, &got, mixed, 2), HEADS * DIM * sizeof(float));
    test_results_free(&got);
    test_case_close(&c);
}

typedef struct damage {
    const char *message; /* its beginning */
    uint32_t value;      /* 0: x, 1: y, 2: q, 3: positions */
    uint64_t byte;
    uint8_t flip;
} damage;

/* One byte wrong, anywhere, is found and named. */
static void differences_are_found(void **state)
{
    (void)state;
    enum { COLS = 100, TOKENS = 3, USED = 2 };
    test_case c;
    test_results got, want;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
    tern_view y = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
    tern_view q = test_case_output(&c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, COLS);
    test_case_add(
        &c,
        (tern_op){.kind = TERN_OP_ADD, .n_in = TERN_ADD_INPUTS, .in = {[TERN_ADD_A] = x, [TERN_ADD_B] = x}, .out = y});
    test_case_add(
        &c, (tern_op){.kind = TERN_OP_QUANTIZE, .n_in = TERN_QUANTIZE_INPUTS, .in = {[TERN_QUANTIZE_X] = x}, .out = q});
    const uint32_t values[] = {x.value, y.value, q.value, c.graph.params[TERN_PARAM_POSITIONS]};
    const damage damages[] = {
        {"x: row 1, column 99 of 100: ", 0, 199 * 4 + 3, 0x40},
        {"y: row 0, column 7 of 100: ", 1, 7 * 4 + 2, 0x80},
        {"y: byte 803 of 1200, beyond the step's rows, is 7e: 7f was there before", 1, 803, 1},
        {"q: row 1, column 5 of 100: int8 ", 2, 128 + 5, 0x04},
        {"q: row 1, column 100 of 100: int8 1, 0 expected", 2, 128 + 100, 0x01},
        {"q: byte 256 of 512, beyond the step's rows, ", 2, 256, 0x01},
        {"q: row 1, column 0 of 1: ", 2, 128 * 3 + 4 + 3, 0x01},
        {"q: byte 392 of 512, beyond the step's rows, ", 2, 128 * 3 + 8, 0x01},
        {"q: row 0: sum ", 2, 128 * 3 + 64, 0x01},
        {"q: byte 457 of 512, beyond the step's rows, ", 2, 128 * 3 + 64 + 9, 0x10},
        {"parameter positions has changed", 3, 0, 1},
    };
    const uint32_t counts[2] = {USED, USED};
    const test_tolerance loose = {.of_value = 1e-6, .of_int8 = 1};
    test_case_run(&c, test_backend("cpu"), USED, USED, 1, &want);
    test_case_run(&c, test_backend("cpu"), USED, USED, 1, &got);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint8_t *byte = got.bytes[values[damages[i].value]] + damages[i].byte;
        assert_null(test_case_difference(&c, counts, &got, &want, loose));
        *byte ^= damages[i].flip;
        const char *what = test_case_difference(&c, counts, &got, &want, loose);
        if (!what || strncmp(what, damages[i].message, strlen(damages[i].message)))
            fail_msg("damage %zu: \"%s\", \"%s...\" expected", i, what ? what : "", damages[i].message);
        *byte ^= damages[i].flip;
    }
    test_results_free(&got);
    test_results_free(&want);
    test_case_close(&c);
}

static void nearness(void **state)
{
    (void)state;
    const test_tolerance none = {0}, value = {.of_value = 0.1}, row = {.of_row = 0.01}, absolute = {.absolute = 1};
    assert_true(test_near(1, 1, 0, none));
    assert_false(test_near(1, nextafterf(1, 2), 5, none));
    assert_false(test_near(-0.0f, 0, 5, none));
    assert_true(test_near(NAN, -NAN, 1, none));
    assert_false(test_near(NAN, 1, 1e9, absolute));
    assert_false(test_near(1, NAN, 1e9, absolute));
    assert_true(test_near(INFINITY, INFINITY, 0, none));
    assert_false(test_near(INFINITY, -INFINITY, 0, absolute));
    assert_false(test_near(3e38f, INFINITY, INFINITY, row));
    assert_false(test_near(INFINITY, 3e38f, INFINITY, row));
    assert_true(test_near(10, 9.1f, 0, value));
    assert_false(test_near(10, 9, 0, value));
    assert_true(test_near(0.5f, 0, 100, row));
    assert_false(test_near(0.5f, 0, 10, row));
    assert_true(test_near(-0.0f, 0, 0, absolute));
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(linear_is_the_definition),
                                          cmocka_unit_test(every_kind_of_value),
                                          cmocka_unit_test(differences_are_found), cmocka_unit_test(nearness)};

TEST_GROUP(op_case, "web", tests, .setup = seed, .teardown = test_backends_close);
