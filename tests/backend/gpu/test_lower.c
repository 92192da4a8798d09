/* The dispatches that ops on rows and the sampler become, on devices that are made up. */
#include "backend/gpu/gpu_internal.h"
#include "support/attention_case.h"
#include "support/test.h"

static tern_rng rng = {.state = 1};

static const tern_gpu_caps ordinary = {.subgroup_min = 32,
                                       .subgroup_max = 32,
                                       .workgroup_bytes = 49152,
                                       .workgroup_invocations = 1024,
                                       .max_groups = 65535,
                                       .max_binding = 1u << 31,
                                       .binding_alignment = 16};

static tern_gpu_caps caps_of(uint32_t subgroup, uint32_t workgroup_bytes, uint32_t invocations)
{
    tern_gpu_caps caps = ordinary;
    caps.subgroup_min = caps.subgroup_max = subgroup;
    caps.workgroup_bytes = workgroup_bytes;
    caps.workgroup_invocations = invocations;
    return caps;
}

/* A graph of every op on rows over values of `cols` columns, f32 columns `first` to first + cols of wider ones, and the
 * sampler. */
static void build(test_case *c, uint32_t cols, uint32_t first, uint32_t n_vocab)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = 7, .max_outputs = 3, .sampler = true});
    const uint32_t wide = cols + 2 * first;
    tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, wide, TEST_ORDINARY);
    tern_view logits = test_case_rows(c, "logits", TERN_ROWS_OUTPUTS, n_vocab, TEST_ORDINARY);
    tern_view y = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, wide),
              norm_weight = test_case_norm_weight(c, cols);
    tern_view q = test_case_output(c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, cols);
    tern_view z = test_case_output(c, "z", TERN_ROWS_OUTPUTS, TERN_DTYPE_F32, cols);
    tern_view tokens = test_case_output(c, "tokens", TERN_ROWS_OUTPUTS, TERN_DTYPE_U32, 1 + TERN_SAMPLE_MAX_STEPS);
    x = test_case_columns(x, first, cols);
    y = test_case_columns(y, first, cols);
    test_case_add(c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .out = y, .eps = 0.5f});
    test_case_add(c, (tern_op){.kind = TERN_OP_QUANTIZE, .n_in = 1, .in = {x}, .out = q});
    test_case_add(c, (tern_op){.kind = TERN_OP_NORM_QUANT, .n_in = 2, .in = {x, norm_weight}, .out = q, .eps = 0.25f});
    test_case_add(c, (tern_op){.kind = TERN_OP_ADD, .n_in = 2, .in = {x, x}, .out = y});
    test_case_add(c, (tern_op){.kind = TERN_OP_GATE, .n_in = 2, .in = {x, x}, .out = y});
    test_case_add(c, (tern_op){.kind = TERN_OP_GATE, .n_in = 2, .in = {x, x}, .out = y, .activation = TERN_ACT_SILU});
    test_case_add(c, (tern_op){.kind = TERN_OP_GATHER,
                               .n_in = 2,
                               .in = {x, test_case_param_view(c, TERN_PARAM_OUTPUTS)},
                               .out = z,
                               .rows = TERN_ROWS_OUTPUTS});
    test_case_add(
        c, (tern_op){.kind = TERN_OP_SAMPLE,
                     .n_in = 5,
                     .in = {logits, test_case_param_view(c, TERN_PARAM_COUNTS), test_case_param_view(c, TERN_PARAM_IDS),
                            test_case_param_view(c, TERN_PARAM_POSITIONS), test_case_param_view(c, TERN_PARAM_SAMPLER)},
                     .out = tokens,
                     .rows = TERN_ROWS_OUTPUTS});
}

static uint64_t bytes_of(const tern_gpu_program *p, uint32_t value)
{
    if (value == TERN_GPU_PARAMS) return p->graph->param_bytes;
    if (value == TERN_GPU_SCRATCH) return p->scratch_bytes + TERN_GPU_COUNTER_BYTES;
    return value == TERN_GPU_NOTHING ? 256 : (p->graph->values[value].bytes + 15) / 16 * 16;
}

/* What holds of every dispatch. */
static void check_dispatch(const tern_gpu_program *p, const tern_gpu_dispatch *d)
{
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[d->pipeline];
    assert_true(tern_gpu_pipeline_fits(d->pipeline, p->caps));
    assert_int_equal(d->n_bindings, info->n_bindings);
    assert_true(d->groups[0] >= 1 && d->groups[1] >= 1 && d->groups[2] >= 1);
    for (uint32_t i = 0; i < d->n_bindings; i++) {
        const tern_gpu_range *r = &d->bindings[i];
        const bool constant = r->value < p->graph->n_values && p->graph->values[r->value].kind == TERN_VALUE_WEIGHT;
        assert_true(r->bytes > 0 && r->offset % 256 == 0 && r->offset + r->bytes <= bytes_of(p, r->value));
        if (r->value != TERN_GPU_NOTHING) assert_int_equal(info->signature[i] == 'r', constant);
        assert_true(info->signature[i] == 'w' || !r->written);
    }
}

