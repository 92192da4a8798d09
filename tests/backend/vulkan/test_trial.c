/* Kernels of training are tried before they are used: a driver that computes nothing is found out, a sound one is not.
 */
#include "backend/vulkan/device.h"
#include "backend/vulkan/vulkan.h"
#include "graph/bound.h"
#include "quant/weight.h"
#include "support/recurrent_case.h"
#include "support/test.h"
#include "support/training_case.h"

static tern_rng rng;
static tern_error err;

enum { ROWS = 32, HEADS = 4, DIM = 16, COLS = HEADS * DIM };

static tern_backend *open_own(void)
{
    test_gpu_backend(); /* or skipped */
    if (getenv("TERN_TEST_SIMULATE")) test_skip("the device is simulated");
    const tern_vulkan_options options = {.device = getenv("TERN_TEST_DEVICE"), .cache_dir = "", .n_threads = 1};
    tern_backend *b = NULL;
    assert_ok(tern_vulkan_open(&b, &options, &err), err);
    return b;
}

static void VKAPI_PTR does_nothing(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    (void)commands, (void)x, (void)y, (void)z;
}

/* A case of one op. */
static void check(test_case *c)
{
    tern_backend *b = open_own();
    tern_vulkan *vk = tern_vulkan__self(b);
    tern_bound_graph g;
    assert_ok(tern_bound_open(&g, b, &c->graph, NULL, &err), err);
    PFN_vkCmdDispatch dispatch = vk->fn.CmdDispatch;
    vk->fn.CmdDispatch = does_nothing;
    assert_int_equal(tern_bound_prepare(&g, &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, "computes the kernel")) fail_msg("%s", err.message);
    assert_null(g.prepared);
    vk->fn.CmdDispatch = dispatch;
    assert_ok(tern_bound_prepare(&g, &err), err);
    tern_bound_close(&g);
    vk->fn.CmdDispatch = does_nothing; /* proven: not tried again */
    assert_ok(tern_bound_open(&g, b, &c->graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&g, &err), err);
    tern_bound_close(&g);
    b->close(b);
}

static void open_case(test_case *c)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = ROWS, .training = true});
}

static void rows(void **state)
{
    (void)state;
    static const tern_op_kind kinds[] = {TERN_OP_SCALE,         TERN_OP_DROPOUT,           TERN_OP_FAKE_QUANTIZE,
                                         TERN_OP_CROSS_ENTROPY, TERN_OP_RMS_NORM_BACKWARD, TERN_OP_ROPE_BACKWARD,
                                         TERN_OP_GATE_BACKWARD, TERN_OP_EMBED_BACKWARD,    TERN_OP_SOFTCAP_BACKWARD};
    test_gpu_backend();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        test_case c;
        open_case(&c);
        test_training_add(&c, &(test_training){.kind = kinds[i], .cols = COLS});
        check(&c);
        test_case_close(&c);
    }
}

/* Heads of which a part is turned: the table turns the rest by nothing. */
static void rope_of_a_part(void **state)
{
    (void)state;
    test_gpu_backend();
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = ROWS});
    const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
    test_case_add(&c, (tern_op){.kind = TERN_OP_ROPE,
                                .n_in = TERN_ROPE_INPUTS,
                                .in = {[TERN_ROPE_X] = x,
                                       [TERN_ROPE_POSITIONS] = test_case_param_view(&c, TERN_PARAM_POSITIONS),
                                       [TERN_ROPE_TABLE] = test_case_rope_table(&c, DIM)},
                                .n_heads = HEADS,
                                .head_dim = DIM,
                                .rope_dim = DIM / 4,
                                .out = x});
    check(&c);
    test_case_close(&c);
}

/* Ops with states of sequences. */
static void recurrent(void **state)
{
    (void)state;
    test_gpu_backend();
    for (uint32_t n = 1; n <= 2; n++) {
        test_recurrent_case r;
        const test_recurrent_shape shape = {.n_runs = n,
                                            .lengths = {3, 1},
                                            .channels = 70,
                                            .taps = 4,
                                            .heads = HEADS,
                                            .key_heads = HEADS / 2,
                                            .keys = DIM,
                                            .values = DIM};
        test_conv_case(&r, &rng, &shape);
        check(&r.c);
        test_case_close(&r.c);
        test_delta_case(&r, &rng, &shape);
        check(&r.c);
        test_case_close(&r.c);
    }
}

/* What cannot be tried is used, and counted. */
static void what_cannot_be_tried(void **state)
{
    (void)state;
    test_case c;
    tern_bound_graph g;
    tern_backend_counters counters;
    tern_backend *b = open_own();
    open_case(&c);
    test_training_add(&c, &(test_training){.kind = TERN_OP_SCALE, .cols = COLS});
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    assert_ok(tern_bound__prepare_untried(&g, &err), err);
    assert_non_null(b->trial->doubt(b, g.prepared, 0));
    b->counters(b, &counters);
    assert_int_equal(counters.untried, 0);
    for (int i = 0; i < 2; i++) {
        b->trial->give_up(b, g.prepared, 0);
        assert_null(b->trial->doubt(b, g.prepared, 0));
        b->counters(b, &counters);
        assert_int_equal(counters.untried, 1);
    }
    tern_bound_close(&g);
    test_case_close(&c);
    b->close(b);
}

