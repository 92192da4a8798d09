/* Lowering rotary embedding and cache writes. */
#include <string.h>

#include "backend/gpu/attention/attention.h"

static uint32_t groups_of(tern_gpu_pipeline pipeline, uint32_t items)
{
    uint32_t n = tern_gpu_pipelines[pipeline].invocations;
    return tern_gpu__ceil_div(items, n);
}

tern_status tern_gpu__check_cache(const tern_gpu_program *p, const tern_op *op, uint32_t cache, tern_error *err)
{
    const tern_value *value = &p->graph->values[cache];
    if (value->bytes <= p->caps->max_binding) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "gpu: op %s: %s has %llu bytes: at most %llu in one binding expected; a smaller --ctx, or "
                     "--backend cpu",
                     tern_op_name(op->kind), value->name, (unsigned long long)value->bytes,
                     (unsigned long long)p->caps->max_binding);
}

/* ROPE and ROPE_BACKWARD. */
static tern_status lower_rope(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    uint32_t per_head = op->head_dim / 4;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_ROPE, groups_of(TERN_GPU_ROPE, op->n_heads * per_head),
                                         tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {per_head,
                          op->n_heads,
                          op->rope_adjacent,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                          op->in[0].first_col / 2,
                          p->graph->values[op->in[0].value].cols / 2,
                          tern_gpu__float_bits(op->kind == TERN_OP_ROPE ? 1.0f : -1.0f)};
    memcpy(d->uniform, uniform, sizeof uniform);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->in[0].value, true);
    tern_gpu__bind_value(p, d, op->in[2].value, false);
    return TERN_OK;
}

static tern_status lower_kv_write(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_value *values = p->graph->values;
    tern_gpu_pipeline pipeline =
        values[op->in[2].value].dtype == TERN_DTYPE_F32 ? TERN_GPU_KV_WRITE_F32 : TERN_GPU_KV_WRITE_F16;
    uint32_t pairs = op->head_dim / 2, together = op->in[0].value == op->in[1].value;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups_of(pipeline, op->n_kv_heads * pairs),
                                         tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {pairs,
                          op->n_kv_heads,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                          tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                          tern_gpu__param_word(p, TERN_PARAM_PAGES),
                          p->graph->max_pages,
                          op->in[0].first_col / 2,
                          values[op->in[0].value].cols / 2,
                          op->in[1].first_col / 2,
                          values[op->in[1].value].cols / 2,
                          together};
    memcpy(d->uniform, uniform, sizeof uniform);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->in[0].value, false);
    if (together) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_value(p, d, op->in[1].value, false);
    for (uint32_t i = 2; i < 4; i++) tern_gpu__bind_value(p, d, op->in[i].value, true);
    return TERN_OK;
}

static tern_status lower_rope_kv(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_value *values = p->graph->values;
    tern_gpu_pipeline pipeline =
        values[op->in[3].value].dtype == TERN_DTYPE_F32 ? TERN_GPU_ROPE_KV_F32 : TERN_GPU_ROPE_KV_F16;
    uint32_t per_head = op->head_dim / 4, items = (op->n_heads + 2 * op->n_kv_heads) * per_head;
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, groups_of(pipeline, items), tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {per_head,
                          op->n_heads,
                          op->n_kv_heads,
                          op->rope_adjacent,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                          tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                          tern_gpu__param_word(p, TERN_PARAM_PAGES),
                          p->graph->max_pages,
                          op->in[0].first_col / 2,
                          values[op->in[0].value].cols / 2};
    memcpy(d->uniform, uniform, sizeof uniform);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->in[0].value, true);
    tern_gpu__bind_value(p, d, op->in[2].value, false);
    tern_gpu__bind_value(p, d, op->in[3].value, true);
    tern_gpu__bind_value(p, d, op->in[4].value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_rope(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->head_dim % 8) return tern_gpu__no_head(op, err);
    if (op->kind == TERN_OP_ROPE || op->kind == TERN_OP_ROPE_BACKWARD) return lower_rope(p, op, err);
    TERN_TRY(tern_gpu__check_cache(p, op, op->in[op->kind == TERN_OP_ROPE_KV ? 3 : 2].value, err));
    return op->kind == TERN_OP_ROPE_KV ? lower_rope_kv(p, op, err) : lower_kv_write(p, op, err);
}

tern_status tern_gpu__no_head(const tern_op *op, tern_error *err)
{
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "gpu: op %s: head dimension %u found, a multiple of 8, at most 512, expected; --backend cpu runs it",
        tern_op_name(op->kind), op->head_dim);
}
