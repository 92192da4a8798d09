/* How fast a GPU runs the ops of training beside the linear layers, in the shapes of BitNet b1.58 2B4T and of a model
 * of 350 M parameters: attention over rows and its backward, norms, gates, losses.
 *
 * usage: bench_gpu_rows [-d DEVICE] [-s WORD] [-t TOKENS] [-l LENGTH] [-p]
 *
 * One line for each op: microseconds, bytes of its inputs and outputs per second, and of attention the operations that
 * the definition needs. WORD: only the lines with it in their name. TOKENS: 2048, in documents of LENGTH (512); 256 of
 * the losses. -p: the time of each dispatch below its op. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/vulkan/vulkan.h"
#include "graph/graph.h"

enum { N_OPS = 8, MAX_VALUES = TERN_PARAM_COUNT + 16, MAX_ROWS = 64, PARAM_BYTES = 1 << 18, GAIN_ROWS = 1 };
static const double MIN_SECONDS = 0.15;

typedef struct shape {
    const char *name;
    tern_op_kind kind;
    uint32_t cols;                         /* of attention: of a head */
    uint32_t n_heads, n_kv_heads, n_vocab; /* n_vocab: rows of a table */
    uint32_t tokens;                       /* 0: as asked for */
    bool gain;                             /* the norm's gain is trained */
} shape;

static const shape shapes[] = {
    {"2B4T attention", TERN_OP_ATTENTION_ROWS, 128, 20, 5, 0, 0, false},
    {"2B4T attention", TERN_OP_ATTENTION_ROWS_BACKWARD, 128, 20, 5, 0, 0, false},
    {"350M attention", TERN_OP_ATTENTION_ROWS, 64, 16, 16, 0, 0, false},
    {"350M attention", TERN_OP_ATTENTION_ROWS_BACKWARD, 64, 16, 16, 0, 0, false},
    {"350M attention, 4 KV", TERN_OP_ATTENTION_ROWS_BACKWARD, 64, 16, 4, 0, 0, false},
    {"2B4T", TERN_OP_RMS_NORM_BACKWARD, 2560, 0, 0, 0, 0, false},
    {"2B4T ffn", TERN_OP_RMS_NORM_BACKWARD, 6912, 0, 0, 0, 0, false},
    {"350M", TERN_OP_RMS_NORM_BACKWARD, 1024, 0, 0, 0, 0, true},
    {"350M ffn", TERN_OP_RMS_NORM_BACKWARD, 2816, 0, 0, 0, 0, true},
    {"2B4T", TERN_OP_GATE_BACKWARD, 6912, 0, 0, 0, 0, false},
    {"350M", TERN_OP_GATE_BACKWARD, 2816, 0, 0, 0, 0, false},
    {"2B4T", TERN_OP_CROSS_ENTROPY, 128256, 0, 0, 0, 256, false},
    {"350M", TERN_OP_CROSS_ENTROPY, 32768, 0, 0, 0, 256, false},
    {"350M", TERN_OP_EMBED_BACKWARD, 1024, 0, 0, 32768, 0, false},
    {"2B4T", TERN_OP_ROPE_BACKWARD, 128, 20, 0, 0, 0, false},
    {"2B4T", TERN_OP_DROPOUT, 2560, 0, 0, 0, 0, false},
    {"2B4T", TERN_OP_SCALE, 2560, 0, 0, 0, 0, false},
    {"350M", TERN_OP_FAKE_QUANTIZE, 1024, 0, 0, 0, 0, false},
};

typedef struct bench {
    tern_backend *gpu;
    const shape *s;
    uint32_t tokens, length;
    bool profile;
    tern_weight gain;
    tern_graph graph;
    tern_binding bindings[MAX_VALUES];
    uint64_t bytes; /* of rows that the op reads or writes */
    tern_error err;
} bench;

