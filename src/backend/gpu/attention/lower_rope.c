/* Lowering rotary embedding and cache writes. */
#include "backend/gpu/attention/attention_internal.h"

static uint32_t groups_of(tern_gpu_pipeline pipeline, uint32_t items)
{
    return tern_gpu__ceil_div(items, tern_gpu_pipelines[pipeline].invocations);
}

static bool is_f32(const tern_gpu_program *p, tern_view cache)
{
    return tern_gpu__value(p, cache)->dtype == TERN_DTYPE_F32;
}

tern_status tern_gpu__check_cache(const tern_gpu_program *p, const tern_op *op, tern_view cache, tern_error *err)
{
    const tern_value *value = tern_gpu__value(p, cache);
    if (value->bytes <= p->caps->max_binding) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "gpu: op %s: %s has %llu bytes: at most %llu in one binding expected; a smaller --ctx, or "
                     "--backend cpu",
                     tern_op_name(op->kind), value->name, (unsigned long long)value->bytes,
                     (unsigned long long)p->caps->max_binding);
}

tern_status tern_gpu__no_head(const tern_op *op, tern_error *err)
{
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "gpu: op %s: head dimension %u found, a multiple of 8, at most 512, expected; --backend cpu runs it",
        tern_op_name(op->kind), op->head_dim);
}

/* ROPE and ROPE_BACKWARD. */
tern_status tern_gpu__lower_rope(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->head_dim % 8) return tern_gpu__no_head(op, err);
    const tern_view x = op->in[TERN_ROPE_X];
    const uint32_t per_head = op->head_dim / 4;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_ROPE, groups_of(TERN_GPU_ROPE, op->n_heads * per_head),
                                         tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rope_uniform u = {.quads = per_head,
                                     .n_heads = op->n_heads,
                                     .adjacent = op->rope_adjacent,
                                     .count_word = tern_gpu__count_word(p, op->rows),
                                     .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                     .x_first = x.first_col / 2,
                                     .x_stride = tern_gpu__stride(p, x) / 2,
                                     .direction = op->kind == TERN_OP_ROPE ? 1.0f : -1.0f};
    tern_gpu_rope_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, x.value, true);
    tern_gpu__bind_value(p, d, op->in[TERN_ROPE_TABLE].value, false);
    return TERN_OK;
}

tern_status tern_gpu__lower_kv_write(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view k = op->in[TERN_KV_WRITE_K], v = op->in[TERN_KV_WRITE_V], k_cache = op->in[TERN_KV_WRITE_K_CACHE],
                    v_cache = op->in[TERN_KV_WRITE_V_CACHE];
    if (op->head_dim % 8) return tern_gpu__no_head(op, err);
    TERN_TRY(tern_gpu__check_cache(p, op, k_cache, err));
    tern_gpu_pipeline pipeline = is_f32(p, k_cache) ? TERN_GPU_KV_WRITE_F32 : TERN_GPU_KV_WRITE_F16;
    const uint32_t pairs = op->head_dim / 2;
    const bool together = k.value == v.value;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups_of(pipeline, op->n_kv_heads * pairs),
                                         tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_kv_write_uniform u = {.pairs = pairs,
                                         .n_kv_heads = op->n_kv_heads,
                                         .count_word = tern_gpu__count_word(p, op->rows),
                                         .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                         .sequences_word = tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                                         .pages_word = tern_gpu__param_word(p, TERN_PARAM_PAGES),
                                         .max_pages = p->graph->max_pages,
                                         .k_first = k.first_col / 2,
                                         .k_stride = tern_gpu__stride(p, k) / 2,
                                         .v_first = v.first_col / 2,
                                         .v_stride = tern_gpu__stride(p, v) / 2,
                                         .together = together};
    tern_gpu_kv_write_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, k.value, false);
    if (together) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_value(p, d, v.value, false);
    tern_gpu__bind_value(p, d, k_cache.value, true);
    tern_gpu__bind_value(p, d, v_cache.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_rope_kv(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view qkv = op->in[TERN_ROPE_KV_QKV], k_cache = op->in[TERN_ROPE_KV_K_CACHE];
    if (op->head_dim % 8) return tern_gpu__no_head(op, err);
    TERN_TRY(tern_gpu__check_cache(p, op, k_cache, err));
    tern_gpu_pipeline pipeline = is_f32(p, k_cache) ? TERN_GPU_ROPE_KV_F32 : TERN_GPU_ROPE_KV_F16;
    const uint32_t per_head = op->head_dim / 4, items = (op->n_heads + 2 * op->n_kv_heads) * per_head;
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, groups_of(pipeline, items), tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rope_kv_uniform u = {.quads = per_head,
                                        .n_heads = op->n_heads,
                                        .n_kv_heads = op->n_kv_heads,
                                        .adjacent = op->rope_adjacent,
                                        .count_word = tern_gpu__count_word(p, op->rows),
                                        .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                        .sequences_word = tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                                        .pages_word = tern_gpu__param_word(p, TERN_PARAM_PAGES),
                                        .max_pages = p->graph->max_pages,
                                        .x_first = qkv.first_col / 2,
                                        .x_stride = tern_gpu__stride(p, qkv) / 2};
    tern_gpu_rope_kv_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, qkv.value, true);
    tern_gpu__bind_value(p, d, op->in[TERN_ROPE_KV_TABLE].value, false);
    tern_gpu__bind_value(p, d, k_cache.value, true);
    tern_gpu__bind_value(p, d, op->in[TERN_ROPE_KV_V_CACHE].value, true);
    return TERN_OK;
}
