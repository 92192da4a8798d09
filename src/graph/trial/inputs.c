/* Made-up inputs for trying an op: ordinary numbers, several pages, fewer rows than there could be. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/trial/trial_internal.h"
#include "ops/ref/experts.h"
#include "ops/ref/ref.h"

enum { FIRST_POSITION = 40 };

float tern_trial__number(tern_trial *t)
{
    return 2 * tern_rng_f32(&t->rng) - 1;
}

static void fill_f32(tern_trial *t, float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = tern_trial__number(t);
    if (n > 7)
        x[tern_rng_below(&t->rng, (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX))] = 9; /* one that stands out, alone */
}

/* Rows as they are stored. */
static tern_status fill_cache(tern_trial *t, const tern_value *v, uint8_t *bytes, tern_error *err)
{
    const uint32_t n = t->op.head_dim;
    const uint64_t row_bytes = tern_row_bytes(v->dtype, n, 1);
    float *row = tern_alloc(n * sizeof *row);
    if (!row) return tern_fail_alloc(err, n * sizeof *row);
    for (uint64_t at = 0; at + row_bytes <= v->bytes; at += row_bytes) {
        for (uint32_t i = 0; i < n; i++) row[i] = tern_trial__number(t);
        tern_ref_kv_store(v->dtype)(row, n, bytes + at);
    }
    tern_free(row);
    return TERN_OK;
}

static void fill_q8(tern_trial *t, const tern_value *v, uint8_t *bytes)
{
    uint64_t n = tern_graph_max_rows(&t->graph, v->rows), stride = tern_q8_stride(v->cols);
    float *scales = (float *)(void *)(bytes + tern_q8_scales_offset(v->cols, n));
    int32_t *sums = (int32_t *)(void *)(bytes + tern_q8_sums_offset(v->cols, n));
    for (uint64_t r = 0; r < tern_trial__rows(t, v); r++) {
        scales[r] = 0.005f + 0.01f * tern_rng_f32(&t->rng);
        for (uint32_t c = 0; c < v->cols; c++) {
            int8_t q = (int8_t)((int32_t)tern_rng_below(&t->rng, 255) - 127);
            memcpy(bytes + r * stride + c, &q, 1);
            sums[r] += q;
        }
    }
}

/* Pairs (cos, sin) of rows of so many columns; what a head does not turn has (1, 0), as in models' tables. */
static void fill_rotations(tern_trial *t, uint32_t cols, float *x, uint64_t n)
{
    const uint32_t turned = t->op.rope_dim ? t->op.rope_dim : cols;
    for (uint64_t i = 0; i + 1 < n; i += 2) {
        const float angle = i % cols < turned ? 3.1f * tern_trial__number(t) : 0;
        x[i] = cosf(angle);
        x[i + 1] = sinf(angle);
    }
}

/* Those of a token are different ones, some of other tokens the same. */
static void fill_routes(tern_trial *t, tern_route *routes, uint64_t n)
{
    const uint32_t n_experts = t->op.n_experts ? t->op.n_experts : 1, k = t->graph.n_routes;
    uint32_t first = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i % k == 0) first = tern_rng_below(&t->rng, n_experts);
        routes[i] = (tern_route){.expert = (first + (uint32_t)(i % k)) % n_experts, .weight = tern_trial__number(t)};
    }
}

/* Fills q and k of the gated delta rule: heads of length 1, as models have them, so that states do not grow. */
static void norm_heads(const tern_trial *t)
{
    const tern_op *op = &t->op;
    const tern_view qkv = op->in[TERN_GATED_DELTA_QKV];
    const uint32_t stride = t->values[qkv.value].cols;
    for (uint32_t r = 0; r < t->n_tokens; r++)
        for (uint32_t h = 0; h < 2 * op->n_kv_heads; h++) {
            float *x = (float *)(void *)t->contents[qkv.value] + (size_t)r * stride + qkv.first_col + h * op->head_dim;
            double sum = 1e-6;
            for (uint32_t i = 0; i < op->head_dim; i++) sum += (double)x[i] * (double)x[i];
            for (uint32_t i = 0; i < op->head_dim; i++) x[i] = (float)((double)x[i] / sqrt(sum));
        }
}

uint64_t tern_trial__bytes(const tern_trial *t, const tern_value *v)
{
    bool rows = v->kind == TERN_VALUE_ACTIVATION || v->kind == TERN_VALUE_OUTPUT;
    return rows && v->dtype != TERN_DTYPE_Q8 ? (uint64_t)tern_trial__rows(t, v) * v->cols * 4 : v->bytes;
}

static tern_status fill(tern_trial *t, uint32_t i, tern_error *err)
{
    const tern_value *v = &t->values[i];
    if (t->contents[i] || v->kind == TERN_VALUE_WEIGHT || v->kind == TERN_VALUE_PARAM) return TERN_OK;
    uint64_t bytes = tern_trial__bytes(t, v);
    uint8_t *to = t->contents[i] = tern_calloc(tern_size_of(bytes), 1);
    if (!to) return tern_fail_alloc(err, bytes);
    if (v->kind == TERN_VALUE_CACHE) return fill_cache(t, v, to, err);
    if (v->kind == TERN_VALUE_STATE) tern_trial__state(t, v, to);
    else if (v->kind == TERN_VALUE_CONSTANT) fill_rotations(t, v->cols, (float *)(void *)to, bytes / 4);
    else if (v->dtype == TERN_DTYPE_Q8) fill_q8(t, v, to);
    else if (tern_value_is_routes(v)) fill_routes(t, (tern_route *)(void *)to, bytes / sizeof(tern_route));
    else fill_f32(t, (float *)(void *)to, bytes / 4);
    return TERN_OK;
}

