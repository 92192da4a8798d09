/* How fast the attention pipelines are on a GPU, on the shape of BitNet b1.58 2B4T.
 *
 * usage: bench_gpu_attention [-d DEVICE] [-t TOKENS] [-p POSITION,...]
 *
 * One token (the default): rope, cache write and attention in one op, for 30 layers with caches of their own, each op
 * after the one before, at each position. More tokens: attention of a prompt of so many. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/gpu/attention.h"
#include "backend/vulkan/vulkan.h"
#include "graph/graph.h"

enum { LAYERS = 30, HEADS = 20, KV_HEADS = 5, DIM = 128, CONTEXT = 4096, PAGES = CONTEXT / TERN_PAGE_SIZE };
static const double MIN_SECONDS = 0.2;

typedef struct bench {
    tern_backend *gpu;
    uint32_t tokens;
    tern_graph graph;
    tern_binding bindings[TERN_PARAM_COUNT + 2 * LAYERS + 8];
    tern_buffer *params;
    tern_error err;
} bench;

static void check(bench *b, tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_gpu_attention: %s\n", b->err.message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(bench *b, const tern_value *value, tern_binding at)
{
    float *x = malloc(value->bytes);
    uint32_t *bits = (uint32_t *)(void *)x;
    for (size_t i = 0; i < value->bytes / sizeof *x; i++) {
        uint32_t r = (uint32_t)i * 2654435761u;
        if (value->dtype == TERN_DTYPE_F16) bits[i] = (r & 0x83ff83ffu) | 0x30003000u; /* up to 0.25 */
        else x[i] = (float)(r % 1000) * 0.001f - 0.5f;
    }
    check(b, b->gpu->buffer_write(b->gpu, at.buffer, at.offset, x, value->bytes, &b->err));
    free(x);
}

static tern_view add(bench *b, tern_value value)
{
    uint32_t id;
    check(b, tern_graph__add_value(&b->graph, value, &id, &b->err));
    check(b, b->gpu->buffer_create(b->gpu, value.bytes, &b->bindings[id].buffer, &b->err));
    fill(b, &value, b->bindings[id]);
    return (tern_view){.value = id, .cols = value.cols};
}

static tern_view add_rows(bench *b, uint32_t cols)
{
    return add(b, (tern_value){.kind = TERN_VALUE_OUTPUT, .cols = cols, .bytes = (uint64_t)cols * b->tokens * 4});
}

static void add_params(bench *b)
{
    const uint32_t sizes[TERN_PARAM_COUNT] = {
        [TERN_PARAM_COUNTS] = 3, [TERN_PARAM_PAGES] = PAGES, [TERN_PARAM_SAMPLER] = sizeof(tern_sample_params) / 4};
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        uint64_t bytes = (sizes[i] ? sizes[i] : b->tokens) * 4;
        tern_value value = {
            .kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = bytes, .offset = b->graph.param_bytes};
        check(b, tern_graph__add_value(&b->graph, value, &b->graph.params[i], &b->err));
        b->graph.param_bytes += (bytes + TERN_PARAM_ALIGNMENT - 1) / TERN_PARAM_ALIGNMENT * TERN_PARAM_ALIGNMENT;
    }
    check(b, b->gpu->buffer_create(b->gpu, b->graph.param_bytes, &b->params, &b->err));
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++)
        b->bindings[b->graph.params[i]] =
            (tern_binding){.buffer = b->params, .offset = b->graph.values[b->graph.params[i]].offset};
}

static void write_params(bench *b, uint32_t first)
{
    uint32_t *words = calloc(1, b->graph.param_bytes);
    const tern_value *values = b->graph.values;
    for (uint32_t i = 0; i < b->tokens; i++)
        words[values[b->graph.params[TERN_PARAM_POSITIONS]].offset / 4 + i] = first + i;
    for (uint32_t i = 0; i < PAGES; i++)
        words[values[b->graph.params[TERN_PARAM_PAGES]].offset / 4 + i] = (i * 37) % PAGES;
    words[0] = b->tokens;
    words[1] = 1;
    check(b, b->gpu->buffer_write(b->gpu, b->params, 0, words, b->graph.param_bytes, &b->err));
    free(words);
}

