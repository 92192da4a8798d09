/* How fast the chosen pipeline of a dense linear layer is on a GPU: by default, on the output head of BitNet b1.58
 * 2B4T.
 *
 * usage: bench_gpu_dense [-d DEVICE] [-t TOKENS] [-r ROWS] [-c COLS] [-f FORMAT]
 *
 * Dispatches follow one another, on weights of more than 256 MiB, so that none are cached. FORMAT: f16 (the default),
 * bf16, f32, q8_0, q6_k, q4_k. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/gpu/linear.h"
#include "backend/vulkan/vulkan.h"
#include "base/rng.h"
#include "graph/graph.h"

enum { MAX_OPS = 256, MIN_OPS = 8 };
static const uint64_t WEIGHT_BYTES = (uint64_t)256 << 20;
static const double MIN_SECONDS = 0.5;

typedef struct bench {
    tern_backend *gpu;
    tern_gpu_caps caps;
    const tern_encoding *encoding;
    uint32_t rows, cols, tokens;
    tern_weight weight;
    tern_graph graph;
    tern_binding bindings[MAX_OPS + 8];
    tern_error err;
} bench;

static void check(bench *b, tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_gpu_dense: %s\n", b->err.message);
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
    uint64_t bytes = tern_row_bytes(TERN_DTYPE_F32, cols, b->tokens);
    return add(b, (tern_value){.kind = TERN_VALUE_OUTPUT, .dtype = TERN_DTYPE_F32, .cols = cols, .bytes = bytes});
}

/* Random blocks whose f16 and f32 are finite: one encoded row, repeated. */
static void make_weight(bench *b)
{
    tern_weight *w = &b->weight;
    *w = (tern_weight){.encoding = b->encoding, .rows = b->rows, .cols = b->cols, .scale = 1.0f};
    check(b, tern_encoding_bytes(b->encoding, b->rows, b->cols, &w->bytes, &b->err));
    uint8_t *data = malloc(w->bytes);
    float *x = malloc(b->cols * sizeof *x);
    tern_rng rng = {1};
    for (uint32_t c = 0; c < b->cols; c++) x[c] = tern_rng_f32(&rng) - 0.5f;
    check(b, tern_encode(b->encoding, x, 1, b->cols, data, &b->err));
    for (uint32_t r = 1; r < b->rows; r++) memcpy(data + w->bytes / b->rows * r, data, w->bytes / b->rows);
    w->data = data;
    free(x);
}

static void make_graph(bench *b)
{
    b->graph = (tern_graph){.max_tokens = b->tokens,
                            .max_outputs = b->tokens,
                            .n_sequences = 1,
                            .max_pages = 1,
                            .rope_table = TERN_NO_VALUE,
                            .logits = TERN_NO_VALUE,
                            .tokens = TERN_NO_VALUE,
                            .param_bytes = 256};
    for (int i = 0; i < TERN_PARAM_COUNT; i++) b->graph.params[i] = TERN_NO_VALUE;
    tern_view counts = add(b, (tern_value){.kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = 256});
    b->graph.params[TERN_PARAM_COUNTS] = counts.value;
    const uint32_t n[3] = {b->tokens, b->tokens, 0};
    uint64_t copies = WEIGHT_BYTES / b->weight.bytes + 1;
    if (copies > MAX_OPS) copies = MAX_OPS;
    check(b, b->gpu->buffer_write(b->gpu, b->bindings[counts.value].buffer, 0, n, sizeof n, &b->err));
    tern_view x = add_rows(b, b->cols), y = add_rows(b, b->rows), w[MAX_OPS];
    for (uint32_t i = 0; i < copies; i++)
        w[i] = add(b, (tern_value){
                          .kind = TERN_VALUE_WEIGHT, .weight = &b->weight, .cols = b->cols, .bytes = b->weight.bytes});
    for (uint32_t i = 0; i < (copies < MIN_OPS ? MIN_OPS : copies); i++) {
        const tern_op op = {.kind = TERN_OP_LINEAR,
                            .n_parts = 1,
                            .n_in = 2,
                            .in = {x, w[i % copies]},
                            .out = y,
                            .residual = {.value = TERN_NO_VALUE},
                            .gain = {.value = TERN_NO_VALUE}};
        check(b, tern_graph__add_op(&b->graph, &op, &b->err));
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
    return best / (double)b->graph.n_ops;
}

static void bench_chosen(bench *b)
{
    tern_gpu_layout layout;
    check(b, tern_gpu_layout_of(&layout, &b->weight, &b->caps, &b->err));
    const tern_gpu_dense_shape shape = {
        .format = layout.format, .rows = layout.slice_rows, .cols = b->cols, .tokens = b->tokens};
    double t = time_graph(b);
    printf("%-24s %9.2f us  %7.1f GB/s  %9.1f Gflops\n",
           tern_gpu_pipelines[tern_gpu_select_dense(&b->caps, &shape)].name, t * 1e6, (double)layout.bytes / t * 1e-9,
           2.0 * b->rows * b->cols * b->tokens / t * 1e-9);
}

static void open_device(bench *b, const char *device)
{
    tern_vulkan_device devices[8] = {0};
    size_t n, which = (size_t)atoi(device);
    check(b, tern_vulkan_devices(devices, 8, &n, &b->err));
    if (which >= n) {
        fprintf(stderr, "bench_gpu_dense: device %zu: %zu found\n", which, n);
        exit(1);
    }
    const tern_vulkan_device *d = &devices[which];
    b->caps = (tern_gpu_caps){.subgroup_min = d->subgroup_min,
                              .subgroup_max = d->subgroup_max,
                              .workgroup_bytes = d->workgroup_bytes,
                              .workgroup_invocations = d->workgroup_invocations,
                              .max_groups = 65535,
                              .max_binding = d->max_binding};
    const tern_vulkan_options options = {.device = device};
    check(b, tern_vulkan_open(&b->gpu, &options, &b->err));
    printf("%s, %s: %s %u x %u, %u tokens\n", d->name, d->driver, b->encoding->name, b->rows, b->cols, b->tokens);
}

int main(int argc, char **argv)
{
    const char *device = "0", *format = "f16";
    bench b = {.rows = 128256, .cols = 2560, .tokens = 1};
    for (int c; (c = getopt(argc, argv, "d:t:r:c:f:")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 't') b.tokens = (uint32_t)atoi(optarg);
        else if (c == 'r') b.rows = (uint32_t)atoi(optarg);
        else if (c == 'c') b.cols = (uint32_t)atoi(optarg);
        else if (c == 'f') format = optarg;
        else return 2;
    }
    b.encoding = tern_encoding_by_name(format);
    if (!b.encoding || b.encoding->ternary || b.tokens == 0 || b.rows == 0 || b.cols == 0) {
        fprintf(stderr, "bench_gpu_dense: f16, bf16, f32, q8_0, q6_k or q4_k, and sizes above 0 expected\n");
        return 2;
    }
    open_device(&b, device);
    make_weight(&b);
    make_graph(&b);
    bench_chosen(&b);
    for (size_t i = 0; i < b.graph.n_values; i++) b.gpu->buffer_free(b.gpu, b.bindings[i].buffer);
    tern_graph_deinit(&b.graph);
    b.gpu->close(b.gpu);
    free((void *)(uintptr_t)b.weight.data);
    return 0;
}
