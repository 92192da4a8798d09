/* The kernels on a simulated GPU (support/spirv.h), for devices that are not at hand: subgroups of 4 to 128 and none,
 * little and much workgroup memory, few and many invocations. Results against the CPU; races, bounds and barriers by
 * the simulation. */
#include <math.h>

#include "ops/operands.h"
#include "support/formats.h"
#include "support/recurrent_case.h"
#include "support/sample_case.h"
#include "support/simulated.h"
#include "support/test.h"

typedef struct device {
    const char *name;
    tern_gpu_caps caps;
} device;

#define CAPS(subgroup, memory, invocations)                                                                            \
    {                                                                                                                  \
        .subgroup_min = (subgroup), .subgroup_max = (subgroup), .workgroup_bytes = (memory),                           \
        .workgroup_invocations = (invocations), .max_groups = 65535, .max_binding = 128u << 20,                        \
        .binding_alignment = 256                                                                                       \
    }

static const device devices[] = {
    {"no subgroups, the least of all", CAPS(0, 16384, 128)},
    {"no subgroups", CAPS(0, 32768, 256)},
    {"subgroups of 4", CAPS(4, 16384, 256)},
    {"subgroups of 8", CAPS(8, 32768, 1024)},
    {"subgroups of 16", CAPS(16, 16384, 256)},
    {"subgroups of 32", CAPS(32, 49152, 1024)},
    {"subgroups of 64", CAPS(64, 65536, 1024)},
    {"subgroups of 128", CAPS(128, 32768, 1024)},
    {"subgroups of 32, cooperative matrices", CAPS(32, 49152, 1024)},
    {"subgroups of 4, waiting", CAPS(4, 16384, 256)},
    {"subgroups of 8, waiting", CAPS(8, 32768, 1024)},
    {"subgroups of 32, waiting", CAPS(32, 49152, 1024)},
    {"a browser", CAPS(0, 16384, 256)},
    {"a browser, subgroups of 32", CAPS(32, 32768, 256)},
};

enum { N_DEVICES = sizeof devices / sizeof *devices };

static tern_backend *backends[N_DEVICES];
static tern_rng rng;

static tern_backend *backend(size_t i)
{
    tern_error err = {0};
    tern_gpu_caps caps = devices[i].caps;
    caps.device_fences = strstr(devices[i].name, "browser") == NULL;
    caps.waits = strstr(devices[i].name, "waiting") != NULL;
    caps.cooperative = caps.int8_matrices = caps.f16 = strstr(devices[i].name, "cooperative") != NULL;
    if (!backends[i]) assert_ok(test_simulated_open(&backends[i], &caps, &err), err);
    print_message("%s\n", devices[i].name);
    return backends[i];
}

static int close_all(void **state)
{
    for (size_t i = 0; i < N_DEVICES; i++)
        if (backends[i]) backends[i]->close(backends[i]);
    return test_backends_close(state);
}

static const test_tolerance near = {.of_value = 1e-5, .of_row = 1e-6, .absolute = 1e-30};

/* On every third device, beginning with another one in each case. */
static void compare(test_case *c, uint32_t n_tokens, uint32_t n_outputs, test_tolerance tolerance)
{
    static size_t n_cases;
    for (size_t i = n_cases++ % 3; i < N_DEVICES; i += 3)
        test_case_compare(c, backend(i), n_tokens, n_outputs, tolerance);
    test_case_close(c);
}

static void rows(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 3, 130, 1028};
    test_seed(&rng);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int kind = 0; kind < 6; kind++) {
            const uint32_t cols = widths[i];
            test_case c;
            test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 3});
            tern_op op = {
                .n_in = 2, .eps = 1e-5f, .in = {test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY)}};
            test_tolerance tolerance = near;
            op.kind = (tern_op_kind[]){TERN_OP_ADD,        TERN_OP_RMS_NORM, TERN_OP_QUANTIZE,
                                       TERN_OP_NORM_QUANT, TERN_OP_GATE,     TERN_OP_GATE}[kind];
            if (kind == 0 || kind == 4)
                op.in[kind == 0 ? TERN_ADD_B : TERN_GATE_UP] =
                    test_case_rows(&c, "b", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
            if (kind == 5) { /* gate|up of one layer */
                const tern_view both = test_case_rows(&c, "both", TERN_ROWS_TOKENS, 2 * cols, TEST_ORDINARY);
                op.in[TERN_GATE_GATE] = test_case_columns(both, 0, cols);
                op.in[TERN_GATE_UP] = test_case_columns(both, cols, cols);
            }
            if (kind == 1 || kind == 3) op.in[TERN_NORM_WEIGHT] = test_case_norm_weight(&c, cols);
            if (kind == 2) op.n_in = 1;
            if (kind == 3) tolerance.of_int8 = 1;
            op.out = test_case_output(&c, "y", TERN_ROWS_TOKENS,
                                      kind == 2 || kind == 3 ? TERN_DTYPE_Q8 : TERN_DTYPE_F32, cols);
            test_case_add(&c, op);
            compare(&c, 2, 1, tolerance);
        }
}