static void check(bench *b, tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_gpu_rows: %s\n", b->err.message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tern_view add(bench *b, tern_value value)
{
    uint32_t id;
    check(b, tern_graph__add_value(&b->graph, value, &id, &b->err));
    if (value.kind == TERN_VALUE_WEIGHT)
        check(b, b->gpu->weight_create(b->gpu, value.weight, &b->bindings[id].buffer, &b->err));
    else check(b, b->gpu->buffer_create(b->gpu, value.bytes, &b->bindings[id].buffer, &b->err));
    return (tern_view){.value = id, .cols = value.cols};
}

static tern_view add_rows(bench *b, uint32_t cols)
{
    uint64_t bytes = (uint64_t)cols * b->tokens * sizeof(float);
    tern_view view = add(b, (tern_value){.kind = TERN_VALUE_OUTPUT, .cols = cols, .bytes = bytes});
    float *x = malloc(bytes);
    for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = (float)(i * 2654435761u % 1000) * 0.001f + 0.1f;
    check(b, b->gpu->buffer_write(b->gpu, b->bindings[view.value].buffer, 0, x, bytes, &b->err));
    free(x);
    b->bytes += bytes;
    return view;
}

static tern_view add_gain(bench *b, uint32_t cols)
{
    const tern_encoding *encoding = tern_encoding_find(TERN_ENC_F32);
    b->gain = (tern_weight){.encoding = encoding, .rows = GAIN_ROWS, .cols = cols, .bytes = cols * sizeof(float)};
    b->gain.data = calloc(cols, sizeof(float));
    return add(b, (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = &b->gain, .cols = cols, .bytes = b->gain.bytes});
}

static tern_view add_state(bench *b, uint32_t n_rows, uint32_t cols)
{
    return add(b, (tern_value){.kind = TERN_VALUE_STATE,
                               .state = TERN_STATE_GRADIENT,
                               .n_rows = n_rows,
                               .cols = cols,
                               .bytes = (uint64_t)n_rows * cols * sizeof(float)});
}

static tern_view param(const bench *b, tern_param which)
{
    return (tern_view){.value = b->graph.params[which]};
}

static void write_param(bench *b, tern_param which, const void *data, uint64_t bytes)
{
    tern_binding at = b->bindings[b->graph.params[which]];
    check(b, b->gpu->buffer_write(b->gpu, at.buffer, at.offset, data, bytes, &b->err));
}

static void fill_params(bench *b)
{
    uint32_t *starts = malloc(b->tokens * 4), *ids = malloc(b->tokens * 4);
    const uint32_t n[3] = {b->tokens, b->tokens, 0};
    const tern_train_params training = {.loss_weight = 1e-3f, .blend = 0.5f, .seed = 1};
    for (uint32_t t = 0; t < b->tokens; t++) {
        starts[t] = t / b->length * b->length;
        ids[t] = t * 2654435761u % 997 % (b->s->n_vocab ? b->s->n_vocab : 997); /* also the labels */
    }
    write_param(b, TERN_PARAM_COUNTS, n, sizeof n);
    write_param(b, TERN_PARAM_STARTS, starts, b->tokens * 4);
    write_param(b, TERN_PARAM_IDS, ids, b->tokens * 4);
    write_param(b, TERN_PARAM_LABELS, ids, b->tokens * 4);
    write_param(b, TERN_PARAM_TRAINING, &training, sizeof training);
    free(starts);
    free(ids);
}

static void open_graph(bench *b)
{
    b->bytes = 0;
    b->graph = (tern_graph){.max_tokens = b->tokens,
                            .max_outputs = b->tokens,
                            .n_sequences = 1,
                            .max_pages = 1,
                            .rope_table = TERN_NO_VALUE,
                            .logits = TERN_NO_VALUE,
                            .tokens = TERN_NO_VALUE,
                            .losses = TERN_NO_VALUE,
                            .norms = TERN_NO_VALUE,
                            .param_bytes = TERN_PARAM_COUNT * (uint64_t)PARAM_BYTES};
    tern_buffer *params;
    check(b, b->gpu->buffer_create(b->gpu, b->graph.param_bytes, &params, &b->err));
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        const tern_value value = {.kind = TERN_VALUE_PARAM,
                                  .dtype = TERN_DTYPE_U32,
                                  .bytes = PARAM_BYTES,
                                  .offset = i * (uint64_t)PARAM_BYTES};
        check(b, tern_graph__add_value(&b->graph, value, &b->graph.params[i], &b->err));
        b->bindings[b->graph.params[i]] = (tern_binding){.buffer = params, .offset = value.offset};
    }
    fill_params(b);
}

