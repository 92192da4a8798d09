/* Every pipeline of the table is chosen somewhere: on a device that is made up, for an op of some shape. */
#include "backend/gpu/attention/select.h"
#include "backend/gpu/linear/select.h"
#include "backend/gpu/program.h"
#include "graph/training.h"
#include "model/model.h"
#include "ops/operands.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/experts_case.h"
#include "support/formats.h"
#include "support/op_case.h"
#include "support/recurrent_training_case.h"
#include "support/test.h"
#include "support/training_case.h"

static bool chosen[TERN_GPU_PIPELINE_COUNT];

static void choose(tern_gpu_pipeline pipeline)
{
    if (pipeline < TERN_GPU_PIPELINE_COUNT) chosen[pipeline] = true;
}

static void choose_ternary(const tern_gpu_caps *caps)
{
    static const uint32_t cols[] = {256, 2048, 2560, 4096, 6400, 6912, 20000}, tokens[] = {1, 9, 512};
    for (uint32_t i = 0; i < 7 * 3 * 2 * 2 * 2 * 2 * 2; i++) {
        tern_gpu_ternary_shape s = {.cols = cols[i % 7], .tokens = tokens[i / 7 % 3], .rows = i % 2 ? 2560 : 256};
        uint32_t bits = i / 21;
        s.norm = bits & 1, s.gated = bits & 2, s.residual = bits & 4;
        s.activation = bits & 4 ? TERN_ACT_RELU2 : TERN_ACT_SILU;
        s.row_bits = bits & 8 ? 2560 : 100;
        s.n_parts = s.gated ? 2 : bits & 16 ? 3 : 1;
        choose(tern_gpu_select_ternary_vec(caps, &s));
        if (!s.norm) choose(tern_gpu_select_ternary_mat(caps, &s));
    }
}

static void choose_dense(const tern_gpu_caps *caps)
{
    static const uint32_t rows[] = {2560, 128256}, cols[] = {256, 4096}, tokens[] = {1, 4, 64, 512};
    for (tern_gpu_format f = TERN_GPU_F32; f < TERN_GPU_FORMAT_COUNT; f++)
        for (uint32_t i = 0; i < 2 * 2 * 4; i++) {
            const tern_gpu_dense_shape shape = {f, rows[i % 2], cols[i / 2 % 2], tokens[i / 4]};
            choose(tern_gpu_select_dense(caps, &shape));
            for (int gated = 0; gated < 2; gated++) {
                const tern_gpu_pipeline join = tern_gpu_select_dense_join(caps, &shape, gated);
                if (join < TERN_GPU_PIPELINE_COUNT) choose(join);
            }
        }
}

/* LINEAR, LINEAR_DX and LINEAR_DW, and what goes with them. */
static void choose_products(const tern_gpu_caps *caps)
{
    static const uint32_t sizes[] = {16, 640, 2560};
    if (caps->workgroup_bytes < 16384) return;
    for (uint32_t i = 0; i < 3 * 3 * 3; i++) {
        const tern_gpu_product product = {sizes[i % 3], sizes[i / 3 % 3], sizes[i / 9]};
        for (tern_gpu_format f = TERN_GPU_TERNARY; f < TERN_GPU_FORMAT_COUNT; f++) {
            choose(tern_gpu_select_dx(caps, f, &product).pipeline);
            if (f != TERN_GPU_TERNARY) choose(tern_gpu_select_linear(caps, f, &product).pipeline);
        }
        choose(tern_gpu_select_dw(caps, false, &product).pipeline);
        choose(tern_gpu_select_dw(caps, true, &product).pipeline);
    }
}

