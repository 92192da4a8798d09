/* How evenly the work of a workgroup is spread over its invocations, by instructions, in the shapes of BitNet 2B4T
 * (with fewer rows and heads, which are spread over workgroups): at least half of them, for every pipeline that is
 * chosen there. On a simulated GPU. */
#include <string.h>

#include "ops/operands.h"
#include "support/attention_case.h"
#include "support/op_case.h"
#include "support/simulated.h"
#include "support/test.h"
#include "support/training_case.h"

enum { DIM = 2560, FFN = 6912, HEAD_DIM = 128 };

static tern_rng rng;
static tern_backend *gpu;

/* Runs the case, whose invocations must have been counted. */
static void run(test_case *c, uint32_t n_tokens, uint32_t n_outputs)
{
    test_results results;
    uint64_t before = 0, after = 0;
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) before += test_simulated_use[i].done;
    test_case_run(c, gpu, n_tokens, n_outputs, 1, &results);
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) after += test_simulated_use[i].done;
    if (after == before) fail_msg("a case of %u tokens: no instruction was counted", n_tokens);
    test_results_free(&results);
    test_case_close(c);
}

static tern_view rows(test_case *c, const char *name, uint32_t cols)
{
    return test_case_rows(c, name, TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
}

static void finish(test_case *c, tern_op op, uint32_t cols, tern_dtype dtype)
{
    op.out = test_case_output(c, "out", TERN_ROWS_TOKENS, dtype, cols);
    test_case_add(c, op);
    run(c, c->graph.max_tokens, 1);
}

static void norm_quant(uint32_t n_tokens, uint32_t cols)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_op op = {.kind = TERN_OP_NORM_QUANT, .n_in = 2, .eps = 1e-5f};
    op.in[TERN_NORM_X] = rows(&c, "x", cols);
    op.in[TERN_NORM_WEIGHT] = test_case_norm_weight(&c, cols);
    finish(&c, op, cols, TERN_DTYPE_Q8);
}

/* n_parts of n_rows each; the norm of one token is the op's own. */
static void ternary(uint32_t n_tokens, uint32_t cols, uint32_t n_parts, uint32_t n_rows, bool gated)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 1 + n_parts, .n_parts = n_parts, .gated = gated};
    op.activation = TERN_ACT_RELU2;
    op.in[TERN_LINEAR_X] = n_tokens == 1 ? rows(&c, "x", cols) : test_case_q8(&c, "x", TERN_ROWS_TOKENS, cols);
    if (n_tokens == 1) op.norm_weight = test_case_norm_weight(&c, cols), op.eps = 1e-5f;
    for (uint32_t i = 0; i < n_parts; i++) op.in[TERN_LINEAR_W + i] = test_case_weight(&c, "i2_s", n_rows, cols);
    finish(&c, op, gated ? n_rows : n_parts * n_rows, TERN_DTYPE_F32);
}

/* A dense layer of an encoding, alone. */
static void dense(const char *encoding, uint32_t n_tokens, uint32_t cols, uint32_t n_rows)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1};
    op.in[TERN_LINEAR_X] = rows(&c, "x", cols);
    op.in[TERN_LINEAR_W] = test_case_weight(&c, encoding, n_rows, cols);
    finish(&c, op, n_rows, TERN_DTYPE_F32);
}

static void rms_norm(uint32_t n_tokens, uint32_t cols)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_op op = {.kind = TERN_OP_RMS_NORM, .n_in = 2, .eps = 1e-5f};
    op.in[TERN_NORM_X] = rows(&c, "x", cols);
    op.in[TERN_NORM_WEIGHT] = test_case_norm_weight(&c, cols);
    finish(&c, op, cols, TERN_DTYPE_F32);
}

static void gate(uint32_t n_tokens, uint32_t cols)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_op op = {.kind = TERN_OP_GATE, .n_in = 2, .activation = TERN_ACT_SILU};
    op.in[TERN_GATE_GATE] = rows(&c, "gate", cols);
    op.in[TERN_GATE_UP] = rows(&c, "up", cols);
    finish(&c, op, cols, TERN_DTYPE_F32);
}