uint32_t *tern_trial__param(tern_trial *t, tern_param which)
{
    uint32_t value = t->graph.params[which];
    return value == TERN_NO_VALUE ? NULL : (uint32_t *)(void *)(t->params + t->from->values[value].offset);
}

/* Physical pages of the caches: no more than the op's have, in reverse so that logical and physical ones differ. */
static void fill_pages(tern_trial *t, uint32_t *pages)
{
    const tern_op *op = &t->op;
    uint32_t n = t->graph.max_pages;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i].value == TERN_NO_VALUE) continue;
        const tern_value *v = &t->values[op->in[i].value];
        if (v->kind != TERN_VALUE_CACHE) continue;
        uint64_t page_bytes = tern_row_bytes(v->dtype, op->head_dim, (uint64_t)op->n_kv_heads * TERN_PAGE_SIZE);
        if (page_bytes && v->bytes / page_bytes < n) n = (uint32_t)(v->bytes / page_bytes);
    }
    for (uint32_t i = 0; pages && i < t->graph.max_pages; i++) pages[i] = n - 1 - i % n;
}

/* The first sequence goes on from the last state. The state after the last token goes to the first state, and those of
 * the first of several to one in between, where there is one. */
static void fill_states(tern_trial *t)
{
    uint32_t *states = tern_trial__param(t, TERN_PARAM_STATES), n = 1;
    if (!states) return;
    uint32_t *kept = states + t->graph.n_sequences;
    for (uint32_t i = 0; i < t->op.n_in; i++) {
        const tern_value *v = &t->values[t->op.in[i].value];
        if (v->kind == TERN_VALUE_RECURRENT) n = (uint32_t)(v->bytes / tern_row_bytes(v->dtype, v->cols, 1));
    }
    for (uint32_t i = 0; i < t->graph.n_sequences; i++) states[i] = n - 1;
    for (uint32_t i = 0; i < t->graph.max_tokens; i++) kept[i] = TERN_NO_STATE;
    if (n > 2) kept[0] = 1;
    kept[t->n_tokens - 1] = 0;
}

/* Every group has all rows. */
static void fill_groups(tern_trial *t)
{
    tern_row_group *groups = (tern_row_group *)(void *)tern_trial__param(t, TERN_PARAM_GROUPS);
    for (uint32_t i = 0; groups && i < t->graph.n_groups; i++)
        groups[i] = (tern_row_group){.n_tokens = t->n_tokens, .n_outputs = t->n_outputs};
}

static void fill_params(tern_trial *t)
{
    uint32_t *counts = tern_trial__param(t, TERN_PARAM_COUNTS), *positions = tern_trial__param(t, TERN_PARAM_POSITIONS),
             *outputs = tern_trial__param(t, TERN_PARAM_OUTPUTS);
    int32_t *ids = (int32_t *)(void *)tern_trial__param(t, TERN_PARAM_IDS);
    uint32_t room = t->graph.max_pages * TERN_PAGE_SIZE,
             first = FIRST_POSITION + t->n_tokens <= room ? FIRST_POSITION : 0;
    uint32_t n_ids = 1;
    if (t->op.kind == TERN_OP_EMBED) n_ids = t->values[t->op.in[TERN_EMBED_TABLE].value].weight->rows;
    if (t->op.kind == TERN_OP_EMBED_BACKWARD) n_ids = t->values[t->op.in[TERN_EMBED_BACKWARD_DW].value].n_rows;
    if (t->made != TERN_NO_VALUE) n_ids = t->weight.rows;
    counts[0] = t->n_tokens;
    counts[1] = t->n_outputs;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        ids[i] = (int32_t)tern_rng_below(&t->rng, n_ids);
        positions[i] = first + i;
    }
    for (uint32_t i = 0; i < t->n_outputs; i++) outputs[i] = t->n_tokens - 1 - i;
    fill_groups(t);
    fill_states(t);
    fill_pages(t, tern_trial__param(t, TERN_PARAM_PAGES));
    fill_pages(t, tern_trial__param(t, TERN_PARAM_RING_PAGES));
    tern_trial__training(t);
    tern_sample_params *sampler = (tern_sample_params *)(void *)tern_trial__param(t, TERN_PARAM_SAMPLER);
    tern_sample_row *rows = t->op.each_row ? (tern_sample_row *)(void *)sampler : NULL;
    for (uint32_t i = 0; rows && i < t->n_outputs; i++) rows[i] = (tern_sample_row){.top_k = 1, .top_p = 1};
    if (sampler && !rows) *sampler = (tern_sample_params){.n_tokens = 2, .top_k = 1, .temperature = 1, .top_p = 1};
}

tern_status tern_trial__inputs(tern_trial *t, tern_error *err)
{
    const tern_op *op = &t->op;
    for (uint32_t i = 0; i + 1 < tern_op_n_views(op); i++) /* all but the result */
        if (tern_op_view(op, i).value != TERN_NO_VALUE) TERN_TRY(fill(t, tern_op_view(op, i).value, err));
    if (t->made != TERN_NO_VALUE) TERN_TRY(fill(t, (uint32_t)t->from->n_values + 1, err));
    if (op->kind == TERN_OP_GATED_DELTA) norm_heads(t);
    t->params = tern_calloc(tern_size_of(t->graph.param_bytes), 1);
    if (!t->params) return tern_fail_alloc(err, t->graph.param_bytes);
    fill_params(t);
    return TERN_OK;
}
