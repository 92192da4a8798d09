/* Which ops a walk takes, and the steps that they become, on a made-up device. No device is asked. */
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/test.h"

#include "backend/cuda/cuda_internal.h"

enum { BLOCKS = 132, STEPS = 16, HIDDEN = 512 };

static tern_rng rng = {.state = 1};

static tern_cuda device(uint32_t shared_bytes)
{
    return (tern_cuda){.limits = {.capability = 90, .multiprocessors = BLOCKS, .shared_bytes = shared_bytes}};
}

/* Where values would lie on a device; nothing is read or written there. */
static uint8_t memory[TEST_CASE_MAX_VALUES][4096];

typedef struct rig {
    test_case c;
    tern_cuda cuda;
    tern_buffer buffers[TEST_CASE_MAX_VALUES];
    tern_binding bindings[TEST_CASE_MAX_VALUES];
    tern_cuda_step steps[STEPS];
    tern_prepared prepared;
    tern_cuda_launch launch;
} rig;

static void bind(rig *r)
{
    tern_error err = {0};
    for (uint32_t i = 0; i < r->c.graph.n_values; i++) {
        const tern_weight *w = r->c.graph.values[i].weight;
        r->buffers[i] = (tern_buffer){.data = memory[i]};
        if (w) assert_ok(tern_cuda__layout(&r->buffers[i].layout, w, &err), err);
        r->bindings[i] = (tern_binding){.buffer = &r->buffers[i]};
    }
    r->prepared = (tern_prepared){
        .graph = &r->c.graph, .bindings = r->bindings, .walking = {.steps = r->steps, .on_device = r->steps}};
}

static void walk(rig *r)
{
    r->launch = (tern_cuda_launch){0};
    for (size_t i = 0; i < r->c.graph.n_ops; i++) {
        assert_true(tern_cuda__walks(&r->cuda, &r->c.graph, &r->c.graph.ops[i]));
        tern_cuda__walk_on(&r->cuda, &r->prepared, &r->c.graph.ops[i], &r->launch);
    }
    const tern_cuda_walk *w = &r->launch.params.walk;
    assert_int_equal(w->n_steps, r->prepared.walking.n_steps);
    assert_int_equal(w->blocks, BLOCKS);
    for (uint32_t i = 0; i < w->n_steps; i++) {
        const uint32_t kind = r->steps[i].kind;
        const tern_cuda_walk_linear *l = &r->steps[i].of.linear;
        assert_true(tern_cuda_step_shared(&r->steps[i]) <= w->shared_bytes);
        if (kind == TERN_CUDA_STEP_DENSE || kind == TERN_CUDA_STEP_TERNARY) /* each row has a block */
            assert_true(l->each * BLOCKS >= l->rows && (l->each - 1) * BLOCKS < l->rows);
    }
    assert_true(w->granules * TERN_CUDA_WALK_GRANULE + w->shared_bytes <= r->cuda.limits.shared_bytes);
}

static tern_op linear(tern_view x, uint32_t n_parts, const tern_view *w, tern_view out)
{
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 1 + n_parts, .n_parts = n_parts, .in = {x}, .out = out};
    memcpy(op.in + TERN_LINEAR_W, w, n_parts * sizeof *w);
    return op;
}

/* Parts of unlike formats are steps of their own, which do not wait for each other. */
static void unlike_parts(void **state)
{
    (void)state;
    rig r = {.cuda = device(200 << 10)};
    test_case *c = &r.c;
    test_case_open(c, &rng, &(test_case_shape){0});
    const tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, HIDDEN, TEST_ORDINARY);
    const tern_view out = test_case_output(c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 300 + 100 + 40);
    const tern_view w[3] = {test_case_weight(c, "q4_k", 300, HIDDEN), test_case_weight(c, "q4_k", 100, HIDDEN),
                            test_case_weight(c, "q6_k", 40, HIDDEN)};
    tern_op op = linear(x, 3, w, out);
    op.norm_weight = test_case_norm_weight(c, HIDDEN);
    op.norm_f32 = true;
    op.eps = 0.5f;
    test_case_add(c, op);
    bind(&r);
    walk(&r);
    assert_int_equal(r.launch.params.walk.n_steps, 2);
    assert_int_equal(r.launch.params.walk.format, TERN_CUDA_WALK_ANY);
    const tern_cuda_walk_linear *a = &r.steps[0].of.linear, *b = &r.steps[1].of.linear;
    assert_false(r.steps[0].goes_on);
    assert_true(r.steps[1].goes_on);
    assert_int_equal(a->rows, 400);
    assert_int_equal(b->rows, 40);
    assert_int_equal(a->product.n_parts, 2);
    assert_int_equal(b->product.n_parts, 1);
    assert_ptr_equal(a->product.out, r.buffers[out.value].data);
    assert_ptr_equal(b->product.out, a->product.out + a->rows);
    assert_ptr_equal(b->product.parts[0].w, r.buffers[w[2].value].data);
    assert_ptr_equal(b->norm, r.buffers[op.norm_weight.value].data);
    assert_true(b->eps == 0.5f);
    test_case_close(c);
}

