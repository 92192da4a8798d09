/* Lowering rotary embedding and cache writes. */
#include "backend/gpu/attention/attention_internal.h"

static uint32_t groups_of(tern_gpu_pipeline pipeline, uint32_t items)
{
    return tern_gpu__ceil_div(items, tern_gpu_pipelines[pipeline].invocations);
}

static tern_gpu_cache_side side_of(const tern_gpu_program *p, const tern_op *op, tern_view view)
{
    const tern_value *value = tern_gpu__value(p, view);
    const tern_cache_type *type = tern_cache_type_of(value->dtype);
    return (tern_gpu_cache_side){
        .value = view.value,
        .bits = type->elements > 1 ? type->bytes * 8 / type->elements : 0,
        .page_bytes = tern_row_bytes(value->dtype, op->head_dim, (uint64_t)TERN_PAGE_SIZE * op->n_kv_heads)};
}

static tern_status kind_of(const tern_gpu_program *p, const tern_op *op, tern_gpu_cache *c, tern_error *err)
{
    const tern_cache_type *k = tern_cache_type_of(p->graph->values[c->k.value].dtype),
                          *v = tern_cache_type_of(p->graph->values[c->v.value].dtype);
    if ((c->k.bits == 0) != (c->v.bits == 0) || (c->k.bits == 0 && k != v))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "gpu: op %s: keys in %s and values in %s: one type, or two with blocks, expected",
                         tern_op_name(op->kind), k->name, v->name);
    if (c->k.bits && op->head_dim % TERN_GPU_BLOCK_HEADS)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "gpu: op %s: keys in %s: heads of %u numbers: a multiple of %d expected",
                         tern_op_name(op->kind), k->name, op->head_dim, TERN_GPU_BLOCK_HEADS);
    c->kv = c->k.bits ? TERN_GPU_KV_BLOCKS : k->dtype == TERN_DTYPE_F32 ? TERN_GPU_KV_F32 : TERN_GPU_KV_F16;
    return TERN_OK;
}

/* Pages of a slice: both caches' begin where a binding may. */
static uint32_t pages_of_slice(const tern_gpu_program *p, const tern_gpu_cache *c)
{
    const uint64_t larger = c->k.page_bytes > c->v.page_bytes ? c->k.page_bytes : c->v.page_bytes;
    const uint64_t most = p->caps->max_binding / larger, alignment = p->caps->binding_alignment;
    uint32_t pages = (uint32_t)most;
    if (most >= c->n_pages) return c->n_pages;
    while (alignment && (pages * c->k.page_bytes % alignment || pages * c->v.page_bytes % alignment)) pages--;
    return pages;
}

tern_status tern_gpu__cache_of(const tern_gpu_program *p, const tern_op *op, tern_view k, tern_view v,
                               tern_gpu_cache *out, tern_error *err)
{
    tern_gpu_cache c = {.k = side_of(p, op, k), .v = side_of(p, op, v)};
    const tern_value *value = tern_gpu__value(p, k);
    TERN_TRY(kind_of(p, op, &c, err));
    c.n_pages = (uint32_t)(value->bytes / c.k.page_bytes);
    c.slice_pages = pages_of_slice(p, &c);
    c.n_slices = c.slice_pages ? tern_gpu__ceil_div(c.n_pages, c.slice_pages) : UINT32_MAX;
    if (c.n_slices > TERN_GPU_MAX_CACHE_SLICES)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "gpu: op %s: %s has %llu bytes in pages of %llu: at most %d bindings of %llu expected; a "
                         "smaller --ctx, or --backend cpu",
                         tern_op_name(op->kind), value->name, (unsigned long long)value->bytes,
                         (unsigned long long)c.k.page_bytes, TERN_GPU_MAX_CACHE_SLICES,
                         (unsigned long long)p->caps->max_binding);
    *out = c;
    return TERN_OK;
}

uint32_t tern_gpu__slice_pages(const tern_gpu_cache *cache, uint32_t slice)
{
    const uint32_t left = cache->n_pages - slice * cache->slice_pages;
    return left < cache->slice_pages ? left : cache->slice_pages;
}

static void bind_side(tern_gpu_dispatch *d, const tern_gpu_cache *cache, const tern_gpu_cache_side *side,
                      uint32_t slice, bool written)
{
    tern_gpu__bind(d, (tern_gpu_range){.value = side->value,
                                       .offset = slice * cache->slice_pages * side->page_bytes,
                                       .bytes = tern_gpu__slice_pages(cache, slice) * side->page_bytes,
                                       .written = written});
}