static void embed(const char *encoding, uint32_t n_tokens)
{
    enum { VOCABULARY = 8 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    for (uint32_t t = 0; t < n_tokens; t++) test_case_param(&c, TERN_PARAM_IDS)[t] = t % VOCABULARY;
    tern_op op = {.kind = TERN_OP_EMBED, .n_in = TERN_EMBED_INPUTS};
    op.in[TERN_EMBED_IDS] = test_case_param_view(&c, TERN_PARAM_IDS);
    op.in[TERN_EMBED_TABLE] = test_case_weight(&c, encoding, VOCABULARY, DIM);
    finish(&c, op, DIM, TERN_DTYPE_F32);
}

/* ROPE of k, or ROPE_KV. */
static void rope(tern_op_kind kind, uint32_t n_tokens)
{
    test_attention a;
    const test_attention_shape s = {.n_heads = 8,
                                    .n_kv_heads = 2,
                                    .head_dim = HEAD_DIM,
                                    .n_ctx = 128,
                                    .max_tokens = n_tokens,
                                    .n_tokens = n_tokens,
                                    .n_sequences = 1};
    test_attention_open(&a, &rng, &s, true);
    tern_op op = test_attention_op(&a, TERN_OP_ROPE_KV);
    if (kind == TERN_OP_ROPE) {
        const tern_view k = test_case_columns(a.x, s.n_heads * HEAD_DIM, s.n_kv_heads * HEAD_DIM),
                        positions = op.in[TERN_ROPE_KV_POSITIONS], table = op.in[TERN_ROPE_KV_TABLE];
        op.kind = TERN_OP_ROPE;
        op.n_heads = s.n_kv_heads;
        op.in[TERN_ROPE_X] = op.out = k;
        op.in[TERN_ROPE_POSITIONS] = positions;
        op.in[TERN_ROPE_TABLE] = table;
        op.n_in = TERN_ROPE_INPUTS;
    }
    test_case_add(&a.c, op);
    run(&a.c, n_tokens, 0);
}

static void head(uint32_t n_tokens, uint32_t n_rows)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1};
    op.in[TERN_LINEAR_X] = rows(&c, "x", DIM);
    op.in[TERN_LINEAR_W] = test_case_weight(&c, "f16", n_rows, DIM);
    finish(&c, op, n_rows, TERN_DTYPE_F32);
}

static void attention_of(uint32_t n_tokens, uint32_t first, uint32_t head_dim)
{
    enum { HEADS = 4, KV_HEADS = 1 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens, .n_ctx = 1024});
    tern_op op = {.kind = TERN_OP_ATTENTION, .n_in = 6, .n_heads = HEADS, .n_kv_heads = KV_HEADS, .head_dim = head_dim};
    for (uint32_t t = 0; t < n_tokens; t++) test_case_param(&c, TERN_PARAM_POSITIONS)[t] = first + t;
    op.in[TERN_ATTENTION_Q] = rows(&c, "q", HEADS * head_dim);
    op.in[TERN_ATTENTION_K_CACHE] = test_case_cache(&c, "k", TERN_DTYPE_F16, c.graph.max_pages, KV_HEADS, head_dim);
    op.in[TERN_ATTENTION_V_CACHE] = test_case_cache(&c, "v", TERN_DTYPE_F16, c.graph.max_pages, KV_HEADS, head_dim);
    op.in[TERN_ATTENTION_POSITIONS] = test_case_param_view(&c, TERN_PARAM_POSITIONS);
    op.in[TERN_ATTENTION_SEQUENCES] = test_case_param_view(&c, TERN_PARAM_SEQUENCES);
    op.in[TERN_ATTENTION_PAGES] = test_case_param_view(&c, TERN_PARAM_PAGES);
    finish(&c, op, HEADS * head_dim, TERN_DTYPE_F32);
}

static void attention(uint32_t n_tokens, uint32_t first)
{
    attention_of(n_tokens, first, HEAD_DIM);
}

/* Of a whole block of rows, and its backward. */
static void varlen_attention(void)
{
    enum { ROWS = 64 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = ROWS, .training = true});
    test_varlen_attention_add(
        &c, &(test_varlen_attention){.rows = ROWS, .n_heads = 1, .n_kv_heads = 1, .head_dim = HEAD_DIM});
    run(&c, ROWS, ROWS);
}

/* What ordinary models have besides. */
static void others(void)
{
    static const char *const encodings[] = {"q4_k", "q5_k", "q6_k", "q8_0", "f16"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        dense(encodings[i], 1, DIM, 128);
        dense(encodings[i], 1, 1024, 128); /* a short row */
        dense(encodings[i], 4, DIM, 128);
        dense(encodings[i], 64, DIM, 128);
        embed(encodings[i], 2);
    }
    rms_norm(1, DIM);
    rms_norm(64, DIM);
    gate(1, FFN);
    gate(4, FFN);
    rope(TERN_OP_ROPE, 4);
    rope(TERN_OP_ROPE_KV, 4);
}