static void make_graph(bench *b)
{
    const uint64_t cache_bytes = (uint64_t)CONTEXT * KV_HEADS * DIM * 2;
    b->graph = (tern_graph){.max_tokens = b->tokens,
                            .max_outputs = 1,
                            .n_sequences = 1,
                            .max_pages = PAGES,
                            .rope_table = TERN_NO_VALUE,
                            .logits = TERN_NO_VALUE,
                            .tokens = TERN_NO_VALUE};
    add_params(b);
    tern_view x = add_rows(b, (HEADS + 2 * KV_HEADS) * DIM), out = add_rows(b, HEADS * DIM);
    tern_view table =
        add(b, (tern_value){.kind = TERN_VALUE_CONSTANT, .cols = DIM, .bytes = (uint64_t)CONTEXT * DIM * 4});
    const uint32_t *params = b->graph.params;
    tern_view positions = {.value = params[TERN_PARAM_POSITIONS]}, sequences = {.value = params[TERN_PARAM_SEQUENCES]},
              pages = {.value = params[TERN_PARAM_PAGES]};
    for (int i = 0; i < LAYERS; i++) {
        tern_value cache = {
            .kind = TERN_VALUE_CACHE, .dtype = TERN_DTYPE_F16, .cols = KV_HEADS * DIM, .bytes = cache_bytes};
        tern_view k = add(b, cache), v = add(b, cache);
        tern_op op = {.n_heads = HEADS,
                      .n_kv_heads = KV_HEADS,
                      .head_dim = DIM,
                      .out = out,
                      .residual = {.value = TERN_NO_VALUE},
                      .gain = {.value = TERN_NO_VALUE}};
        op.kind = b->tokens == 1 ? TERN_OP_ROPE_ATTENTION : TERN_OP_ATTENTION;
        op.n_in = b->tokens == 1 ? 7 : 6;
        if (b->tokens == 1) memcpy(op.in, (tern_view[]){x, positions, table, k, v, sequences, pages}, 7 * sizeof x);
        else memcpy(op.in, (tern_view[]){x, k, v, positions, sequences, pages}, 6 * sizeof x);
        check(b, tern_graph__add_op(&b->graph, &op, &b->err));
    }
}

/* The fastest of many runs. */
static double seconds(bench *b)
{
    tern_prepared *prepared;
    check(b, b->gpu->prepare(b->gpu, &b->graph, b->bindings, &prepared, &b->err));
    double best = 1e9, start = now();
    do {
        double t = now();
        check(b, b->gpu->run(b->gpu, prepared, 1, &b->err));
        check(b, b->gpu->wait(b->gpu, &b->err));
        t = now() - t;
        if (t < best) best = t;
    } while (now() - start < MIN_SECONDS);
    b->gpu->prepared_free(b->gpu, prepared);
    return best;
}

int main(int argc, char **argv)
{
    const char *device = NULL, *at = "0,31,63,127,200,255,511,1023,2047,4095";
    static bench b = {.tokens = 1};
    for (int c; (c = getopt(argc, argv, "d:t:p:")) != -1;) {
        if (c == 'd') device = optarg;
        else if (c == 't') b.tokens = (uint32_t)atoi(optarg);
        else if (c == 'p') at = optarg;
        else return 2;
    }
    if (b.tokens < 1 || b.tokens > CONTEXT) return 2;
    check(&b, tern_vulkan_open(&b.gpu, &(tern_vulkan_options){.device = device, .cache_dir = ""}, &b.err));
    make_graph(&b);
    printf("%u tokens: us for each op of %d\n", b.tokens, LAYERS);
    for (char *end; *at; at = *end ? end + 1 : end) {
        uint32_t first = (uint32_t)strtoul(at, &end, 10);
        if (end == at) break;
        if (first + b.tokens > CONTEXT) continue;
        write_params(&b, first);
        double t = seconds(&b) / LAYERS, n = first + (b.tokens + 1) / 2.0;
        printf("  from %4u: %8.2f us  %7.1f GB/s  %8.1f Gflops\n", first, t * 1e6,
               n * b.tokens * KV_HEADS * DIM * 4 / (double)b.tokens / t * 1e-9,
               4.0 * n * b.tokens * HEADS * DIM / t * 1e-9);
        fflush(stdout);
    }
    b.gpu->close(b.gpu);
    return 0;
}
