/* Running attention: one token splits its positions over the threads, many tokens are cut in tiles; both give the same
 * bits. */
#include <math.h>
#include <string.h>

#include "backend/cpu/ops.h"
#include "backend/cpu/rows/rows.h"

enum { TILE_QUERIES = 64, MAX_HEAD_DIM = 512 };

typedef struct attention_job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
    uint32_t group;           /* query heads that share a KV head */
    uint32_t tile;            /* tokens of a tile */
    uint32_t first, n_chunks; /* decode: pieces of TERN_ATTENTION_CHUNK positions, and where they begin */
    tern_cache_types types;
    float scale;
} attention_job;

/* Per-query state of the online softmax. */
typedef struct softmax_state {
    float *m, *l, *acc;
} softmax_state;

static uint32_t position_of(const attention_job *j, uint32_t token)
{
    return tern_rows__param(j->op, TERN_ATTENTION_POSITIONS, token);
}

static uint32_t sequence_of(const attention_job *j, uint32_t token)
{
    return tern_rows__param(j->op, TERN_ATTENTION_SEQUENCES, token);
}

static uint32_t tile_tokens(const tern_op *op)
{
    uint32_t group = op->n_heads / op->n_kv_heads;
    return group >= TILE_QUERIES ? 1 : TILE_QUERIES / group;
}

tern_status tern_cpu__attention_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    if (op->head_dim <= MAX_HEAD_DIM && op->head_dim % 4 == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cpu: attention with head_dim %u: a multiple of 4 up to %d expected",
                     op->head_dim, MAX_HEAD_DIM);
}

size_t tern_cpu__attention_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    size_t queries = (size_t)tile_tokens(op) * (op->n_heads / op->n_kv_heads);
    return queries * ((size_t)op->head_dim * 3 + 6) * sizeof(float) + 256;
}

static uint32_t max_chunks(const tern_graph *graph)
{
    return (graph->max_pages * TERN_PAGE_SIZE + TERN_ATTENTION_CHUNK - 1) / TERN_ATTENTION_CHUNK;
}

/* Decode: the states of all chunks, [heads][chunks] of (m, l, acc). */
size_t tern_cpu__attention_shared(const tern_graph *graph, const tern_op *op)
{
    return (size_t)op->n_heads * max_chunks(graph) * (op->head_dim + 2) * sizeof(float);
}

static void reset(softmax_state *s, uint32_t n, uint32_t head_dim)
{
    for (uint32_t i = 0; i < n; i++) s->m[i] = -INFINITY;
    memset(s->l, 0, n * sizeof(float));
    memset(s->acc, 0, (size_t)n * head_dim * sizeof(float));
}

/* Adds a chunk's state to the running one, chunks in order. */
static void merge(softmax_state *into, const softmax_state *from, uint32_t i, uint32_t head_dim)
{
    float m = into->m[i] > from->m[i] ? into->m[i] : from->m[i];
    if (m == -INFINITY) return;
    float a = into->m[i] == -INFINITY ? 0.0f : tern_ref_exp(into->m[i] - m);
    float b = from->m[i] == -INFINITY ? 0.0f : tern_ref_exp(from->m[i] - m);
    into->m[i] = m;
    into->l[i] = into->l[i] * a + from->l[i] * b;
    float *x = into->acc + (size_t)i * head_dim;
    const float *y = from->acc + (size_t)i * head_dim;
    for (uint32_t d = 0; d < head_dim; d++) x[d] = x[d] * a + y[d] * b;
}

/* The i-th state's result, which is that of query head `head`. */
static void finish(const attention_job *j, const softmax_state *s, uint32_t i, uint32_t head, float *out)
{
    const uint32_t head_dim = j->op->op->head_dim;
    const float *sinks = j->op->sinks;
    float inverse = 1.0f / (sinks ? tern_ref_sink(sinks[head], s->m[i], s->l[i]) : s->l[i]);
    const float *acc = s->acc + (size_t)i * head_dim;
    for (uint32_t d = 0; d < head_dim; d++) out[d] = acc[d] * inverse;
}

