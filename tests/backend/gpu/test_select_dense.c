/* The choice of pipelines for dense weights, on made-up devices. */
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/linear/select.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/test.h"

static const uint64_t mib = 1u << 20;

static tern_gpu_caps device(uint32_t subgroup, uint32_t workgroup_bytes, uint32_t invocations)
{
    return (tern_gpu_caps){.subgroup_min = subgroup,
                           .subgroup_max = subgroup,
                           .workgroup_bytes = workgroup_bytes,
                           .workgroup_invocations = invocations,
                           .max_groups = 65535,
                           .max_binding = 128 * mib,
                           .binding_alignment = 256};
}

static void expect(const tern_gpu_caps *caps, tern_gpu_format format, uint32_t rows, uint32_t cols, uint32_t tokens,
                   const char *name)
{
    tern_gpu_pipeline pipeline = tern_gpu_select_dense(caps, &(tern_gpu_dense_shape){format, rows, cols, tokens});
    assert_true(pipeline < TERN_GPU_PIPELINE_COUNT);
    assert_string_equal(tern_gpu_pipelines[pipeline].name, name);
}

static void by_subgroup(void **state)
{
    (void)state;
    static const struct {
        uint32_t subgroup;
        const char *head, *layer, *few;
    } cases[] = {
        {0, "F16_VEC1", "F16_VEC1", "F16_VEC4"},
        {4, "F16_VEC1", "F16_VEC1", "F16_VEC4"},
        {8, "F16_VEC1_8X4_S8", "F16_VEC1_8X4_S8", "F16_VEC4_8X4_S8"},
        {16, "F16_VEC1_8X4_S8", "F16_VEC1_8X4_S8", "F16_VEC4_8X4_S8"},
        {32, "F16_VEC1_32X4_S32", "F16_VEC1_32X1_S32", "F16_VEC4_32X4_S32"},
        {64, "F16_VEC1_32X4_S32", "F16_VEC1_32X1_S32", "F16_VEC4_32X4_S32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_gpu_caps caps = device(cases[i].subgroup, 32768, 256);
        expect(&caps, TERN_GPU_F16, 128256, 2560, 1, cases[i].head);
        expect(&caps, TERN_GPU_F16, 2560, 2560, 1, cases[i].layer);
        expect(&caps, TERN_GPU_F16, 128256, 2560, 2, cases[i].few);
        expect(&caps, TERN_GPU_F16, 128256, 2560, 8, cases[i].few);
    }
}

/* Tiles: the larger needs more than 16 KiB of workgroup memory and 256 invocations, and more than 64 tokens to pay. */
static void by_workgroup(void **state)
{
    (void)state;
    static const uint32_t bytes[] = {16384, 32768, 49152}, invocations[] = {128, 256, 1024};
    for (uint32_t b = 0; b < 3; b++)
        for (uint32_t i = 0; i < 3; i++) {
            tern_gpu_caps caps = device(32, bytes[b], invocations[i]);
            bool large = b > 0 && i > 0;
            expect(&caps, TERN_GPU_Q8_0, 2560, 2560, 512, large ? "Q8_0_MAT_128X128" : "Q8_0_MAT_128X64");
            expect(&caps, TERN_GPU_Q8_0, 2560, 2560, 65, large ? "Q8_0_MAT_128X128" : "Q8_0_MAT_128X64");
            expect(&caps, TERN_GPU_Q8_0, 2560, 2560, 64, "Q8_0_MAT_128X64");
            expect(&caps, TERN_GPU_Q8_0, 2560, 2560, 9, "Q8_0_MAT_128X64");
        }
}

/* Lanes that would idle: 40 units of q6_k are no work for 32 lanes twice. */
static void by_units(void **state)
{
    (void)state;
    tern_gpu_caps caps = device(32, 49152, 1024);
    expect(&caps, TERN_GPU_Q6_K, 128256, 2560, 1, "Q6_K_VEC1_8X4_S8");
    expect(&caps, TERN_GPU_Q6_K, 128256, 4096, 1, "Q6_K_VEC1_32X4_S32");
    expect(&caps, TERN_GPU_Q4_K, 128256, 2560, 1, "Q4_K_VEC1_32X4_S32");
    expect(&caps, TERN_GPU_Q4_K, 128256, 512, 4, "Q4_K_VEC4_8X4_S8");
    expect(&caps, TERN_GPU_Q5_K, 128256, 2560, 1, "Q5_K_VEC1_32X4_S32");
    expect(&caps, TERN_GPU_Q8_0, 128256, 2560, 4, "Q8_0_VEC4_32X4_S32");
}

/* With its norm: not where most of 32 lanes would idle in a second turn; with fewer lanes always. */
static void joined(void **state)
{
    (void)state;
    static const struct {
        tern_gpu_format format;
        uint32_t cols, subgroup;
        bool gated;
        const char *name; /* NULL: apart */
    } cases[] = {{TERN_GPU_Q5_0, 1152, 32, false, NULL},
                 {TERN_GPU_Q5_0, 1152, 32, true, NULL},
                 {TERN_GPU_Q5_0, 1152, 16, true, "Q5_0_GATE_8X2_S8"},
                 {TERN_GPU_Q5_0, 1152, 4, false, "Q5_0_JOIN"},
                 {TERN_GPU_Q5_0, 1024, 32, false, "Q5_0_JOIN_32X2_S32"},
                 {TERN_GPU_Q8_0, 1152, 64, true, "Q8_0_GATE_32X2_S32"},
                 {TERN_GPU_Q6_K, 2048, 32, false, "Q6_K_JOIN_32X2_S32"},
                 {TERN_GPU_Q6_K, 1024, 32, false, "Q6_K_JOIN_8X4_S8"},
                 {TERN_GPU_Q1_0, 4096, 32, true, "Q1_0_GATE_32X2_S32"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tern_gpu_caps caps = device(cases[i].subgroup, 49152, 1024);
        const tern_gpu_dense_shape shape = {cases[i].format, 2048, cases[i].cols, 1};
        const tern_gpu_pipeline p = tern_gpu_select_dense_join(&caps, &shape, cases[i].gated);
        assert_int_equal(p == TERN_GPU_PIPELINE_COUNT, !cases[i].name);
        if (cases[i].name) assert_string_equal(tern_gpu_pipelines[p].name, cases[i].name);
    }
}

static uint32_t format_of(tern_gpu_pipeline pipeline)
{
    return tern_gpu_kernel_of(pipeline) == TERN_GPU_KERNEL_LINEAR_DENSE_MAT
               ? tern_gpu_linear_dense_mat_overrides_of(pipeline)->format
               : tern_gpu_linear_float_vec_overrides_of(pipeline)->format;
}

/* Every format, device and number of tokens has a pipeline, of its format, that fits. */
static void always_one(void **state)
{
    (void)state;
    static const uint32_t subgroups[] = {0, 4, 8, 16, 32, 64, 128}, invocations[] = {128, 256, 1024},
                          tokens[] = {1, 2, 8, 9, 64, 65, 4096};
    static const char *const prefixes[] = {
        "",
#define FORMAT(name, number, vec, unit, coop, join) #name "_",
#include "backend/gpu/formats.def"
#undef FORMAT
    };
    for (uint32_t s = 0; s < 7; s++)
        for (uint32_t i = 0; i < 3; i++)
            for (uint32_t t = 0; t < 7; t++)
                for (tern_gpu_format f = TERN_GPU_F32; f < TERN_GPU_FORMAT_COUNT; f++) {
                    tern_gpu_caps caps = device(subgroups[s], 16384, invocations[i]);
                    tern_gpu_pipeline p = tern_gpu_select_dense(&caps, &(tern_gpu_dense_shape){f, 100, 256, tokens[t]});
                    assert_true(p < TERN_GPU_PIPELINE_COUNT && tern_gpu_pipeline_fits(p, &caps));
                    assert_int_equal(strncmp(tern_gpu_pipelines[p].name, prefixes[f], strlen(prefixes[f])), 0);
                    assert_int_equal(format_of(p), f);
                    if (tokens[t] == 1) assert_int_equal(tern_gpu_linear_float_vec_overrides_of(p)->tokens, 1);
                }
}

/* What a kernel for few tokens is told. */
static tern_gpu_linear_float_vec_uniform uniform_of(const tern_gpu_dispatch *d)
{
    tern_gpu_linear_float_vec_uniform u;
    memcpy(&u, d->uniform, sizeof u);
    return u;
}

/* A graph of one linear op; rows of x lie in `x_cols` columns. */
typedef struct one_op {
    tern_graph graph;
    tern_value values[6];
    tern_weight weights[2];
    tern_op op;
} one_op;

static void make(one_op *g, tern_encoding_id id, uint32_t rows, uint32_t cols, uint32_t max_tokens)
{
    *g = (one_op){0};
    for (int i = 0; i < 2; i++)
        g->weights[i] = (tern_weight){.encoding = tern_encoding_find(id), .rows = rows, .cols = cols};
    g->values[0] = (tern_value){.kind = TERN_VALUE_PARAM, .bytes = 12, .offset = 512};
    g->values[1] = (tern_value){.kind = TERN_VALUE_ACTIVATION, .cols = cols, .bytes = (uint64_t)max_tokens * cols * 4};
    g->values[2] = (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = &g->weights[0], .cols = cols};
    g->values[3] = (tern_value){.kind = TERN_VALUE_OUTPUT, .cols = rows, .bytes = (uint64_t)max_tokens * rows * 4};
    g->values[4] = (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = &g->weights[1], .cols = cols};
    g->values[5] = (tern_value){
        .kind = TERN_VALUE_ACTIVATION, .cols = rows, .bytes = (uint64_t)max_tokens * rows * 4, .offset = 1 << 20};
    g->op = (tern_op){.kind = TERN_OP_LINEAR,
                      .rows = TERN_ROWS_OUTPUTS,
                      .n_in = 2,
                      .n_parts = 1,
                      .in = {{1, 0, cols}, {2, 0, cols}},
                      .out = {3, 0, rows},
                      .residual = {.value = TERN_NO_VALUE},
                      .norm_weight = {.value = TERN_NO_VALUE}};
    g->graph = (tern_graph){.ops = &g->op,
                            .n_ops = 1,
                            .values = g->values,
                            .n_values = 6,
                            .max_tokens = max_tokens,
                            .max_outputs = max_tokens,
                            .param_bytes = 1024};
}

static tern_gpu_program lower(one_op *g, const tern_gpu_caps *caps)
{
    tern_gpu_program program;
    tern_error err = {0};
    assert_ok(tern_gpu_lower(&program, &g->graph, caps, &err), err);
    return program;
}

/* The head of the 2B4T model: one dispatch for each slice, which together write every column once. */
static void head_in_slices(void **state)
{
    (void)state;
    one_op g;
    make(&g, TERN_ENC_F16, 128256, 2560, 1);
    tern_gpu_caps caps = device(32, 16384, 128);
    tern_gpu_program p = lower(&g, &caps);
    assert_int_equal(p.n, 5);
    uint32_t next = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < p.n; i++) {
        const tern_gpu_dispatch *d = &p.dispatches[i];
        const tern_gpu_linear_float_vec_uniform u = uniform_of(d);
        assert_int_equal(u.result_first, next);
        assert_int_equal(u.count_word, 512 / 4 + 1); /* COUNTS[1] */
        assert_int_equal(d->n_bindings, tern_gpu_pipelines[d->pipeline].n_bindings);
        assert_true(d->bindings[2].bytes <= caps.max_binding && d->bindings[2].offset % 256 == 0);
        assert_int_equal(d->bindings[2].offset, (uint64_t)next * 5120);
        next += u.rows;
        bytes += d->weight_bytes;
    }
    assert_int_equal(next, 128256);
    assert_int_equal(bytes, 128256ull * 5120);
    tern_gpu_program_deinit(&p);
    caps.max_binding = 2048 * mib;
    p = lower(&g, &caps);
    assert_int_equal(p.n, 1);
    assert_int_equal(p.dispatches[0].groups[0], 128256 / 16);
    tern_gpu_program_deinit(&p);
}

/* More groups than a dimension holds go over two. */
static void many_groups(void **state)
{
    (void)state;
    one_op g;
    make(&g, TERN_ENC_F16, 30000, 64, 1);
    tern_gpu_caps caps = device(32, 16384, 128);
    caps.max_groups = 4096;
    tern_gpu_program p = lower(&g, &caps); /* 7,500 groups of four rows */
    assert_int_equal(p.dispatches[0].groups[0], 3750);
    assert_int_equal(p.dispatches[0].groups[2], 2);
    tern_gpu_program_deinit(&p);
}

/* What is done with the sum: residual from elsewhere, from where the result goes, product with what is there. */
static void epilogues(void **state)
{
    (void)state;
    one_op g;
    tern_gpu_caps caps = device(32, 32768, 256);
    make(&g, TERN_ENC_BF16, 64, 256, 3);
    g.op.residual = (tern_view){5, 0, 64};
    tern_gpu_program p = lower(&g, &caps);
    assert_int_equal(uniform_of(&p.dispatches[0]).epilogue, 1);
    assert_int_equal(p.dispatches[0].bindings[3].value, 5);
    tern_gpu_program_deinit(&p);
    g.values[3].kind = TERN_VALUE_ACTIVATION; /* the sum takes its addend's place */
    g.values[3].offset = g.values[5].offset;
    p = lower(&g, &caps);
    assert_int_equal(uniform_of(&p.dispatches[0]).epilogue, 2);
    assert_int_equal(p.dispatches[0].bindings[3].value, TERN_GPU_NOTHING);
    tern_gpu_program_deinit(&p);
    make(&g, TERN_ENC_BF16, 64, 256, 3);
    g.op.gated = true;
    g.op.activation = TERN_ACT_SILU;
    g.op.n_parts = 2;
    g.op.n_in = 3;
    g.op.in[TERN_LINEAR_W + 1] = (tern_view){4, 0, 256};
    p = lower(&g, &caps);
    assert_int_equal(p.n, 2);
    assert_int_equal(uniform_of(&p.dispatches[0]).epilogue, 0);
    assert_int_equal(uniform_of(&p.dispatches[1]).epilogue, 4);
    tern_gpu_program_deinit(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(by_subgroup), cmocka_unit_test(by_workgroup), cmocka_unit_test(by_units),
    cmocka_unit_test(joined),      cmocka_unit_test(always_one),   cmocka_unit_test(head_in_slices),
    cmocka_unit_test(many_groups), cmocka_unit_test(epilogues),
};

TEST_GROUP(select_dense, "", tests);
