/* How fast the chosen pipeline of a dense linear layer is on a GPU: by default, on the output head of BitNet b1.58
 * 2B4T.
 *
 * usage: bench_gpu_dense [-d DEVICE] [-t TOKENS] [-r ROWS] [-c COLS] [-f FORMAT]
 *
 * Dispatches follow one another, on weights of more than 256 MiB, so that none are cached. FORMAT: f16 (the default),
 * bf16, f32, q8_0, q6_k, q4_k. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/gpu/linear/select.h"
#include "base/rng.h"
#include "chain.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { MAX_OPS = 256, MIN_OPS = 8, PARAM_BYTES = 256 };
static const uint64_t WEIGHT_BYTES = (uint64_t)256 << 20;
static const double MIN_SECONDS = 0.5;

typedef struct bench {
    chain c;
    tern_gpu_caps caps;
    const tern_encoding *encoding;
    uint32_t rows, cols;
    tern_weight weight;
} bench;

/* Random blocks whose f16 and f32 are finite: one encoded row, repeated. */
static void make_weight(bench *b)
{
    tern_weight *w = &b->weight;
    *w = (tern_weight){.encoding = b->encoding, .rows = b->rows, .cols = b->cols, .scale = 1.0f};
    chain_check(&b->c, tern_encoding_bytes(b->encoding, b->rows, b->cols, &w->bytes, &b->c.err));
    uint8_t *data = malloc(w->bytes);
    float *x = malloc(b->cols * sizeof *x);
    tern_rng rng = {1};
    for (uint32_t c = 0; c < b->cols; c++) x[c] = tern_rng_f32(&rng) - 0.5f;
    chain_check(&b->c, tern_encode(b->encoding, x, 1, b->cols, data, &b->c.err));
    for (uint32_t r = 1; r < b->rows; r++) memcpy(data + w->bytes / b->rows * r, data, w->bytes / b->rows);
    w->data = data;
    free(x);
}

static void make_graph(bench *b)
{
    uint64_t copies = WEIGHT_BYTES / b->weight.bytes + 1;
    if (copies > MAX_OPS) copies = MAX_OPS;
    chain_open(&b->c, PARAM_BYTES);
    tern_view x = chain_rows(&b->c, TERN_DTYPE_F32, b->cols, -0.5f),
              y = chain_rows(&b->c, TERN_DTYPE_F32, b->rows, -0.5f), w[MAX_OPS];
    for (uint32_t i = 0; i < copies; i++)
        w[i] = chain_add(
            &b->c,
            (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = &b->weight, .cols = b->cols, .bytes = b->weight.bytes});
    for (uint32_t i = 0; i < (copies < MIN_OPS ? MIN_OPS : copies); i++)
        chain_op(&b->c, &(tern_op){.kind = TERN_OP_LINEAR,
                                   .n_parts = 1,
                                   .n_in = TERN_LINEAR_W + 1,
                                   .in = {[TERN_LINEAR_X] = x, [TERN_LINEAR_W] = w[i % copies]},
                                   .out = y,
                                   .residual = {.value = TERN_NO_VALUE},
                                   .norm_weight = {.value = TERN_NO_VALUE}});
}

static void bench_chosen(bench *b)
{
    tern_gpu_layout layout;
    chain_check(&b->c, tern_gpu_layout_of(&layout, &b->weight, &b->caps, &b->c.err));
    const tern_gpu_dense_shape shape = {
        .format = layout.format, .rows = layout.slice_rows, .cols = b->cols, .tokens = b->c.tokens};
    double t = chain_seconds(&b->c, MIN_SECONDS);
    printf("%-24s %9.2f us  %7.1f GB/s  %9.1f Gflops\n",
           tern_gpu_pipelines[tern_gpu_select_dense(&b->caps, &shape)].name, t * 1e6, (double)layout.bytes / t * 1e-9,
           2.0 * b->rows * b->cols * b->c.tokens / t * 1e-9);
}

int main(int argc, char **argv)
{
    const char *device = "0", *format = "f16";
    static bench b = {.c = {.program = "bench_gpu_dense", .tokens = 1}, .rows = 128256, .cols = 2560};
    for (int c; (c = getopt(argc, argv, "d:t:r:c:f:")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 't') b.c.tokens = (uint32_t)atoi(optarg);
        else if (c == 'r') b.rows = (uint32_t)atoi(optarg);
        else if (c == 'c') b.cols = (uint32_t)atoi(optarg);
        else if (c == 'f') format = optarg;
        else return 2;
    }
    b.encoding = tern_encoding_by_name(format);
    if (!b.encoding || b.encoding->ternary || b.c.tokens == 0 || b.rows == 0 || b.cols == 0) {
        fprintf(stderr, "bench_gpu_dense: f16, bf16, f32, q8_0, q6_k or q4_k, and sizes above 0 expected\n");
        return 2;
    }
    b.caps = chain_caps(&b.c, device);
    chain_check(&b.c, tern_vulkan_open(&b.c.gpu, &(tern_vulkan_options){.device = device}, &b.c.err));
    printf("%s %u x %u, %u tokens\n", b.encoding->name, b.rows, b.cols, b.c.tokens);
    make_weight(&b);
    make_graph(&b);
    bench_chosen(&b);
    chain_close(&b.c);
    b.c.gpu->close(b.c.gpu);
    free((void *)(uintptr_t)b.weight.data);
    return 0;
}
