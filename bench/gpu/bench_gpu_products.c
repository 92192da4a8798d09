/* How fast a GPU makes the products of training: LINEAR, LINEAR_DX and LINEAR_DW in the shapes of BitNet b1.58 2B4T
 * with adapters of rank 16, and of a model of 350 M parameters.
 *
 * usage: bench_gpu_products [-d DEVICE] [-s WORD] [-t TOKENS] [-p]
 *
 * One line for each op: with cooperative matrices where the device has them, and without. Percentages are of the
 * device's f32 multiply-adds, measured first. WORD: only the lines with it in their name. TOKENS: 2048; 256 of the
 * head. -p: the time of each dispatch below its op. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "chain.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { N_OPS = 8, PARAM_BYTES = 65536, DISTINCT_ROWS = 16 };
static const double MIN_SECONDS = 0.15;

typedef struct shape {
    const char *name;
    tern_op_kind kind;
    tern_encoding_id encoding; /* of W */
    bool q8;                   /* x is int8 */
    uint32_t rows, cols;       /* of W */
    uint32_t tokens;           /* 0: as asked for */
} shape;

#define TERNARY(model, name, rows, cols)                                                                               \
    {model " " name, TERN_OP_LINEAR, TERN_ENC_I2_S, true, rows, cols, 0},                                              \
        {model " " name " dx", TERN_OP_LINEAR_DX, TERN_ENC_I2_S, false, rows, cols, 0},                                \
    {                                                                                                                  \
        model " " name " dw", TERN_OP_LINEAR_DW, TERN_ENC_I2_S, true, rows, cols, 0                                    \
    }
#define DENSE(name, encoding, rows, cols, tokens)                                                                      \
    {name, TERN_OP_LINEAR, encoding, false, rows, cols, tokens},                                                       \
        {name " dx", TERN_OP_LINEAR_DX, encoding, false, rows, cols, tokens},                                          \
    {                                                                                                                  \
        name " dw", TERN_OP_LINEAR_DW, encoding, false, rows, cols, tokens                                             \
    }

static const shape shapes[] = {
    TERNARY("2B4T", "q, o", 2560, 2560),
    TERNARY("2B4T", "k, v", 640, 2560),
    TERNARY("2B4T", "gate, up", 6912, 2560),
    TERNARY("2B4T", "down", 2560, 6912),
    DENSE("2B4T head f16", TERN_ENC_F16, 128256, 2560, 256),
    DENSE("2B4T head bf16", TERN_ENC_BF16, 128256, 2560, 256),
    DENSE("lora a", TERN_ENC_F32, 16, 2560, 0),
    DENSE("lora a down", TERN_ENC_F32, 16, 6912, 0),
    DENSE("lora b", TERN_ENC_F32, 2560, 16, 0),
    DENSE("lora b gate, up", TERN_ENC_F32, 6912, 16, 0),
    TERNARY("350M", "q, o", 1024, 1024),
    TERNARY("350M", "gate, up", 2816, 1024),
    TERNARY("350M", "down", 1024, 2816),
    DENSE("350M head f32", TERN_ENC_F32, 32768, 1024, 256),
    DENSE("350M head bf16", TERN_ENC_BF16, 32768, 1024, 256),
};

typedef struct bench {
    chain c;
    const shape *s;
    double peak; /* f32 multiply-adds per second */
    bool profile;
    tern_weight weight;
} bench;

/* A few rows of random weights, over and over: of one row alone, the sums of dx would cancel. */
static tern_view add_weight(bench *b)
{
    const tern_encoding *encoding = tern_encoding_find(b->s->encoding);
    tern_weight *w = &b->weight;
    *w = (tern_weight){.encoding = encoding, .rows = b->s->rows, .cols = b->s->cols, .scale = 0.02f};
    chain_check(&b->c, tern_encoding_bytes(encoding, w->rows, w->cols, &w->bytes, &b->c.err));
    uint8_t *data = malloc(w->bytes);
    tern_rng rng = {1};
    const uint32_t n = encoding->ternary ? 1 : DISTINCT_ROWS;
    size_t row = encoding->ternary ? w->bytes : n * (w->bytes / w->rows);
    float *x = malloc((size_t)n * w->cols * sizeof *x);
    for (size_t i = 0; i < (size_t)n * w->cols; i++) x[i] = tern_rng_f32(&rng) - 0.5f;
    if (!encoding->ternary) chain_check(&b->c, tern_encode(encoding, x, n, w->cols, data, &b->c.err));
    for (size_t i = 0; encoding->ternary && i < w->bytes; i++) {
        uint32_t r = tern_rng_below(&rng, 256);
        data[i] = (uint8_t)(r & ~((r & 0xaa) >> 1)); /* no code 3 */
    }
    for (size_t at = row; at < w->bytes; at += row) memcpy(data + at, data, row < w->bytes - at ? row : w->bytes - at);
    w->data = data;
    free(x);
    return chain_add(&b->c, (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = w->cols, .bytes = w->bytes});
}