static void choose_attention(const tern_gpu_caps *caps)
{
    static const uint32_t dims[] = {64, 128, 256, 512, 100, 260}, groups[] = {1, 2, 4}, tokens[] = {1, 512, 2048};
    for (uint32_t i = 0; i < 6 * 3 * 3 * 2 * TERN_GPU_KV_KINDS * 2; i++) {
        tern_gpu_attention_shape s = {.head_dim = dims[i % 6],
                                      .n_kv_heads = 5,
                                      .n_heads = 5 * groups[i / 6 % 3],
                                      .max_tokens = tokens[i / 18 % 3],
                                      .max_positions = i / 54 % 2 ? 4096 : 32768,
                                      .kv = (tern_gpu_kv)(i / 108 % TERN_GPU_KV_KINDS),
                                      .n_slices = 1 + i / (108 * TERN_GPU_KV_KINDS)};
        if (s.kv == TERN_GPU_KV_BLOCKS && s.head_dim % TERN_GPU_BLOCK_HEADS) continue;
        choose(tern_gpu_select_attention(&s, caps).pipeline);
    }
}

static const char *const encodings[] = {TEST_DENSE_NAMES "i2_s"};

/* Ops on rows, the lookup of rows and the sampler. */
static void add_rows_ops(test_case *c, uint32_t cols)
{
    static const tern_op_kind kinds[] = {TERN_OP_RMS_NORM, TERN_OP_QUANTIZE, TERN_OP_NORM_QUANT, TERN_OP_ADD,
                                         TERN_OP_GATE,     TERN_OP_GATE,     TERN_OP_GATE,       TERN_OP_GATE,
                                         TERN_OP_GATE,     TERN_OP_GATE,     TERN_OP_GATHER};
    tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY),
              norm_weight = test_case_norm_weight(c, cols);
    tern_view y = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    tern_view q = test_case_output(c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, cols);
    tern_view tokens = test_case_output(c, "tokens", TERN_ROWS_OUTPUTS, TERN_DTYPE_U32, 1 + TERN_SAMPLE_MAX_STEPS);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool normed = kinds[i] == TERN_OP_RMS_NORM || kinds[i] == TERN_OP_NORM_QUANT;
        bool quantised = kinds[i] == TERN_OP_QUANTIZE || kinds[i] == TERN_OP_NORM_QUANT;
        test_case_add(c, (tern_op){.kind = kinds[i],
                                   .n_in = 2,
                                   .in = {x, normed ? norm_weight : x},
                                   .out = quantised ? q : y,
                                   .activation = kinds[i] == TERN_OP_GATE ? (tern_activation)(i - 4) : TERN_ACT_RELU2});
    }
    test_case_add(c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .residual = x, .out = y});
    test_case_add(c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .out = x});
    for (size_t i = 0; cols % 256 == 0 && i < sizeof encodings / sizeof *encodings; i++)
        test_case_add(
            c, (tern_op){.kind = TERN_OP_EMBED,
                         .n_in = 2,
                         .in = {test_case_weight(c, encodings[i], 4, cols), test_case_param_view(c, TERN_PARAM_IDS)},
                         .out = y});
    test_case_add(c, (tern_op){.kind = TERN_OP_SAMPLE, .n_in = 5, .in = {x}, .out = tokens});
}

/* A bias and a residual that lies apart or where the sum goes; in place a norm of more columns than others. */
static void add_sums(test_case *c, uint32_t cols)
{
    tern_view x = test_case_rows(c, "sums_of", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    tern_view bias = test_case_norm_weight(c, 8), w = test_case_weight(c, "f16", 8, cols);
    tern_view wide = test_case_rows(c, "normed", TERN_ROWS_TOKENS, 600, TEST_ORDINARY);
    tern_view out = test_case_output(c, "biased", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 8);
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1, .in = {x, w}, .bias = {bias}, .out = out};
    op.residual = out;
    test_case_add(c, op);
    test_case_add(
        c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {wide, test_case_norm_weight(c, 600)}, .out = wide});
}

/* Linear layers of rows that are not as the weights would have them. */
static void add_linear_ops(test_case *c, uint32_t cols)
{
    tern_view wide = test_case_rows(c, "wide", TERN_ROWS_TOKENS, cols + 7, TEST_ORDINARY);
    tern_view x = test_case_columns(wide, 3, cols), q = test_case_q8(c, "q8", TERN_ROWS_TOKENS, cols);
    tern_view w = test_case_weight(c, "f16", 8, cols), t = test_case_weight(c, "i2_s", 8, cols);
    tern_view out = test_case_output(c, "sums", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 8);
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1, .out = out};
    op.in[TERN_LINEAR_X] = x, op.in[TERN_LINEAR_W] = w;
    test_case_add(c, op);
    op.in[TERN_LINEAR_X] = q;
    test_case_add(c, op);
    op.in[TERN_LINEAR_X] = x, op.in[TERN_LINEAR_W] = t;
    test_case_add(c, op);
    op.in[TERN_LINEAR_W + 1] = t, op.n_in = 3, op.n_parts = 2, op.gated = true;
    test_case_add(c, op);
}

