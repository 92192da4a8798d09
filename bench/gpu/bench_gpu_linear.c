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
#include <unistd.h>

#include "backend/gpu/linear/select.h"
#include "base/rng.h"
#include "chain.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

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
    chain c;
    tern_weight weights[MAX_OPS];
    size_t n_weights;
    tern_gpu_caps caps;
    enum bench_mode { Q8, NORM, SPLIT } mode; /* rows quantised before; a norm in the op; the same as two ops */
    const layer *layer;
    uint8_t *bytes; /* of the largest weight */
} bench;

static tern_view add_rows(bench *b, tern_dtype dtype, uint32_t cols)
{
    return chain_rows(&b->c, dtype, cols, -0.5f);
}

static tern_view add_weight(bench *b, tern_encoding_id id, uint32_t rows, uint32_t cols)
{
    tern_weight *w = &b->weights[b->n_weights++];
    *w =
        (tern_weight){.encoding = tern_encoding_find(id), .rows = rows, .cols = cols, .data = b->bytes, .scale = 0.02f};
    chain_check(&b->c, tern_encoding_bytes(w->encoding, rows, cols, &w->bytes, &b->c.err));
    return chain_add(&b->c, (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = cols, .bytes = w->bytes});
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
static void add_norm(bench *b, const tern_op *op, tern_view q8)
{
    tern_op norm = {.kind = TERN_OP_NORM_QUANT,
                    .n_in = TERN_NORM_INPUTS,
                    .in = {[TERN_NORM_X] = op->in[TERN_LINEAR_X], [TERN_NORM_WEIGHT] = op->norm_weight},
                    .eps = op->eps,
                    .out = q8,
                    .residual = {.value = TERN_NO_VALUE},
                    .norm_weight = {.value = TERN_NO_VALUE}};
    chain_op(&b->c, &norm);
}

/* Every op reads what the one before wrote: as x where that is wide enough, else as the residual. */
static void fill_chain(bench *b)
{
    const layer *l = b->layer;
    uint32_t wide = columns(l), copies = (uint32_t)(WEIGHT_BYTES / bytes_of(l)) + 1,
             n_ops = copies < MIN_OPS ? MIN_OPS : copies;
    bool flows = b->mode != Q8 && wide >= l->cols;
    tern_view norm_weight = {.value = TERN_NO_VALUE}, q8 = add_rows(b, TERN_DTYPE_Q8, l->cols),
              x = b->mode == Q8 ? q8 : add_rows(b, TERN_DTYPE_F32, l->cols);
    tern_view from = add_rows(b, TERN_DTYPE_F32, wide), to = add_rows(b, TERN_DTYPE_F32, wide),
              extra = add_rows(b, TERN_DTYPE_F32, wide);
    if (b->mode != Q8) norm_weight = add_weight(b, TERN_ENC_F32, 1, l->cols);
    tern_view w[MAX_OPS][TERN_LINEAR_MAX_PARTS];
    for (uint32_t i = 0; i < copies; i++)
        for (uint32_t k = 0; k < l->n_parts; k++) w[i][k] = add_weight(b, TERN_ENC_I2_S, l->rows[k], l->cols);
    for (uint32_t i = 0; i < n_ops; i++) {
        tern_op op = {.kind = TERN_OP_LINEAR,
                      .n_parts = l->n_parts,
                      .n_in = TERN_LINEAR_W + l->n_parts,
                      .gated = l->gated,
                      .norm_weight = norm_weight,
                      .eps = 1e-5f,
                      .residual = {.value = TERN_NO_VALUE},
                      .out = to};
        op.in[TERN_LINEAR_X] = flows ? (tern_view){.value = from.value, .cols = l->cols} : x;
        if (b->mode == SPLIT) {
            add_norm(b, &op, q8);
            op.in[TERN_LINEAR_X] = q8;
            op.norm_weight = (tern_view){.value = TERN_NO_VALUE};
        }
        if (l->residual) op.residual = flows ? extra : from;
        for (uint32_t k = 0; k < l->n_parts; k++) op.in[TERN_LINEAR_W + k] = w[i % copies][k];
        chain_op(&b->c, &op);
        tern_view t = from;
        from = to;
        to = t;
    }
}

static void report(bench *b, const char *pipeline)
{
    const layer *l = b->layer;
    static const char *const modes[] = {"q8", "norm", "split"};
    double t = chain_seconds(&b->c, MIN_SECONDS) * (b->mode == SPLIT ? 2 : 1), bytes = (double)bytes_of(l);
    printf("%-8s %-5s %4u tokens  %-44s %9.2f us  %7.1f GB/s  %6.1f Tops\n", l->name, modes[b->mode], b->c.tokens,
           pipeline, t * 1e6, bytes / t * 1e-9, bytes * 8 * b->c.tokens / t * 1e-12);
    fflush(stdout);
}

static tern_gpu_ternary_shape shape_of(const bench *b)
{
    const layer *l = b->layer;
    return (tern_gpu_ternary_shape){.norm = b->mode == NORM,
                                    .gated = l->gated,
                                    .activation = TERN_ACT_RELU2,
                                    .residual = l->residual,
                                    .n_parts = l->n_parts,
                                    .cols = l->cols,
                                    .row_bits = l->rows[0] | l->rows[1] | l->rows[2],
                                    .rows = l->rows[0] + l->rows[1] + l->rows[2],
                                    .tokens = b->c.tokens};
}

static tern_gpu_pipeline chosen(const bench *b)
{
    tern_gpu_ternary_shape shape = shape_of(b);
    return b->c.tokens <= TERN_GPU_VEC_TOKENS ? tern_gpu_select_ternary_vec(&b->caps, &shape)
                                              : tern_gpu_select_ternary_mat(&b->caps, &shape);
}

/* What a dispatch costs that does next to nothing: the sum of two rows, each of what the one before wrote. */
static void bench_floor(bench *b)
{
    chain_open(&b->c, PARAM_BYTES);
    tern_view from = add_rows(b, TERN_DTYPE_F32, 2560), to = add_rows(b, TERN_DTYPE_F32, 2560),
              extra = add_rows(b, TERN_DTYPE_F32, 2560);
    for (int i = 0; i < MIN_OPS; i++) {
        tern_op op = {.kind = TERN_OP_ADD,
                      .n_in = TERN_ADD_INPUTS,
                      .in = {[TERN_ADD_A] = from, [TERN_ADD_B] = extra},
                      .out = to,
                      .residual = {.value = TERN_NO_VALUE},
                      .norm_weight = {.value = TERN_NO_VALUE}};
        chain_op(&b->c, &op);
        tern_view t = from;
        from = to;
        to = t;
    }
    printf("a dependent dispatch that does next to nothing: %.2f us\n", chain_seconds(&b->c, MIN_SECONDS) * 1e6);
    chain_close(&b->c);
}

static void bench_layer(bench *b)
{
    b->n_weights = 0;
    chain_open(&b->c, PARAM_BYTES);
    fill_chain(b);
    tern_gpu_pipeline pipeline = chosen(b);
    if (pipeline < TERN_GPU_PIPELINE_COUNT) report(b, tern_gpu_pipelines[pipeline].name);
    chain_close(&b->c);
}

int main(int argc, char **argv)
{
    const char *device = "0", *shape = NULL;
    static bench b = {.c = {.program = "bench_gpu_linear", .tokens = 1}};
    bool cooperative = false;
    for (int c; (c = getopt(argc, argv, "cd:t:s:")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 'c') cooperative = true;
        else if (c == 't') b.c.tokens = (uint32_t)atoi(optarg);
        else if (c == 's') shape = optarg;
        else return 2;
    }
    b.caps = chain_caps(&b.c, device);
    b.caps.cooperative = b.caps.int8_matrices = cooperative;
    chain_check(&b.c, tern_vulkan_open(&b.c.gpu, &(tern_vulkan_options){.device = device}, &b.c.err));
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
        for (int mode = Q8; mode <= (b.c.tokens == 1 ? SPLIT : Q8); mode++) {
            b.mode = (enum bench_mode)mode;
            bench_layer(&b);
        }
    }
    b.c.gpu->close(b.c.gpu);
    free(b.bytes);
    return 0;
}