static void run_all(void)
{
    varlen_attention();
    ternary(1, DIM, 3, 128, false);
    ternary(1, DIM, 2, 256, true);
    ternary(1, DIM, 1, 256, false);
    ternary(1, FFN, 1, 256, false);
    head(1, 512);
    attention(1, 700);
    norm_quant(2, DIM);
    norm_quant(2, FFN);
    ternary(64, DIM, 3, 64, false);
    ternary(64, DIM, 2, 64, true);
    attention(64, 64);
    others();
}

static void no_pipeline_idles(void **state)
{
    const tern_gpu_caps caps[] = {
        {.subgroup_min = 32, .subgroup_max = 32, .workgroup_bytes = 49152, .workgroup_invocations = 1024},
        {.subgroup_min = 8, .subgroup_max = 8, .workgroup_bytes = 32768, .workgroup_invocations = 1024},
        {.workgroup_bytes = 16384, .workgroup_invocations = 128},
    };
    (void)state;
    test_on_simulated_gpu();
    test_seed(&rng);
    for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) {
        if (!test_takes(k, 3, 1)) continue;
        tern_error err = {0};
        tern_gpu_caps all = caps[k];
        all.max_groups = 65535, all.max_binding = 128 << 20, all.binding_alignment = 256, all.device_fences = true;
        assert_ok(test_simulated_open(&gpu, &all, &err), err);
        run_all();
        gpu->close(gpu);
    }
    uint32_t n_idle = 0;
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        const test_use *use = &test_simulated_use[i];
        assert_true(use->done <= use->possible);
        if (use->possible == 0) continue;
        const double part = (double)use->done / (double)use->possible;
        print_message("%-36s %5.1f %% used\n", tern_gpu_pipelines[i].name, 100 * part);
        n_idle += !(part >= 0.5);
    }
    if (n_idle) fail_msg("%u pipelines leave more than half of their invocations idle", n_idle);
}

/* The most barriers that a workgroup of decoding attention meets where a token sees so many positions: they do not grow
 * with them. A kernel with tiles of 32 positions by 32 columns of a head would meet two for each: 80 for heads of 256
 * and 135 positions. */
static uint64_t barriers_at(uint32_t n_positions, uint32_t head_dim)
{
    uint64_t most = 0;
    memset(test_simulated_use, 0, sizeof test_simulated_use);
    attention_of(1, n_positions - 1, head_dim);
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (test_simulated_use[i].barriers > most) most = test_simulated_use[i].barriers;
    return most;
}

static void barriers_do_not_grow(void **state)
{
    static const uint32_t positions[] = {135, 900}, head_dims[] = {64, 256};
    static const struct {
        const char *name;
        tern_gpu_caps caps;
        uint64_t most;
    } devices[] = {
        {"subgroups of 32",
         {.subgroup_min = 32,
          .subgroup_max = 32,
          .workgroup_bytes = 49152,
          .workgroup_invocations = 1024,
          .device_fences = true},
         8},
        {"subgroups of 32, WebGPU",
         {.subgroup_min = 32, .subgroup_max = 32, .workgroup_bytes = 49152, .workgroup_invocations = 1023},
         4},
    };
    (void)state;
    test_on_simulated_gpu();
    test_seed(&rng);
    for (size_t k = 0; k < sizeof devices / sizeof *devices; k++) {
        tern_error err = {0};
        tern_gpu_caps caps = devices[k].caps;
        caps.max_groups = 65535, caps.max_binding = 128 << 20, caps.binding_alignment = 256;
        assert_ok(test_simulated_open(&gpu, &caps, &err), err);
        for (size_t h = 0; h < sizeof head_dims / sizeof *head_dims; h++)
            for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
                const uint64_t n = barriers_at(positions[i], head_dims[h]);
                print_message("%s, heads of %u, %u positions: %u barriers of a workgroup\n", devices[k].name,
                              head_dims[h], positions[i], (unsigned)n);
                assert_in_range(n, 1, devices[k].most);
            }
        gpu->close(gpu);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(no_pipeline_idles), cmocka_unit_test(barriers_do_not_grow)};

TEST_GROUP(utilisation, "slow", tests, .teardown = test_backends_close);