/* Gradients whose depth is worth cutting, on devices with matrices and without. */
static void add_gradient_ops(test_case *c)
{
    tern_view dy = test_case_rows(c, "dy", TERN_ROWS_TOKENS, 256, TEST_ORDINARY);
    tern_view dx = test_case_output(c, "dx", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 64);
    tern_view dw = test_case_state(c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 256, 256, TEST_ORDINARY);
    test_case_add(
        c, (tern_op){.kind = TERN_OP_LINEAR_DX, .n_in = 2, .in = {dy, test_case_weight(c, "f16", 256, 64)}, .out = dx});
    test_case_add(c,
                  (tern_op){.kind = TERN_OP_LINEAR_DW, .n_in = 3, .in = {dy, dy, dw}, .out = {.value = TERN_NO_VALUE}});
}

/* HADAMARD, SPLIT, CONV, and GATED_DELTA of heads of 32 to 256 keys. */
static void add_recurrent_ops(test_case *c)
{
    const tern_view wide = test_case_rows(c, "halves", TERN_ROWS_TOKENS, 2048, TEST_ORDINARY),
                    a = test_case_rows(c, "decay", TERN_ROWS_TOKENS, 1, TEST_ORDINARY),
                    b = test_case_rows(c, "share", TERN_ROWS_TOKENS, 1, TEST_ORDINARY),
                    of_head = test_case_norm_weight(c, 1),
                    out = test_case_output(c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 8),
                    gate = test_case_output(c, "gate", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 8);
    tern_op op = {.n_in = 2, .head_dim = 4, .n_heads = 1, .n_kv_heads = 1, .out = out};
    op.kind = TERN_OP_SPLIT;
    op.in[TERN_SPLIT_X] = wide, op.in[TERN_SPLIT_GATE] = gate;
    test_case_add(c, op);
    test_case_add(c, (tern_op){.kind = TERN_OP_HADAMARD,
                               .n_in = TERN_HADAMARD_INPUTS,
                               .in = {a, of_head},
                               .block = 1,
                               .out = test_case_columns(out, 0, 1)});
    op.kind = TERN_OP_CONV, op.n_in = TERN_CONV_INPUTS;
    op.in[TERN_CONV_WEIGHT] = test_case_weight(c, "f32", 8, 4);
    op.in[TERN_CONV_STATE] = test_case_recurrent(c, "tails", 1, 24);
    test_case_add(c, op);
    op.kind = TERN_OP_GATED_DELTA, op.n_in = TERN_GATED_DELTA_INPUTS;
    op.in[TERN_GATED_DELTA_A] = a, op.in[TERN_GATED_DELTA_B] = b;
    op.in[TERN_GATED_DELTA_DECAY] = op.in[TERN_GATED_DELTA_DT] = of_head;
    op.in[TERN_GATED_DELTA_STATE] = test_case_recurrent(c, "states", 1, 2048);
    for (op.head_dim = 32; op.head_dim <= 256; op.head_dim *= 2) test_case_add(c, op);
}

