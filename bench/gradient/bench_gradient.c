/* How fast the products of training are on the CPU, as shares of the f32 multiply-adds that the same threads do in a
 * loop that touches registers only, in the same run.
 *
 * usage: bench_gradient [LEVEL [THREADS]]       LEVEL as for --cpu-features
 *
 * Each line is one op of a training graph, run through the backend: LINEAR_DX and LINEAR_DW of a layer's matrices, and
 * the head forward, which multiplies the table with every row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "stream/stream.h"

enum { REPEATS = 5, MAX_VALUES = 4 };

/* One op of tokens x rows x cols. */
typedef struct shape {
    tern_op_kind kind;
    const char *encoding; /* of the weight; LINEAR_DW: of its input, "int8" or "f32" */
    uint32_t tokens, rows, cols;
} shape;

static const shape shapes[] = {
    {TERN_OP_LINEAR_DX, "i2_s", 512, 2816, 1024},  {TERN_OP_LINEAR_DX, "i2_s", 2048, 2816, 1024},
    {TERN_OP_LINEAR_DX, "i2_s", 512, 1024, 2816},  {TERN_OP_LINEAR_DX, "i2_s", 512, 768, 256},
    {TERN_OP_LINEAR_DX, "i2_s", 2048, 256, 768},   {TERN_OP_LINEAR_DX, "tq2_0", 512, 2816, 1024},
    {TERN_OP_LINEAR_DX, "tq1_0", 512, 2816, 1024}, {TERN_OP_LINEAR_DX, "t160", 512, 2816, 1024},
    {TERN_OP_LINEAR_DX, "f32", 512, 2816, 1024},   {TERN_OP_LINEAR_DX, "bf16", 256, 32768, 1024},
    {TERN_OP_LINEAR_DX, "f16", 256, 32768, 1024},  {TERN_OP_LINEAR_DX, "q6_k", 256, 32768, 1024},
    {TERN_OP_LINEAR_DX, "f32", 512, 16, 1024},     {TERN_OP_LINEAR_DW, "int8", 512, 2816, 1024},
    {TERN_OP_LINEAR_DW, "int8", 2048, 2816, 1024}, {TERN_OP_LINEAR_DW, "int8", 512, 1024, 2816},
    {TERN_OP_LINEAR_DW, "int8", 512, 768, 256},    {TERN_OP_LINEAR_DW, "int8", 2048, 256, 768},
    {TERN_OP_LINEAR_DW, "f32", 512, 2816, 1024},   {TERN_OP_LINEAR_DW, "f32", 256, 32768, 1024},
    {TERN_OP_LINEAR_DW, "f32", 512, 16, 1024},     {TERN_OP_LINEAR, "f32", 256, 32768, 1024},
    {TERN_OP_LINEAR, "bf16", 256, 32768, 1024},    {TERN_OP_LINEAR, "f32", 512, 2816, 1024},
    {TERN_OP_LINEAR, "f32", 2048, 4096, 256},      {TERN_OP_LINEAR, "f32", 512, 16, 1024},
    {TERN_OP_LINEAR, "i2_s", 512, 2816, 1024},
};

/* A graph of the op, and what it works on. */
typedef struct trial {
    tern_backend *b;
    tern_value values[MAX_VALUES + 1];
    tern_binding bindings[MAX_VALUES + 1];
    tern_op op;
    tern_graph graph;
    tern_weight weight;
    tern_error err;
} trial;

static void need(const trial *t, tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "%s\n", t->err.message);
    exit(1);
}

static float *random_floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    tern_rng rng = {n};
    for (size_t i = 0; i < n; i++) x[i] = tern_rng_f32(&rng) - 0.5f;
    return x;
}

static void make_weight(trial *t, const shape *s)
{
    const tern_encoding *e = tern_encoding_by_name(s->encoding);
    tern_weight *w = &t->weight;
    *w = (tern_weight){.encoding = e, .rows = s->rows, .cols = s->cols, .scale = 0.5f};
    need(t, tern_encoding_bytes(e, s->rows, s->cols, &w->bytes, &t->err));
    uint8_t *data = aligned_alloc(64, (w->bytes + 63) / 64 * 64);
    float *x = random_floats((size_t)s->rows * s->cols);
    need(t, tern_encode(e, x, s->rows, s->cols, data, &t->err));
    free(x);
    w->data = data;
    need(t, t->b->weight_create(t->b, w, &t->bindings[1].buffer, &t->err));
}