/* Norms of groups of columns, in place and not; of whole rows with a residual; beside other columns. */
static void norms(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{3, 5}, {64, 9}, {130, 2}, {600, 1}};
    test_seed(&rng);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 3; kind++) {
            const uint32_t cols = sizes[i][0] * sizes[i][1];
            test_case c;
            test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 3});
            tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols + 3, TEST_ORDINARY);
            tern_op op = {.kind = TERN_OP_RMS_NORM, .n_in = 2, .eps = 1e-5f};
            op.in[TERN_NORM_X] = test_case_columns(x, 1, cols);
            op.in[TERN_NORM_WEIGHT] = test_case_norm_weight(&c, kind == 2 ? cols : sizes[i][0]);
            op.out = kind == 0 ? op.in[TERN_NORM_X] : test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
            if (kind) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
            test_case_add(&c, op);
            compare(&c, 2, 1, near);
        }
}

static void linear(const char *encoding, uint32_t cols, uint32_t n_rows, bool f32, uint32_t max_tokens,
                   uint32_t n_tokens)
{
    test_case c;
    print_message("%s, %u columns, %u rows, %s, %u of %u tokens\n", encoding, cols, n_rows, f32 ? "f32" : "q8",
                  n_tokens, max_tokens);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1};
    op.in[TERN_LINEAR_X] = f32 ? test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY)
                               : test_case_q8(&c, "x", TERN_ROWS_TOKENS, cols);
    op.in[TERN_LINEAR_W] = test_case_weight(&c, encoding, n_rows, cols);
    op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, n_rows, TEST_ORDINARY);
    op.out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, n_rows);
    test_case_add(&c, op);
    op.bias[0] = test_case_norm_weight(&c, n_rows);
    op.residual = (tern_view){0};
    op.out = test_case_output(&c, "biased", TERN_ROWS_TOKENS, TERN_DTYPE_F32, n_rows);
    test_case_add(&c, op);
    compare(&c, n_tokens, 1, (test_tolerance){.absolute = 1e-7 * cols, .of_row = 4e-6});
}

static void linears(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {3, 2}, {40, 35}};
    static const char *const dense[] = {TEST_DENSE_NAMES};
    test_seed(&rng);
    for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
        linear("i2_s", 384, 37, false, tokens[k][0], tokens[k][1]);
        linear("t160", 333, 21, false, tokens[k][0], tokens[k][1]);
        linear("i2_s", 256, 19, true, tokens[k][0], tokens[k][1]);
        for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
            linear(dense[i], 256, 19, true, tokens[k][0], tokens[k][1]);
    }
}

/* LINEAR_DX, and LINEAR_DW of int8 and of f32 rows. */
static void gradient(const char *encoding, uint32_t n_rows, uint32_t cols, uint32_t n_tokens)
{
    test_case c;
    print_message("gradients of %s, %u rows, %u columns, %u tokens\n", encoding, n_rows, cols, n_tokens);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens});
    tern_view none = {.value = TERN_NO_VALUE};
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_TOKENS, n_rows, TEST_ORDINARY),
              x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY),
              q8 = test_case_q8(&c, "q8", TERN_ROWS_TOKENS, cols),
              dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, n_rows, cols, TEST_ORDINARY),
              w = test_case_weight(&c, encoding, n_rows, cols);
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DW, .n_in = 3, .in = {dy, x, dw}, .out = none});
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DW, .n_in = 3, .in = {dy, q8, dw}, .out = none});
    test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR_DX,
                                .n_in = 2,
                                .in = {dy, w},
                                .residual = x,
                                .out = test_case_output(&c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols)});
    compare(&c, n_tokens, 1, (test_tolerance){.of_row = 4e-6, .absolute = 1e-7 * cols});
}

