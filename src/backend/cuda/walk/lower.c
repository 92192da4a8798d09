/* From ops to the steps of a walk. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "quant/weight.h"

enum { LEAST_POSITIONS = 16, MOST_PARTS = TERN_CUDA_MAX_PARTS, ROOM = 6144, GRANULE = TERN_CUDA_WALK_GRANULE };

static cudaError_t run_walk(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_walk((const tern_cuda_walk *)params, stream);
}

static bool quantizes(const tern_graph *graph, const tern_op *op)
{
    return tern_cuda__is_q8(graph, op->in[TERN_LINEAR_X]) || (op->norm_weight.cols && !op->norm_f32);
}

static uint32_t each_of(const tern_cuda *cuda, uint32_t rows)
{
    return (rows + cuda->limits.multiprocessors - 1) / cuda->limits.multiprocessors;
}

/* Whether rows are read four floats at a time. */
static bool is_whole(tern_view v)
{
    return v.first_col % 4 == 0 && v.cols % 4 == 0;
}

/* Rows of out whose weights take at most three quarters of a ring. */
static uint32_t pass_of(const tern_cuda_walk_linear *l, uint32_t granules)
{
    const uint32_t row_bytes = l->product.row_bytes * (l->product.gated ? 2 : 1),
                   rows = granules * 3 / 4 * GRANULE / row_bytes;
    return rows < TERN_CUDA_WALK_ROWS ? rows : TERN_CUDA_WALK_ROWS;
}

/* Bytes of the norm's weights of a step of ternary weights. */
static uint32_t norm_bytes(const tern_graph *graph, const tern_op *op)
{
    if (op->kind != TERN_OP_LINEAR || !op->norm_weight.cols || !quantizes(graph, op)) return 0;
    return (op->norm_weight.cols * 4 + 15) / 16 * 16;
}

/* Whether the step's memory, and the longest norms of the graph in both slots, leave enough of a block's for the ring.
 */
static bool has_room(const tern_cuda *cuda, const tern_graph *graph, const tern_cuda_step *s)
{
    uint32_t norm = 0;
    for (size_t i = 0; i < graph->n_ops; i++) {
        const uint32_t bytes = norm_bytes(graph, &graph->ops[i]);
        if (bytes > norm) norm = bytes;
    }
    return tern_cuda_step_shared(s) + 2 * norm + TERN_CUDA_WALK_LEAST_GRANULES * GRANULE + ROOM <=
           cuda->limits.shared_bytes;
}

/* Weights as far as shapes go: formats that one step can have, a row of x that fits. */
static bool linear_walks(const tern_cuda *cuda, const tern_graph *graph, const tern_op *op)
{
    tern_gpu_layout layout[MOST_PARTS] = {0};
    tern_error ignored;
    const bool is_int8 = quantizes(graph, op);
    if (op->route.cols || op->screened || op->int8_blocks || op->halves ||
        (op->gated && op->activation > TERN_ACT_GELU))
        return false;
    if (op->norm_weight.cols && op->norm_weight.cols != op->in[TERN_LINEAR_X].cols) return false;
    if (is_int8 && !is_whole(op->in[TERN_LINEAR_X])) return false;
    for (uint32_t i = 0; i < op->n_parts; i++) {
        const tern_weight *w = graph->values[op->in[TERN_LINEAR_W + i].value].weight;
        if (!w || tern_cuda__layout(&layout[i], w, &ignored) != TERN_OK) return false;
        if (layout[i].format > TERN_GPU_MXFP4 || (is_int8 && layout[i].format != TERN_GPU_TERNARY)) return false;
        tern_cuda_step s = {.kind = is_int8 ? TERN_CUDA_STEP_TERNARY : TERN_CUDA_STEP_DENSE};
        s.of.linear = (tern_cuda_walk_linear){.product = {.format = layout[i].format,
                                                          .cols = layout[i].cols,
                                                          .row_bytes = layout[i].row_bytes,
                                                          .gated = op->gated},
                                              .rows = op->out.cols,
                                              .each = each_of(cuda, op->out.cols)};
        if (!has_room(cuda, graph, &s)) return false;
        if (is_int8 && pass_of(&s.of.linear, TERN_CUDA_WALK_LEAST_GRANULES) == 0) return false;
    }
    return !op->gated || layout[0].format == layout[1].format;
}

