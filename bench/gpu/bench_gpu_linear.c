/* How fast the chosen pipelines of ternary linear layers are on a GPU, on the shapes of BitNet b1.58 2B4T.
 *
 * usage: bench_gpu_linear [-d DEVICE] [-c] [-t TOKENS] [-s SHAPE]
 *
 * One token (the default): dependent dispatches as in decoding, each with weights of its own out of more than any cache
 * holds; with the norm in the op, with the norm as an op before it (`split`), and of rows that are quantised (`q8`).
 * More tokens: tiles. -c: the device has cooperative matrices. */
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

enum { PARAM_BYTES = 4096, MIN_OPS = 256, MAX_OPS = 2048 };
static const size_t WEIGHT_BYTES = (size_t)256 << 20;
static const double MIN_SECONDS = 0.25;

typedef struct layer {
    const char *name;
    uint32_t cols, n_parts, rows[3];
    bool gated, residual;
} layer;

static const layer layers[] = {
    {"qkv", 2560, 3, {2560, 640, 640}, false, false},
    {"o", 2560, 1, {2560}, false, true},
    {"gate_up", 2560, 2, {6912, 6912}, true, false},
    {"down", 6912, 1, {2560}, false, true},
};

typedef struct bench {
    tern_backend *gpu;
    tern_gpu_caps caps;
    uint32_t tokens;
    enum { Q8, NORM, SPLIT } mode; /* rows quantised before; a norm in the op; the same as two ops */
    const layer *layer;
    uint8_t *bytes; /* of the largest weight */
    tern_error err;
} bench;

static void check(bench *b, tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_gpu_linear: %s\n", b->err.message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A graph whose ops follow each other, and the buffers of its values. */
typedef struct chain {
    tern_graph graph;
    tern_binding bindings[MAX_OPS];
    tern_weight weights[MAX_OPS];
    size_t n_weights;
} chain;

static tern_view add(bench *b, chain *c, tern_value value)
{
    uint32_t id;
    check(b, tern_graph__add_value(&c->graph, value, &id, &b->err));
    if (value.kind == TERN_VALUE_WEIGHT)
        check(b, b->gpu->weight_create(b->gpu, value.weight, &c->bindings[id].buffer, &b->err));
    else check(b, b->gpu->buffer_create(b->gpu, value.bytes, &c->bindings[id].buffer, &b->err));
    return (tern_view){.value = id, .cols = value.cols};
}

static tern_view add_rows(bench *b, chain *c, tern_dtype dtype, uint32_t cols)
{
    uint64_t bytes = tern_row_bytes(dtype, cols, b->tokens);
    tern_view view = add(b, c, (tern_value){.kind = TERN_VALUE_OUTPUT, .dtype = dtype, .cols = cols, .bytes = bytes});
    float *x = malloc(bytes);
    for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = (float)(i * 2654435761u % 1000) * 0.001f - 0.5f;
    check(b, b->gpu->buffer_write(b->gpu, c->bindings[view.value].buffer, 0, x, bytes, &b->err));
    free(x);
    return view;
}

static tern_view add_weight(bench *b, chain *c, tern_encoding_id id, uint32_t rows, uint32_t cols)
{
    tern_weight *w = &c->weights[c->n_weights++];
    *w =
        (tern_weight){.encoding = tern_encoding_find(id), .rows = rows, .cols = cols, .data = b->bytes, .scale = 0.02f};
    check(b, tern_encoding_bytes(w->encoding, rows, cols, &w->bytes, &b->err));
    return add(b, c, (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = cols, .bytes = w->bytes});
}

static void open_chain(bench *b, chain *c)
{
    *c = (chain){0};
    c->graph = (tern_graph){.max_tokens = b->tokens,
                            .max_outputs = b->tokens,
                            .n_sequences = 1,
                            .max_pages = 1,
                            .rope_table = TERN_NO_VALUE,
                            .logits = TERN_NO_VALUE,
                            .tokens = TERN_NO_VALUE,
                            .param_bytes = TERN_PARAM_COUNT * (uint64_t)PARAM_BYTES};
    tern_buffer *params;
    check(b, b->gpu->buffer_create(b->gpu, c->graph.param_bytes, &params, &b->err));
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        tern_value value = {.kind = TERN_VALUE_PARAM,
                            .dtype = TERN_DTYPE_U32,
                            .bytes = PARAM_BYTES,
                            .offset = i * (uint64_t)PARAM_BYTES};
        check(b, tern_graph__add_value(&c->graph, value, &c->graph.params[i], &b->err));
        c->bindings[c->graph.params[i]] = (tern_binding){.buffer = params, .offset = value.offset};
    }
    const uint32_t n[3] = {b->tokens, b->tokens, 0};
    check(b, b->gpu->buffer_write(b->gpu, params, 0, n, sizeof n, &b->err));
}