/* A norm makes int8 of x for ternary weights; ADD reads what two steps wrote, and waits. */
static void ternary(void **state)
{
    (void)state;
    rig r = {.cuda = device(200 << 10)};
    test_case *c = &r.c;
    test_case_open(c, &rng, &(test_case_shape){0});
    const tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, HIDDEN, TEST_ORDINARY);
    const tern_view y = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 128);
    const tern_view z = test_case_output(c, "z", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 128);
    const tern_view w[2] = {test_case_weight(c, "i2_s", 128, HIDDEN), test_case_weight(c, "i2_s", 128, HIDDEN)};
    tern_op op = linear(x, 2, w, y);
    op.gated = true;
    op.activation = TERN_ACT_RELU2;
    op.norm_weight = test_case_norm_weight(c, HIDDEN);
    test_case_add(c, op);
    test_case_add(c, (tern_op){.kind = TERN_OP_ADD, .n_in = 2, .in = {y, y}, .out = z});
    bind(&r);
    walk(&r);
    assert_int_equal(r.launch.params.walk.n_steps, 2);
    assert_int_equal(r.steps[0].kind, TERN_CUDA_STEP_TERNARY);
    assert_true(r.launch.params.walk.granules >= TERN_CUDA_WALK_LEAST_GRANULES);
    assert_int_equal(r.steps[0].of.linear.rows, 128); /* of out, not of both parts */
    assert_int_equal(r.steps[1].kind, TERN_CUDA_STEP_ADD);
    assert_false(r.steps[1].goes_on);
    test_case_close(c);
}

/* What no walk takes: experts, screened heads, rows that no block's memory holds, graphs of many tokens. */
static void refused(void **state)
{
    (void)state;
    test_case c;
    const tern_cuda cuda = device(200 << 10), small = device(5 << 10);
    test_case_open(&c, &rng, &(test_case_shape){0});
    const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, HIDDEN, TEST_ORDINARY);
    const tern_view out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 64);
    const tern_view w = test_case_weight(&c, "q8_0", 64, HIDDEN);
    const tern_op op = linear(x, 1, &w, out);
    tern_op other = op;
    test_case_add(&c, op);
    assert_true(tern_cuda__walks(&cuda, &c.graph, &op));
    assert_false(tern_cuda__walks(&small, &c.graph, &op));
    other.screened = true;
    assert_false(tern_cuda__walks(&cuda, &c.graph, &other));
    other = op;
    other.rows = TERN_ROWS_ROUTED;
    assert_false(tern_cuda__walks(&cuda, &c.graph, &other));
    other = op;
    other.norm_weight = test_case_norm_weight(&c, HIDDEN); /* which makes int8, and weights are dense */
    assert_false(tern_cuda__walks(&cuda, &c.graph, &other));
    other.norm_f32 = true;
    assert_true(tern_cuda__walks(&cuda, &c.graph, &other));
    tern_op attention = {.kind = TERN_OP_ROPE_ATTENTION, .n_heads = 8, .n_kv_heads = 2, .head_dim = 256};
    attention.in[TERN_ROPE_KV_K_CACHE] = test_case_cache(&c, "k", TERN_DTYPE_F32, 1, 2, 256);
    assert_true(tern_cuda__walks(&cuda, &c.graph, &attention));
    assert_false(tern_cuda__walks(&small, &c.graph, &attention));
    static const uint32_t dims[] = {512, 100};
    for (int i = 0; i < 2; i++) {
        attention.head_dim = dims[i];
        assert_false(tern_cuda__walks(&cuda, &c.graph, &attention));
    }
    attention.head_dim = 64;
    assert_true(tern_cuda__walks(&cuda, &c.graph, &attention));
    attention.n_heads = attention.n_kv_heads = BLOCKS + 1; /* each has a block */
    assert_false(tern_cuda__walks(&cuda, &c.graph, &attention));
    attention.n_heads = attention.n_kv_heads = 2;
    c.graph.values[attention.in[TERN_ROPE_KV_K_CACHE].value].dtype = TERN_DTYPE_Q8_0;
    assert_false(tern_cuda__walks(&cuda, &c.graph, &attention));
    c.graph.max_tokens = 2;
    assert_false(tern_cuda__walks(&cuda, &c.graph, &op));
    c.graph.max_tokens = 1;
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(unlike_parts),
    cmocka_unit_test(ternary),
    cmocka_unit_test(refused),
};

TEST_GROUP(walk, "", tests);