static void put(tern_op *op, tern_view view)
{
    op->in[op->n_in++] = view;
}

static void add_attention(bench *b, tern_op *op)
{
    const shape *s = b->s;
    uint32_t q_cols = s->n_heads * s->cols, kv_cols = s->n_kv_heads * s->cols;
    op->n_heads = s->n_heads;
    op->n_kv_heads = s->n_kv_heads;
    op->head_dim = s->cols;
    put(op, add_rows(b, q_cols));
    put(op, add_rows(b, kv_cols));
    put(op, add_rows(b, kv_cols));
    put(op, param(b, TERN_PARAM_STARTS));
    put(op, add_rows(b, 2 * s->n_heads));
    if (s->kind == TERN_OP_ATTENTION_ROWS_BACKWARD) {
        for (int i = 0; i < 2; i++) put(op, add_rows(b, q_cols));
        for (int i = 0; i < 2; i++) put(op, add_rows(b, kv_cols));
    }
    op->out = add_rows(b, q_cols);
}

static void add_norm(bench *b, tern_op *op)
{
    put(op, add_rows(b, b->s->cols));
    put(op, add_gain(b, b->s->cols));
    put(op, add_rows(b, b->s->cols));
    if (b->s->gain) put(op, add_state(b, 1, b->s->cols));
    op->residual = add_rows(b, b->s->cols);
    op->out = add_rows(b, b->s->cols);
    op->eps = 1e-5f;
}

static void add_rope(bench *b, tern_op *op)
{
    op->n_heads = b->s->n_heads;
    op->head_dim = b->s->cols;
    put(op, add_rows(b, op->n_heads * op->head_dim));
    put(op, param(b, TERN_PARAM_POSITIONS));
    put(op, add(b, (tern_value){.kind = TERN_VALUE_CONSTANT, .cols = op->head_dim, .bytes = 32 * op->head_dim * 4}));
}

static void add_op(bench *b, tern_op *op)
{
    const uint32_t cols = b->s->cols;
    switch (op->kind) {
    case TERN_OP_ATTENTION_ROWS:
    case TERN_OP_ATTENTION_ROWS_BACKWARD: add_attention(b, op); break;
    case TERN_OP_RMS_NORM_BACKWARD: add_norm(b, op); break;
    case TERN_OP_ROPE_BACKWARD: add_rope(b, op); break;
    case TERN_OP_GATE_BACKWARD:
        for (int i = 0; i < 4; i++) put(op, add_rows(b, cols));
        op->out = add_rows(b, cols);
        break;
    case TERN_OP_EMBED_BACKWARD:
        put(op, add_rows(b, cols));
        put(op, param(b, TERN_PARAM_IDS));
        put(op, add_state(b, b->s->n_vocab, cols));
        break;
    case TERN_OP_CROSS_ENTROPY:
        put(op, add_rows(b, cols));
        put(op, param(b, TERN_PARAM_LABELS));
        put(op, param(b, TERN_PARAM_TRAINING));
        op->out = add_rows(b, 1);
        break;
    default:
        op->scale = 0.1f;
        put(op, add_rows(b, cols));
        put(op, param(b, TERN_PARAM_TRAINING));
        op->out = add_rows(b, cols);
    }
}

/* What the kernels cost since the rows were taken before. */
static void report_dispatches(bench *b, const tern_profile_row *before, size_t n_before)
{
    tern_profile_row rows[MAX_ROWS];
    size_t n = b->gpu->profile(b->gpu, rows, MAX_ROWS);
    for (size_t i = 0; i < n && i < MAX_ROWS; i++) {
        uint64_t runs = rows[i].n - (i < n_before ? before[i].n : 0),
                 ns = rows[i].ns - (i < n_before ? before[i].ns : 0);
        if (runs) printf("    %-32s %9.2f us\n", rows[i].pipeline, (double)ns / (double)runs * 1e-3);
    }
}