static void add_attention_ops(test_case *c, tern_dtype dtype)
{
    enum { HEADS = 2, DIM = 64 };
    tern_view qkv = test_case_rows(c, "qkv", TERN_ROWS_TOKENS, 3 * HEADS * DIM, TEST_ORDINARY);
    tern_view at = test_case_param_view(c, TERN_PARAM_POSITIONS), table = test_case_rope_table(c, DIM);
    tern_view k = test_case_cache(c, "k", dtype, c->graph.max_pages, HEADS, DIM),
              v = test_case_cache(c, "v", dtype, c->graph.max_pages, HEADS, DIM);
    tern_view q = test_case_columns(qkv, 0, HEADS * DIM);
    tern_view out = test_case_output(c, "heads", TERN_ROWS_TOKENS, TERN_DTYPE_F32, HEADS * DIM);
    const tern_op shape = {.n_heads = HEADS, .n_kv_heads = HEADS, .head_dim = DIM};
    tern_op rope = shape, write = shape, rope_kv = shape, attention = shape;
    rope.kind = TERN_OP_ROPE, rope.n_in = TERN_ROPE_INPUTS;
    rope.in[TERN_ROPE_X] = q, rope.in[TERN_ROPE_POSITIONS] = at, rope.in[TERN_ROPE_TABLE] = table;
    test_case_add(c, rope);
    write.kind = TERN_OP_KV_WRITE, write.n_in = TERN_KV_WRITE_INPUTS;
    write.in[TERN_KV_WRITE_K] = write.in[TERN_KV_WRITE_V] = q;
    write.in[TERN_KV_WRITE_K_CACHE] = k, write.in[TERN_KV_WRITE_V_CACHE] = v;
    test_case_add(c, write);
    rope_kv.kind = TERN_OP_ROPE_KV, rope_kv.n_in = TERN_ROPE_KV_INPUTS;
    rope_kv.in[TERN_ROPE_KV_QKV] = qkv, rope_kv.in[TERN_ROPE_KV_TABLE] = table;
    rope_kv.in[TERN_ROPE_KV_K_CACHE] = k, rope_kv.in[TERN_ROPE_KV_V_CACHE] = v;
    test_case_add(c, rope_kv);
    rope_kv.head_norms[0] = rope_kv.head_norms[1] = test_case_norm_weight(c, DIM);
    if (tern_cache_type_of(dtype)->elements == 1) test_case_add(c, rope_kv);
    attention.kind = TERN_OP_ATTENTION, attention.n_in = TERN_ATTENTION_INPUTS, attention.out = out;
    attention.in[TERN_ATTENTION_Q] = q, attention.in[TERN_ATTENTION_K_CACHE] = k;
    attention.in[TERN_ATTENTION_V_CACHE] = v, attention.in[TERN_ATTENTION_POSITIONS] = at;
    test_case_add(c, attention);
}