/* Units of heads that share keys. */
static uint32_t unit_parts(const tern_op *op)
{
    return (op->n_heads / op->n_kv_heads + TERN_CUDA_WALK_HEADS - 1) / TERN_CUDA_WALK_HEADS;
}

static bool attention_walks(const tern_cuda *cuda, const tern_graph *graph, const tern_op *op)
{
    tern_cuda_step s = {.kind = TERN_CUDA_STEP_ATTENTION};
    s.of.attention.attention.head_dim = op->head_dim;
    const tern_dtype type = graph->values[op->in[TERN_ROPE_KV_K_CACHE].value].dtype;
    s.of.attention.attention.k_cache.f32 = type == TERN_DTYPE_F32;
    return (type == TERN_DTYPE_F32 || type == TERN_DTYPE_F16) && op->head_dim <= TERN_CUDA_WALK_DIM &&
           op->head_dim % 8 == 0 && op->n_heads % op->n_kv_heads == 0 &&
           op->n_kv_heads * unit_parts(op) <= cuda->limits.multiprocessors && has_room(cuda, graph, &s);
}

bool tern_cuda__walks(const tern_cuda *cuda, const tern_graph *graph, const tern_op *op)
{
    if (graph->max_tokens != 1 || op->rows == TERN_ROWS_ROUTED) return false;
    switch (op->kind) {
    case TERN_OP_EMBED:
    case TERN_OP_RMS_NORM:
    case TERN_OP_QUANTIZE:
    case TERN_OP_NORM_QUANT:
    case TERN_OP_ADD:
    case TERN_OP_SCALE:
    case TERN_OP_GATE: return true;
    case TERN_OP_SAMPLE: return !op->each_row;
    case TERN_OP_LINEAR: return linear_walks(cuda, graph, op);
    case TERN_OP_ROPE_ATTENTION: return attention_walks(cuda, graph, op);
    default: return false;
    }
}

static uint32_t splits_of(const tern_cuda *cuda, const tern_graph *graph, const tern_op *op)
{
    const uint32_t units = op->n_kv_heads * unit_parts(op), positions = graph->max_pages * TERN_PAGE_SIZE;
    uint32_t n = cuda->limits.multiprocessors / units, most = (positions + LEAST_POSITIONS - 1) / LEAST_POSITIONS;
    if (most > TERN_CUDA_WALK_SPLITS) most = TERN_CUDA_WALK_SPLITS;
    if (n > most) n = most;
    return n ? n : 1;
}

tern_status tern_cuda__walking_make(tern_cuda *cuda, tern_prepared *p, tern_error *err)
{
    tern_cuda_walking *w = &p->walking;
    size_t most = 0, partials = 0;
    void *memory = NULL;
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const tern_op *op = &p->graph->ops[i];
        if (!tern_cuda__walks(cuda, p->graph, op)) continue;
        most += op->kind == TERN_OP_LINEAR ? op->n_parts : 1;
        if (op->kind != TERN_OP_ROPE_ATTENTION) continue;
        const size_t n = (size_t)op->n_heads * splits_of(cuda, p->graph, op) * (op->head_dim + 2);
        if (n > partials) partials = n;
    }
    if (!most) return TERN_OK;
    w->steps = tern_calloc(most, sizeof *w->steps);
    if (!w->steps) return tern_fail_alloc(err, most * sizeof *w->steps);
    TERN_TRY(tern_cuda__status(cudaMalloc(&memory, most * sizeof *w->steps), "steps", err));
    w->on_device = memory;
    const size_t found = (size_t)cuda->limits.multiprocessors * TERN_SAMPLE_MAX_TOP_K * sizeof(uint64_t);
    const size_t words = 2 * sizeof *w->words, sums = partials * sizeof(float);
    TERN_TRY(tern_cuda__status(cudaMalloc(&memory, words + found + sums), "scratch memory", err));
    w->words = memory;
    w->found = w->words + 2;
    w->partials = (float *)(void *)((uint8_t *)w->found + found);
    TERN_TRY(tern_cuda__status(cudaMemsetAsync(memory, 0, words + found, cuda->stream), "scratch memory", err));
    return tern_cuda__status(cudaMemsetAsync(w->partials, 0xff, sums, cuda->stream), "scratch memory", err);
}