/* Seconds for each op. */
static double time_graph(bench *b)
{
    tern_prepared *prepared;
    check(b, b->gpu->prepare(b->gpu, &b->graph, b->bindings, &prepared, &b->err));
    double best = 1e9, start = now();
    for (int i = 0; i < 3 || now() - start < MIN_SECONDS; i++) {
        double t = now();
        check(b, b->gpu->run(b->gpu, prepared, 1, &b->err));
        check(b, b->gpu->wait(b->gpu, &b->err));
        t = now() - t;
        if (t < best && i > 0) best = t;
    }
    b->gpu->prepared_free(b->gpu, prepared);
    return best / N_OPS;
}

/* Of attention: two products forward, five backward (one of them again), of the keys that are visible. */
static double operations(const bench *b)
{
    double pairs = 0;
    for (uint32_t t = 0; t < b->tokens; t++) pairs += t % b->length + 1;
    if (b->s->kind == TERN_OP_ATTENTION_ROWS) return 4 * pairs * b->s->n_heads * b->s->cols;
    return b->s->kind == TERN_OP_ATTENTION_ROWS_BACKWARD ? 10 * pairs * b->s->n_heads * b->s->cols : 0;
}

static void bench_shape(bench *b, uint32_t tokens)
{
    const shape *s = b->s;
    tern_profile_row before[MAX_ROWS];
    size_t n_before = b->profile ? b->gpu->profile(b->gpu, before, MAX_ROWS) : 0;
    tern_op op = {.kind = s->kind};
    op.residual.value = op.gain.value = op.out.value = TERN_NO_VALUE;
    b->tokens = s->tokens ? s->tokens : tokens;
    open_graph(b);
    add_op(b, &op);
    for (int i = 0; i < N_OPS; i++) check(b, tern_graph__add_op(&b->graph, &op, &b->err));
    double t = time_graph(b);
    printf("%-22s %-24s %6u, %4u rows %10.2f us %8.1f GB/s", s->name, tern_op_name(s->kind), s->cols, b->tokens,
           t * 1e6, (double)b->bytes / t * 1e-9);
    if (operations(b) > 0) printf(" %8.2f Tflop/s", operations(b) / t * 1e-12);
    printf("\n");
    if (b->profile) report_dispatches(b, before, n_before);
    fflush(stdout);
    for (size_t i = TERN_PARAM_COUNT - 1; i < b->graph.n_values; i++) /* the parameters share one */
        b->gpu->buffer_free(b->gpu, b->bindings[i].buffer);
    memset(b->bindings, 0, sizeof b->bindings);
    tern_graph_deinit(&b->graph);
    free((void *)(uintptr_t)b->gain.data);
    b->gain.data = NULL;
}

int main(int argc, char **argv)
{
    const char *device = "0", *word = NULL;
    uint32_t tokens = 2048;
    static bench b = {.length = 512};
    for (int c; (c = getopt(argc, argv, "d:s:t:l:p")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 's') word = optarg;
        else if (c == 't') tokens = (uint32_t)atoi(optarg);
        else if (c == 'l') b.length = (uint32_t)atoi(optarg);
        else if (c == 'p') b.profile = true;
        else return 2;
    }
    if (tokens == 0 || tokens > PARAM_BYTES / 4 || b.length == 0) {
        fprintf(stderr, "bench_gpu_rows: 1 to %d tokens, in documents of 1 or more, expected\n", PARAM_BYTES / 4);
        return 2;
    }
    const tern_vulkan_options options = {.device = device, .profile = b.profile};
    check(&b, tern_vulkan_open(&b.gpu, &options, &b.err));
    printf("%s\n", b.gpu->device);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        b.s = &shapes[i];
        if (!word || strstr(shapes[i].name, word) || strstr(tern_op_name(shapes[i].kind), word))
            bench_shape(&b, tokens);
    }
    b.gpu->close(b.gpu);
    return 0;
}