static void add_training_ops(test_case *c, uint32_t cols)
{
    static const tern_op_kind kinds[] = {TERN_OP_SCALE,         TERN_OP_DROPOUT,           TERN_OP_FAKE_QUANTIZE,
                                         TERN_OP_CROSS_ENTROPY, TERN_OP_RMS_NORM_BACKWARD, TERN_OP_EMBED_BACKWARD,
                                         TERN_OP_BIAS_BACKWARD, TERN_OP_SOFTCAP_BACKWARD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        test_training_add(c, &(test_training){.kind = kinds[i], .cols = cols});
    test_training_add(c, &(test_training){.kind = TERN_OP_RMS_NORM_BACKWARD, .cols = cols, .n_groups = 2});
    test_training_add(c, &(test_training){.kind = TERN_OP_SCALE, .cols = cols, .softcap = 3});
    for (int act = TERN_ACT_RELU2; act <= TERN_ACT_SWIGLU_CLAMPED; act++)
        test_training_add(
            c, &(test_training){.kind = TERN_OP_GATE_BACKWARD, .cols = cols, .activation = (tern_activation)act});
}

/* Convolutions and the gated delta rule over packed rows, output gates, and what splits a projection for them. */
static void add_recurrent_training(test_case *c, uint32_t keys)
{
    const test_delta_training delta = {
        .rows = 2, .heads = 1, .key_heads = 1, .keys = keys, .values = 8, .decay = true, .dt = true};
    const tern_view d = test_training_input(c, "d", 8), one = test_training_input(c, "one", 1),
                    out = test_training_output(c, "halves", 16), gates = test_training_output(c, "gates", 1),
                    dup = test_training_output(c, "ups", 8);
    test_conv_training_add(c, 8, 4, true);
    test_delta_training_add(c, &delta);
    test_case_add(c, (tern_op){.kind = TERN_OP_SPLIT_BACKWARD, .n_in = 2, .in = {d, d}, .head_dim = 4, .out = out});
    for (int i = 0; i < 2; i++) /* a gate for each column, and one for all */
        test_case_add(c, (tern_op){.kind = TERN_OP_GATE_BACKWARD,
                                   .n_in = TERN_GATE_BACKWARD_INPUTS,
                                   .in = {i ? one : d, d, d, dup},
                                   .activation = TERN_ACT_SIGMOID,
                                   .out = i ? gates : test_training_output(c, "each", 8)});
}

static void choose_graph(const tern_graph *graph, const tern_gpu_caps *caps)
{
    tern_gpu_program program;
    tern_error err = {0};
    assert_ok(tern_gpu_lower(&program, graph, caps, &err), err);
    for (size_t i = 0; i < program.n; i++) choose(program.dispatches[i].pipeline);
    tern_gpu_program_deinit(&program);
}

/* Chooses for a case, and closes it. */
static void choose_case(test_case *c, const tern_gpu_caps *caps)
{
    choose_graph(&c->graph, caps);
    test_case_close(c);
}

static void choose_trained(const tern_gpu_caps *caps, uint32_t cols)
{
    tern_rng rng = {.state = 1};
    test_case c;
    const test_case_shape shape = {.max_tokens = 2, .training = true};
    test_case_open(&c, &rng, &shape);
    add_training_ops(&c, cols);
    choose_case(&c, caps);
    for (uint32_t keys = 16; keys <= 256; keys *= 4) {
        test_documents_case(&c, &rng, 2, 2);
        add_recurrent_training(&c, keys);
        choose_case(&c, caps);
    }
    for (uint32_t head_dim = 64; head_dim <= 256; head_dim *= 2) {
        test_case_open(&c, &rng, &shape);
        test_varlen_attention_add(
            &c, &(test_varlen_attention){
                    .rows = 2, .n_heads = 2, .n_kv_heads = 1, .head_dim = head_dim, .sinks = true, .dsinks = true});
        choose_case(&c, caps);
    }
}

static void choose_gradients(const tern_gpu_caps *caps)
{
    tern_rng rng = {.state = 1};
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 128});
    add_gradient_ops(&c);
    choose_case(&c, caps);
}

static void choose_lowered(const tern_gpu_caps *caps, uint32_t cols, tern_dtype dtype)
{
    tern_rng rng = {.state = 1};
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2, .n_ctx = 1024, .sampler = true, .states = true});
    add_rows_ops(&c, cols);
    if (cols % 256 == 0) add_recurrent_ops(&c);
    if (cols % 256 == 0) add_linear_ops(&c, cols);
    add_sums(&c, cols);
    add_attention_ops(&c, dtype);
    choose_case(&c, caps);
}

/* Products of two experts in every encoding, the choice of them and their sum. */
static void choose_experts(const tern_gpu_caps *caps, uint32_t max_tokens)
{
    enum { COLS = 256, N = 2 };
    tern_rng rng = {.state = 1};
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max_tokens, .n_routes = N});
    const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY),
                    logits = test_case_rows(&c, "logits", TERN_ROWS_TOKENS, N, TEST_ORDINARY),
                    routes = test_case_output(&c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2),
                    y = test_case_output(&c, "y", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 4),
                    sum = test_case_output(&c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 4);
    for (int rule = TERN_ROUTE_SOFTMAX_ALL_NORMED; rule <= TERN_ROUTE_SOFTMAX_TOP; rule++)
        test_case_add(&c, (tern_op){.kind = TERN_OP_ROUTE,
                                    .n_in = 1,
                                    .in = {logits},
                                    .n_experts = N,
                                    .route_rule = (tern_route_rule)rule,
                                    .out = routes});
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR,
                                    .rows = TERN_ROWS_ROUTED,
                                    .n_in = 2,
                                    .n_parts = 1,
                                    .in = {x, test_case_weight(&c, encodings[i], N * 4, COLS)},
                                    .route = routes,
                                    .n_experts = N,
                                    .out = y});
    test_case_add(&c, (tern_op){.kind = TERN_OP_COMBINE, .n_in = 2, .in = {y, routes}, .out = sum});
    choose_case(&c, caps);
}