tern_status tern_cuda__walking_write(tern_cuda *cuda, tern_prepared *p, tern_error *err)
{
    tern_cuda_walking *w = &p->walking;
    if (!w->n_steps) return TERN_OK;
    for (size_t i = 0; i < p->n_launches; i++) {
        const tern_cuda_walk *walk = &p->launches[i].params.walk;
        for (uint32_t k = 0; p->launches[i].run == run_walk && k < walk->n_steps; k++) {
            tern_cuda_step *s = &w->steps[walk->steps - w->on_device + k];
            if (s->kind == TERN_CUDA_STEP_TERNARY) s->of.linear.pass = pass_of(&s->of.linear, walk->granules);
        }
    }
    TERN_TRY(tern_cuda__status(
        cudaMemcpyAsync(w->on_device, w->steps, w->n_steps * sizeof *w->steps, cudaMemcpyHostToDevice, cuda->stream),
        "steps", err));
    return tern_cuda__status(cudaStreamSynchronize(cuda->stream), "steps", err);
}

void tern_cuda__walking_free(tern_cuda_walking *w)
{
    cudaFree(w->on_device);
    cudaFree(w->words);
    tern_free(w->steps);
}

/* One of each run of parts in one format; they wait for x once. */
static uint32_t linear_steps(const tern_cuda *cuda, const tern_prepared *p, const tern_op *op, tern_cuda_launch *launch,
                             tern_cuda_step *out)
{
    tern_cuda_launch whole = {0};
    tern_cuda_linear parts;
    uint32_t n = 0;
    tern_cuda__lower_linear(p, op, &whole);
    launch->weight_bytes += whole.weight_bytes;
    for (uint32_t at = 0; at < op->n_parts; n++) {
        at = tern_cuda_alike_parts(&whole.params.linear, at, &parts);
        tern_cuda_walk_linear *l = &out[n].of.linear;
        out[n].kind = quantizes(p->graph, op) ? TERN_CUDA_STEP_TERNARY : TERN_CUDA_STEP_DENSE;
        out[n].goes_on = n > 0;
        tern_cuda_product_of(&parts, &cuda->limits, &l->product);
        l->norm = tern_cuda__floats(p, op->norm_weight);
        l->eps = op->eps;
        for (uint32_t i = 0; i < (op->gated ? 1 : parts.n_parts); i++) l->rows += parts.weight[i].rows;
        l->each = each_of(cuda, l->rows);
    }
    return n;
}

static void attention_step(const tern_cuda *cuda, const tern_prepared *p, const tern_op *op, tern_cuda_step *out)
{
    tern_cuda_walk_attention *a = &out->of.attention;
    out->kind = TERN_CUDA_STEP_ATTENTION;
    tern_cuda__rope_attention(p, op, &a->rope, &a->attention);
    a->unit_parts = unit_parts(op);
    a->units = op->n_kv_heads * a->unit_parts;
    a->attention.splits = splits_of(cuda, p->graph, op);
    a->attention.partials = p->walking.partials;
}

