/* Rotary embedding and cache writes on a GPU against the CPU backend. */
#include <math.h>

#include "backend/gpu/caps.h"
#include "backend/open.h"
#include "base/half.h"
#include "graph/graph.h"
#include "ops/operands.h"
#include "support/attention_case.h"
#include "support/test.h"

static const struct {
    uint32_t n_heads, n_kv_heads, head_dim;
} heads[] = {{4, 1, 32},  {6, 2, 64}, {3, 3, 80}, {5, 5, 96},  {20, 5, 128}, {8, 1, 256}, {2, 1, 320},
             {4, 4, 512}, {9, 3, 40}, {1, 1, 8},  {4, 4, 100}, {6, 2, 20},   {2, 1, 4},   {2, 2, 260}};

enum { N_HEADS = sizeof heads / sizeof *heads };

/* The GPU, and the same taken for one whose bindings hold a part of a cache. */
static tern_backend *sliced;

static tern_backend *device(uint32_t i)
{
    if (i == 0 || test_gpu_kinds() == 1) return test_gpu_backend();
    test_gpu_backend();
    if (!sliced)
        sliced = test_gpu_open(&(tern_gpu_caps){
            .workgroup_bytes = 16384, .workgroup_invocations = 128, .max_groups = 65535, .max_binding = 320 << 10});
    return sliced;
}

static int close_devices(void **state)
{
    if (sliced) sliced->close(sliced);
    return test_backends_close(state);
}

static void test_rope_kv(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_HEADS; i++) {
        test_attention a;
        test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                  .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                  .head_dim = heads[i % N_HEADS].head_dim,
                                  .f32 = i % 3 == 0,
                                  .adjacent = i % 2,
                                  .n_ctx = 128,
                                  .max_tokens = test_between(&rng, 1, 12),
                                  .n_sequences = 1 + i % 2,
                                  .first = test_between(&rng, 0, 100)};
        s.n_tokens = test_between(&rng, 1, s.max_tokens);
        test_attention_open(&a, &rng, &s, true);
        test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_KV));
        test_case_compare(&a.c, device(i / N_HEADS), s.n_tokens, 0,
                          (test_tolerance){.of_value = s.f32 ? 1e-6 : 1.0 / 1024, .of_row = 1e-6});
        test_case_close(&a.c);
    }
}

/* In blocks: what is rotated may be rounded to the next code. */
static void test_rope_kv_blocks(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 8; i++) {
        test_attention a;
        const test_attention_shape s = {.n_heads = 4,
                                        .n_kv_heads = 2,
                                        .head_dim = i % 2 ? 64 : 128,
                                        .blocks = {i & 2 ? TERN_DTYPE_Q8_0 : TERN_DTYPE_Q4_0, TERN_DTYPE_Q8_0},
                                        .adjacent = i == 3,
                                        .n_ctx = 128,
                                        .max_tokens = 9,
                                        .n_tokens = 9,
                                        .n_sequences = 1 + i % 2,
                                        .first = test_between(&rng, 0, 100)};
        test_attention_open(&a, &rng, &s, true);
        test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_KV));
        test_case_compare(&a.c, device(i / 4), s.n_tokens, 0,
                          (test_tolerance){.of_value = 1.0 / 1024, .of_row = 1e-6, .of_int8 = 1, .few_int8 = true});
        test_case_close(&a.c);
    }
}