static void gradients(void **state)
{
    (void)state;
    test_seed(&rng);
    gradient("t160", 19, 37, 5);
    gradient("f32", 70, 16, 130);
    if (test_takes(0, 7, 1)) gradient("i2_s", 130, 128, 66);
    static const char *const encodings[] = {"q4_k", "q5_k", "q5_1", "q3_k", "q2_0"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (test_takes(1 + i, 7, 1)) gradient(encodings[i], 66, 256, 70);
}

/* gate, up and the norm before them in one op; q, k and v in one op. */
static void layer(tern_activation activation, bool gated, uint32_t max_tokens, uint32_t n_tokens)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_parts = gated ? 2 : 3, .gated = gated, .activation = activation};
    op.n_in = 1 + op.n_parts;
    op.in[TERN_LINEAR_X] = test_case_q8(&c, "x", TERN_ROWS_TOKENS, 256);
    for (uint32_t i = 0; i < op.n_parts; i++)
        op.in[TERN_LINEAR_W + i] = test_case_weight(&c, "i2_s", gated ? 40 : 40 - 12 * (i > 0), 256);
    op.out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, gated ? 40 : 96);
    test_case_add(&c, op);
    compare(&c, n_tokens, 1, (test_tolerance){.of_value = 2e-6, .of_row = 1e-6});
}

static void layers(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t tokens = 9; tokens <= 40; tokens += 31) {
        layer(TERN_ACT_RELU2, true, tokens, tokens - 2);
        layer(TERN_ACT_SILU, true, tokens, tokens - 3);
        layer(TERN_ACT_RELU2, false, tokens, tokens);
    }
}

/* Two of `n_experts` for each token: their choice, gate and up with biases, and the sum. */
static void network(const char *encoding, uint32_t n_experts, uint32_t n_tokens, tern_route_rule rule,
                    tern_activation activation)
{
    enum { COLS = 256, ROWS = 9 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = n_tokens + 1, .n_routes = 2});
    const tern_view routes = test_case_output(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2),
                    y = test_case_output(&c, "y", TERN_ROWS_ROUTED, TERN_DTYPE_F32, ROWS);
    test_case_add(&c, (tern_op){.kind = TERN_OP_ROUTE,
                                .n_in = TERN_ROUTE_INPUTS,
                                .in = {test_case_rows(&c, "logits", TERN_ROWS_TOKENS, n_experts, TEST_ORDINARY)},
                                .n_experts = n_experts,
                                .route_rule = rule,
                                .out = routes});
    tern_op op = {.kind = TERN_OP_LINEAR, .rows = TERN_ROWS_ROUTED, .n_in = 3, .n_parts = 2, .gated = true};
    op.activation = activation, op.limit = 1, op.route = routes, op.n_experts = n_experts, op.out = y;
    op.in[TERN_LINEAR_X] = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
    for (int i = 0; i < 2; i++) {
        op.in[TERN_LINEAR_W + i] = test_case_weight(&c, encoding, n_experts * ROWS, COLS);
        op.bias[i] = test_case_weight(&c, "f32", n_experts, ROWS);
    }
    test_case_add(&c, op);
    op = (tern_op){.kind = TERN_OP_COMBINE, .n_in = TERN_COMBINE_INPUTS, .in = {y, routes}};
    op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, ROWS, TEST_ORDINARY);
    op.out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS);
    test_case_add(&c, op);
    compare(&c, n_tokens, 1, (test_tolerance){.of_row = 2e-5, .absolute = 1e-5});
}

static void experts(void **state)
{
    (void)state;
    test_seed(&rng);
    network("bf16", 5, 2, TERN_ROUTE_SOFTMAX_TOP, TERN_ACT_SWIGLU_OAI);
    network("q4_k", 140, 2, TERN_ROUTE_SOFTMAX_ALL, TERN_ACT_SILU);
    network("i2_s", 3, 2, TERN_ROUTE_SOFTMAX_ALL_NORMED, TERN_ACT_RELU2);
    network("q4_k", 5, 12, TERN_ROUTE_SOFTMAX_ALL, TERN_ACT_SILU); /* put together by expert */
    network("bf16", 2, 50, TERN_ROUTE_SOFTMAX_ALL, TERN_ACT_SWIGLU_CLAMPED);
}

