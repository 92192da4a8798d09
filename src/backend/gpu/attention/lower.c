/* Lowering attention: one query at a time, split over the positions, or in tiles. */
#include "backend/gpu/attention/attention_internal.h"

/* Where the inputs of ATTENTION and ROPE_ATTENTION are. */
typedef struct inputs {
    const tern_op *op;
    bool fused;
    tern_view x; /* x: q, or q, k and v beside each other */
    tern_view pages;
    tern_gpu_cache cache;
    tern_gpu_attention_choice choice;
    tern_gpu_scores scores;
} inputs;

tern_gpu_scores tern_gpu__scores(const tern_op *op, float unit)
{
    const float softcap = op->softcap * unit;
    return (tern_gpu_scores){.scale = tern_op_score_scale(op) * unit,
                             .softcap = softcap,
                             .softcap_rate = softcap > 0 ? 2 * TERN_GPU_LOG2E / softcap : 0,
                             .window = op->window ? op->window : UINT32_MAX,
                             .sinks = op->sinks.cols != 0};
}

void tern_gpu__bind_sinks(const tern_gpu_program *p, tern_gpu_dispatch *d, const tern_op *op)
{
    if (op->sinks.cols) tern_gpu__bind_value(p, d, op->sinks.value, false);
    else tern_gpu__bind_nothing(d);
}

static uint32_t quads(uint32_t cols)
{
    return cols / 4;
}

static uint32_t bits_of(uint32_t power)
{
    uint32_t bits = 0;
    while (power >> (bits + 1)) bits++;
    return bits;
}

static tern_status lower_combine(tern_gpu_program *p, const inputs *in, uint64_t scratch, uint64_t bytes,
                                 tern_error *err)
{
    const tern_op *op = in->op;
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, TERN_GPU_ATTENTION_COMBINE, op->n_heads, tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_attention_combine_uniform u = {.head_dim = op->head_dim,
                                                  .n_kv_heads = op->n_kv_heads,
                                                  .group = op->n_heads / op->n_kv_heads,
                                                  .head_blocks = in->choice.head_blocks,
                                                  .heads = in->choice.heads,
                                                  .count_word = tern_gpu__count_word(p, op->rows),
                                                  .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                                  .split_bits = bits_of(in->choice.splits),
                                                  .slices = in->cache.n_slices,
                                                  .min_span = in->choice.min_span,
                                                  .partials = (uint32_t)(scratch / 4),
                                                  .out_first = op->out.first_col,
                                                  .out_stride = tern_gpu__stride(p, op->out),
                                                  .window = in->scores.window,
                                                  .sinks = in->scores.sinks};
    tern_gpu_attention_combine_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_scratch(d, 0, bytes, false);
    tern_gpu__bind_value(p, d, op->out.value, true);
    tern_gpu__bind_sinks(p, d, op);
    return TERN_OK;
}

static void set_decode(const tern_gpu_program *p, const inputs *in, uint32_t slice, uint64_t scratch,
                       tern_gpu_dispatch *d)
{
    const tern_op *op = in->op;
    const tern_gpu_attention_choice *c = &in->choice;
    const uint32_t q_cols = op->n_heads * op->head_dim, kv_cols = op->n_kv_heads * op->head_dim;
    const tern_gpu_attention_decode_uniform u = {.head_dim = op->head_dim,
                                                 .n_kv_heads = op->n_kv_heads,
                                                 .group = op->n_heads / op->n_kv_heads,
                                                 .head_blocks = c->head_blocks,
                                                 .count_word = tern_gpu__count_word(p, op->rows),
                                                 .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                                 .sequences_word = tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                                                 .pages_word = tern_gpu__word_of(p, in->pages),
                                                 .max_pages = p->graph->max_pages,
                                                 .x_first = quads(in->x.first_col),
                                                 .x_stride = quads(tern_gpu__stride(p, in->x)),
                                                 .k_first = quads(in->x.first_col + q_cols),
                                                 .v_first = quads(in->x.first_col + q_cols + kv_cols),
                                                 .out_first = quads(op->out.first_col),
                                                 .out_stride = quads(tern_gpu__stride(p, op->out)),
                                                 .scale = in->scores.scale,
                                                 .softcap = in->scores.softcap,
                                                 .softcap_rate = in->scores.softcap_rate,
                                                 .window = in->scores.window,
                                                 .sinks = in->scores.sinks,
                                                 .split_bits = bits_of(c->splits),
                                                 .min_span = c->min_span,
                                                 .fused = in->fused,
                                                 .adjacent = op->rope_adjacent,
                                                 .merge = c->merge,
                                                 .partials = (uint32_t)(scratch / 4),
                                                 .slice = slice,
                                                 .slices = in->cache.n_slices,
                                                 .page_first = slice * in->cache.slice_pages,
                                                 .n_pages = tern_gpu__slice_pages(&in->cache, slice),
                                                 .k_bits = in->cache.k.bits,
                                                 .v_bits = in->cache.v.bits};
    tern_gpu_attention_decode_set(d, &u);
}