/* Value i: random floats, or int8 rows whose bytes are any. */
static void make_rows(trial *t, uint32_t i, uint32_t rows, uint32_t cols, tern_dtype dtype)
{
    tern_value *v = &t->values[i];
    *v = (tern_value){
        .kind = TERN_VALUE_ACTIVATION, .dtype = dtype, .cols = cols, .bytes = tern_row_bytes(dtype, cols, rows)};
    need(t, t->b->buffer_create(t->b, v->bytes, &t->bindings[i].buffer, &t->err));
    float *x = random_floats(v->bytes / sizeof(float));
    need(t, t->b->buffer_write(t->b, t->bindings[i].buffer, 0, x, v->bytes, &t->err));
    free(x);
}

static tern_view view(const trial *t, uint32_t i)
{
    return (tern_view){.value = i, .cols = t->values[i].cols};
}

/* Values 0 and 1 are the first inputs, 2 what is made, 3 the counts. */
static void make_graph(trial *t, const shape *s)
{
    const bool dw = s->kind == TERN_OP_LINEAR_DW, forward = s->kind == TERN_OP_LINEAR;
    const bool int8 = dw && !strcmp(s->encoding, "int8");
    make_rows(t, 0, s->tokens, forward ? s->cols : s->rows, TERN_DTYPE_F32);
    if (dw) make_rows(t, 1, s->tokens, s->cols, int8 ? TERN_DTYPE_Q8 : TERN_DTYPE_F32);
    else make_weight(t, s);
    if (!dw) t->values[1] = (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = &t->weight, .cols = s->cols};
    make_rows(t, 2, dw ? s->rows : s->tokens, forward ? s->rows : s->cols, TERN_DTYPE_F32);
    make_rows(t, 3, 1, 3, TERN_DTYPE_U32);
    const uint32_t counts[3] = {s->tokens, s->tokens, 0};
    need(t, t->b->buffer_write(t->b, t->bindings[3].buffer, 0, counts, sizeof counts, &t->err));
    t->op = (tern_op){.kind = s->kind,
                      .n_in = dw ? TERN_LINEAR_DW_INPUTS : TERN_LINEAR_DX_INPUTS,
                      .n_parts = forward,
                      .in = {view(t, 0), view(t, 1), view(t, 2)},
                      .out = view(t, 2)};
    t->op.residual.value = t->op.norm_weight.value = TERN_NO_VALUE;
    if (dw) t->op.out.value = TERN_NO_VALUE;
    t->graph = (tern_graph){.ops = &t->op,
                            .n_ops = 1,
                            .values = t->values,
                            .n_values = 4,
                            .max_tokens = s->tokens,
                            .max_outputs = s->tokens};
    for (int i = 0; i < TERN_PARAM_COUNT; i++) t->graph.params[i] = TERN_NO_VALUE;
    t->graph.params[TERN_PARAM_COUNTS] = 3;
}

static double best_time(trial *t)
{
    tern_prepared *prepared = NULL;
    const uint32_t n_threads = tern_cpu_n_threads(t->b);
    double best = 1e30;
    need(t, t->b->prepare(t->b, &t->graph, t->bindings, &prepared, &t->err));
    for (int i = 0; i < REPEATS; i++) {
        const double start = stream_seconds(n_threads);
        need(t, t->b->run(t->b, prepared, 1, &t->err));
        const double taken = stream_seconds(n_threads) - start;
        if (taken < best) best = taken;
    }
    t->b->prepared_free(t->b, prepared);
    return best;
}

static void bench(tern_backend *b, const shape *s)
{
    trial t = {.b = b};
    make_graph(&t, s);
    const double products = (double)s->tokens * s->rows * s->cols / best_time(&t);
    const double peak = b->measure(b, TERN_MEASURE_FMA, NULL, 0, 0.1);
    printf("%-9s %-5s %u thr  %4u tokens  %5u x %4u  %7.1f GMAC/s %5.1f %% of %.0f\n", tern_op_name(s->kind),
           s->encoding, tern_cpu_n_threads(b), s->tokens, s->rows, s->cols, products / 1e9, 100 * products / peak,
           peak / 1e9);
    for (int i = 0; i < MAX_VALUES; i++) b->buffer_free(b, t.bindings[i].buffer);
    free((void *)(uintptr_t)t.weight.data);
}

int main(int argc, char **argv)
{
    tern_error err = {0};
    tern_cpu_options options = {.features_set = true};
    const uint32_t only = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    if (tern_cpu_features_parse(argc > 1 ? argv[1] : "native", tern_cpu_features(), &options.features, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (options.n_threads = 1; options.n_threads <= 4; options.n_threads *= 2) {
        tern_backend *b = NULL;
        if (only && only != options.n_threads) continue;
        if (tern_cpu_open(&b, &options, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) bench(b, &shapes[i]);
        b->close(b);
    }
    return 0;
}
