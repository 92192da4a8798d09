/* What ops are launched with on a made-up device: rows of a group, caches in blocks, the kernels of products. No device
 * is asked. */
#include <stddef.h>

#include "quant/encoding.h"
#include "support/recurrent_case.h"
#include "support/test.h"

#include "backend/cuda/cuda_internal.h"
#include "backend/open.h"

enum { TOKENS = 40, ROWS = 300, COLS = 256, GROUPS = 3, GROUP = 2, HEADS = 4 };

static tern_rng rng = {.state = 1};

/* Where values would lie on a device; nothing is read or written there. */
static _Alignas(16) uint8_t memory[TEST_CASE_MAX_VALUES][64], param_memory[1 << 16];

typedef struct rig {
    test_case c;
    tern_buffer buffers[TEST_CASE_MAX_VALUES], params;
    tern_binding bindings[TEST_CASE_MAX_VALUES];
    tern_cuda_launch launch;
    tern_cuda cuda;
} rig;

static void open(rig *r, const test_case_shape *shape)
{
    *r = (rig){.cuda = {.base.info.name = "cuda",
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .device = {.name = "a GPU", .driver = "CUDA 13.0"},
                        .limits = {.capability = 90, .multiprocessors = 132, .shared_bytes = 200 << 10}}};
    test_case_open(&r->c, &rng, shape);
}

static void lower(rig *r, const tern_op *op)
{
    tern_error err = {0};
    r->params = (tern_buffer){.data = param_memory};
    for (uint32_t i = 0; i < r->c.graph.n_values; i++) {
        const tern_value *v = &r->c.graph.values[i];
        r->buffers[i] = (tern_buffer){.data = memory[i]};
        if (v->weight) assert_ok(tern_cuda__layout(&r->buffers[i].layout, v->weight, &err), err);
        r->bindings[i] = (tern_binding){.buffer = &r->buffers[i]};
        if (v->kind != TERN_VALUE_PARAM) continue;
        assert_true(v->offset < sizeof param_memory);
        r->bindings[i] = (tern_binding){.buffer = &r->params, .offset = v->offset};
    }
    const tern_prepared p = {
        .cuda = &r->cuda, .device = &r->cuda.limits, .graph = &r->c.graph, .bindings = r->bindings};
    assert_ok(tern_cuda__supports(&r->cuda.base, &r->c.graph, op, &err), err);
    r->launch = (tern_cuda_launch){.op = op};
    tern_cuda__ops[op->kind].lower(&p, op, &r->launch);
    assert_true(r->launch.run != NULL);
}

static tern_op linear_op(rig *r, const char *encoding, uint32_t rows, uint32_t cols)
{
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1};
    op.in[TERN_LINEAR_X] = test_case_rows(&r->c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    op.in[TERN_LINEAR_W] = test_case_weight(&r->c, encoding, rows, cols);
    op.out = test_case_output(&r->c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, rows);
    return op;
}

/* Two words of its entry of GROUPS: how many rows it has now, and the first of them. */
static void rows_of_a_group(void **state)
{
    (void)state;
    rig r;
    open(&r, &(test_case_shape){.max_tokens = TOKENS, .n_groups = GROUPS});
    tern_op op = linear_op(&r, "f16", ROWS, COLS);
    const uint8_t *entry = param_memory + r.c.graph.values[r.c.graph.params[TERN_PARAM_GROUPS]].offset +
                           (GROUP - 1) * sizeof(tern_row_group);
    lower(&r, &op);
    assert_null(r.launch.params.linear.count.first);
    op.group = GROUP;
    lower(&r, &op);
    assert_ptr_equal(r.launch.params.linear.count.n, entry + offsetof(tern_row_group, n_tokens));
    assert_ptr_equal(r.launch.params.linear.count.first, entry + offsetof(tern_row_group, first_token));
    assert_int_equal(r.launch.params.linear.count.most, TOKENS);
    op = (tern_op){.kind = TERN_OP_SCALE, .group = GROUP, .rows = TERN_ROWS_OUTPUTS, .n_in = 1, .scale = 2};
    op.in[TERN_SCALE_X] = op.out = test_case_rows(&r.c, "z", TERN_ROWS_OUTPUTS, COLS, TEST_ORDINARY);
    lower(&r, &op);
    assert_ptr_equal(r.launch.params.elements.count.n, entry + offsetof(tern_row_group, n_outputs));
    assert_ptr_equal(r.launch.params.elements.count.first, entry + offsetof(tern_row_group, first_output));
    test_case_close(&r.c);
}