/* Where the states of splits and slices lie in SCRATCH, and where they end; 0 and 0: there is one of them alone. */
typedef struct partials {
    uint64_t first, end;
} partials;

static partials find_partials(tern_gpu_program *p, const inputs *in)
{
    const tern_gpu_attention_choice *c = &in->choice;
    const uint64_t parts = (uint64_t)c->splits * in->cache.n_slices,
                   items = (uint64_t)tern_gpu__max_rows(p, in->op->rows) * in->op->n_kv_heads * c->head_blocks,
                   bytes = items * parts * c->heads * (in->op->head_dim + 8) * 4;
    if (parts == 1) return (partials){0, 0};
    const uint64_t first = tern_gpu__scratch(p, bytes);
    return (partials){first, first + bytes};
}

static tern_status add_decode(tern_gpu_program *p, const inputs *in, uint32_t slice, partials at, tern_error *err)
{
    const tern_op *op = in->op;
    const tern_gpu_attention_choice *c = &in->choice;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, c->pipeline, op->n_kv_heads * c->head_blocks, c->splits,
                                         tern_gpu__max_rows(p, op->rows), err);
    if (!d) return TERN_UNSUPPORTED;
    set_decode(p, in, slice, at.first, d);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, in->x.value, false);
    if (in->fused) tern_gpu__bind_value(p, d, op->in[TERN_ROPE_KV_TABLE].value, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_caches(d, &in->cache, slice, in->fused);
    tern_gpu__bind_value(p, d, op->out.value, true);
    if (at.end) tern_gpu__bind_scratch(d, 0, at.end, true);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_sinks(p, d, op);
    return TERN_OK;
}

static tern_status lower_decode(tern_gpu_program *p, const inputs *in, tern_error *err)
{
    const partials at = find_partials(p, in);
    for (uint32_t slice = 0; slice < in->cache.n_slices; slice++) TERN_TRY(add_decode(p, in, slice, at, err));
    return at.end == 0 || in->choice.merge ? TERN_OK : lower_combine(p, in, at.first, at.end, err);
}

/* With slices the results are states in SCRATCH. */
static tern_status add_tiled(tern_gpu_program *p, const inputs *in, uint32_t slice, partials at, tern_error *err)
{
    const tern_op *op = in->op;
    const tern_gpu_attention_choice *c = &in->choice;
    uint32_t tiles = tern_gpu__ceil_div(tern_gpu__max_rows(p, op->rows), c->tokens);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, c->pipeline, op->n_kv_heads * c->head_blocks, tiles, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_attention_tiled_uniform u = {.head_dim = op->head_dim,
                                                .n_kv_heads = op->n_kv_heads,
                                                .group = op->n_heads / op->n_kv_heads,
                                                .head_blocks = c->head_blocks,
                                                .heads = c->heads,
                                                .tokens = c->tokens,
                                                .count_word = tern_gpu__count_word(p, op->rows),
                                                .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                                .sequences_word = tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                                                .pages_word = tern_gpu__word_of(p, in->pages),
                                                .max_pages = p->graph->max_pages,
                                                .x_first = quads(in->x.first_col),
                                                .x_stride = quads(tern_gpu__stride(p, in->x)),
                                                .out_first =
                                                    at.end ? (uint32_t)(at.first / 16) : quads(op->out.first_col),
                                                .out_stride = quads(tern_gpu__stride(p, op->out)),
                                                .scale = in->scores.scale,
                                                .softcap = in->scores.softcap,
                                                .softcap_rate = in->scores.softcap_rate,
                                                .window = in->scores.window,
                                                .sinks = in->scores.sinks,
                                                .tiles = tiles,
                                                .aligned = p->graph->kernel_rows != 0,
                                                .slice = slice,
                                                .slices = in->cache.n_slices,
                                                .page_first = slice * in->cache.slice_pages,
                                                .n_pages = tern_gpu__slice_pages(&in->cache, slice),
                                                .k_bits = in->cache.k.bits,
                                                .v_bits = in->cache.v.bits};
    tern_gpu_attention_tiled_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, in->x.value, false);
    tern_gpu__bind_caches(d, &in->cache, slice, false);
    if (at.end) tern_gpu__bind_scratch(d, 0, at.end, true);
    else tern_gpu__bind_value(p, d, op->out.value, true);
    tern_gpu__bind_sinks(p, d, op);
    return TERN_OK;
}