static tern_attention_args args_for(const attention_job *j, uint32_t kv_head, uint32_t sequence, const softmax_state *s)
{
    const tern_op *op = j->op->op;
    const size_t n = (size_t)TERN_PAGE_SIZE * op->head_dim; /* numbers of a head in a page */
    const size_t k_bytes = tern_cache_bytes(j->types.k, n), v_bytes = tern_cache_bytes(j->types.v, n);
    const uint8_t *pages = j->op->base[TERN_ATTENTION_PAGES];
    return (tern_attention_args){.head_dim = op->head_dim,
                                 .scale = j->scale,
                                 .softcap = op->softcap,
                                 .types = j->types,
                                 .k_page_bytes = op->n_kv_heads * k_bytes,
                                 .v_page_bytes = op->n_kv_heads * v_bytes,
                                 .k = j->op->base[TERN_ATTENTION_K_CACHE] + kv_head * k_bytes,
                                 .v = j->op->base[TERN_ATTENTION_V_CACHE] + kv_head * v_bytes,
                                 .pages = (const uint32_t *)(const void *)pages +
                                          (size_t)sequence * j->step->prepared->graph->max_pages,
                                 .m = s->m,
                                 .l = s->l,
                                 .acc = s->acc};
}

static const float *query(const attention_job *j, uint32_t token, uint32_t head)
{
    return tern_rows__at(&j->op->in[TERN_ATTENTION_Q], token) + (size_t)head * j->op->op->head_dim;
}

/* Chunks begin at their multiples, wherever a window does, so that every step sums alike. */
static uint32_t first_of_chunk(uint32_t position)
{
    return position / TERN_ATTENTION_CHUNK * TERN_ATTENTION_CHUNK;
}

/* Tokens first .. first + n - 1, which share a sequence, for one KV head. Queries are (token, head of the group). */
static void run_tile(const attention_job *j, uint32_t first, uint32_t n, uint32_t kv_head, uint32_t thread)
{
    uint32_t dim = j->op->op->head_dim, n_queries = n * j->group, capacity = j->tile * j->group, last = 0,
             start = UINT32_MAX;
    float *memory = (float *)(void *)tern_cpu__scratch(j->step, thread);
    float *q = memory;
    softmax_state total = {.acc = q + (size_t)capacity * dim}, part = {.acc = total.acc + (size_t)capacity * dim};
    total.m = part.acc + (size_t)capacity * dim;
    total.l = total.m + capacity;
    part.m = total.l + capacity;
    part.l = part.m + capacity;
    uint32_t *lo = (uint32_t *)(void *)(part.l + capacity), *hi = lo + capacity;
    for (uint32_t i = 0; i < n_queries; i++) {
        uint32_t token = first + i / j->group;
        memcpy(q + (size_t)i * dim, query(j, token, kv_head * j->group + i % j->group), dim * sizeof(float));
        lo[i] = tern_op_first_seen(j->op->op, position_of(j, token));
        hi[i] = position_of(j, token) + 1;
        if (hi[i] > last) last = hi[i];
        if (lo[i] < start) start = lo[i];
    }
    reset(&total, n_queries, dim);
    tern_attention_args args = args_for(j, kv_head, sequence_of(j, first), &part);
    args.q = q;
    args.q_stride = dim;
    args.n_queries = n_queries;
    args.lo = lo;
    args.hi = hi;
    for (args.first = first_of_chunk(start); args.first < last; args.first += TERN_ATTENTION_CHUNK) {
        args.n = last - args.first < TERN_ATTENTION_CHUNK ? last - args.first : TERN_ATTENTION_CHUNK;
        reset(&part, n_queries, dim);
        j->step->cpu->kernels.attention(&args);
        for (uint32_t i = 0; i < n_queries; i++) merge(&total, &part, i, dim);
    }
    for (uint32_t i = 0; i < n_queries; i++) {
        const uint32_t head = kv_head * j->group + i % j->group;
        finish(j, &total, i, head, j->op->out.data + (first + i / j->group) * j->op->out.stride + (size_t)head * dim);
    }
}

/* Tokens from `first` on that one task takes for a head: of one tile and one sequence. */
static uint32_t run_length(const attention_job *j, uint32_t first)
{
    const uint32_t tile_end = (first / j->tile + 1) * j->tile;
    const uint32_t end = tile_end < j->step->n_tokens ? tile_end : j->step->n_tokens;
    uint32_t n = 1;
    while (first + n < end && sequence_of(j, first + n) == sequence_of(j, first)) n++;
    return n;
}

