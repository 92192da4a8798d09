/* Lowering attention: one query at a time, split over the positions, or in tiles. */
#include <math.h>
#include <string.h>

#include "backend/gpu/attention/attention.h"

/* Where the inputs of ATTENTION and ROPE_ATTENTION are. */
typedef struct inputs {
    const tern_op *op;
    bool fused;
    uint32_t k_cache, v_cache; /* values */
    tern_gpu_attention_choice choice;
} inputs;

static float score_scale(const tern_op *op)
{
    return 0x1.715476p+0f / sqrtf((float)op->head_dim);
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
    uint32_t uniform[] = {op->head_dim,
                          op->n_kv_heads,
                          op->n_heads / op->n_kv_heads,
                          in->choice.head_blocks,
                          in->choice.heads,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                          bits_of(in->choice.splits),
                          in->choice.min_span,
                          (uint32_t)(scratch / 4),
                          op->out.first_col,
                          p->graph->values[op->out.value].cols};
    memcpy(d->uniform, uniform, sizeof uniform);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind(d, (tern_gpu_range){.value = TERN_GPU_SCRATCH, .bytes = bytes});
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

static void decode_uniform(const tern_gpu_program *p, const inputs *in, uint64_t scratch, tern_gpu_dispatch *d)
{
    const tern_op *op = in->op;
    const tern_gpu_attention_choice *c = &in->choice;
    const tern_value *values = p->graph->values;
    uint32_t q_cols = op->n_heads * op->head_dim, kv_cols = op->n_kv_heads * op->head_dim;
    uint32_t uniform[] = {op->head_dim,
                          op->n_kv_heads,
                          op->n_heads / op->n_kv_heads,
                          c->head_blocks,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                          tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                          tern_gpu__param_word(p, TERN_PARAM_PAGES),
                          p->graph->max_pages,
                          quads(op->in[0].first_col),
                          quads(values[op->in[0].value].cols),
                          quads(op->in[0].first_col + q_cols),
                          quads(op->in[0].first_col + q_cols + kv_cols),
                          quads(op->out.first_col),
                          quads(values[op->out.value].cols),
                          tern_gpu__float_bits(score_scale(op)),
                          bits_of(c->splits),
                          c->min_span,
                          in->fused,
                          op->rope_adjacent,
                          c->merge,
                          (uint32_t)(scratch / 4)};
    memcpy(d->uniform, uniform, sizeof uniform);
}

static tern_status lower_decode(tern_gpu_program *p, const inputs *in, tern_error *err)
{
    const tern_op *op = in->op;
    const tern_gpu_attention_choice *c = &in->choice;
    uint32_t rows = tern_gpu__max_rows(p, op->rows), items = op->n_kv_heads * c->head_blocks;
    uint64_t bytes = (uint64_t)rows * items * c->splits * c->heads * (op->head_dim + 8) * 4;
    uint64_t scratch = c->splits > 1 ? tern_gpu__scratch(p, bytes) : 0;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, c->pipeline, items, c->splits, rows, err);
    if (!d) return TERN_UNSUPPORTED;
    decode_uniform(p, in, scratch, d);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->in[0].value, false);
    if (in->fused) tern_gpu__bind_value(p, d, op->in[2].value, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_value(p, d, in->k_cache, in->fused);
    tern_gpu__bind_value(p, d, in->v_cache, in->fused);
    tern_gpu__bind_value(p, d, op->out.value, true);
    if (c->splits == 1) {
        tern_gpu__bind_nothing(d);
        return TERN_OK;
    }
    tern_gpu__bind(d, (tern_gpu_range){.value = TERN_GPU_SCRATCH, .bytes = scratch + bytes, .written = true});
    return c->merge ? TERN_OK : lower_combine(p, in, scratch, scratch + bytes, err);
}

static tern_status lower_tiled(tern_gpu_program *p, const inputs *in, tern_error *err)
{
    const tern_op *op = in->op;
    const tern_gpu_attention_choice *c = &in->choice;
    const tern_value *values = p->graph->values;
    uint32_t tiles = tern_gpu__ceil_div(tern_gpu__max_rows(p, op->rows), c->tokens);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, c->pipeline, op->n_kv_heads * c->head_blocks, tiles, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {op->head_dim,
                          op->n_kv_heads,
                          op->n_heads / op->n_kv_heads,
                          c->head_blocks,
                          c->heads,
                          c->tokens,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                          tern_gpu__param_word(p, TERN_PARAM_SEQUENCES),
                          tern_gpu__param_word(p, TERN_PARAM_PAGES),
                          p->graph->max_pages,
                          quads(op->in[0].first_col),
                          quads(values[op->in[0].value].cols),
                          quads(op->out.first_col),
                          quads(values[op->out.value].cols),
                          tern_gpu__float_bits(score_scale(op)),
                          tiles};
    memcpy(d->uniform, uniform, sizeof uniform);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->in[0].value, false);
    tern_gpu__bind_value(p, d, in->k_cache, false);
    tern_gpu__bind_value(p, d, in->v_cache, false);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_attention(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->kind != TERN_OP_ATTENTION && op->kind != TERN_OP_ROPE_ATTENTION) return tern_gpu__lower_rope(p, op, err);
    const tern_value *values = p->graph->values;
    bool fused = op->kind == TERN_OP_ROPE_ATTENTION;
    inputs in = {
        .op = op, .fused = fused, .k_cache = op->in[fused ? 3 : 1].value, .v_cache = op->in[fused ? 4 : 2].value};
    tern_gpu_attention_shape shape = {.head_dim = op->head_dim,
                                      .n_heads = op->n_heads,
                                      .n_kv_heads = op->n_kv_heads,
                                      .max_tokens = tern_gpu__max_rows(p, op->rows),
                                      .max_positions = p->graph->max_pages * TERN_PAGE_SIZE,
                                      .kv_f32 = values[in.k_cache].dtype == TERN_DTYPE_F32};
    TERN_TRY(tern_gpu__check_cache(p, op, in.k_cache, err));
    in.choice = tern_gpu_select_attention(&shape, p->caps);
    if (fused && in.choice.tiled) return tern_gpu__unsupported(p->graph, op, "only in graphs of few tokens", err);
    if (op->head_dim % 8 || in.choice.pipeline == TERN_GPU_PIPELINE_COUNT) return tern_gpu__no_head(op, err);
    return in.choice.tiled ? lower_tiled(p, &in, err) : lower_decode(p, &in, err);
}