static void attention(uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim, tern_dtype dtype, uint32_t max_tokens,
                      uint32_t n_tokens, uint32_t first)
{
    test_case c;
    print_message("%u heads, %u KV heads of %u, %s, %u of %u tokens from %u\n", n_heads, n_kv_heads, head_dim,
                  tern_cache_type_of(dtype)->name, n_tokens, max_tokens, first);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max_tokens, .n_ctx = first < 256 ? 256 : 2048});
    tern_view k = test_case_cache(&c, "k", dtype, c.graph.max_pages, n_kv_heads, head_dim);
    tern_view v = test_case_cache(&c, "v", dtype, c.graph.max_pages, n_kv_heads, head_dim);
    for (uint32_t t = 0; t < max_tokens; t++) test_case_param(&c, TERN_PARAM_POSITIONS)[t] = first + t;
    tern_op op = {.kind = TERN_OP_ATTENTION,
                  .n_in = 6,
                  .n_heads = n_heads,
                  .n_kv_heads = n_kv_heads,
                  .head_dim = head_dim,
                  .in = {test_case_rows(&c, "q", TERN_ROWS_TOKENS, n_heads * head_dim, TEST_ORDINARY), k, v,
                         test_case_param_view(&c, TERN_PARAM_POSITIONS), test_case_param_view(&c, TERN_PARAM_SEQUENCES),
                         test_case_param_view(&c, TERN_PARAM_PAGES)}};
    op.out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, n_heads * head_dim);
    test_case_add(&c, op);
    compare(&c, n_tokens, 1, (test_tolerance){.of_row = 4e-5});
}

static void attentions(void **state)
{
    (void)state;
    test_seed(&rng);
    attention(4, 2, 64, TERN_DTYPE_F16, 1, 1, 130);
    attention(2, 1, 80, TERN_DTYPE_F32, 1, 1, 31);
    attention(5, 1, 128, TERN_DTYPE_F16, 1, 1, 200);
    attention(2, 1, 64, TERN_DTYPE_F16, 1, 1, 1500);
    attention(2, 2, 64, TERN_DTYPE_F16, 20, 17, 40);
    attention(2, 1, 96, TERN_DTYPE_F32, 40, 37, 0);
    attention(2, 1, 256, TERN_DTYPE_F16, 9, 9, 33);
    attention(4, 2, 64, TERN_DTYPE_Q8_0, 1, 1, 130);
    attention(5, 1, 128, TERN_DTYPE_Q4_0, 1, 1, 200);
    attention(2, 2, 64, TERN_DTYPE_Q4_0, 20, 17, 40);
    attention(2, 1, 128, TERN_DTYPE_Q8_0, 9, 9, 33);
}

/* The whole of ROPE_KV, and with attention in one dispatch. */
static void rope(uint32_t max_tokens, tern_op_kind kind, tern_dtype dtype)
{
    enum { HEADS = 4, KV = 2, DIM = 64 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max_tokens, .n_ctx = 256});
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, (HEADS + 2 * KV) * DIM, TEST_ORDINARY),
              table = test_case_rope_table(&c, DIM);
    tern_view k = test_case_cache(&c, "k", dtype, c.graph.max_pages, KV, DIM);
    tern_view v = test_case_cache(&c, "v", dtype, c.graph.max_pages, KV, DIM);
    for (uint32_t t = 0; t < max_tokens; t++) test_case_param(&c, TERN_PARAM_POSITIONS)[t] = 77 + t;
    tern_op op = {.kind = kind,
                  .n_in = 7,
                  .n_heads = HEADS,
                  .n_kv_heads = KV,
                  .head_dim = DIM,
                  .out = {.value = TERN_NO_VALUE},
                  .in = {x, test_case_param_view(&c, TERN_PARAM_POSITIONS), table, k, v,
                         test_case_param_view(&c, TERN_PARAM_SEQUENCES), test_case_param_view(&c, TERN_PARAM_PAGES)}};
    if (kind == TERN_OP_ROPE_ATTENTION)
        op.out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, HEADS * DIM);
    test_case_add(&c, op);
    if (kind == TERN_OP_ROPE_KV) {
        compare(&c, max_tokens, 1,
                (test_tolerance){.of_value = dtype == TERN_DTYPE_F32 ? 1e-6 : 1.0 / 1024,
                                 .of_row = 1e-6,
                                 .of_int8 = 1,
                                 .few_int8 = true});
        return;
    }
    for (size_t i = 0; i < N_DEVICES; i++) { /* the CPU has no such op; its result is tested where there is a GPU */
        test_results results;
        test_case_run(&c, backend(i), max_tokens, 1, 1, &results);
        for (uint32_t j = 0; j < HEADS * DIM; j++)
            assert_true(fabsf(test_results_row(&c, &results, op.out, 0)[j]) <= 1.0f);
        test_results_free(&results);
    }
    test_case_close(&c);
}