static void expect(const tern_gpu_dispatch *d, const char *pipeline, uint32_t x, uint32_t y)
{
    if (strcmp(tern_gpu_pipelines[d->pipeline].name, pipeline))
        fail_msg("%s, %s expected", tern_gpu_pipelines[d->pipeline].name, pipeline);
    assert_int_equal(d->groups[0], x);
    assert_int_equal(d->groups[1], y);
    assert_int_equal(d->groups[2], 1);
}

typedef struct example {
    uint32_t subgroup, workgroup_bytes, invocations, cols, first;
    const char *rowwise, *elements; /* the ends of names */
    const char *sampler;
} example;

static void variants(void **state)
{
    (void)state;
    static const example examples[] = {
        {32, 49152, 1024, 2560, 0, "S16_256", "256", "S16_256"},
        {4, 16384, 256, 2560, 4, "S4_256", "256", "S4_256"},
        {64, 32768, 256, 2560, 128, "S16_256", "256", "S16_256"},
        {0, 16384, 256, 2560, 0, "256", "256", "256"},
        {16, 16384, 128, 2560, 0, "128", "128", "128"},
        {0, 16384, 128, 6912, 0, "128", "128", "128"},
        {32, 49152, 1024, 2561, 0, "ANY_128", "256", "S16_256"},
        {32, 49152, 1024, 2560, 1, "ANY_128", "256", "S16_256"},
        {0, 16384, 128, 30, 0, "ANY_128", "128", "128"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        const tern_gpu_caps caps = caps_of(e->subgroup, e->workgroup_bytes, e->invocations);
        const uint32_t width = (uint32_t)strtoul(e->elements, NULL, 10), blocks = (e->cols + width - 1) / width;
        const char *const names[] = {"RMS_NORM", "QUANTIZE", "NORM_QUANT",    "ADD",          "RELU2",
                                     "SILU",     "GATHER",   "SAMPLE_SLICES", "SAMPLE_CHOOSE"};
        tern_error err = {0};
        test_case c;
        tern_gpu_program p;
        build(&c, e->cols, e->first, 128256);
        assert_ok(tern_gpu_lower(&p, &c.graph, &caps, &err), err);
        assert_int_equal(p.n, 9);
        for (uint32_t k = 0; k < 9; k++) {
            char name[64];
            const char *end = k < 3 ? e->rowwise : k < 7 ? e->elements : e->sampler;
            const uint32_t rows = k == 6 ? 3 : 7;
            snprintf(name, sizeof name, "%s_%s", names[k], end);
            check_dispatch(&p, &p.dispatches[k]);
            if (k < 7) expect(&p.dispatches[k], name, k < 3 ? rows : blocks, k < 3 ? 1 : rows);
            else expect(&p.dispatches[k], name, k == 7 ? 501 : 1, 1);
        }
        tern_gpu_program_deinit(&p);
        test_case_close(&c);
    }
}

/* What the kernels are told: where rows and counts lie. */
static void uniforms(void **state)
{
    (void)state;
    enum { COLS = 256, FIRST = 8 };
    tern_error err = {0};
    test_case c;
    tern_gpu_program p;
    build(&c, COLS, FIRST, 1000);
    assert_ok(tern_gpu_lower(&p, &c.graph, &ordinary, &err), err);
    const uint32_t counts = (uint32_t)(c.graph.values[c.graph.params[TERN_PARAM_COUNTS]].offset / 4);
    const uint32_t outputs = (uint32_t)(c.graph.values[c.graph.params[TERN_PARAM_OUTPUTS]].offset / 4),
                   wide = COLS + 2 * FIRST;
    const tern_gpu_rms_norm_uniform norm = {.cols = COLS,
                                            .count_word = counts,
                                            .x_first = FIRST / 4,
                                            .x_stride = wide / 4,
                                            .y_first = FIRST / 4,
                                            .y_stride = wide / 4,
                                            .eps = 0.5f};
    const tern_gpu_quantize_uniform quantize = {.cols = COLS,
                                                .count_word = counts,
                                                .x_first = FIRST / 4,
                                                .x_stride = wide / 4,
                                                .row_words = 64,
                                                .scales_word = 64 * 7,
                                                .sums_word = 64 * 7 + 16,
                                                .eps = 0.25f,
                                                .token_rows = 1};
    const tern_gpu_add_uniform add = {.cols = COLS,
                                      .count_word = counts,
                                      .token_rows = 1,
                                      .a_first = FIRST,
                                      .a_stride = wide,
                                      .b_first = FIRST,
                                      .b_stride = wide,
                                      .out_first = FIRST,
                                      .out_stride = wide};
    const tern_gpu_gather_uniform gather = {.cols = COLS,
                                            .count_word = counts + 1,
                                            .outputs_word = outputs,
                                            .x_first = FIRST,
                                            .x_stride = wide,
                                            .y_stride = COLS};
    assert_memory_equal(p.dispatches[0].uniform, &norm, sizeof norm);
    assert_memory_equal(p.dispatches[2].uniform, &quantize, sizeof quantize);
    assert_memory_equal(p.dispatches[3].uniform, &add, sizeof add);
    assert_memory_equal(p.dispatches[6].uniform, &gather, sizeof gather);
    assert_int_equal(p.dispatches[7].groups[0], 4); /* slices of 256 */
    assert_true(p.dispatches[7].bindings[2].written && !p.dispatches[8].bindings[2].written);
    assert_true(p.dispatches[8].bindings[0].written && !p.dispatches[7].bindings[0].written);
    tern_gpu_program_deinit(&p);
    test_case_close(&c);
}

static void vocabularies(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {256, 1}, {257, 2}, {262144, 1024}, {262145, 1024}, {1000000, 1024}};
    for (int i = 0; i < 6; i++) {
        tern_error err = {0};
        test_case c;
        tern_gpu_program p;
        build(&c, 4, 0, sizes[i][0]);
        assert_ok(tern_gpu_lower(&p, &c.graph, &ordinary, &err), err);
        check_dispatch(&p, &p.dispatches[7]);
        check_dispatch(&p, &p.dispatches[8]);
        assert_int_equal(p.dispatches[7].groups[0], sizes[i][1]);
        assert_int_equal(p.dispatches[8].groups[0], 1);
        tern_gpu_program_deinit(&p);
        test_case_close(&c);
    }
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    test_case c;
    tern_gpu_program p;
    build(&c, 131073, 0, 4);
    assert_int_equal(tern_gpu_supports(&c.graph, &c.graph.ops[0], &ordinary, &err), TERN_OK);
    assert_int_equal(tern_gpu_supports(&c.graph, &c.graph.ops[1], &ordinary, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "gpu: op quantize q: rows of more than 131072 columns; --backend cpu, or fewer "
                                     "--gpu-layers, runs it on the CPU");
    assert_int_equal(tern_gpu_lower(&p, &c.graph, &ordinary, &err), TERN_UNSUPPORTED);
    assert_null(p.dispatches);
    test_case_close(&c);
}

static void refuses(const test_case *c, tern_op op, const char *why)
{
    tern_error err = {0};
    assert_int_equal(tern_gpu_supports(&c->graph, &op, &ordinary, &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, why)) fail_msg("\"%s\", \"%s\" expected in it", err.message, why);
}

/* What no kernel does is refused by name: never computed without it. */
static void parameters_without_kernels(void **state)
{
    (void)state;
    tern_error err = {0};
    test_attention a;
    const test_attention_shape s = {
        .n_heads = 2, .n_kv_heads = 1, .head_dim = 64, .n_ctx = 64, .max_tokens = 1, .n_tokens = 1, .n_sequences = 1};
    test_attention_open(&a, &rng, &s, false);
    const tern_view x = a.x, whole = test_case_norm_weight(&a.c, 128), sinks = test_case_norm_weight(&a.c, 2),
                    w = test_case_weight(&a.c, "f16", 128, 128);
    const tern_op attention = test_attention_op(&a, TERN_OP_ATTENTION);
    const tern_op linear = {.kind = TERN_OP_LINEAR, .n_in = 2, .in = {x, w}, .n_parts = 1, .out = a.out};
    tern_op op = attention;
    op.scale = 0.3f;
    assert_int_equal(tern_gpu_supports(&a.c.graph, &op, &ordinary, &err), TERN_OK);
    op.window = 16;
    op.softcap = 50;
    op.sinks = sinks;
    assert_int_equal(tern_gpu_supports(&a.c.graph, &op, &ordinary, &err), TERN_OK);
    op = linear, op.in[TERN_LINEAR_W + 1] = w, op.bias[0] = whole;
    op.n_in = 3, op.n_parts = 2, op.gated = true;
    refuses(&a.c, op, "op linear out: gated, with a bias");
    op = linear, op.int8_blocks = true;
    refuses(&a.c, op, "int8 activations by block, which the CPU has: --activations f32 or auto expected");
    op = linear, op.halves = TERN_HALVES_F16;
    refuses(&a.c, op, "activations in 16 bits, which CUDA and the CPU have: --activations f32 or auto expected");
    test_case_close(&a.c);
}

/* The ranges of a cache of 16 pages of 32 KiB that dispatches first .. first + 3 bind, four pages each. */
static void check_slices(const tern_gpu_program *program, size_t first, uint32_t binding, uint32_t cache)
{
    for (size_t i = 0; i < 4; i++) {
        const tern_gpu_range *range = &program->dispatches[first + i].bindings[binding];
        assert_int_equal(range->value, cache);
        assert_int_equal(range->offset, i * 4 * 32768);
        assert_int_equal(range->bytes, 4 * 32768);
    }
}

/* A cache larger than a binding is bound in slices of whole pages, a dispatch for each. */
static void caches_in_slices(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gpu_program program;
    tern_gpu_caps caps = ordinary;
    test_attention a;
    const test_attention_shape s = {
        .n_heads = 4, .n_kv_heads = 4, .head_dim = 64, .f32 = true, .n_ctx = 512, .max_tokens = 1, .n_sequences = 1};
    test_attention_open(&a, &rng, &s, true);
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_KV));
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ATTENTION));
    caps.max_binding = 5 * 32768 - 1;
    assert_ok(tern_gpu_lower(&program, &a.c.graph, &caps, &err), err);
    assert_int_equal(program.n, 1 + 4 + 4 + 1);
    assert_int_equal(program.dispatches[0].pipeline, TERN_GPU_ROPE);
    check_slices(&program, 1, TERN_GPU_KV_WRITE_BINDING_V_CACHE, a.v_cache.value);
    check_slices(&program, 5, TERN_GPU_ATTENTION_DECODE_BINDING_K_CACHE, a.k_cache.value);
    assert_int_equal(program.dispatches[9].pipeline, TERN_GPU_ATTENTION_COMBINE);
    tern_gpu_program_deinit(&program);
    a.c.graph.max_tokens = 18;
    assert_ok(tern_gpu_lower(&program, &a.c.graph, &caps, &err), err);
    assert_int_equal(program.n, 1 + 4 + 4 + 1);
    assert_int_equal(program.dispatches[5].pipeline, TERN_GPU_ATTENTION_SLICED_SMALL_128_F32);
    check_slices(&program, 5, TERN_GPU_ATTENTION_TILED_BINDING_K_CACHE, a.k_cache.value);
    check_slices(&program, 5, TERN_GPU_ATTENTION_TILED_BINDING_V_CACHE, a.v_cache.value);
    assert_int_equal(program.dispatches[9].pipeline, TERN_GPU_ATTENTION_COMBINE);
    tern_gpu_program_deinit(&program);
    a.c.graph.max_tokens = 1;
    caps.max_binding = 32767;
    assert_int_equal(tern_gpu_supports(&a.c.graph, &a.c.graph.ops[1], &caps, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "gpu: op attention: k_cache has 524288 bytes in pages of 32768: at most 32 "
                                     "bindings of 32767 expected; a smaller --ctx, or --backend cpu");
    test_case_close(&a.c);
}