static tern_op attention_op(rig *r, tern_dtype k, tern_dtype v, uint32_t head_dim)
{
    tern_op op = {.kind = TERN_OP_ATTENTION, .n_in = 4, .n_heads = HEADS, .n_kv_heads = HEADS, .head_dim = head_dim};
    op.in[TERN_ATTENTION_Q] = test_case_rows(&r->c, "q", TERN_ROWS_TOKENS, HEADS * head_dim, TEST_ORDINARY);
    op.in[TERN_ATTENTION_K_CACHE] = test_case_cache(&r->c, "k", k, 1, HEADS, head_dim);
    op.in[TERN_ATTENTION_V_CACHE] = test_case_cache(&r->c, "v", v, 1, HEADS, head_dim);
    op.in[TERN_ATTENTION_PAGES] = test_case_param_view(&r->c, TERN_PARAM_PAGES);
    op.out = test_case_output(&r->c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, HEADS * head_dim);
    return op;
}

static void caches_in_blocks(void **state)
{
    (void)state;
    tern_error err = {0};
    rig r;
    open(&r, &(test_case_shape){.max_tokens = TOKENS});
    tern_op op = attention_op(&r, TERN_DTYPE_Q8_0, TERN_DTYPE_Q4_0, 128);
    lower(&r, &op);
    assert_int_equal(r.launch.params.attention.k_cache.bits, 8);
    assert_int_equal(r.launch.params.attention.v_cache.bits, 4);
    assert_false(r.launch.params.attention.k_cache.f32);
    op = attention_op(&r, TERN_DTYPE_F16, TERN_DTYPE_F16, 128);
    lower(&r, &op);
    assert_int_equal(r.launch.params.attention.k_cache.bits, 0);
    op = attention_op(&r, TERN_DTYPE_Q8_0, TERN_DTYPE_F16, 128);
    assert_int_equal(tern_cuda__supports(&r.cuda.base, &r.c.graph, &op, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message,
                        "cuda: attention: keys in q8_0 and values in f16: both with blocks, or none, expected");
    op = attention_op(&r, TERN_DTYPE_Q4_0, TERN_DTYPE_Q4_0, 96);
    assert_int_equal(tern_cuda__supports(&r.cuda.base, &r.c.graph, &op, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "cuda: attention: keys in q4_0: heads of 96: a multiple of 64 expected");
    test_case_close(&r.c);
}

static uint32_t kernel_with(rig *r, const tern_op *op, const tern_kernel_choice *choice)
{
    tern_error err = {0};
    assert_ok(tern_cuda_choose(&r->cuda.base, choice, choice ? 1 : 0, &err), err);
    lower(r, op);
    return r->launch.params.linear.kernel - 1;
}

/* The form of the gated delta rule goes by the rows of a step, its sequences and the keys of a head. */
static void forms_of_the_delta_rule(void **state)
{
    (void)state;
    static const struct {
        uint32_t runs, rows, keys, chunked;
        const char *kernel;
    } forms[] = {{1, 1, 128, UINT32_MAX, "delta_rows"},
                 {1, 30, 128, UINT32_MAX, "delta_rows"},
                 {1, 200, 128, 0, "delta_chunks"},
                 {2, 200, 64, 16, "delta_mixed"},
                 {1, 200, 129, UINT32_MAX, "delta_rows"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        rig r;
        test_recurrent_case of;
        open(&r, &(test_case_shape){.max_tokens = TOKENS});
        test_case_close(&r.c);
        const test_recurrent_shape shape = {.n_runs = forms[i].runs,
                                            .lengths = {forms[i].rows, 1},
                                            .heads = 4,
                                            .key_heads = 2,
                                            .keys = forms[i].keys,
                                            .values = 64};
        test_delta_case(&of, &rng, &shape);
        r.c = of.c;
        lower(&r, r.c.graph.ops);
        const tern_cuda_delta *d = &r.launch.params.delta;
        const size_t scratch = tern_cuda__recurrent_scratch(&r.c.graph, r.c.graph.ops);
        assert_string_equal(r.launch.kernel, forms[i].kernel);
        assert_int_equal(d->chunked, forms[i].chunked);
        assert_int_equal(d->k.data - d->q.data, 2 * forms[i].keys);
        assert_int_equal(d->v.data - d->k.data, 2 * forms[i].keys);
        assert_int_equal(d->state_stride, 4 * 64 * forms[i].keys);
        if (d->chunked == UINT32_MAX) assert_int_equal(scratch, 0);
        else assert_int_equal(scratch, r.c.graph.max_tokens * 4 * (tern_cuda_chunk_keys(d->keys) + 64 + 64) * 4);
        test_case_close(&r.c);
    }
}

static void refuses(test_case *c, const char *why)
{
    tern_error err = {0};
    const tern_cuda cuda = {.limits = {.capability = 90}};
    assert_int_equal(tern_cuda__supports((tern_backend *)(uintptr_t)&cuda.base, &c->graph, c->graph.ops, &err),
                     TERN_UNSUPPORTED);
    assert_string_equal(err.message, why);
    test_case_close(c);
}

static void shapes_of_layers_that_recur(void **state)
{
    (void)state;
    test_recurrent_case r;
    test_recurrent_shape shape = {
        .n_runs = 1, .lengths = {3}, .channels = 20, .taps = 9, .heads = 2, .key_heads = 1, .keys = 257, .values = 64};
    test_conv_case(&r, &rng, &shape);
    refuses(&r.c, "cuda: op conv of 9 taps: 1 to 8 expected");
    test_delta_case(&r, &rng, &shape);
    refuses(&r.c, "cuda: op gated_delta of 2 heads of 64 values, 1 heads of 257 keys: a multiple of 4 values up to "
                  "512, up to 256 keys, and a multiple of heads of keys expected");
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){0});
    const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 16384, TEST_ORDINARY);
    test_case_add(&c, (tern_op){.kind = TERN_OP_HADAMARD,
                                .n_in = TERN_HADAMARD_INPUTS,
                                .in = {x, test_case_norm_weight(&c, 16384)},
                                .block = 16384,
                                .out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 16384)});
    refuses(&c, "cuda: op hadamard of 16384 columns in blocks of 16384: a power of two up to 8192 that divides them "
                "expected");
}