static void ropes(void **state)
{
    (void)state;
    test_seed(&rng);
    rope(3, TERN_OP_ROPE_KV, TERN_DTYPE_F32);
    rope(2, TERN_OP_ROPE_KV, TERN_DTYPE_F16);
    rope(3, TERN_OP_ROPE_KV, TERN_DTYPE_Q8_0);
    rope(2, TERN_OP_ROPE_KV, TERN_DTYPE_Q4_0);
    rope(1, TERN_OP_ROPE_ATTENTION, TERN_DTYPE_F16);
    rope(1, TERN_OP_ROPE_ATTENTION, TERN_DTYPE_F32);
}

/* Tokens chosen from vocabularies of one slice, several, and one whose highest logits share a slice. */
static void samples(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {5, 700, 3000};
    test_seed(&rng);
    test_sampling s = {.rng = &rng, .logits = malloc(3000 * sizeof(float))};
    for (int i = 0; i < 3; i++) {
        tern_sampler_params params = TERN_SAMPLER_DEFAULTS;
        params.top_k = i == 2 ? 9 : 4;
        s.n_vocab = sizes[i];
        test_sample_fill(&s, i == 1);
        for (uint32_t id = 0; i == 2 && id < 8; id++) s.logits[id] += 13;
        for (size_t k = 0; k < N_DEVICES; k++) {
            test_sample_check_greedy(&s, backend(k), "greedy");
            test_sample_check_draws(&s, backend(k), "drawn", &params, i == 1, 2);
        }
    }
    free(s.logits);
}

/* Runs of one row and more than are staged at a time, where a sequence has a workgroup and where a row has one. */
static void recurrent(void **state)
{
    (void)state;
    static const test_recurrent_shape shapes[] = {{.n_runs = 3,
                                                   .lengths = {1, 11, 3},
                                                   .channels = 70,
                                                   .taps = 4,
                                                   .heads = 2,
                                                   .key_heads = 1,
                                                   .keys = 32,
                                                   .values = 40},
                                                  {.n_runs = 2,
                                                   .lengths = {2, 5},
                                                   .n_sequences = 12,
                                                   .channels = 5,
                                                   .taps = 8,
                                                   .heads = 2,
                                                   .key_heads = 2,
                                                   .keys = 100,
                                                   .values = 8,
                                                   .joined = true},
                                                  {.n_runs = 1,
                                                   .lengths = {6},
                                                   .channels = 64,
                                                   .taps = 1,
                                                   .heads = 4,
                                                   .key_heads = 2,
                                                   .keys = 200,
                                                   .values = 16,
                                                   .tiled = true}};
    test_seed(&rng);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < N_DEVICES; k++) {
            test_recurrent_case r;
            (k % 2 ? test_conv_case : test_delta_case)(&r, &rng, &shapes[i]);
            test_recurrent_compare(&r, backend(k));
            test_case_close(&r.c);
        }
}

/* What ran. */
static void report(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        const test_use *use = &test_simulated_use[i];
        if (use->runs == 0) continue;
        n++;
        print_message("%-36s %llu runs\n", tern_gpu_pipelines[i].name, (unsigned long long)use->runs);
    }
    print_message("%zu of %d pipelines ran\n", n, TERN_GPU_PIPELINE_COUNT);
    assert_true(n > 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows),    cmocka_unit_test(norms),     cmocka_unit_test(linears),    cmocka_unit_test(gradients),
    cmocka_unit_test(layers),  cmocka_unit_test(experts),   cmocka_unit_test(attentions), cmocka_unit_test(ropes),
    cmocka_unit_test(samples), cmocka_unit_test(recurrent), cmocka_unit_test(report),
};

TEST_GROUP(ops, "slow", tests, .teardown = close_all);