static tern_view one_of(test_case *c, const char *name, bool read, uint32_t cols)
{
    return read ? test_case_rows(c, name, TERN_ROWS_TOKENS, cols, TEST_ORDINARY)
                : test_case_output(c, name, TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
}

static void attention(void **state)
{
    (void)state;
    test_gpu_backend();
    for (int backward = 0; backward < 2; backward++) {
        test_case c;
        open_case(&c);
        tern_op op = {.kind = backward ? TERN_OP_VARLEN_ATTENTION_BACKWARD : TERN_OP_VARLEN_ATTENTION,
                      .n_in = backward ? TERN_VARLEN_ATTENTION_BACKWARD_INPUTS : TERN_VARLEN_ATTENTION_INPUTS,
                      .n_heads = HEADS,
                      .n_kv_heads = 2,
                      .head_dim = DIM};
        for (int i = 0; i < (int)op.n_in; i++)
            op.in[i] = one_of(&c, "x", i < 7, i == 0 || i == 5 || i == 6 ? COLS : i == 4 ? 2 * HEADS : COLS / 2);
        op.in[TERN_VARLEN_ATTENTION_STARTS] = test_case_param_view(&c, TERN_PARAM_SEQ_STARTS);
        op.out = one_of(&c, "out", false, COLS);
        test_case_add(&c, op);
        check(&c);
        test_case_close(&c);
    }
}

/* A head that works on rows from the 64th on, and a state of more rows than are tried. */
static void linear(void **state)
{
    (void)state;
    enum { OUT = 20000, CHUNK = 64 };
    test_gpu_backend();
    for (int dw = 0; dw < 2; dw++) {
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2 * CHUNK, .max_outputs = CHUNK, .training = true});
        tern_op op = {.rows = TERN_ROWS_OUTPUTS, .out = {.value = TERN_NO_VALUE}};
        tern_view x = one_of(&c, "x", dw, COLS), dy = test_case_rows(&c, "dy", TERN_ROWS_OUTPUTS, OUT, TEST_ORDINARY);
        x.first_row = CHUNK;
        op.in[op.n_in++] = dy;
        if (dw) {
            op.kind = TERN_OP_LINEAR_DW;
            op.in[op.n_in++] = x;
            op.in[op.n_in++] = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, OUT, COLS, TEST_ORDINARY);
        } else {
            op.kind = TERN_OP_LINEAR_DX;
            op.in[op.n_in++] = test_case_weight(&c, "f16", OUT, COLS);
            op.out = x;
        }
        test_case_add(&c, op);
        check(&c);
        test_case_close(&c);
    }
}

static tern_view state_of(test_case *c, tern_state which, tern_dtype dtype, uint32_t n_rows)
{
    return test_case_state(c, "state", which, dtype, n_rows, 2 * COLS, TEST_ORDINARY);
}

/* What a trained weight becomes is seen in a product with it; the weight itself is left alone. */
static void optimiser(void **state)
{
    (void)state;
    enum { OUT = 9000 };
    test_gpu_backend();
    for (int i = 0; i < 3; i++) {
        test_case c;
        float scales[OUT];
        test_case_open(&c, &rng, &(test_case_shape){.training = true});
        tern_view w = test_case_weight(&c, i == 2 ? "i2_s" : "f32", OUT, 2 * COLS);
        tern_weight *weight = test_case_weight_of(&c, w);
        tern_op op = {.kind = i == 2 ? TERN_OP_REQUANTIZE : TERN_OP_UPDATE, .out = {.value = TERN_NO_VALUE}};
        uint8_t *before = malloc(weight->bytes);
        memcpy(before, weight->data, weight->bytes);
        for (int r = 0; r < OUT; r++) scales[r] = 0.5f;
        weight->trained = true;
        if (i == 2) weight->row_scales = scales;
        op.in[op.n_in++] = i == 0 ? w : state_of(&c, TERN_STATE_MASTER, TERN_DTYPE_BF16, OUT);
        if (i < 2) {
            op.in[op.n_in++] = state_of(&c, TERN_STATE_GRADIENT, TERN_DTYPE_F32, OUT);
            op.in[op.n_in++] = state_of(&c, TERN_STATE_M, i ? TERN_DTYPE_M8 : TERN_DTYPE_F32, OUT);
            op.in[op.n_in++] = state_of(&c, TERN_STATE_V, i ? TERN_DTYPE_V8 : TERN_DTYPE_F32, OUT);
            op.optimizer = TERN_OPTIMIZER_ADAMW;
        } else {
            op.out = w;
        }
        op.in[op.n_in++] = test_case_param_view(&c, TERN_PARAM_TRAINING);
        test_case_add(&c, op);
        check(&c);
        assert_memory_equal(before, weight->data, weight->bytes);
        test_case_close(&c);
        free(before);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(what_cannot_be_tried),
                                          cmocka_unit_test(rows),
                                          cmocka_unit_test(attention),
                                          cmocka_unit_test(linear),
                                          cmocka_unit_test(optimiser),
                                          cmocka_unit_test(rope_of_a_part),
                                          cmocka_unit_test(recurrent)};

TEST_GROUP(trial, "gpu swiftshader", tests, .setup = seed, .teardown = test_backends_close);