static void make_graph(bench *b)
{
    const shape *s = b->s;
    chain_open(&b->c, PARAM_BYTES);
    tern_op op = {.kind = s->kind};
    op.residual.value = op.norm_weight.value = op.out.value = TERN_NO_VALUE;
    tern_dtype x_dtype = s->q8 ? TERN_DTYPE_Q8 : TERN_DTYPE_F32;
    switch (s->kind) {
    case TERN_OP_LINEAR:
        op.n_parts = 1;
        op.n_in = TERN_LINEAR_W + 1;
        op.in[TERN_LINEAR_X] = chain_rows(&b->c, x_dtype, s->cols, -0.5f);
        op.in[TERN_LINEAR_W] = add_weight(b);
        op.out = chain_rows(&b->c, TERN_DTYPE_F32, s->rows, -0.5f);
        break;
    case TERN_OP_LINEAR_DX:
        op.n_in = TERN_LINEAR_DX_INPUTS;
        op.in[TERN_LINEAR_DX_DY] = chain_rows(&b->c, TERN_DTYPE_F32, s->rows, -0.5f);
        op.in[TERN_LINEAR_DX_W] = add_weight(b);
        op.out = chain_rows(&b->c, TERN_DTYPE_F32, s->cols, -0.5f);
        break;
    default:
        op.n_in = TERN_LINEAR_DW_INPUTS;
        op.in[TERN_LINEAR_DW_DY] = chain_rows(&b->c, TERN_DTYPE_F32, s->rows, -0.5f);
        op.in[TERN_LINEAR_DW_X] = chain_rows(&b->c, x_dtype, s->cols, -0.5f);
        op.in[TERN_LINEAR_DW_DW] = chain_add(&b->c, (tern_value){.kind = TERN_VALUE_STATE,
                                                                 .state = TERN_STATE_GRADIENT,
                                                                 .n_rows = s->rows,
                                                                 .cols = s->cols,
                                                                 .bytes = (uint64_t)s->rows * s->cols * sizeof(float)});
    }
    for (int i = 0; i < N_OPS; i++) chain_op(&b->c, &op);
}

static void bench_shape(bench *b, uint32_t tokens)
{
    const shape *s = b->s;
    const chain_profile before = chain_profile_now(&b->c);
    b->c.tokens = s->tokens ? s->tokens : tokens;
    make_graph(b);
    double t = chain_seconds(&b->c, MIN_SECONDS), macs = (double)s->rows * s->cols * b->c.tokens;
    printf("%-20s %-10s %6u x %4u, %4u rows %10.2f us %8.2f Tflop/s %6.1f %%\n", s->name, tern_op_name(s->kind),
           s->rows, s->cols, b->c.tokens, t * 1e6, 2e-12 * macs / t, 100 * macs / t / b->peak);
    if (b->profile) chain_print_profile(&b->c, &before);
    fflush(stdout);
    chain_close(&b->c);
    free((void *)(uintptr_t)b->weight.data);
    b->weight.data = NULL;
}

/* All shapes on the device, without its cooperative matrices when `plain`. */
static void bench_device(bench *b, const char *device, bool plain, const char *word, uint32_t tokens)
{
    const tern_gpu_caps limits = {.subgroup_max = UINT32_MAX,
                                  .workgroup_bytes = UINT32_MAX,
                                  .workgroup_invocations = UINT32_MAX,
                                  .max_groups = UINT32_MAX,
                                  .max_binding = UINT64_MAX};
    const tern_vulkan_options options = {.device = device, .profile = b->profile, .limits = plain ? &limits : NULL};
    chain_check(&b->c, tern_vulkan_open(&b->c.gpu, &options, &b->c.err));
    b->peak = b->c.gpu->measure(b->c.gpu, TERN_MEASURE_FMA, NULL, 0, 0.5);
    printf("%s%s: %.1f Tflop/s of f32 multiply-adds\n", b->c.gpu->info.device,
           plain ? ", without cooperative matrices" : "", 2e-12 * b->peak);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        b->s = &shapes[i];
        if (!word || strstr(shapes[i].name, word)) bench_shape(b, tokens);
    }
    b->c.gpu->close(b->c.gpu);
}

int main(int argc, char **argv)
{
    const char *device = "0", *word = NULL;
    uint32_t tokens = 2048;
    static bench b = {.c.program = "bench_gpu_products"};
    for (int c; (c = getopt(argc, argv, "d:s:t:p")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 's') word = optarg;
        else if (c == 't') tokens = (uint32_t)atoi(optarg);
        else if (c == 'p') b.profile = true;
        else return 2;
    }
    if (tokens == 0) {
        fprintf(stderr, "bench_gpu_products: -t: more than 0 tokens expected\n");
        return 2;
    }
    bench_device(&b, device, false, word, tokens);
    bench_device(&b, device, true, word, tokens);
    return 0;
}