static uint32_t count_runs(const attention_job *j)
{
    uint32_t n = 0;
    for (uint32_t first = 0; first < j->step->n_tokens; first += run_length(j, first)) n++;
    return n;
}

static void run_task(void *context, uint32_t task, uint32_t thread)
{
    const attention_job *j = context;
    const uint32_t kv_heads = j->op->op->n_kv_heads;
    uint32_t first = 0;
    for (uint32_t run = task / kv_heads; run > 0; run--) first += run_length(j, first);
    run_tile(j, first, run_length(j, first), task % kv_heads, thread);
}

/* The state of one (KV head, chunk) of a single token. */
static softmax_state partial(const attention_job *j, uint32_t kv_head, uint32_t chunk)
{
    size_t per_query = j->op->op->head_dim + 2;
    float *at = j->step->prepared->shared + ((size_t)kv_head * j->n_chunks + chunk) * j->group * per_query;
    return (softmax_state){.m = at, .l = at + j->group, .acc = at + 2 * j->group};
}

static void chunk_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const attention_job *j = context;
    uint32_t kv_head = task / j->n_chunks, chunk = task % j->n_chunks;
    uint32_t n_positions = position_of(j, 0) + 1, lo[TILE_QUERIES], hi[TILE_QUERIES];
    softmax_state s = partial(j, kv_head, chunk);
    reset(&s, j->group, j->op->op->head_dim);
    for (uint32_t i = 0; i < j->group; i++) {
        lo[i] = tern_op_first_seen(j->op->op, n_positions - 1);
        hi[i] = n_positions;
    }
    tern_attention_args args = args_for(j, kv_head, sequence_of(j, 0), &s);
    args.q = query(j, 0, kv_head * j->group);
    args.q_stride = args.head_dim;
    args.n_queries = j->group;
    args.lo = lo;
    args.hi = hi;
    args.first = j->first + chunk * TERN_ATTENTION_CHUNK;
    args.n = n_positions - args.first < TERN_ATTENTION_CHUNK ? n_positions - args.first : TERN_ATTENTION_CHUNK;
    j->step->cpu->kernels.attention(&args);
}

static void decode(attention_job *j)
{
    const tern_op *op = j->op->op;
    uint32_t dim = op->head_dim, n_positions = position_of(j, 0) + 1;
    j->first = first_of_chunk(tern_op_first_seen(op, n_positions - 1));
    j->n_chunks = (n_positions - j->first + TERN_ATTENTION_CHUNK - 1) / TERN_ATTENTION_CHUNK;
    tern_pool_for(j->step->cpu->pool, op->n_kv_heads * j->n_chunks, chunk_task, j);
    softmax_state total;
    float memory[MAX_HEAD_DIM + 2];
    total = (softmax_state){.m = memory, .l = memory + 1, .acc = memory + 2};
    for (uint32_t head = 0; head < op->n_heads; head++) {
        reset(&total, 1, dim);
        for (uint32_t c = 0; c < j->n_chunks; c++) {
            softmax_state s = partial(j, head / j->group, c);
            uint32_t i = head % j->group;
            softmax_state one = {.m = s.m + i, .l = s.l + i, .acc = s.acc + (size_t)i * dim};
            merge(&total, &one, 0, dim);
        }
        finish(j, &total, 0, head, j->op->out.data + (size_t)head * dim);
    }
}

void tern_cpu__attention(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_value *values = step->prepared->graph->values;
    attention_job j = {.step = step,
                       .op = op,
                       .group = op->op->n_heads / op->op->n_kv_heads,
                       .tile = tile_tokens(op->op),
                       .types = {.k = values[op->op->in[TERN_ATTENTION_K_CACHE].value].dtype,
                                 .v = values[op->op->in[TERN_ATTENTION_V_CACHE].value].dtype},
                       .scale = tern_op_score_scale(op->op)};
    if (step->n_tokens == 1 && j.group <= TILE_QUERIES) {
        decode(&j);
        return;
    }
    tern_pool_for(step->cpu->pool, count_runs(&j) * op->op->n_kv_heads, run_task, &j);
}