/* A step so large that one of its values does not fit in a binding. */
static void too_many_rows(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gpu_caps caps = ordinary;
    test_case c;
    caps.max_binding = 1u << 27;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 8192});
    tern_view x = test_case_activation(&c, "x", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 4096),
              y = test_case_activation(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 4097);
    test_case_add(&c, (tern_op){.kind = TERN_OP_SCALE, .n_in = 1, .in = {x}, .out = x});
    test_case_add(&c, (tern_op){.kind = TERN_OP_SCALE, .n_in = 1, .in = {x}, .out = y});
    assert_int_equal(tern_gpu_supports(&c.graph, &c.graph.ops[0], &caps, &err), TERN_OK);
    assert_int_equal(tern_gpu_supports(&c.graph, &c.graph.ops[1], &caps, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "gpu: op scale: y takes 134250496 bytes in one binding: at most 134217728 "
                                     "expected; fewer tokens in a step (--batch, --seq), or --backend cpu");
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(variants),        cmocka_unit_test(uniforms),      cmocka_unit_test(vocabularies),
    cmocka_unit_test(refusals),        cmocka_unit_test(too_many_rows), cmocka_unit_test(parameters_without_kernels),
    cmocka_unit_test(caches_in_slices)};

TEST_GROUP(lower, "", tests);
