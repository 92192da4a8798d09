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
#include <unistd.h>

#include "chain.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { N_OPS = 8, PARAM_BYTES = 1 << 18 };
static const double MIN_SECONDS = 0.15;

typedef struct shape {
    const char *name;
    tern_op_kind kind;
    uint32_t cols;                         /* of attention: of a head */
    uint32_t n_heads, n_kv_heads, n_vocab; /* n_vocab: rows of a table */
    uint32_t tokens;                       /* 0: as asked for */
    bool norm_weight;                      /* the norm's norm_weight is trained */
} shape;

static const shape shapes[] = {
    {"2B4T attention", TERN_OP_VARLEN_ATTENTION, 128, 20, 5, 0, 0, false},
    {"2B4T attention", TERN_OP_VARLEN_ATTENTION_BACKWARD, 128, 20, 5, 0, 0, false},
    {"350M attention", TERN_OP_VARLEN_ATTENTION, 64, 16, 16, 0, 0, false},
    {"350M attention", TERN_OP_VARLEN_ATTENTION_BACKWARD, 64, 16, 16, 0, 0, false},
    {"350M attention, 4 KV", TERN_OP_VARLEN_ATTENTION_BACKWARD, 64, 16, 4, 0, 0, false},
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
    chain c;
    const shape *s;
    uint32_t length;
    bool profile;
    tern_weight norm_weight;
    uint64_t bytes; /* of rows that the op reads or writes */
} bench;

static tern_view add_rows(bench *b, uint32_t cols)
{
    b->bytes += tern_row_bytes(TERN_DTYPE_F32, cols, b->c.tokens);
    return chain_rows(&b->c, TERN_DTYPE_F32, cols, 0.1f);
}

static tern_view add_norm_weight(bench *b, uint32_t cols)
{
    const tern_encoding *encoding = tern_encoding_find(TERN_ENC_F32);
    b->norm_weight = (tern_weight){.encoding = encoding, .rows = 1, .cols = cols, .bytes = cols * sizeof(float)};
    b->norm_weight.data = calloc(cols, sizeof(float));
    return chain_add(
        &b->c, (tern_value){
                   .kind = TERN_VALUE_WEIGHT, .weight = &b->norm_weight, .cols = cols, .bytes = b->norm_weight.bytes});
}

static tern_view add_state(bench *b, uint32_t n_rows, uint32_t cols)
{
    return chain_add(&b->c, (tern_value){.kind = TERN_VALUE_STATE,
                                         .state = TERN_STATE_GRADIENT,
                                         .n_rows = n_rows,
                                         .cols = cols,
                                         .bytes = (uint64_t)n_rows * cols * sizeof(float)});
}

static tern_view param(const bench *b, tern_param which)
{
    return (tern_view){.value = b->c.graph.params[which]};
}

static void fill_params(bench *b)
{
    uint32_t *starts = malloc(b->c.tokens * 4), *ids = malloc(b->c.tokens * 4);
    const tern_train_params training = {.loss_weight = 1e-3f, .blend = 0.5f, .seed = 1};
    for (uint32_t t = 0; t < b->c.tokens; t++) {
        starts[t] = t / b->length * b->length;
        ids[t] = t * 2654435761u % 997 % (b->s->n_vocab ? b->s->n_vocab : 997); /* also the labels */
    }
    chain_write_param(&b->c, TERN_PARAM_SEQ_STARTS, starts, b->c.tokens * 4);
    chain_write_param(&b->c, TERN_PARAM_IDS, ids, b->c.tokens * 4);
    chain_write_param(&b->c, TERN_PARAM_LABELS, ids, b->c.tokens * 4);
    chain_write_param(&b->c, TERN_PARAM_TRAINING, &training, sizeof training);
    free(starts);
    free(ids);
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
    put(op, param(b, TERN_PARAM_SEQ_STARTS));
    put(op, add_rows(b, 2 * s->n_heads));
    if (s->kind == TERN_OP_VARLEN_ATTENTION_BACKWARD) {
        for (int i = 0; i < 2; i++) put(op, add_rows(b, q_cols));
        for (int i = 0; i < 2; i++) put(op, add_rows(b, kv_cols));
    }
    op->out = add_rows(b, q_cols);
}

static void add_norm(bench *b, tern_op *op)
{
    put(op, add_rows(b, b->s->cols));
    put(op, add_norm_weight(b, b->s->cols));
    put(op, add_rows(b, b->s->cols));
    if (b->s->norm_weight) put(op, add_state(b, 1, b->s->cols));
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
    put(op, chain_add(&b->c,
                      (tern_value){.kind = TERN_VALUE_CONSTANT, .cols = op->head_dim, .bytes = 32 * op->head_dim * 4}));
}

static void add_op(bench *b, tern_op *op)
{
    const uint32_t cols = b->s->cols;
    switch (op->kind) {
    case TERN_OP_VARLEN_ATTENTION:
    case TERN_OP_VARLEN_ATTENTION_BACKWARD: add_attention(b, op); break;
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

/* Of attention: two products forward, five backward (one of them again), of the keys that are visible. */
static double operations(const bench *b)
{
    double pairs = 0;
    for (uint32_t t = 0; t < b->c.tokens; t++) pairs += t % b->length + 1;
    if (b->s->kind == TERN_OP_VARLEN_ATTENTION) return 4 * pairs * b->s->n_heads * b->s->cols;
    return b->s->kind == TERN_OP_VARLEN_ATTENTION_BACKWARD ? 10 * pairs * b->s->n_heads * b->s->cols : 0;
}

static void bench_shape(bench *b, uint32_t tokens)
{
    const shape *s = b->s;
    const chain_profile before = chain_profile_now(&b->c);
    tern_op op = {.kind = s->kind};
    op.residual.value = op.norm_weight.value = op.out.value = TERN_NO_VALUE;
    b->c.tokens = s->tokens ? s->tokens : tokens;
    b->bytes = 0;
    chain_open(&b->c, PARAM_BYTES);
    fill_params(b);
    add_op(b, &op);
    for (int i = 0; i < N_OPS; i++) chain_op(&b->c, &op);
    double t = chain_seconds(&b->c, MIN_SECONDS);
    printf("%-22s %-24s %6u, %4u rows %10.2f us %8.1f GB/s", s->name, tern_op_name(s->kind), s->cols, b->c.tokens,
           t * 1e6, (double)b->bytes / t * 1e-9);
    if (operations(b) > 0) printf(" %8.2f Tflop/s", operations(b) / t * 1e-12);
    printf("\n");
    if (b->profile) chain_print_profile(&b->c, &before);
    fflush(stdout);
    chain_close(&b->c);
    free((void *)(uintptr_t)b->norm_weight.data);
    b->norm_weight.data = NULL;
}

int main(int argc, char **argv)
{
    const char *device = "0", *word = NULL;
    uint32_t tokens = 2048;
    static bench b = {.c.program = "bench_gpu_rows", .length = 512};
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
    chain_check(&b.c, tern_vulkan_open(&b.c.gpu, &options, &b.c.err));
    printf("%s\n", b.c.gpu->info.device);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        b.s = &shapes[i];
        if (!word || strstr(shapes[i].name, word) || strstr(tern_op_name(shapes[i].kind), word))
            bench_shape(&b, tokens);
    }
    b.c.gpu->close(b.c.gpu);
    return 0;
}