/* What was measured on this device for a product of this width is taken, where the kernel can have it. */
static void measured_kernels(void **state)
{
    (void)state;
    rig r;
    open(&r, &(test_case_shape){.max_tokens = TOKENS});
    const tern_op op = linear_op(&r, "f16", ROWS, COLS);
    assert_int_equal(kernel_with(&r, &op, NULL), TERN_CUDA_PRODUCT_DENSE_MMA);
    assert_string_equal(r.launch.kernel, "dense_mma");
    tern_kernel_choice c = r.launch.product; /* of 33 to 64 tokens */
    assert_true(c.rows == ROWS && c.cols == COLS && c.tokens == 64 && strcmp(c.encoding->name, "f16") == 0);
    tern_cuda_key(&r.cuda.base, c.device);
    assert_string_equal(c.device, "a GPU, CUDA 13.0");
    strcpy(c.kernel, "dense_vec");
    assert_int_equal(kernel_with(&r, &op, &c), TERN_CUDA_PRODUCT_DENSE_VEC);
    strcpy(c.kernel, "ternary_vec");
    assert_int_equal(kernel_with(&r, &op, &c), TERN_CUDA_PRODUCT_DENSE_MMA);
    strcpy(c.kernel, "dense_vec");
    c.tokens = 8;
    assert_int_equal(kernel_with(&r, &op, &c), TERN_CUDA_PRODUCT_DENSE_MMA);
    c.tokens = 64;
    strcpy(c.device, "another, CUDA 13.0");
    assert_int_equal(kernel_with(&r, &op, &c), TERN_CUDA_PRODUCT_DENSE_MMA);
    kernel_with(&r, &op, NULL);
    test_case_close(&r.c);
}