/* Steps of an op whose ordinary launch has all that they need. */
static void row_step(const tern_cuda *cuda, const tern_prepared *p, const tern_op *op, tern_cuda_step *out)
{
    tern_cuda_launch whole = {0};
    tern_cuda__ops[op->kind].lower(p, op, &whole);
    switch (op->kind) {
    case TERN_OP_EMBED: out->kind = TERN_CUDA_STEP_EMBED, out->of.embed = whole.params.embed; break;
    case TERN_OP_RMS_NORM: out->kind = TERN_CUDA_STEP_NORM, out->of.norm = whole.params.norm; break;
    case TERN_OP_QUANTIZE:
    case TERN_OP_NORM_QUANT: out->kind = TERN_CUDA_STEP_QUANTIZE, out->of.quantize = whole.params.quantize; break;
    case TERN_OP_ADD: out->kind = TERN_CUDA_STEP_ADD, out->of.elements = whole.params.elements; break;
    case TERN_OP_SCALE: out->kind = TERN_CUDA_STEP_SCALE, out->of.elements = whole.params.elements; break;
    case TERN_OP_SAMPLE:
        out->kind = TERN_CUDA_STEP_SAMPLE, out->of.sample = whole.params.sample;
        out->of.sample.each = each_of(cuda, out->of.sample.n_vocab);
        out->of.sample.found = p->walking.found;
        out->of.sample.done = (uint32_t *)(void *)(p->walking.words + 1);
        break;
    default: out->kind = TERN_CUDA_STEP_GATE, out->of.elements = whole.params.elements; break;
    }
}

/* The slots of norms take turns: one is filled while the step before reads the other. (A walk that is taken several
 * times ends with SAMPLE, so that its first norm may have the slot of its last.) */
static void note_norm(tern_cuda_walk *walk, tern_cuda_walk_linear *l)
{
    if (!l->norm) return;
    const uint32_t bytes = (l->product.cols * 4 + 15) / 16 * 16;
    l->norm_slot = walk->n_norms++ % 2;
    if (bytes > walk->norm_bytes[l->norm_slot]) walk->norm_bytes[l->norm_slot] = bytes;
}

/* A walk without dense steps has the kind that many have. The ring has the memory that the steps leave. */
static void note_step(const tern_cuda *cuda, tern_cuda_walk *walk, tern_cuda_step *s)
{
    const uint32_t shared = (tern_cuda_step_shared(s) + 15) / 16 * 16;
    if (shared > walk->shared_bytes) walk->shared_bytes = shared;
    switch (s->kind) {
    case TERN_CUDA_STEP_TERNARY:
        walk->granules = TERN_CUDA_WALK_GRANULES;
        note_norm(walk, &s->of.linear);
        break;
    case TERN_CUDA_STEP_ATTENTION: walk->f32_caches |= s->of.attention.attention.k_cache.f32; break;
    case TERN_CUDA_STEP_DENSE:
        if (walk->n_dense++ == 0) walk->format = (int)s->of.linear.product.format;
        else if (walk->format != (int)s->of.linear.product.format) walk->format = TERN_CUDA_WALK_ANY;
        break;
    default: break;
    }
    const uint32_t taken = ROOM + walk->shared_bytes + walk->norm_bytes[0] + walk->norm_bytes[1];
    const uint32_t left = (cuda->limits.shared_bytes - taken) / GRANULE;
    if (walk->granules > left) walk->granules = left;
}

void tern_cuda__walk_on(const tern_cuda *cuda, tern_prepared *p, const tern_op *op, tern_cuda_launch *launch)
{
    tern_cuda_walking *w = &p->walking;
    tern_cuda_walk *walk = &launch->params.walk;
    tern_cuda_step *steps = w->steps + w->n_steps;
    uint32_t n = 1;
    if (!launch->run) {
        launch->run = run_walk;
        launch->kernel = "walk";
        *walk = (tern_cuda_walk){.steps = w->on_device + w->n_steps,
                                 .times = 1,
                                 .format = TERN_GPU_F16,
                                 .blocks = cuda->limits.multiprocessors,
                                 .count = tern_cuda__param(p, TERN_PARAM_COUNTS),
                                 .arrived = w->words};
    }
    if (op->kind == TERN_OP_LINEAR) n = linear_steps(cuda, p, op, launch, steps);
    else if (op->kind == TERN_OP_ROPE_ATTENTION) attention_step(cuda, p, op, steps);
    else row_step(cuda, p, op, steps);
    for (uint32_t i = 0; i < n; i++) note_step(cuda, walk, &steps[i]);
    walk->n_steps += n;
    w->n_steps += n;
}