static uint32_t columns(const layer *l)
{
    return l->gated ? l->rows[0] : l->rows[0] + l->rows[1] + l->rows[2];
}

static uint64_t bytes_of(const layer *l)
{
    return ((uint64_t)l->rows[0] + l->rows[1] + l->rows[2]) * l->cols / 4;
}

/* The norm and quantiser of what `op` reads, as an op of their own. */
static void add_norm(bench *b, chain *c, const tern_op *op, tern_view q8)
{
    tern_op norm = {.kind = TERN_OP_NORM_QUANT,
                    .n_in = 2,
                    .in = {op->in[0], op->gain},
                    .eps = op->eps,
                    .out = q8,
                    .residual = {.value = TERN_NO_VALUE},
                    .gain = {.value = TERN_NO_VALUE}};
    check(b, tern_graph__add_op(&c->graph, &norm, &b->err));
}

/* Every op reads what the one before wrote: as x where that is wide enough, else as the residual. */
static void fill_chain(bench *b, chain *c)
{
    const layer *l = b->layer;
    uint32_t wide = columns(l), copies = (uint32_t)(WEIGHT_BYTES / bytes_of(l)) + 1,
             n_ops = copies < MIN_OPS ? MIN_OPS : copies;
    bool flows = b->mode != Q8 && wide >= l->cols;
    tern_view gain = {.value = TERN_NO_VALUE}, q8 = add_rows(b, c, TERN_DTYPE_Q8, l->cols),
              x = b->mode == Q8 ? q8 : add_rows(b, c, TERN_DTYPE_F32, l->cols);
    tern_view from = add_rows(b, c, TERN_DTYPE_F32, wide), to = add_rows(b, c, TERN_DTYPE_F32, wide),
              extra = add_rows(b, c, TERN_DTYPE_F32, wide);
    if (b->mode != Q8) gain = add_weight(b, c, TERN_ENC_F32, 1, l->cols);
    tern_view w[MAX_OPS][TERN_LINEAR_MAX_PARTS];
    for (uint32_t i = 0; i < copies; i++)
        for (uint32_t k = 0; k < l->n_parts; k++) w[i][k] = add_weight(b, c, TERN_ENC_I2_S, l->rows[k], l->cols);
    for (uint32_t i = 0; i < n_ops; i++) {
        tern_op op = {.kind = TERN_OP_LINEAR,
                      .n_parts = l->n_parts,
                      .n_in = 1 + l->n_parts,
                      .gated = l->gated,
                      .gain = gain,
                      .eps = 1e-5f,
                      .residual = {.value = TERN_NO_VALUE},
                      .out = to};
        op.in[0] = flows ? (tern_view){.value = from.value, .cols = l->cols} : x;
        if (b->mode == SPLIT) {
            add_norm(b, c, &op, q8);
            op.in[0] = q8;
            op.gain = (tern_view){.value = TERN_NO_VALUE};
        }
        if (l->residual) op.residual = flows ? extra : from;
        for (uint32_t k = 0; k < l->n_parts; k++) op.in[1 + k] = w[i % copies][k];
        check(b, tern_graph__add_op(&c->graph, &op, &b->err));
        tern_view t = from;
        from = to;
        to = t;
    }
}

static void close_chain(bench *b, chain *c)
{
    for (size_t i = TERN_PARAM_COUNT - 1; i < c->graph.n_values; i++) /* the parameters share one */
        b->gpu->buffer_free(b->gpu, c->bindings[i].buffer);
    tern_graph_deinit(&c->graph);
}

/* Seconds for each op. */
static double time_chain(bench *b, chain *c)
{
    tern_prepared *prepared;
    check(b, b->gpu->prepare(b->gpu, &c->graph, c->bindings, &prepared, &b->err));
    check(b, b->gpu->run(b->gpu, prepared, 1, &b->err));
    check(b, b->gpu->wait(b->gpu, &b->err));
    double best = 1e9, start = now();
    do {
        double t = now();
        check(b, b->gpu->run(b->gpu, prepared, 1, &b->err));
        check(b, b->gpu->wait(b->gpu, &b->err));
        t = now() - t;
        if (t < best) best = t;
    } while (now() - start < MIN_SECONDS);
    b->gpu->prepared_free(b->gpu, prepared);
    return best / (double)c->graph.n_ops;
}

static void report(bench *b, chain *c, const char *pipeline)
{
    const layer *l = b->layer;
    static const char *const modes[] = {"q8", "norm", "split"};
    double t = time_chain(b, c) * (b->mode == SPLIT ? 2 : 1), bytes = (double)bytes_of(l);
    printf("%-8s %-5s %4u tokens  %-44s %9.2f us  %7.1f GB/s  %6.1f Tops\n", l->name, modes[b->mode], b->tokens,
           pipeline, t * 1e6, bytes / t * 1e-9, bytes * 8 * b->tokens / t * 1e-12);
    fflush(stdout);
}