static tern_status lower_tiled(tern_gpu_program *p, const inputs *in, tern_error *err)
{
    const partials at = find_partials(p, in);
    for (uint32_t slice = 0; slice < in->cache.n_slices; slice++) TERN_TRY(add_tiled(p, in, slice, at, err));
    return at.end ? lower_combine(p, in, at.first, at.end, err) : TERN_OK;
}

tern_status tern_gpu__lower_attention(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const bool fused = op->kind == TERN_OP_ROPE_ATTENTION;
    inputs in = {.op = op,
                 .fused = fused,
                 .x = op->in[fused ? TERN_ROPE_KV_QKV : TERN_ATTENTION_Q],
                 .pages = op->in[fused ? TERN_ROPE_KV_PAGES : TERN_ATTENTION_PAGES],
                 .scores = tern_gpu__scores(op, TERN_GPU_LOG2E)};
    const uint32_t positions = p->graph->max_pages * TERN_PAGE_SIZE;
    if (op->head_dim % 4) return tern_gpu__no_head(op, err);
    if (fused && op->head_dim % 8)
        return tern_gpu__unsupported(p->graph, op, "only of heads that are multiples of 8", err);
    if (fused && op->rope_dim) return tern_gpu__unsupported(p->graph, op, "only of heads turned as a whole", err);
    if (op->head_norms[0].cols) return tern_gpu__unsupported(p->graph, op, "norms of heads in rope_kv expected", err);
    TERN_TRY(tern_gpu__cache_of(p, op, op->in[fused ? TERN_ROPE_KV_K_CACHE : TERN_ATTENTION_K_CACHE],
                                op->in[fused ? TERN_ROPE_KV_V_CACHE : TERN_ATTENTION_V_CACHE], &in.cache, err));
    if (fused && in.cache.kv == TERN_GPU_KV_BLOCKS)
        return tern_gpu__unsupported(p->graph, op, "only with caches in f16 or f32", err);
    if (op->sinks.first_col)
        return tern_gpu__unsupported(p->graph, op, "only of all heads, where they have sinks", err);
    const uint32_t groups = op->head_groups ? op->head_groups : 1;
    const tern_gpu_attention_shape shape = {.head_dim = op->head_dim,
                                            .n_heads = op->n_heads * groups,
                                            .n_kv_heads = op->n_kv_heads * groups,
                                            .max_tokens = tern_gpu__kernel_rows(p, op->rows),
                                            .max_positions =
                                                in.scores.window < positions ? in.scores.window : positions,
                                            .kv = in.cache.kv,
                                            .n_slices = in.cache.n_slices};
    in.choice = tern_gpu_select_attention(&shape, p->caps);
    if (fused && in.choice.tiled) return tern_gpu__unsupported(p->graph, op, "only in graphs of few tokens", err);
    if (in.choice.pipeline == TERN_GPU_PIPELINE_COUNT) return tern_gpu__no_head(op, err);
    return in.choice.tiled ? lower_tiled(p, &in, err) : lower_decode(p, &in, err);
}
