/* Cutting a model's weights by rows for one of several ranks. */
#include "model/cut.h"

#include <string.h>

#include "model/model_internal.h"
#include "quant/encoding.h"

tern_cut_heads tern_cut_heads_of(const tern_config *c, tern_cut cut)
{
    const uint32_t n = cut.n ? cut.n : 1, group = c->n_heads / c->n_kv_heads;
    tern_cut_heads heads;
    if (n <= c->n_kv_heads) {
        heads.kv = tern_share_of(c->n_kv_heads, cut.rank, n);
        heads.q = (tern_share){heads.kv.first * group, heads.kv.n * group};
        return heads;
    }
    uint32_t kv = 0;
    tern_share ranks = tern_share_of(n, 0, c->n_kv_heads);
    while (cut.rank >= ranks.first + ranks.n) ranks = tern_share_of(n, ++kv, c->n_kv_heads);
    heads.kv = (tern_share){kv, 1};
    heads.q = tern_share_of(group, cut.rank - ranks.first, ranks.n);
    heads.q.first += kv * group;
    return heads;
}

tern_status tern_cut_check(const tern_config *c, uint32_t n_ranks, tern_error *err)
{
    const uint32_t group = c->n_heads / c->n_kv_heads, of_head = (n_ranks + c->n_kv_heads - 1) / c->n_kv_heads;
    if (of_head <= group) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%u ranks for a model of %u heads: at most %u expected", n_ranks,
                     c->n_heads, c->n_heads);
}

/* Whole runs of rows that kernels take at once, where there are enough of them. */
static tern_share rows_of(uint32_t rows, tern_cut cut)
{
    if (cut.n < 2) return (tern_share){0, rows};
    const uint32_t unit = rows % 16 == 0 && rows / 16 >= 4 * cut.n ? 16 : 1;
    const tern_share s = tern_share_of(rows / unit, cut.rank, cut.n);
    return (tern_share){s.first * unit, s.n * unit};
}

static tern_share times(tern_share s, uint32_t n)
{
    return (tern_share){s.first * n, s.n * n};
}

tern_share tern_cut_rows(const tern_config *c, tern_role role, uint32_t layer, tern_cut cut, uint32_t *whole)
{
    const uint32_t ff = tern_config_layer(c, layer).n_ff;
    uint32_t rows, cols;
    tern_role__shape(role, layer, c, &rows, &cols);
    *whole = tern_role_is_vector(role) ? cols : rows;
    if (cut.n < 2) return (tern_share){0, *whole};
    const tern_cut_heads heads = tern_cut_heads_of(c, cut);
    switch (role) {
    case TERN_ROLE_ATTN_Q: return times(heads.q, c->q_gate ? 2 * c->head_dim : c->head_dim);
    case TERN_ROLE_ATTN_Q_BIAS: return times(heads.q, c->head_dim);
    case TERN_ROLE_ATTN_K:
    case TERN_ROLE_ATTN_V:
    case TERN_ROLE_ATTN_K_BIAS:
    case TERN_ROLE_ATTN_V_BIAS: return times(heads.kv, c->head_dim);
    case TERN_ROLE_ATTN_SINKS: return heads.q;
    case TERN_ROLE_OUTPUT:
    case TERN_ROLE_ATTN_OUTPUT:
    case TERN_ROLE_ATTN_OUTPUT_BIAS:
    case TERN_ROLE_FFN_GATE:
    case TERN_ROLE_FFN_UP:
    case TERN_ROLE_FFN_DOWN: return rows_of(*whole, cut);
    case TERN_ROLE_FFN_GATE_EXPS:
    case TERN_ROLE_FFN_UP_EXPS:
    case TERN_ROLE_FFN_GATE_EXPS_BIAS:
    case TERN_ROLE_FFN_UP_EXPS_BIAS: *whole = ff; return rows_of(ff, cut);
    case TERN_ROLE_FFN_DOWN_EXPS:
    case TERN_ROLE_FFN_DOWN_EXPS_BIAS: *whole = c->n_embd; return rows_of(c->n_embd, cut);
    default: return (tern_share){0, *whole};
    }
}