static tern_gpu_ternary_shape shape_of(const bench *b)
{
    const layer *l = b->layer;
    return (tern_gpu_ternary_shape){.norm = b->mode == NORM,
                                    .gated = l->gated,
                                    .residual = l->residual,
                                    .n_parts = l->n_parts,
                                    .cols = l->cols,
                                    .row_bits = l->rows[0] | l->rows[1] | l->rows[2],
                                    .tokens = b->tokens};
}

static tern_gpu_pipeline chosen(const bench *b)
{
    tern_gpu_ternary_shape shape = shape_of(b);
    return b->tokens <= TERN_GPU_VEC_TOKENS ? tern_gpu_select_ternary_vec(&b->caps, &shape)
                                            : tern_gpu_select_ternary_mat(&b->caps, &shape);
}

/* What a dispatch costs that does next to nothing: the sum of two rows, each of what the one before wrote. */
static void bench_floor(bench *b)
{
    chain c;
    open_chain(b, &c);
    tern_view from = add_rows(b, &c, TERN_DTYPE_F32, 2560), to = add_rows(b, &c, TERN_DTYPE_F32, 2560),
              extra = add_rows(b, &c, TERN_DTYPE_F32, 2560);
    for (int i = 0; i < MIN_OPS; i++) {
        tern_op op = {.kind = TERN_OP_ADD,
                      .n_in = 2,
                      .in = {from, extra},
                      .out = to,
                      .residual = {.value = TERN_NO_VALUE},
                      .gain = {.value = TERN_NO_VALUE}};
        check(b, tern_graph__add_op(&c.graph, &op, &b->err));
        tern_view t = from;
        from = to;
        to = t;
    }
    printf("a dependent dispatch that does next to nothing: %.2f us\n", time_chain(b, &c) * 1e6);
    close_chain(b, &c);
}

static void bench_layer(bench *b)
{
    chain c;
    open_chain(b, &c);
    fill_chain(b, &c);
    tern_gpu_pipeline pipeline = chosen(b);
    if (pipeline < TERN_GPU_PIPELINE_COUNT) report(b, &c, tern_gpu_pipelines[pipeline].name);
    close_chain(b, &c);
}

static void open_device(bench *b, const char *device)
{
    tern_vulkan_device devices[8] = {0};
    size_t n, which = (size_t)atoi(device);
    check(b, tern_vulkan_devices(devices, 8, &n, &b->err));
    if (which >= n) {
        fprintf(stderr, "bench_gpu_linear: device %zu: %zu found\n", which, n);
        exit(1);
    }
    const tern_vulkan_device *d = &devices[which];
    b->caps = (tern_gpu_caps){.subgroup_min = d->subgroup_min,
                              .subgroup_max = d->subgroup_max,
                              .workgroup_bytes = d->workgroup_bytes,
                              .workgroup_invocations = d->workgroup_invocations,
                              .max_groups = 65535,
                              .max_binding = d->max_binding,
                              .f16 = d->f16,
                              .cooperative = b->caps.cooperative};
    printf("%s, %s, subgroups of %u to %u\n", d->name, d->driver, d->subgroup_min, d->subgroup_max);
    const tern_vulkan_options options = {.device = device};
    check(b, tern_vulkan_open(&b->gpu, &options, &b->err));
}

int main(int argc, char **argv)
{
    const char *device = "0", *shape = NULL;
    bench b = {.tokens = 1};
    for (int c; (c = getopt(argc, argv, "cd:t:s:")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 'c') b.caps.cooperative = true;
        else if (c == 't') b.tokens = (uint32_t)atoi(optarg);
        else if (c == 's') shape = optarg;
        else return 2;
    }
    open_device(&b, device);
    size_t n = (size_t)16 << 20;
    tern_rng rng = {1};
    b.bytes = malloc(n);
    for (size_t i = 0; i < n; i++) {
        uint32_t r = tern_rng_below(&rng, 256);
        b.bytes[i] = (uint8_t)(r & ~((r & 0xaa) >> 1)); /* no code 3 */
    }
    bench_floor(&b);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        b.layer = &layers[i];
        if (shape && strcmp(shape, layers[i].name) != 0) continue;
        for (int mode = Q8; mode <= (b.tokens == 1 ? SPLIT : Q8); mode++) {
            b.mode = mode;
            bench_layer(&b);
        }
    }
    b.gpu->close(b.gpu);
    free(b.bytes);
    return 0;
}