/* The parts that ROPE_KV is made of, on views of one row. */
static void test_rope_and_kv_write(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_HEADS; i++) {
        test_attention a;
        test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                  .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                  .head_dim = heads[i % N_HEADS].head_dim,
                                  .f32 = i % 3 == 1,
                                  .adjacent = i % 2,
                                  .n_ctx = 96,
                                  .max_tokens = 6,
                                  .n_tokens = 5,
                                  .n_sequences = 2,
                                  .first = 40};
        uint32_t q_cols = s.n_heads * s.head_dim, kv_cols = s.n_kv_heads * s.head_dim;
        test_attention_open(&a, &rng, &s, true);
        tern_op rope = test_attention_op(&a, TERN_OP_ROPE_KV), write = rope;
        tern_view k = test_case_columns(a.x, q_cols, kv_cols), v = test_case_columns(a.x, q_cols + kv_cols, kv_cols);
        rope.kind = TERN_OP_ROPE;
        rope.n_heads = s.n_kv_heads;
        rope.in[TERN_ROPE_X] = rope.out = k;
        rope.in[TERN_ROPE_X].cols = rope.out.cols = kv_cols;
        rope.in[TERN_ROPE_POSITIONS] = write.in[TERN_ROPE_KV_POSITIONS];
        rope.in[TERN_ROPE_TABLE] = write.in[TERN_ROPE_KV_TABLE];
        rope.n_in = TERN_ROPE_INPUTS;
        write.kind = TERN_OP_KV_WRITE;
        const tern_view inputs[] = {[TERN_KV_WRITE_K] = k,
                                    [TERN_KV_WRITE_V] = v,
                                    [TERN_KV_WRITE_K_CACHE] = a.k_cache,
                                    [TERN_KV_WRITE_V_CACHE] = a.v_cache,
                                    [TERN_KV_WRITE_POSITIONS] = write.in[TERN_ROPE_KV_POSITIONS],
                                    [TERN_KV_WRITE_SEQUENCES] = write.in[TERN_ROPE_KV_SEQUENCES],
                                    [TERN_KV_WRITE_PAGES] = write.in[TERN_ROPE_KV_PAGES]};
        memcpy(write.in, inputs, sizeof inputs);
        test_case_add(&a.c, rope);
        test_case_add(&a.c, write);
        test_case_compare(&a.c, device(i / N_HEADS), s.n_tokens, 0,
                          (test_tolerance){.of_value = s.f32 ? 1e-6 : 1.0 / 1024, .of_row = 1e-6});
        test_case_close(&a.c);
    }
}

/* Numbers of every size, ties, zeros of both signs and what is not finite: the bytes of the definition, on every device
 * and in slices. */
static void fill_hard(tern_rng *rng, float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 32) {
        const uint32_t kind = test_between(rng, 0, 11), exponent = test_between(rng, 0, 254);
        for (uint32_t j = i; j < i + 32; j++) {
            const uint32_t bits = (uint32_t)tern_rng_u64(rng);
            if (kind < 6) x[j] = ldexpf(x[j], (int)exponent - 127);          /* subnormals and infinities as well */
            else if (kind == 6) x[j] = (float)((int)(bits % 255) - 127) / 2; /* ties */
            else if (kind == 7) x[j] = bits % 2 ? 0.0f : -0.0f;
            else if (kind == 8) x[j] = tern_f32_from_bits((bits & 0x80ffffffu) | 0x33000000u); /* about 127 * 2^-25 */
            else if (kind == 9) x[j] = (float)((int)(bits % 17) - 8); /* both ends are the furthest of q4_0 */
        }
        if (kind == 10) x[i + test_between(rng, 0, 31)] = NAN;
        if (kind == 11) x[i + test_between(rng, 0, 31)] = -INFINITY;
    }
}