tern_cut tern_model_cut(const tern_model *model)
{
    return model->cut;
}

/* The properties that tell a tensor from others, before a part takes its place. */
static tern_status keep_ends(tern_model *model, tern_weight *w, tern_error *err)
{
    const size_t n = w->bytes < TERN_WEIGHT_END_BYTES ? w->bytes : TERN_WEIGHT_END_BYTES;
    void *memory = NULL;
    TERN_TRY(tern_model__own(model, 2 * TERN_WEIGHT_END_BYTES, &memory, err));
    memcpy(memory, w->data, n);
    memcpy((uint8_t *)memory + TERN_WEIGHT_END_BYTES, w->data + w->bytes - n, n);
    w->ends = memory;
    w->whole_bytes = w->bytes;
    return TERN_OK;
}

/* Bytes of the first rows of a weight, without what follows its last one. Rows of i2_s may end inside a block; those of
 * a part do not, or it is refused. */
static tern_status bytes_of(const tern_weight *w, uint32_t rows, size_t *bytes, tern_error *err)
{
    if (tern_encoding_bytes(w->encoding, rows, w->cols, bytes, err) != TERN_OK)
        return tern_error_prefix(err, "%s for several ranks", w->name);
    *bytes -= w->encoding->tail_bytes;
    return TERN_OK;
}

/* So many runs of rows, one of each expert, put together in memory of the model. */
static tern_status take_runs(tern_model *model, tern_weight *w, tern_share rows, uint32_t whole, tern_error *err)
{
    const uint32_t n_runs = w->rows / whole;
    size_t before, run, all;
    void *memory = NULL;
    float *scales = NULL;
    TERN_TRY(bytes_of(w, rows.first, &before, err));
    TERN_TRY(bytes_of(w, rows.n, &run, err));
    TERN_TRY(bytes_of(w, whole, &all, err));
    TERN_TRY(tern_model__own(model, n_runs * run + w->encoding->tail_bytes, &memory, err));
    if (w->row_scales) {
        void *floats = NULL;
        TERN_TRY(tern_model__own(model, (size_t)n_runs * rows.n * sizeof(float), &floats, err));
        scales = floats;
    }
    for (uint32_t i = 0; i < n_runs; i++) {
        const size_t from = (size_t)i * whole + rows.first, to = (size_t)i * rows.n;
        memcpy((uint8_t *)memory + i * run, w->data + i * all + before, run);
        if (scales) memcpy(scales + to, w->row_scales + from, rows.n * sizeof(float));
    }
    w->data = memory;
    w->row_scales = scales;
    w->rows = n_runs * rows.n;
    w->mapped = false;
    return TERN_OK;
}

static tern_status take_rows(tern_model *model, tern_weight *w, tern_share rows, uint32_t whole, tern_error *err)
{
    if (w->rows != whole) {
        TERN_TRY(take_runs(model, w, rows, whole, err));
    } else {
        size_t before;
        TERN_TRY(bytes_of(w, rows.first, &before, err));
        w->data += before;
        w->rows = rows.n;
        if (w->row_scales) w->row_scales += rows.first;
    }
    w->rsr = NULL; /* it is of the whole */
    w->rsr_bytes = 0;
    return tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err);
}

/* Columns of a vector, or of a vector of each expert; f32. */
static tern_status take_columns(tern_model *model, tern_weight *w, tern_share cols, tern_error *err)
{
    void *memory = NULL;
    TERN_TRY(tern_model__own(model, (size_t)w->rows * cols.n * sizeof(float), &memory, err));
    for (uint32_t r = 0; r < w->rows; r++)
        memcpy((float *)memory + (size_t)r * cols.n, w->data + ((size_t)r * w->cols + cols.first) * sizeof(float),
               cols.n * sizeof(float));
    w->data = memory;
    w->cols = cols.n;
    w->bytes = (size_t)w->rows * cols.n * sizeof(float);
    return TERN_OK;
}

