/* How fast the attention pipelines are on a GPU, on the shape of BitNet b1.58 2B4T.
 *
 * usage: bench_gpu_attention [-d DEVICE] [-t TOKENS] [-p POSITION,...]
 *
 * One token (the default): rope, cache write and attention in one op, for 30 layers with caches of their own, each op
 * after the one before, at each position. More tokens: attention of a prompt of so many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain.h"
#include "ops/op.h"

enum { LAYERS = 30, HEADS = 20, KV_HEADS = 5, DIM = 128, CONTEXT = 4096, PAGES = CONTEXT / TERN_PAGE_SIZE };
enum { PARAM_BYTES = CONTEXT * 4 };
static const double MIN_SECONDS = 0.2;

static tern_view add(chain *c, tern_value value)
{
    tern_view view = chain_add(c, value);
    uint32_t *bits = malloc(value.bytes);
    float *x = (float *)(void *)bits;
    for (size_t i = 0; i < value.bytes / sizeof *x; i++) {
        uint32_t r = (uint32_t)i * 2654435761u;
        if (value.dtype == TERN_DTYPE_F16) bits[i] = (r & 0x83ff83ffu) | 0x30003000u; /* up to 0.25 */
        else x[i] = (float)(r % 1000) * 0.001f - 0.5f;
    }
    chain_check(c, c->gpu->buffer_write(c->gpu, c->bindings[view.value].buffer, 0, bits, value.bytes, &c->err));
    free(bits);
    return view;
}

static void write_params(chain *c, uint32_t first)
{
    uint32_t positions[CONTEXT], pages[PAGES];
    for (uint32_t i = 0; i < c->tokens; i++) positions[i] = first + i;
    for (uint32_t i = 0; i < PAGES; i++) pages[i] = (i * 37) % PAGES;
    chain_write_param(c, TERN_PARAM_POSITIONS, positions, c->tokens * sizeof *positions);
    chain_write_param(c, TERN_PARAM_PAGES, pages, sizeof pages);
}

static void make_graph(chain *c)
{
    static const uint32_t zeros[CONTEXT];
    const uint64_t cache_bytes = (uint64_t)CONTEXT * KV_HEADS * DIM * 2;
    chain_open(c, PARAM_BYTES);
    c->graph.max_pages = PAGES;
    chain_write_param(c, TERN_PARAM_SEQUENCES, zeros, c->tokens * sizeof *zeros);
    tern_view x = chain_rows(c, TERN_DTYPE_F32, (HEADS + 2 * KV_HEADS) * DIM, -0.5f),
              out = chain_rows(c, TERN_DTYPE_F32, HEADS * DIM, -0.5f);
    tern_view table =
        add(c, (tern_value){.kind = TERN_VALUE_CONSTANT, .cols = DIM, .bytes = (uint64_t)CONTEXT * DIM * 4});
    const uint32_t *params = c->graph.params;
    tern_view positions = {.value = params[TERN_PARAM_POSITIONS]}, sequences = {.value = params[TERN_PARAM_SEQUENCES]},
              pages = {.value = params[TERN_PARAM_PAGES]};
    for (int i = 0; i < LAYERS; i++) {
        tern_value cache = {
            .kind = TERN_VALUE_CACHE, .dtype = TERN_DTYPE_F16, .cols = KV_HEADS * DIM, .bytes = cache_bytes};
        tern_view k = add(c, cache), v = add(c, cache);
        tern_op op = {.n_heads = HEADS,
                      .n_kv_heads = KV_HEADS,
                      .head_dim = DIM,
                      .out = out,
                      .residual = {.value = TERN_NO_VALUE},
                      .norm_weight = {.value = TERN_NO_VALUE}};
        op.kind = c->tokens == 1 ? TERN_OP_ROPE_ATTENTION : TERN_OP_ATTENTION;
        if (c->tokens == 1) {
            op.n_in = TERN_ROPE_KV_INPUTS;
            op.in[TERN_ROPE_KV_QKV] = x;
            op.in[TERN_ROPE_KV_POSITIONS] = positions;
            op.in[TERN_ROPE_KV_TABLE] = table;
            op.in[TERN_ROPE_KV_K_CACHE] = k;
            op.in[TERN_ROPE_KV_V_CACHE] = v;
            op.in[TERN_ROPE_KV_SEQUENCES] = sequences;
            op.in[TERN_ROPE_KV_PAGES] = pages;
        } else {
            op.n_in = TERN_ATTENTION_INPUTS;
            op.in[TERN_ATTENTION_Q] = x;
            op.in[TERN_ATTENTION_K_CACHE] = k;
            op.in[TERN_ATTENTION_V_CACHE] = v;
            op.in[TERN_ATTENTION_POSITIONS] = positions;
            op.in[TERN_ATTENTION_SEQUENCES] = sequences;
            op.in[TERN_ATTENTION_PAGES] = pages;
        }
        chain_op(c, &op);
    }
}

int main(int argc, char **argv)
{
    const char *device = NULL, *at = "0,31,63,127,200,255,511,1023,2047,4095";
    static chain c = {.program = "bench_gpu_attention", .tokens = 1};
    for (int flag; (flag = getopt(argc, argv, "d:t:p:")) != -1;) {
        if (flag == 'd') device = optarg;
        else if (flag == 't') c.tokens = (uint32_t)atoi(optarg);
        else if (flag == 'p') at = optarg;
        else return 2;
    }
    if (c.tokens < 1 || c.tokens > CONTEXT) return 2;
    chain_check(&c, tern_vulkan_open(&c.gpu, &(tern_vulkan_options){.device = device, .cache_dir = ""}, &c.err));
    make_graph(&c);
    printf("%u tokens: us for each op of %d\n", c.tokens, LAYERS);
    for (char *end; *at; at = *end ? end + 1 : end) {
        uint32_t first = (uint32_t)strtoul(at, &end, 10);
        if (end == at) break;
        if (first + c.tokens > CONTEXT) continue;
        write_params(&c, first);
        double t = chain_seconds(&c, MIN_SECONDS), n = first + (c.tokens + 1) / 2.0;
        printf("  from %4u: %8.2f us  %7.1f GB/s  %8.1f Gflops\n", first, t * 1e6,
               n * c.tokens * KV_HEADS * DIM * 4 / (double)c.tokens / t * 1e-9,
               4.0 * n * c.tokens * HEADS * DIM / t * 1e-9);
        fflush(stdout);
    }
    c.gpu->close(c.gpu);
    return 0;
}