static void test_kv_write_blocks(void **state)
{
    (void)state;
    static const tern_dtype types[] = {TERN_DTYPE_Q8_0, TERN_DTYPE_Q4_0};
    static const uint32_t dims[] = {64, 128, 192, 512};
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 32; i++) {
        test_attention a;
        test_attention_shape s = {.n_heads = 2,
                                  .n_kv_heads = 1 + i % 3,
                                  .head_dim = dims[i / 4 % 4],
                                  .blocks = {types[i % 2], types[i / 2 % 2]},
                                  .n_ctx = 96,
                                  .max_tokens = 20,
                                  .n_tokens = test_between(&rng, 1, 20),
                                  .n_sequences = 2,
                                  .first = 40};
        const uint32_t q_cols = s.n_heads * s.head_dim, kv_cols = s.n_kv_heads * s.head_dim;
        test_attention_open(&a, &rng, &s, true);
        fill_hard(&rng, test_case_floats(&a.c, a.x), s.max_tokens * (q_cols + 2 * kv_cols));
        tern_op write = test_attention_op(&a, TERN_OP_ROPE_KV);
        const tern_view inputs[] = {[TERN_KV_WRITE_K] = test_case_columns(a.x, q_cols, kv_cols),
                                    [TERN_KV_WRITE_V] = test_case_columns(a.x, q_cols + kv_cols, kv_cols),
                                    [TERN_KV_WRITE_K_CACHE] = a.k_cache,
                                    [TERN_KV_WRITE_V_CACHE] = a.v_cache,
                                    [TERN_KV_WRITE_POSITIONS] = write.in[TERN_ROPE_KV_POSITIONS],
                                    [TERN_KV_WRITE_SEQUENCES] = write.in[TERN_ROPE_KV_SEQUENCES],
                                    [TERN_KV_WRITE_PAGES] = write.in[TERN_ROPE_KV_PAGES]};
        write.kind = TERN_OP_KV_WRITE;
        memcpy(write.in, inputs, sizeof inputs);
        test_case_add(&a.c, write);
        test_case_compare(&a.c, device(i / 16), s.n_tokens, 0, (test_tolerance){0});
        test_case_close(&a.c);
    }
}

static tern_op head_norm(test_attention *a, uint32_t first_head, uint32_t n_heads, uint32_t head_dim)
{
    const tern_view x = test_case_columns(a->x, first_head * head_dim, n_heads * head_dim);
    return (tern_op){.kind = TERN_OP_RMS_NORM,
                     .n_in = TERN_NORM_INPUTS,
                     .in = {x, test_case_norm_weight(&a->c, head_dim)},
                     .out = x,
                     .eps = 0.25f}; /* of the order of the mean square: a wrong one shows */
}

/* Norms of the heads of q and of k before: one op on a GPU, three on the CPU, and where caches are in slices. */
static void test_with_head_norms(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_HEADS; i++) {
        test_attention a;
        test_results want, got;
        tern_error err = {0};
        test_attention_shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                                  .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                                  .head_dim = heads[i % N_HEADS].head_dim,
                                  .f32 = i % 3 == 2,
                                  .adjacent = i % 2,
                                  .n_ctx = 96,
                                  .max_tokens = 6,
                                  .n_tokens = 5,
                                  .n_sequences = 2,
                                  .first = 40};
        tern_backend *gpu = device(i / N_HEADS);
        test_attention_open(&a, &rng, &s, true);
        test_case_add(&a.c, head_norm(&a, 0, s.n_heads, s.head_dim));
        test_case_add(&a.c, head_norm(&a, s.n_heads, s.n_kv_heads, s.head_dim));
        test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_KV));
        test_case_run(&a.c, test_backend("cpu"), s.n_tokens, 0, 1, &want);
        assert_ok(tern_graph_fuse(&a.c.graph, test_backend("cpu"), &err), err);
        assert_int_equal(a.c.graph.n_ops, 3);
        assert_ok(tern_graph_fuse(&a.c.graph, gpu, &err), err);
        if (gpu != sliced) assert_int_equal(a.c.graph.n_ops, 1);
        test_case_run(&a.c, gpu, s.n_tokens, 0, 1, &got);
        const char *what =
            test_case_difference(&a.c, (const uint32_t[]){s.n_tokens, 0}, &got, &want,
                                 (test_tolerance){.of_value = s.f32 ? 1e-6 : 1.0 / 1024, .of_row = 2e-6});
        if (what) fail_msg("%u heads of %u: %s", s.n_heads, s.head_dim, what);
        test_results_free(&want);
        test_results_free(&got);
        test_case_close(&a.c);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rope_kv), cmocka_unit_test(test_rope_kv_blocks), cmocka_unit_test(test_rope_and_kv_write),
    cmocka_unit_test(test_with_head_norms), cmocka_unit_test(test_kv_write_blocks)};

TEST_GROUP(rope, "gpu web", tests, .teardown = close_devices);