static void check_alternatives(uint32_t capability, const char *of, const char *const *wanted, size_t n)
{
    const tern_cuda cuda = {.limits = {.capability = capability}};
    char name[TERN_KERNEL_NAME_BYTES];
    for (size_t i = 0; i < n; i++) {
        assert_true(tern_cuda_alternative(&cuda.base, of, i, name));
        assert_string_equal(name, wanted[i]);
    }
    assert_false(tern_cuda_alternative(&cuda.base, of, n, name));
}

static void kernels_in_each_others_place(void **state)
{
    (void)state;
    static const char *const ternary[] = {"ternary_vec", "ternary_mma", "ternary_wgmma"};
    static const char *const dense[] = {"dense_vec", "dense_mma"};
    check_alternatives(90, "ternary_mma", ternary, 3);
    check_alternatives(89, "ternary_vec", ternary, 2);
    check_alternatives(89, "dense_mma", dense, 2);
    check_alternatives(90, "attention", NULL, 0);
    tern_error err = {0}; /* the file of choices knows them */
    for (size_t i = 0; i < 3; i++) assert_ok(tern_backend_kernel_check(ternary[i], true, &err), err);
    assert_int_equal(tern_backend_kernel_check("ternary_vex", true, &err), TERN_INVALID_ARGUMENT);
}

/* A norm of whole rows right before a product in 16 bits writes that one's rows. */
static void norms_that_round(void **state)
{
    (void)state;
    enum { PLAIN, OTHER_ROWS, OF_GROUPS, WITH_A_SUM, F32, CASES };
    for (int i = 0; i < CASES; i++) {
        rig r;
        open(&r, &(test_case_shape){.max_tokens = TOKENS});
        tern_op linear = linear_op(&r, "f16", ROWS, COLS);
        const tern_view x = test_case_rows(&r.c, "before", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
        tern_op norm = {.kind = TERN_OP_RMS_NORM, .n_in = TERN_NORM_INPUTS, .out = linear.in[TERN_LINEAR_X]};
        norm.in[TERN_NORM_X] = x;
        norm.in[TERN_NORM_WEIGHT] = test_case_norm_weight(&r.c, i == OF_GROUPS ? COLS / 2 : COLS);
        if (i == OTHER_ROWS) norm.out = x;
        if (i == WITH_A_SUM) norm.residual = x;
        if (i != F32) linear.halves = TERN_HALVES_F16;
        lower(&r, &norm);
        const tern_cuda_launch alone = r.launch;
        tern_cuda_launch before = alone;
        lower(&r, &linear);
        tern_cuda__join_norm(&before, &r.launch);
        assert_int_equal(r.launch.params.linear.is_rounded, i == PLAIN);
        assert_int_equal(before.run != alone.run, i == PLAIN);
        if (i == PLAIN)
            assert_ptr_equal(before.params.rounded_norm.rounded.scales, r.launch.params.linear.rounded.scales);
        test_case_close(&r.c);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_of_a_group),
    cmocka_unit_test(caches_in_blocks),
    cmocka_unit_test(norms_that_round),
    cmocka_unit_test(forms_of_the_delta_rule),
    cmocka_unit_test(shapes_of_layers_that_recur),
    cmocka_unit_test(measured_kernels),
    cmocka_unit_test(kernels_in_each_others_place),
};

TEST_GROUP(cuda_lowering, "", tests);
