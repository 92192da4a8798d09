/* The dispatches that ops with states of sequences become, and what is refused by name. */
#include "backend/gpu/gpu_internal.h"
#include "support/recurrent_case.h"
#include "support/test.h"

static tern_rng rng = {.state = 1};

static const tern_gpu_caps ordinary = {.subgroup_min = 32,
                                       .subgroup_max = 32,
                                       .workgroup_bytes = 49152,
                                       .workgroup_invocations = 1024,
                                       .max_groups = 65535,
                                       .max_binding = 1u << 27,
                                       .binding_alignment = 16};

static const test_recurrent_shape ordinary_shape = {
    .n_runs = 1, .lengths = {3}, .channels = 130, .taps = 3, .heads = 6, .key_heads = 2, .keys = 100, .values = 40};

/* The only dispatch of a case's graph. */
static tern_gpu_dispatch lowered(test_recurrent_case *r, const tern_gpu_caps *caps)
{
    tern_error err = {0};
    tern_gpu_program p;
    assert_ok(tern_gpu_lower(&p, &r->c.graph, caps, &err), err);
    assert_int_equal(p.n, 1);
    const tern_gpu_dispatch d = p.dispatches[0];
    tern_gpu_program_deinit(&p);
    test_case_close(&r->c);
    return d;
}

static void expect(const tern_gpu_dispatch *d, tern_gpu_pipeline pipeline, uint32_t x, uint32_t y, uint32_t z)
{
    assert_string_equal(tern_gpu_pipelines[d->pipeline].name, tern_gpu_pipelines[pipeline].name);
    assert_memory_equal(d->groups, ((uint32_t[3]){x, y, z}), sizeof d->groups);
}

/* Workgroups for each sequence, or for each row of a step where those are fewer: there is room for five. */
static void groups(void **state)
{
    (void)state;
    static const uint32_t sequences[] = {1, 5, 9}, runs[] = {1, 5, 5};
    for (int i = 0; i < 3; i++) {
        test_recurrent_shape shape = ordinary_shape;
        test_recurrent_case r;
        tern_gpu_conv_uniform conv;
        tern_gpu_gated_delta_uniform delta;
        shape.n_sequences = sequences[i];
        test_conv_case(&r, &rng, &shape);
        tern_gpu_dispatch d = lowered(&r, &ordinary);
        expect(&d, TERN_GPU_CONV, 3, runs[i], 1);
        memcpy(&conv, d.uniform, sizeof conv);
        assert_int_equal(conv.by_rows, sequences[i] > 5);
        assert_int_equal(conv.weight_stride, 4); /* of rows of three, on the device */
        test_delta_case(&r, &rng, &shape);
        d = lowered(&r, &ordinary);
        expect(&d, TERN_GPU_GATED_DELTA_128_S8, 2, 6, runs[i]);
        memcpy(&delta, d.uniform, sizeof delta);
        assert_int_equal(delta.by_rows, sequences[i] > 5);
    }
}

/* The one with room for the keys; without subgroups of 8 the one that needs none. */
static void pipelines(void **state)
{
    (void)state;
    static const uint32_t keys[] = {1, 32, 33, 64, 128, 200};
    static const tern_gpu_pipeline with[] = {TERN_GPU_GATED_DELTA_32_S8,  TERN_GPU_GATED_DELTA_32_S8,
                                             TERN_GPU_GATED_DELTA_64_S8,  TERN_GPU_GATED_DELTA_64_S8,
                                             TERN_GPU_GATED_DELTA_128_S8, TERN_GPU_GATED_DELTA_256_S8},
                                   without[] = {TERN_GPU_GATED_DELTA_32,  TERN_GPU_GATED_DELTA_32,
                                                TERN_GPU_GATED_DELTA_64,  TERN_GPU_GATED_DELTA_64,
                                                TERN_GPU_GATED_DELTA_128, TERN_GPU_GATED_DELTA_256};
    tern_gpu_caps least = ordinary;
    least.subgroup_min = least.subgroup_max = 4;
    least.workgroup_bytes = 16384;
    least.workgroup_invocations = 128;
    for (int i = 0; i < 6; i++) {
        test_recurrent_shape shape = ordinary_shape;
        test_recurrent_case r;
        shape.keys = keys[i];
        test_delta_case(&r, &rng, &shape);
        assert_int_equal(lowered(&r, &ordinary).pipeline, with[i]);
        test_delta_case(&r, &rng, &shape);
        assert_int_equal(lowered(&r, &least).pipeline, without[i]);
    }
}

static void refuses(test_recurrent_case *r, const tern_gpu_caps *caps, const char *why)
{
    tern_error err = {0};
    assert_int_equal(tern_gpu_supports(&r->c.graph, &r->c.graph.ops[0], caps, &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, why)) fail_msg("\"%s\", \"%s\" expected in it", err.message, why);
    test_case_close(&r->c);
}

static void refusals(void **state)
{
    (void)state;
    test_recurrent_shape shape = ordinary_shape;
    test_recurrent_case r;
    tern_gpu_caps small = ordinary;
    small.max_binding = 40000;
    test_delta_case(&r, &rng, &shape); /* three states of 6 x 100 x 40 numbers */
    refuses(&r, &small, "op gated_delta: state has 288000 bytes of states: one binding of at most 40000 expected");
    shape.channels = 2000;
    test_conv_case(&r, &rng, &shape);
    refuses(&r, &small, "op conv: state has 48000 bytes of states: one binding of at most 40000 expected");
    shape.keys = 257;
    test_delta_case(&r, &rng, &shape);
    refuses(&r, &ordinary, "op gated_delta of 6 heads of 40 values, 2 heads of 257 keys");
    shape = ordinary_shape;
    shape.taps = 9;
    test_conv_case(&r, &rng, &shape);
    refuses(&r, &ordinary, "op conv of 9 taps: 1 to 8 expected");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(groups),
    cmocka_unit_test(pipelines),
    cmocka_unit_test(refusals),
};

TEST_GROUP(lower_recurrent, "", tests);
