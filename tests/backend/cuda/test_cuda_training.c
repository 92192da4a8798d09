/* How ops of training are lowered, on a made-up device. What the kernels compute, the groups training_rows, gradient,
 * varlen_attention and update check on a real one (scripts/gpu-check.sh). No device is asked. */
#include "support/test.h"
#include "support/training_case.h"

#include "backend/cuda/cuda_internal.h"

enum { TOKENS = 64, COLS = 128 };

static tern_rng rng = {.state = 1};
static tern_cuda device = {.limits = {.capability = 90, .multiprocessors = 132, .shared_bytes = 200 << 10}};
static uint8_t memory[TEST_CASE_MAX_VALUES][1 << 10]; /* nothing is read or written there */

typedef struct rig {
    test_case c;
    tern_buffer buffers[TEST_CASE_MAX_VALUES];
    tern_binding bindings[TEST_CASE_MAX_VALUES];
    tern_prepared prepared;
    tern_cuda_launch launch;
    float scratch;
} rig;

static void lower(rig *r, const tern_op *op)
{
    tern_error err = {0};
    for (uint32_t i = 0; i < r->c.graph.n_values; i++) {
        const tern_weight *w = r->c.graph.values[i].weight;
        r->buffers[i] = (tern_buffer){.data = memory[i]};
        if (w) assert_ok(tern_cuda__layout(&r->buffers[i].layout, w, &err), err);
        r->bindings[i] = (tern_binding){.buffer = &r->buffers[i]};
    }
    r->prepared = (tern_prepared){.graph = &r->c.graph, .bindings = r->bindings, .scratch = &r->scratch};
    r->launch = (tern_cuda_launch){0};
    assert_ok(tern_cuda__supports(&device.base, &r->c.graph, op, &err), err);
    tern_cuda__ops[op->kind].lower(&r->prepared, op, &r->launch);
    assert_non_null(r->launch.run);
}

static void open_case(rig *r)
{
    *r = (rig){.c = {.rng = &rng}};
    test_case_open(&r->c, &rng, &(test_case_shape){.max_tokens = TOKENS, .training = true});
}

/* Ops by rows: where their results go, and how many rows there may be. */
static void rows(void **state)
{
    (void)state;
    const tern_op_kind kinds[] = {TERN_OP_SOFTCAP_BACKWARD, TERN_OP_DROPOUT, TERN_OP_FAKE_QUANTIZE,
                                  TERN_OP_GATE_BACKWARD, TERN_OP_CROSS_ENTROPY};
    rig r;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        open_case(&r);
        const tern_op op = test_training_add(&r.c, &(test_training){.kind = kinds[i], .cols = COLS});
        lower(&r, &op);
        assert_int_equal(r.launch.params.train_rows.count.most, TOKENS);
        assert_int_equal(r.launch.params.train_rows.cols, COLS);
        assert_ptr_equal(r.launch.params.train_rows.out.data, memory[op.out.value]);
        test_case_close(&r.c);
    }
}

/* A norm whose weight is frozen has no parts of its gradient. */
static void norms(void **state)
{
    (void)state;
    rig r;
    for (int frozen = 0; frozen < 2; frozen++) {
        open_case(&r);
        const tern_op op = test_training_add(
            &r.c,
            &(test_training){.kind = TERN_OP_RMS_NORM_BACKWARD, .cols = COLS, .n_groups = 3, .no_dg = frozen == 1});
        lower(&r, &op);
        assert_int_equal(r.launch.params.norm_backward.group, COLS);
        assert_int_equal(r.launch.params.norm_backward.cols, 3 * COLS);
        assert_int_equal(r.launch.params.norm_backward.parts == NULL, frozen);
        assert_int_equal(r.launch.params.norm_backward.dweight == NULL, frozen);
        assert_int_equal(tern_cuda__training_scratch(&r.c.graph, &op), frozen ? 0 : TOKENS * 3 * COLS * sizeof(float));
        test_case_close(&r.c);
    }
}

static void rope_turns_back(void **state)
{
    (void)state;
    rig r;
    open_case(&r);
    tern_op op = test_training_add(&r.c, &(test_training){.kind = TERN_OP_ROPE_BACKWARD, .cols = COLS});
    lower(&r, &op);
    assert_true(r.launch.params.rope.back && r.launch.params.rope.turns);
    test_case_close(&r.c);
}

/* Planes of a large table are made in parts; sums that blocks share have room of their own. */
static void scratch_of_products(void **state)
{
    (void)state;
    const size_t least = tern_cuda_dx_bytes(256, 32, 2560);
    assert_true(least > (64 << 20) && least < (66 << 20));
    assert_true(tern_cuda_dx_bytes(2048, 6912, 2560) >= 4ull * 6912 * 2560);
    assert_true(tern_cuda_dx_bytes(2048, 128256, 2560) < (240 << 20));
    assert_true(tern_cuda_dw_bytes(2048, 128256, 2560) < (240 << 20));
    assert_true(tern_cuda_dw_bytes(2048, 1024, 1024) >= 4ull * 2048 * (1024 + 1024));
}

static void refused(void **state)
{
    (void)state;
    rig r;
    tern_error err = {0};
    open_case(&r);
    tern_op op = {.kind = TERN_OP_VARLEN_ATTENTION, .n_heads = 2, .n_kv_heads = 1, .head_dim = 320};
    assert_int_equal(tern_cuda__supports(&device.base, &r.c.graph, &op, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "head dimension 320: at most 256 expected"));
    test_case_close(&r.c);
}