/* The tied table stays whole for embedding; of it as the head, rows. */
static void share_table(tern_model *model)
{
    if (model->config.tied_head)
        *tern_model__slot(model, TERN_ROLE_OUTPUT, 0) = *tern_model__slot(model, TERN_ROLE_TOKEN_EMBD, 0);
}

/* Tensors of another stage are known by their shape. */
static tern_status take_shape(tern_weight *w, tern_role role, tern_share share, uint32_t whole, tern_error *err)
{
    if (tern_role_is_vector(role)) w->cols = share.n;
    else w->rows = w->rows / whole * share.n;
    w->data = NULL;
    w->row_scales = NULL;
    w->rsr = NULL;
    w->rsr_bytes = 0;
    w->mapped = false;
    return tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err);
}

static tern_status take_part(tern_model *model, tern_role role, uint32_t layer, tern_error *err)
{
    tern_weight *w = tern_model__slot(model, role, layer);
    uint32_t whole;
    const tern_share share = tern_cut_rows(&model->config, role, layer, model->cut, &whole);
    if (share.n == whole) return TERN_OK;
    TERN_TRY(keep_ends(model, w, err));
    if (!tern_model_is_own(model, role, layer)) return take_shape(w, role, share, whole, err);
    if (tern_role_is_vector(role)) return take_columns(model, w, share, err);
    return take_rows(model, w, share, whole, err);
}

/* Rows of tokens are read of the embedding table, unless it is the output table too. */
static bool is_read(const tern_model *model, tern_role role, uint32_t layer)
{
    const bool table = role == TERN_ROLE_TOKEN_EMBD && model->config.tied_head && model->cut.n < 2;
    if (role == TERN_ROLE_TOKEN_EMBD) return table && tern_model_is_own(model, TERN_ROLE_OUTPUT, 0);
    return tern_model_is_own(model, role, layer);
}

tern_status tern_model__cut(tern_model *model, tern_error *err)
{
    const tern_cut cut = {model->options->rank, model->options->n_ranks};
    if (cut.n < 2 && model->options->n_stages < 2) return TERN_OK;
    TERN_TRY(tern_model__choose_stages(model, err));
    if (cut.n > 1) {
        TERN_TRY(tern_cut_check(&model->config, cut.n, err));
        share_table(model);
        model->cut = cut;
    }
    model->bytes = 0;
    for (uint32_t layer = 0; layer < model->config.n_layers; layer++)
        for (int i = 0; i < TERN_ROLE_COUNT; i++) {
            const tern_weight *w = tern_model__slot(model, (tern_role)i, layer);
            if (!w->encoding) continue;
            TERN_TRY(take_part(model, (tern_role)i, layer, err));
            if (is_read(model, (tern_role)i, layer)) model->bytes += w->bytes;
        }
    return TERN_OK;
}

tern_status tern_model__check_own_rows(const tern_model *model, const tern_weight *w, tern_error *err)
{
    tern_pool *pool = model->options->pool ? model->options->pool : model->own_pool;
    const tern_cut cut = {model->options->rank, model->options->n_ranks};
    const size_t at = (size_t)(w - model->weights);
    const tern_role role = (tern_role)(at % TERN_ROLE_COUNT);
    uint32_t whole;
    const tern_share share = tern_cut_rows(&model->config, role, (uint32_t)(at / TERN_ROLE_COUNT), cut, &whole);
    tern_share rows = {0, w->rows};
    size_t before;
    if (role == TERN_ROLE_TOKEN_EMBD) rows = rows_of(w->rows, cut); /* each rank looks at a part of it */
    else if (w->rows == whole) rows = share;
    TERN_TRY(bytes_of(w, rows.first, &before, err));
    return tern_encoding_check_part(w->encoding, w->data + before, rows.first, rows.n, w->cols, pool, err);
}
