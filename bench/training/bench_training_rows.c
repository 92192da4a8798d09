/* How fast the training ops beside the linear layers are on the CPU, as shares of what this machine can do in the same
 * run: attention of the f32 multiply-adds of a loop that touches registers only (by what causal attention needs: two
 * products of half a square forward, five backward), the others of the memory's read bandwidth (by the bytes of their
 * operands).
 *
 * usage: bench_training_rows [THREADS [CPU_FEATURES [TOKENS]]]     THREADS 0: one for each core */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/measure/peak.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "graph/graph.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "stream/stream.h"

enum {
    REPEATS = 5,
    MAX_VALUES = 32,
    HIDDEN = 2560,
    FFN = 6912,
    HEADS = 20,
    HEAD_DIM = 128,
    VOCAB = 128256,
    HEAD_ROWS = 128
};

typedef struct bench {
    tern_backend *backend;
    tern_graph graph;
    tern_binding bindings[MAX_VALUES];
    double fma_rate, read_rate; /* per second */
    uint32_t n_tokens;
} bench;

static tern_error err;

static void must(tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static tern_view add_value(bench *b, tern_value value)
{
    uint32_t id;
    must(tern_graph__add_value(&b->graph, value, &id, &err));
    must(b->backend->buffer_create(b->backend, value.bytes, &b->bindings[id].buffer, &err));
    return (tern_view){.value = id, .cols = value.cols};
}

static uint32_t seed = 1;

static tern_view add_rows(bench *b, uint32_t n, uint32_t cols)
{
    const uint64_t bytes = (uint64_t)n * cols * sizeof(float);
    const tern_view view = add_value(b, (tern_value){.kind = TERN_VALUE_OUTPUT, .cols = cols, .bytes = bytes});
    float *x = malloc(bytes);
    for (size_t i = 0; i < (size_t)n * cols; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    must(b->backend->buffer_write(b->backend, b->bindings[view.value].buffer, 0, x, bytes, &err));
    free(x);
    return view;
}

static tern_view add_param(bench *b, tern_param which, const void *data, uint64_t bytes)
{
    const tern_view view =
        add_value(b, (tern_value){.kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = bytes});
    b->graph.params[which] = view.value;
    must(b->backend->buffer_write(b->backend, b->bindings[view.value].buffer, 0, data, bytes, &err));
    return view;
}

static void open_graph(bench *b)
{
    const uint32_t counts[3] = {b->n_tokens, b->n_tokens < HEAD_ROWS ? b->n_tokens : HEAD_ROWS, 0};
    memset(b->bindings, 0, sizeof b->bindings);
    b->graph = (tern_graph){.max_tokens = b->n_tokens, .max_outputs = counts[1]};
    for (int i = 0; i < TERN_PARAM_COUNT; i++) b->graph.params[i] = TERN_NO_VALUE;
    add_param(b, TERN_PARAM_COUNTS, counts, sizeof counts);
}

static tern_view add_counted(bench *b, tern_param which, uint32_t step)
{
    uint32_t *values = malloc(b->n_tokens * sizeof *values);
    for (uint32_t i = 0; i < b->n_tokens; i++) values[i] = i * step % VOCAB;
    const tern_view view = add_param(b, which, values, b->n_tokens * sizeof *values);
    free(values);
    return view;
}

static tern_view add_training(bench *b)
{
    const tern_train_params params = {.loss_weight = 1e-3f, .blend = 0.5f, .seed = 1};
    return add_param(b, TERN_PARAM_TRAINING, &params, sizeof params);
}

static tern_op add_op(bench *b, tern_op op, tern_view out)
{
    op.out = out;
    op.residual.value = op.norm_weight.value = TERN_NO_VALUE;
    must(tern_graph__add_op(&b->graph, &op, &err));
    return op;
}

/* Runs the graph and prints what it needs; the rates are of multiply-adds, or of bytes if there are none. */
static void run_graph(bench *b, const char *name, double multiply_adds, double bytes)
{
    tern_prepared *prepared = NULL;
    double best = 1e30;
    const uint32_t n_threads = tern_cpu_n_threads(b->backend);
    must(b->backend->prepare(b->backend, &b->graph, b->bindings, &prepared, &err));
    for (int i = 0; i < REPEATS; i++) {
        const double start = stream_seconds(n_threads);
        must(b->backend->run(b->backend, prepared, 1, &err));
        const double taken = stream_seconds(n_threads) - start;
        if (taken < best) best = taken;
    }
    const double rate = multiply_adds > 0 ? multiply_adds / best : bytes / best;
    const double most = multiply_adds > 0 ? b->fma_rate : b->read_rate;
    printf("%-28s %9.3f ms  %7.1f %s, %5.1f %% of %.0f\n", name, best * 1e3, rate / 1e9,
           multiply_adds > 0 ? "GMAC/s" : "GB/s  ", 100 * rate / most, most / 1e9);
    b->backend->prepared_free(b->backend, prepared);
}

static void close_graph(bench *b)
{
    for (size_t i = 0; i < b->graph.n_values; i++)
        if (b->bindings[i].buffer) b->backend->buffer_free(b->backend, b->bindings[i].buffer);
    tern_graph_deinit(&b->graph);
}

static void bench_attention(bench *b, uint32_t kv_heads, uint32_t documents)
{
    char name[64];
    const uint32_t n = b->n_tokens, q_cols = HEADS * HEAD_DIM, kv_cols = kv_heads * HEAD_DIM;
    const double square = (double)n * n / 2 / documents * q_cols;
    open_graph(b);
    uint32_t *values = malloc(n * sizeof *values);
    for (uint32_t t = 0; t < n; t++) values[t] = t / (n / documents) * (n / documents);
    const tern_view starts = add_param(b, TERN_PARAM_SEQ_STARTS, values, n * sizeof *values);
    free(values);
    const tern_view qkv = add_rows(b, n, q_cols + 2 * kv_cols), q = {qkv.value, 0, q_cols, 0};
    const tern_view k = {qkv.value, q_cols, kv_cols, 0}, v = {qkv.value, q_cols + kv_cols, kv_cols, 0};
    const tern_view statistics = add_rows(b, n, 2 * HEADS), out = add_rows(b, n, q_cols);
    const tern_view dqkv = add_rows(b, n, q_cols + 2 * kv_cols), dout = add_rows(b, n, q_cols);
    tern_op op = {.kind = TERN_OP_VARLEN_ATTENTION,
                  .n_in = TERN_VARLEN_ATTENTION_INPUTS,
                  .in = {[TERN_VARLEN_ATTENTION_Q] = q,
                         [TERN_VARLEN_ATTENTION_K] = k,
                         [TERN_VARLEN_ATTENTION_V] = v,
                         [TERN_VARLEN_ATTENTION_STARTS] = starts,
                         [TERN_VARLEN_ATTENTION_STATISTICS] = statistics}};
    op.n_heads = HEADS, op.n_kv_heads = kv_heads, op.head_dim = HEAD_DIM;
    add_op(b, op, out);
    snprintf(name, sizeof name, "attention %u/%u x %u doc", HEADS, kv_heads, documents);
    run_graph(b, name, square * 2, 0);
    b->graph.n_ops = 0; /* the backward alone, on what the forward has left */
    op.kind = TERN_OP_VARLEN_ATTENTION_BACKWARD, op.n_in = TERN_VARLEN_ATTENTION_BACKWARD_INPUTS;
    op.in[TERN_VARLEN_ATTENTION_OUT] = out, op.in[TERN_VARLEN_ATTENTION_DOUT] = dout;
    op.in[TERN_VARLEN_ATTENTION_DK] = (tern_view){dqkv.value, q_cols, kv_cols, 0};
    op.in[TERN_VARLEN_ATTENTION_DV] = (tern_view){dqkv.value, q_cols + kv_cols, kv_cols, 0};
    add_op(b, op, (tern_view){dqkv.value, 0, q_cols, 0});
    snprintf(name, sizeof name, "  backward");
    run_graph(b, name, square * 5, 0);
    close_graph(b);
}

static void bench_elementwise(bench *b)
{
    static const tern_op_kind kinds[] = {TERN_OP_SCALE, TERN_OP_DROPOUT, TERN_OP_FAKE_QUANTIZE};
    for (int i = 0; i < 3; i++) {
        open_graph(b);
        const tern_view training = add_training(b), x = add_rows(b, b->n_tokens, HIDDEN),
                        y = add_rows(b, b->n_tokens, HIDDEN);
        tern_op op = {.kind = kinds[i], .n_in = TERN_SCALE_INPUTS, .in = {[TERN_SCALE_X] = x}, .scale = 0.1f};
        if (kinds[i] != TERN_OP_SCALE) { /* DROPOUT and FAKE_QUANTIZE name the same inputs */
            op.n_in = TERN_DROPOUT_INPUTS;
            op.in[TERN_DROPOUT_TRAINING] = training;
        }
        add_op(b, op, y);
        run_graph(b, tern_op_name(kinds[i]), 0, 2.0 * b->n_tokens * HIDDEN * 4);
        close_graph(b);
    }
}

static void bench_gates(bench *b)
{
    static const char *const names[] = {"gate_backward relu2", "gate_backward silu", "gate_backward gelu"};
    for (int i = 0; i < 3; i++) {
        open_graph(b);
        const tern_view both = add_rows(b, b->n_tokens, 2 * FFN), dboth = add_rows(b, b->n_tokens, 2 * FFN);
        const tern_view dy = add_rows(b, b->n_tokens, FFN), g = {both.value, 0, FFN, 0}, u = {both.value, FFN, FFN, 0};
        const tern_view dg = {dboth.value, 0, FFN, 0}, du = {dboth.value, FFN, FFN, 0};
        add_op(b,
               (tern_op){.kind = TERN_OP_GATE_BACKWARD,
                         .n_in = TERN_GATE_BACKWARD_INPUTS,
                         .in = {[TERN_GATE_BACKWARD_GATE] = g,
                                [TERN_GATE_BACKWARD_UP] = u,
                                [TERN_GATE_BACKWARD_DY] = dy,
                                [TERN_GATE_BACKWARD_DUP] = du},
                         .activation = (tern_activation)i},
               dg);
        run_graph(b, names[i], 0, 5.0 * b->n_tokens * FFN * 4);
        close_graph(b);
    }
}

static void bench_norm(bench *b)
{
    float norm_weight[HIDDEN];
    for (int i = 0; i < HIDDEN; i++) norm_weight[i] = 1;
    tern_weight w = {
        .encoding = tern_encoding_by_name("f32"), .rows = 1, .cols = HIDDEN, .bytes = sizeof norm_weight, .scale = 1};
    w.data = (const uint8_t *)norm_weight;
    open_graph(b);
    const tern_view x = add_rows(b, b->n_tokens, HIDDEN), dy = add_rows(b, b->n_tokens, HIDDEN);
    const tern_view dx = add_rows(b, b->n_tokens, HIDDEN), dg = add_rows(b, 1, HIDDEN),
                    residual = add_rows(b, b->n_tokens, HIDDEN);
    const tern_view g = add_value(b, (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = &w, .cols = HIDDEN, .bytes = 4});
    b->backend->buffer_free(b->backend, b->bindings[g.value].buffer);
    must(b->backend->weight_create(b->backend, &w, &b->bindings[g.value].buffer, &err));
    add_op(b,
           (tern_op){.kind = TERN_OP_RMS_NORM_BACKWARD,
                     .n_in = TERN_NORM_BACKWARD_INPUTS,
                     .in = {[TERN_NORM_BACKWARD_X] = x,
                            [TERN_NORM_BACKWARD_WEIGHT] = g,
                            [TERN_NORM_BACKWARD_DY] = dy,
                            [TERN_NORM_BACKWARD_DWEIGHT] = dg},
                     .eps = 1e-5f},
           dx);
    b->graph.ops[0].residual = residual;
    run_graph(b, "rms_norm_backward", 0, 4.0 * b->n_tokens * HIDDEN * 4);
    close_graph(b);
}

static void bench_rope(bench *b)
{
    open_graph(b);
    const tern_view dx = add_rows(b, b->n_tokens, HIDDEN), positions = add_counted(b, TERN_PARAM_POSITIONS, 1);
    const tern_view table = add_rows(b, b->n_tokens, HEAD_DIM);
    add_op(b,
           (tern_op){.kind = TERN_OP_ROPE_BACKWARD,
                     .n_in = TERN_ROPE_INPUTS,
                     .in = {[TERN_ROPE_X] = dx, [TERN_ROPE_POSITIONS] = positions, [TERN_ROPE_TABLE] = table},
                     .n_heads = HEADS,
                     .head_dim = HEAD_DIM},
           (tern_view){.value = TERN_NO_VALUE});
    run_graph(b, "rope_backward", 0, 2.0 * b->n_tokens * HIDDEN * 4);
    close_graph(b);
}

static void bench_ends(bench *b)
{
    open_graph(b);
    const tern_view training = add_training(b), labels = add_counted(b, TERN_PARAM_LABELS, 61);
    const tern_view z = add_rows(b, b->graph.max_outputs, VOCAB), losses = add_rows(b, b->n_tokens, 1);
    add_op(b,
           (tern_op){.kind = TERN_OP_CROSS_ENTROPY,
                     .rows = TERN_ROWS_OUTPUTS,
                     .n_in = TERN_CROSS_ENTROPY_INPUTS,
                     .in = {[TERN_CROSS_ENTROPY_LOGITS] = z,
                            [TERN_CROSS_ENTROPY_LABELS] = labels,
                            [TERN_CROSS_ENTROPY_TRAINING] = training}},
           losses);
    run_graph(b, "cross_entropy, 128 rows", 0, 2.0 * HEAD_ROWS * VOCAB * 4);
    close_graph(b);
    open_graph(b);
    const tern_view dy = add_rows(b, b->n_tokens, HIDDEN), ids = add_counted(b, TERN_PARAM_IDS, 61),
                    dw = add_rows(b, VOCAB, HIDDEN);
    add_op(b,
           (tern_op){
               .kind = TERN_OP_EMBED_BACKWARD,
               .n_in = TERN_EMBED_BACKWARD_INPUTS,
               .in = {[TERN_EMBED_BACKWARD_DY] = dy, [TERN_EMBED_BACKWARD_IDS] = ids, [TERN_EMBED_BACKWARD_DW] = dw}},
           (tern_view){.value = TERN_NO_VALUE});
    run_graph(b, "embed_backward", 0, 3.0 * b->n_tokens * HIDDEN * 4);
    close_graph(b);
}

/* Multiply-adds per second of all threads together. */
static double fma_rate(uint32_t n_threads, const char *level)
{
    tern_pool *pool;
    must(tern_pool_open(&pool, n_threads, false, &err));
    const double rate = stream_peak_rate(pool, tern_cpu_fma_peak_of(level));
    tern_pool_close(pool);
    return rate > 0 ? rate : 1; /* shares of nothing */
}

int main(int argc, char **argv)
{
    bench b = {.n_tokens = argc > 3 ? (uint32_t)atoi(argv[3]) : 2048};
    tern_cpu_options options = {.n_threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 0, .features_set = true};
    must(tern_cpu_features_parse(argc > 2 ? argv[2] : "native", tern_cpu_features(), &options.features, &err));
    must(tern_cpu_open(&b.backend, &options, &err));
    const uint32_t n_threads = tern_cpu_n_threads(b.backend);
    const char *level = tern_cpu_kernels_of(b.backend)->product_level;
    b.fma_rate = fma_rate(n_threads, level);
    b.read_rate = b.backend->measure(b.backend, TERN_MEASURE_READ, NULL, 0, 0.5);
    printf("%u threads, %s, %u tokens\n", n_threads, level, b.n_tokens);
    bench_attention(&b, HEADS, 1);
    bench_attention(&b, HEADS / 4, 1);
    bench_attention(&b, HEADS / 4, 4);
    bench_elementwise(&b);
    bench_gates(&b);
    bench_norm(&b);
    bench_rope(&b);
    bench_ends(&b);
    b.backend->close(b.backend);
    return 0;
}