void tern_gpu__bind_caches(tern_gpu_dispatch *d, const tern_gpu_cache *cache, uint32_t slice, bool written)
{
    bind_side(d, cache, &cache->k, slice, written);
    bind_side(d, cache, &cache->v, slice, written);
}

tern_status tern_gpu__no_head(const tern_op *op, tern_error *err)
{
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "gpu: op %s: head dimension %u found, a multiple of 4, at most 512, expected; --backend cpu runs it",
        tern_op_name(op->kind), op->head_dim);
}

/* Rotates n_heads heads that lie side by side from column first_col of x on. */
static tern_status add_rope(tern_gpu_program *p, const tern_op *op, tern_view x, uint32_t n_heads, tern_view table,
                            tern_error *err)
{
    const uint32_t per_head = op->head_dim / 4;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_ROPE, groups_of(TERN_GPU_ROPE, n_heads * per_head),
                                         tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rope_uniform u = {.quads = per_head,
                                     .n_heads = n_heads,
                                     .adjacent = op->rope_adjacent,
                                     .turned = (op->rope_dim ? op->rope_dim : op->head_dim) / 4,
                                     .count_word = tern_gpu__count_word(p, op->rows),
                                     .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                     .x_first = x.first_col / 2,
                                     .x_stride = tern_gpu__stride(p, x) / 2,
                                     .direction = op->kind == TERN_OP_ROPE_BACKWARD ? -1.0f : 1.0f};
    tern_gpu_rope_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, x.value, true);
    tern_gpu__bind_value(p, d, table.value, false);
    return TERN_OK;
}

/* ROPE and ROPE_BACKWARD. */
tern_status tern_gpu__lower_rope(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->head_dim % 4) return tern_gpu__no_head(op, err);
    return add_rope(p, op, op->in[TERN_ROPE_X], op->n_heads, op->in[TERN_ROPE_TABLE], err);
}

/* The operands of KV_WRITE. */
typedef struct kv_operands {
    tern_view k, v, pages;
} kv_operands;

static tern_status add_kv_write(tern_gpu_program *p, const tern_op *op, const kv_operands *in,
                                const tern_gpu_cache *cache, uint32_t slice, tern_error *err)
{
    static const tern_gpu_pipeline pipelines[] = {TERN_GPU_KV_WRITE_F16, TERN_GPU_KV_WRITE_F32,
                                                  TERN_GPU_KV_WRITE_BLOCKS};
    const tern_gpu_pipeline pipeline = pipelines[cache->kv];
    const uint32_t pairs = op->head_dim / 2, items = cache->kv == TERN_GPU_KV_BLOCKS ? pairs / 4 : pairs;
    const bool together = in->k.value == in->v.value;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups_of(pipeline, op->n_kv_heads * items),
                                         tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_kv_write_uniform u = {.pairs = pairs,
                                         .n_kv_heads = op->n_kv_heads,
                                         .count_word = tern_gpu__count_word(p, op->rows),
                                         .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                         .sequences_word = tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                                         .pages_word = tern_gpu__word_of(p, in->pages),
                                         .max_pages = p->graph->max_pages,
                                         .page_first = slice * cache->slice_pages,
                                         .n_pages = tern_gpu__slice_pages(cache, slice),
                                         .k_first = in->k.first_col / 2,
                                         .k_stride = tern_gpu__stride(p, in->k) / 2,
                                         .v_first = in->v.first_col / 2,
                                         .v_stride = tern_gpu__stride(p, in->v) / 2,
                                         .together = together,
                                         .k_bits = cache->k.bits,
                                         .v_bits = cache->v.bits};
    tern_gpu_kv_write_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, in->k.value, false);
    if (together) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_value(p, d, in->v.value, false);
    tern_gpu__bind_caches(d, cache, slice, true);
    return TERN_OK;
}

static tern_status write_slices(tern_gpu_program *p, const tern_op *op, const kv_operands *in,
                                const tern_gpu_cache *cache, tern_error *err)
{
    for (uint32_t slice = 0; slice < cache->n_slices; slice++) TERN_TRY(add_kv_write(p, op, in, cache, slice, err));
    return TERN_OK;
}