static tern_op routed_dx(rig *r)
{
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .n_in = 2, .n_experts = 4};
    op.in[TERN_LINEAR_DX_DY] = test_case_rows(&r->c, "dy", TERN_ROWS_ROUTED, 32, TEST_ORDINARY);
    op.in[TERN_LINEAR_DX_W] = test_case_weight(&r->c, "f32", 128, COLS);
    op.route = test_case_rows(&r->c, "routes", TERN_ROWS_ROUTED, 2, TEST_ORDINARY);
    op.out = test_case_output(&r->c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
    return op;
}

/* Routed rows of a token are added up: a row for each is kept. */
static void experts(void **state)
{
    (void)state;
    rig r = {.c = {.rng = &rng}};
    tern_error err = {0};
    test_case_open(&r.c, &rng, &(test_case_shape){.max_tokens = TOKENS, .n_routes = 2, .training = true});
    tern_op op = routed_dx(&r);
    lower(&r, &op);
    const tern_cuda_routed *p = &r.launch.params.routed;
    assert_int_equal(p->count.most, 2 * TOKENS);
    assert_int_equal(p->each, 2);
    assert_int_equal(p->n_rows, 32);
    assert_int_equal(p->cols, COLS);
    assert_true(tern_cuda__training_scratch(&r.c.graph, &op) >= 2 * TOKENS * (COLS + 1) * sizeof(float));
    op.n_experts = 3;
    assert_int_equal(tern_cuda__supports(&device.base, &r.c.graph, &op, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "128 rows found, 32 for each of 3 experts expected"));
    test_case_close(&r.c);
}

/* Ops of the optimiser that follow each other are a launch for each kind, those of one tensor in their order. */
static void updates_together(void **state)
{
    (void)state;
    static const tern_op_kind kinds[] = {TERN_OP_UPDATE, TERN_OP_REQUANTIZE,  TERN_OP_UPDATE, TERN_OP_REQUANTIZE,
                                         TERN_OP_ADD,    TERN_OP_SUM_SQUARES, TERN_OP_UPDATE, TERN_OP_UPDATE};
    static const uint64_t sizes[] = {100000, 100000, 16384, 16384, 0, 4097, 4097, 4097};
    static const int tensors[] = {0, 0, 1, 1, 0, 2, 2, 2};
    enum { N = sizeof kinds / sizeof *kinds };
    static float data[3][2];
    tern_op ops[N];
    tern_cuda_launch launches[N];
    tern_cuda_update table[N];
    uint32_t totals[64];
    tern_error err = {0};
    for (int alone = 0; alone < 2; alone++) {
        for (int i = 0; i < N; i++) {
            ops[i] = (tern_op){.kind = kinds[i]};
            launches[i] = (tern_cuda_launch){.op = &ops[i], .n_ops = 1};
            if (kinds[i] == TERN_OP_ADD) continue;
            launches[i].params.update = (tern_cuda_update){
                .n = sizes[i], .w = &data[tensors[i]][0], .g = &data[tensors[i]][1], .rows = 10, .row_bytes = 4096};
            launches[i].params.update.ternary = kinds[i] == TERN_OP_REQUANTIZE && tensors[i] == 0;
        }
        tern_prepared p = {.launches = launches, .n_launches = N, .updates = {.table = table, .totals = totals}};
        assert_ok(tern_cuda__join_updates(&p, alone, &err), err);
        if (alone) {
            assert_int_equal(p.n_launches, N);
            for (int i = 0; i < N; i++) assert_ptr_equal(launches[i].op, &ops[i]);
            continue;
        }
        assert_int_equal(p.n_launches, 6);
        const tern_cuda_updates *steps = &launches[0].params.updates, *codes = &launches[1].params.updates;
        assert_int_equal(launches[0].op->kind, TERN_OP_UPDATE);
        assert_int_equal(launches[0].n_ops, 2);
        assert_ptr_equal(steps->all, table);
        assert_int_equal(steps->n, 2);
        assert_int_equal(steps->blocks, 7 + 1);
        assert_int_equal(launches[1].op->kind, TERN_OP_REQUANTIZE);
        assert_ptr_equal(codes->all, table + 2);
        assert_int_equal(codes->blocks, 7 + 1);
        assert_int_equal(codes->code_blocks, 10 + 4);
        assert_ptr_equal(codes->totals, totals);
        assert_int_equal(launches[2].op->kind, TERN_OP_ADD);
        assert_int_equal(launches[3].op->kind, TERN_OP_SUM_SQUARES);
        assert_int_equal(launches[3].params.updates.blocks, 2);
        assert_ptr_equal(launches[4].op, &ops[6]);
        assert_ptr_equal(launches[5].op, &ops[7]); /* the same tensor again */
        assert_int_equal(launches[5].params.updates.blocks, 3);
        assert_int_equal(launches[5].params.updates.n, 1);
    }
    tern_prepared none = {0};
    assert_ok(tern_cuda__join_updates(&none, false, &err), err);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(rows),
                                          cmocka_unit_test(updates_together),
                                          cmocka_unit_test(norms),
                                          cmocka_unit_test(rope_turns_back),
                                          cmocka_unit_test(scratch_of_products),
                                          cmocka_unit_test(refused),
                                          cmocka_unit_test(experts)};

TEST_GROUP(cuda_training, "", tests);