static void choose_experts_backward(const tern_gpu_caps *caps)
{
    tern_rng rng = {.state = 1};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        const test_experts experts = {.encoding = encodings[i], .n_experts = 2, .rows = 4, .cols = 256};
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 4, .n_routes = 2});
        test_experts_backward_add(&c, &experts, TERN_ROUTE_SOFTMAX_TOP);
        choose_case(&c, caps);
    }
}

/* A weight of 8192 elements, in codes or blended, by both optimisers. */
static void choose_updates(const tern_gpu_caps *caps)
{
    const float scales[64] = {0};
    tern_config config = {0};
    tern_graph graph;
    tern_error err = {0};
    for (int i = 0; i < 4; i++) {
        const tern_weight w = {.encoding = tern_encoding_by_name(i < 2 ? "i2_s" : "f32"),
                               .rows = 64,
                               .cols = 128,
                               .trained = true,
                               .row_scales = i < 2 ? scales : NULL};
        const tern_graph_update update = {
            .weight = &w, .has_master = true, .optimizer = i % 2 ? TERN_OPTIMIZER_ADAMW : TERN_OPTIMIZER_SGD};
        for (int phase = TERN_GRAPH_NORMS; phase <= TERN_GRAPH_UPDATE; phase++) {
            assert_ok(tern_graph_build_updates(&graph, &config, &update, 1, (tern_graph_phase)phase, true, &err), err);
            choose_graph(&graph, caps);
            tern_graph_deinit(&graph);
        }
    }
}

static void choose_all(void)
{
    static const uint32_t subgroups[] = {0, 4, 8, 16, 32, 64}, bytes[] = {4096, 16384, 32768, 49152},
                          invocations[] = {128, 256, 1024};
    for (uint32_t i = 0; i < 6 * 4 * 3 * 2; i++) {
        tern_gpu_caps caps = {.subgroup_min = subgroups[i % 6],
                              .subgroup_max = subgroups[i % 6],
                              .workgroup_bytes = bytes[i / 6 % 4],
                              .workgroup_invocations = invocations[i / 24 % 3],
                              .max_groups = 65535,
                              .max_binding = 1u << 27,
                              .binding_alignment = 256,
                              .f16 = i / 72,
                              .cooperative = i / 72 && subgroups[i % 6] == 32,
                              .int8_matrices = i / 72 && subgroups[i % 6] == 32,
                              .device_fences = i / 72};
        choose_ternary(&caps);
        choose_dense(&caps);
        choose_products(&caps);
        choose_attention(&caps);
        if (caps.workgroup_bytes == 49152) choose_gradients(&caps);
        if (caps.workgroup_bytes < 16384) continue;
        choose_updates(&caps);
        choose_experts(&caps, 2);  /* row by row */
        choose_experts(&caps, 24); /* by expert, in tiles of 32 and of 64 */
        choose_experts(&caps, 64);
        choose_experts_backward(&caps);
        choose_trained(&caps, 256);
        choose_trained(&caps, 65);
        if (caps.workgroup_bytes > 16384) continue;
        choose_lowered(&caps, 256, TERN_DTYPE_F16);
        choose_lowered(&caps, 65, TERN_DTYPE_F32);
        choose_lowered(&caps, 65, TERN_DTYPE_Q8_0);
    }
}

/* But for those that measure and try, which no op becomes; the Vulkan backend takes the twins that wait. */
static void all_are_chosen(void **state)
{
    (void)state;
    uint32_t n_never = 0;
    choose_all();
    chosen[TERN_GPU_READ_BANDWIDTH] = chosen[TERN_GPU_DOT_RATE] = chosen[TERN_GPU_FMA_RATE] = true;
    chosen[TERN_GPU_WAITS_LARGE] = chosen[TERN_GPU_WAITS_SMALL] = true;
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++)
        if (chosen[p]) choose(tern_gpu_waiting(p));
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        if (chosen[i]) continue;
        print_error("%s is never chosen\n", tern_gpu_pipelines[i].name);
        n_never++;
    }
    assert_int_equal(n_never, 0);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(all_are_chosen)};

TEST_GROUP(select, "", tests);