tern_status tern_gpu__lower_kv_write(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const kv_operands in = {op->in[TERN_KV_WRITE_K], op->in[TERN_KV_WRITE_V], op->in[TERN_KV_WRITE_PAGES]};
    tern_gpu_cache cache;
    if (op->head_dim % 4) return tern_gpu__no_head(op, err);
    TERN_TRY(tern_gpu__cache_of(p, op, op->in[TERN_KV_WRITE_K_CACHE], op->in[TERN_KV_WRITE_V_CACHE], &cache, err));
    return write_slices(p, op, &in, &cache, err);
}

/* ROPE_KV where the caches are in slices or in blocks: rotation happens once, and is a dispatch of its own. */
static tern_status lower_rope_apart(tern_gpu_program *p, const tern_op *op, const tern_gpu_cache *cache,
                                    tern_error *err)
{
    const tern_view qkv = op->in[TERN_ROPE_KV_QKV];
    kv_operands in = {qkv, qkv, op->in[TERN_ROPE_KV_PAGES]};
    in.k.first_col += op->n_heads * op->head_dim;
    in.v.first_col = in.k.first_col + op->n_kv_heads * op->head_dim;
    TERN_TRY(add_rope(p, op, qkv, op->n_heads + op->n_kv_heads, op->in[TERN_ROPE_KV_TABLE], err));
    return write_slices(p, op, &in, cache, err);
}

/* Invocations of a head: with norms a power of two, which a workgroup has room for. */
static uint32_t lanes_of(const tern_op *op)
{
    uint32_t lanes = 1;
    if (!op->head_norms[0].cols) return op->head_dim / 4;
    while (lanes < op->head_dim / 4) lanes *= 2;
    return lanes;
}

static tern_gpu_pipeline rope_kv_pipeline(const tern_op *op, const tern_gpu_cache *cache)
{
    static const tern_gpu_pipeline plain[] = {TERN_GPU_ROPE_KV_F16, TERN_GPU_ROPE_KV_F32},
                                   norm[] = {TERN_GPU_ROPE_KV_NORM_F16, TERN_GPU_ROPE_KV_NORM_F32};
    return (op->head_norms[0].cols ? norm : plain)[cache->kv];
}

static void bind_head_norms(const tern_gpu_program *p, tern_gpu_dispatch *d, const tern_op *op)
{
    for (int i = 0; i < 2; i++)
        if (op->head_norms[i].cols) tern_gpu__bind_value(p, d, op->head_norms[i].value, false);
        else tern_gpu__bind_nothing(d);
}

tern_status tern_gpu__lower_rope_kv(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view qkv = op->in[TERN_ROPE_KV_QKV];
    tern_gpu_cache cache;
    if (op->head_dim % 4) return tern_gpu__no_head(op, err);
    TERN_TRY(tern_gpu__cache_of(p, op, op->in[TERN_ROPE_KV_K_CACHE], op->in[TERN_ROPE_KV_V_CACHE], &cache, err));
    const bool apart = cache.n_slices > 1 || cache.kv == TERN_GPU_KV_BLOCKS;
    const uint32_t lanes = lanes_of(op), items = (op->n_heads + 2 * op->n_kv_heads) * lanes;
    if (op->head_norms[0].cols && (apart || lanes > tern_gpu_pipelines[TERN_GPU_ROPE_KV_NORM_F16].invocations))
        return tern_gpu__unsupported(p->graph, op, "norms of heads as ops of their own expected", err);
    if (apart) return lower_rope_apart(p, op, &cache, err);
    const tern_gpu_pipeline pipeline = rope_kv_pipeline(op, &cache);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, groups_of(pipeline, items), tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rope_kv_uniform u = {.quads = op->head_dim / 4,
                                        .n_heads = op->n_heads,
                                        .n_kv_heads = op->n_kv_heads,
                                        .adjacent = op->rope_adjacent,
                                        .turned = (op->rope_dim ? op->rope_dim : op->head_dim) / 4,
                                        .count_word = tern_gpu__count_word(p, op->rows),
                                        .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                        .sequences_word = tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                                        .pages_word = tern_gpu__word_of(p, op->in[TERN_ROPE_KV_PAGES]),
                                        .max_pages = p->graph->max_pages,
                                        .x_first = qkv.first_col / 2,
                                        .x_stride = tern_gpu__stride(p, qkv) / 2,
                                        .lanes = lanes,
                                        .eps = op->eps};
    tern_gpu_rope_kv_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, qkv.value, true);
    tern_gpu__bind_value(p, d, op->in[TERN_ROPE_KV_TABLE].value, false);
    tern_gpu__bind_caches(d, &cache, 0, true);
    bind_head_norms(p, d, op);
    return TERN_OK;
}
