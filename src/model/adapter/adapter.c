/* An adapter in memory: its table of pairs, filled from the tensors of a file. */
#include "model/adapter/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "model/adapter/internal.h"

enum { MAX_BASE_BYTES = 4096 };

tern_status tern_adapter__create(tern_adapter **adapter, const tern_config *config, tern_error *err)
{
    tern_adapter *a = tern_calloc(1, sizeof *a);
    if (!a) return tern_fail_alloc(err, sizeof *a);
    if (config) {
        a->config = *config;
        a->config.rope[0].factors = NULL; /* the model's */
        a->has_model = true;
    }
    a->info.base = "";
    a->info.architecture = a->config.architecture;
    *adapter = a;
    return TERN_OK;
}

void tern_adapter_close(tern_adapter *adapter)
{
    if (!adapter) return;
    for (size_t i = 0; adapter->pairs && i < (size_t)adapter->info.n_layers * TERN_ROLE_COUNT; i++) {
        tern_free(adapter->pairs[i].a);
        tern_free(adapter->pairs[i].b);
    }
    tern_free(adapter->pairs);
    tern_free(adapter->base);
    tern_free(adapter);
}

const tern_adapter_info *tern_adapter_describe(const tern_adapter *adapter)
{
    return &adapter->info;
}

const tern_adapter_pair *tern_adapter_find(const tern_adapter *adapter, tern_role role, uint32_t layer)
{
    if (layer >= adapter->info.n_layers || (unsigned)role >= TERN_ROLE_COUNT) return NULL;
    const tern_adapter_pair *pair = &adapter->pairs[(size_t)layer * TERN_ROLE_COUNT + (size_t)role];
    return pair->a ? pair : NULL;
}

const char *tern_adapter_target(tern_role role)
{
    switch (role) {
    case TERN_ROLE_ATTN_Q: return "q_proj";
    case TERN_ROLE_ATTN_K: return "k_proj";
    case TERN_ROLE_ATTN_V: return "v_proj";
    case TERN_ROLE_ATTN_OUTPUT: return "o_proj";
    case TERN_ROLE_FFN_GATE:
    case TERN_ROLE_FFN_GATE_EXPS: return "gate_proj";
    case TERN_ROLE_FFN_UP:
    case TERN_ROLE_FFN_UP_EXPS: return "up_proj";
    case TERN_ROLE_FFN_DOWN:
    case TERN_ROLE_FFN_DOWN_EXPS: return "down_proj";
    case TERN_ROLE_FFN_GATE_SHEXP: return "shared_expert.gate_proj";
    case TERN_ROLE_FFN_UP_SHEXP: return "shared_expert.up_proj";
    case TERN_ROLE_FFN_DOWN_SHEXP: return "shared_expert.down_proj";
    case TERN_ROLE_SSM_QKV: return "in_proj_qkv";
    case TERN_ROLE_SSM_GATE: return "in_proj_z";
    case TERN_ROLE_SSM_ALPHA: return "in_proj_a";
    case TERN_ROLE_SSM_BETA: return "in_proj_b";
    case TERN_ROLE_SSM_BETA_ALPHA: return "in_proj_ba";
    case TERN_ROLE_SSM_OUT: return "out_proj";
    default: return NULL;
    }
}

bool tern_adapter_targets(const char *word, tern_role role)
{
    const char *target = tern_adapter_target(role), *part = target ? strrchr(target, '.') : NULL;
    return target && (strcmp(word, target) == 0 || (part && strcmp(word, part + 1) == 0));
}

tern_status tern_adapter__check_info(tern_adapter_info *info, tern_error *err)
{
    if (info->rank == 0 || info->rank > TERN_ADAPTER_MAX_RANK)
        return tern_fail(err, TERN_LIMIT, "rank %u found, 1 to %d expected", info->rank, TERN_ADAPTER_MAX_RANK);
    if (!isfinite(info->alpha) || info->alpha == 0.0f)
        return tern_fail(err, TERN_MALFORMED, "alpha %g found, a finite number other than 0 expected",
                         (double)info->alpha);
    if (!(info->dropout >= 0.0f && info->dropout <= 1.0f))
        return tern_fail(err, TERN_MALFORMED, "dropout %g found, 0 to 1 expected", (double)info->dropout);
    float rank = (float)info->rank;
    info->scale = info->alpha / (info->rslora ? sqrtf(rank) : rank);
    return TERN_OK;
}

tern_status tern_adapter__set_base(tern_adapter *adapter, const char *key, tern_span base, tern_error *err)
{
    if (base.size > MAX_BASE_BYTES)
        return tern_fail(err, TERN_LIMIT, "%s: %zu bytes found, at most %d expected", key, base.size, MAX_BASE_BYTES);
    if (base.size && memchr(base.data, 0, base.size))
        return tern_fail(err, TERN_MALFORMED, "%s: a NUL found, text expected", key);
    adapter->base = tern_strndup(base.size ? (const char *)base.data : "", base.size);
    if (!adapter->base) return tern_fail_alloc(err, base.size + 1);
    adapter->info.base = adapter->base;
    return TERN_OK;
}

/* Rows of B between split halves and adjacent pairs. */
static void reorder_pairs(const tern_adapter_half_order *o, const float *from, float *to)
{
    for (uint32_t row = 0; row < o->rows; row++) {
        uint32_t at = row % o->head_dim;
        uint32_t split =
            row - at + at % 2 * (o->head_dim / 2) + at / 2; /* where the split halves have adjacent `row` */
        uint32_t source = o->to_adjacent ? split : row, target = o->to_adjacent ? row : split;
        memcpy(to + (size_t)target * o->cols, from + (size_t)source * o->cols, o->cols * sizeof *to);
    }
}

/* Rows of B, or columns of A, by heads. */
static void reorder_heads(const tern_adapter_half_order *o, const float *from, float *to)
{
    for (uint32_t i = 0; i < (o->heads.columns ? o->cols : o->rows); i++) {
        const uint32_t own = tern_head_order_source(&o->heads, i), source = o->to_file ? own : i,
                       target = o->to_file ? i : own;
        if (!o->heads.columns)
            memcpy(to + (size_t)target * o->cols, from + (size_t)source * o->cols, o->cols * sizeof *to);
        for (size_t r = 0; o->heads.columns && r < o->rows; r++) to[r * o->cols + target] = from[r * o->cols + source];
    }
}

tern_status tern_adapter__reorder(const tern_adapter *ad, const tern_adapter_half_order *half, const float *values,
                                  float **ordered, tern_error *err)
{
    tern_adapter_half_order o = *half;
    const bool adjacent = ad->config.rope_adjacent;
    const bool pairs = o.is_b && tern_role__is_rotated(o.role) && o.form.adjacent != adjacent;
    *ordered = NULL;
    o.heads = tern_role__head_order(&ad->config, o.role, o.form.tiled);
    if (!pairs && (!o.heads.run || o.heads.columns == o.is_b)) return TERN_OK;
    const size_t bytes = (size_t)o.rows * o.cols * sizeof **ordered;
    *ordered = tern_alloc(bytes);
    if (!*ordered) return tern_fail_alloc(err, bytes);
    o.head_dim = ad->config.head_dim;
    o.to_adjacent = o.to_file ? o.form.adjacent : adjacent;
    if (pairs) reorder_pairs(&o, values, *ordered);
    else reorder_heads(&o, values, *ordered);
    return TERN_OK;
}

static uint32_t rows_of_expert(const tern_adapter_pair *pair)
{
    return pair->out / pair->n_experts;
}

static tern_status check_shape(const tern_adapter *ad, const tern_adapter_half *h, const tern_adapter_pair *pair,
                               tern_error *err)
{
    const uint32_t rank = h->rank ? h->rank : ad->info.rank;
    uint64_t rows = h->is_b ? h->rows : rank, cols = h->is_b ? rank : h->cols;
    if (h->is_b && pair->out) rows = rows_of_expert(pair);
    if (!h->is_b && pair->in) cols = pair->in;
    if (h->rows != rows || h->cols != cols)
        return tern_fail(err, TERN_MALFORMED, "%s: shape [%llu][%llu] found, [%llu][%llu] expected",
                         tern_show(h->name).text, (unsigned long long)h->rows, (unsigned long long)h->cols,
                         (unsigned long long)rows, (unsigned long long)cols);
    uint64_t wide = h->is_b ? rows : cols;
    if (wide == 0 || wide > TERN_MODEL__MAX_DIM)
        return tern_fail(err, TERN_LIMIT, "%s: %llu %s found, 1 to %d expected", tern_show(h->name).text,
                         (unsigned long long)wide, h->is_b ? "rows" : "columns", TERN_MODEL__MAX_DIM);
    return TERN_OK;
}

static tern_status check_experts(const tern_adapter_half *h, const tern_adapter_pair *pair, tern_error *err)
{
    if (h->expert < pair->n_experts && (h->n_experts == 1 || h->n_experts == pair->n_experts)) return TERN_OK;
    if (h->n_experts > 1)
        return tern_fail(err, TERN_MALFORMED, "%s: %u experts found, %u expected", tern_show(h->name).text,
                         h->n_experts, pair->n_experts);
    return tern_fail(err, TERN_MALFORMED, "%s: expert %u found, an expert below %u expected", tern_show(h->name).text,
                     h->expert, pair->n_experts);
}

static tern_status check_finite(const tern_adapter_half *h, const float *values, size_t first, size_t n,
                                tern_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return tern_fail(err, TERN_MALFORMED, "%s: %g found at element %zu, a finite value expected",
                             tern_show(h->name).text, (double)values[i], first + i);
    return TERN_OK;
}

/* Whether a row of the tensor is the half's, and which. */
static bool finds_row(const tern_config *config, const tern_adapter_half *h, uint32_t *row)
{
    tern_role role = h->role;
    if (h->mixed && h->is_b) tern_role__mixed_row(config, *row, &role, row);
    return role == h->role;
}

/* Into the part of the half that is this tensor's, [size] zeros: a narrower pair keeps zeros in the rows of A and the
 * columns of B that it lacks. */
static tern_status read_values(const tern_config *config, const tern_adapter_half *h, uint32_t rank, float *values,
                               tern_error *err)
{
    const size_t cols = (size_t)h->cols; /* within their limits */
    const size_t rows = (size_t)h->values.n_elements / cols, stride = h->is_b ? rank : cols;
    for (size_t r = 0; r < rows; r++) {
        uint32_t to = (uint32_t)r;
        if (!finds_row(config, h, &to)) continue;
        float *row = values + to * stride;
        tern_st_to_f32(&h->values, r * cols, cols, row);
        TERN_TRY(check_finite(h, row, r * cols, cols, err));
        for (size_t c = 0; h->is_b && h->factor != 0.0f && h->factor != 1.0f && c < cols; c++) row[c] *= h->factor;
    }
    return TERN_OK;
}

/* The rows of B and the columns of A as the model has them. */
static tern_status order_half(const tern_adapter *ad, const tern_adapter_half *h, float **values, tern_error *err)
{
    const tern_adapter_half_order order = {.role = h->role,
                                           .is_b = h->is_b,
                                           .form = ad->form,
                                           .rows = h->is_b ? (uint32_t)h->rows : ad->info.rank,
                                           .cols = h->is_b ? ad->info.rank : (uint32_t)h->cols};
    float *ordered;
    if (!ad->has_model) return TERN_OK;
    TERN_TRY(tern_adapter__reorder(ad, &order, *values, &ordered, err));
    if (!ordered) return TERN_OK;
    tern_free(*values);
    *values = ordered;
    return TERN_OK;
}

/* Elements of one expert's half. */
static size_t half_size(const tern_adapter *ad, const tern_adapter_pair *pair, bool is_b)
{
    return (size_t)ad->info.rank * (is_b ? rows_of_expert(pair) : pair->in);
}

/* A NaN, which no file may have, stands where the half of an expert begins that was not read yet. */
static tern_status make_half(float **half, uint32_t n_experts, size_t size, tern_error *err)
{
    size_t bytes; /* the halves of other experts may be smaller, which is found when they are read */
    if (!tern_size_mul(size, n_experts * sizeof **half, &bytes)) return tern_fail_alloc(err, SIZE_MAX);
    *half = tern_alloc(bytes);
    if (!*half) return tern_fail_alloc(err, bytes);
    for (uint32_t e = 0; e < n_experts; e++) (*half)[e * size] = NAN;
    return TERN_OK;
}

static tern_status add_half(tern_adapter *ad, const tern_adapter_half *h, tern_error *err)
{
    tern_adapter_pair *pair = &ad->pairs[(size_t)h->layer * TERN_ROLE_COUNT + (size_t)h->role];
    float **half = h->is_b ? &pair->b : &pair->a;
    if (ad->has_model) tern_role__shape(h->role, h->layer, &ad->config, &pair->out, &pair->in);
    TERN_TRY(check_shape(ad, h, pair, err));
    if (h->is_b) pair->out = (uint32_t)h->rows * pair->n_experts;
    else pair->in = (uint32_t)h->cols;
    const size_t size = half_size(ad, pair, h->is_b);
    if (!*half) TERN_TRY(make_half(half, pair->n_experts, size, err));
    float *values = *half + h->expert * size;
    if (!isnan(*values))
        return tern_fail(err, TERN_MALFORMED, "%s: found twice, one tensor expected", tern_show(h->name).text);
    if (h->rank && h->rank < ad->info.rank) memset(values, 0, size * h->n_experts * sizeof *values);
    TERN_TRY(read_values(&ad->config, h, ad->info.rank, values, err));
    ad->info.parameters += size * h->n_experts;
    return order_half(ad, h, half, err);
}

static tern_status check_pairs(tern_adapter *ad, const tern_adapter_half *halves, size_t n, tern_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const tern_adapter_half *h = &halves[i];
        const tern_adapter_pair *pair = &ad->pairs[(size_t)h->layer * TERN_ROLE_COUNT + (size_t)h->role];
        if (!pair->a || !pair->b)
            return tern_fail(err, TERN_MALFORMED, "%s: found without its lora_%c, both expected",
                             tern_show(h->name).text, h->is_b ? 'A' : 'B');
    }
    if (n == 0) return tern_fail(err, TERN_MALFORMED, "no tensors found, pairs of lora_A and lora_B expected");
    for (size_t i = 0; i < (size_t)ad->info.n_layers * TERN_ROLE_COUNT; i++) ad->info.n_pairs += ad->pairs[i].a != NULL;
    return TERN_OK;
}

/* How many experts there are: the model's, or without one as many as the names count. */
static tern_status find_experts(tern_adapter *ad, const tern_adapter_half *halves, size_t n, tern_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const tern_adapter_half *h = &halves[i];
        if (h->layer >= ad->info.n_layers)
            return tern_fail(err, TERN_MALFORMED,
                             "%s: layer %u found, a layer below %u expected: an adapter of another model?",
                             tern_show(h->name).text, h->layer, ad->info.n_layers);
        if (h->expert >= TERN_MAX_EXPERTS)
            return tern_fail(err, TERN_LIMIT, "%s: the expert's number is too large, an expert below %d expected",
                             tern_show(h->name).text, TERN_MAX_EXPERTS);
        tern_adapter_pair *pair = &ad->pairs[(size_t)h->layer * TERN_ROLE_COUNT + (size_t)h->role];
        const uint32_t end = h->expert + h->n_experts;
        if (pair->n_experts < end) pair->n_experts = end;
        if (!ad->has_model) continue;
        pair->n_experts = tern_role__of_experts(h->role) ? ad->config.n_experts : 1;
        if (pair->n_experts == 0)
            return tern_fail(err, TERN_MALFORMED, "%s: found, but the model has no experts", tern_show(h->name).text);
        if (tern_role__may_lack(h->role, h->layer, &ad->config))
            return tern_fail(err, TERN_MALFORMED, "%s: found, but layer %u of the model has no such matrix",
                             tern_show(h->name).text, h->layer);
        TERN_TRY(check_experts(h, pair, err));
    }
    return TERN_OK;
}

/* Every expert has both halves; so nothing is allocated that no tensor fills. */
static tern_status count_experts(const tern_adapter *ad, const tern_adapter_half *halves, size_t n, tern_error *err)
{
    const size_t bytes = (size_t)ad->info.n_layers * TERN_ROLE_COUNT * 2 * sizeof(uint32_t);
    uint32_t *found = tern_calloc(1, bytes);
    if (!found) return tern_fail_alloc(err, bytes);
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n; i++)
        found[((size_t)halves[i].layer * TERN_ROLE_COUNT + halves[i].role) * 2 + halves[i].is_b] += halves[i].n_experts;
    for (size_t i = 0; i < n && status == TERN_OK; i++) {
        const size_t at = (size_t)halves[i].layer * TERN_ROLE_COUNT + halves[i].role;
        if (found[2 * at + halves[i].is_b] < ad->pairs[at].n_experts)
            status = tern_fail(err, TERN_MALFORMED, "%s: one of %u experts' halves found, one for each of %u expected",
                               tern_show(halves[i].name).text, found[2 * at + halves[i].is_b], ad->pairs[at].n_experts);
    }
    tern_free(found);
    return status;
}

tern_status tern_adapter__fill(tern_adapter *adapter, const tern_adapter_half *halves, size_t n, tern_error *err)
{
    uint32_t n_layers = adapter->config.n_layers;
    for (size_t i = 0; !adapter->has_model && i < n; i++)
        if (halves[i].layer >= n_layers) n_layers = halves[i].layer + 1;
    adapter->pairs = tern_calloc((size_t)n_layers * TERN_ROLE_COUNT, sizeof *adapter->pairs);
    if (!adapter->pairs) return tern_fail_alloc(err, (size_t)n_layers * TERN_ROLE_COUNT * sizeof *adapter->pairs);
    adapter->info.n_layers = n_layers;
    TERN_TRY(find_experts(adapter, halves, n, err));
    TERN_TRY(count_experts(adapter, halves, n, err));
    for (size_t i = 0; i < n; i++) TERN_TRY(add_half(adapter, &halves[i], err));
    return check_pairs(adapter, halves, n, err);
}

static tern_status add_pair(tern_adapter *ad, const tern_adapter_layer *target, tern_error *err)
{
    if ((unsigned)target->role >= TERN_ROLE_COUNT || !tern_adapter_target(target->role) ||
        target->layer >= ad->config.n_layers || tern_role__may_lack(target->role, target->layer, &ad->config))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "adapter of role %d in layer %u: a matrix that the model has, in a layer below %u, expected",
                         (int)target->role, target->layer, ad->config.n_layers);
    tern_adapter_pair *pair = &ad->pairs[(size_t)target->layer * TERN_ROLE_COUNT + (size_t)target->role];
    if (pair->a)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter of role %d in layer %u: found twice", (int)target->role,
                         target->layer);
    tern_role__shape(target->role, target->layer, &ad->config, &pair->out, &pair->in);
    pair->n_experts = tern_role__of_experts(target->role) ? ad->config.n_experts : 1;
    const size_t n = (size_t)ad->info.rank * ((size_t)pair->in * pair->n_experts + pair->out);
    pair->a = tern_calloc((size_t)ad->info.rank * pair->in * pair->n_experts, sizeof(float));
    pair->b = tern_calloc((size_t)ad->info.rank * pair->out, sizeof(float));
    if (!pair->a || !pair->b) return tern_fail_alloc(err, n * sizeof(float));
    ad->info.parameters += n;
    ad->info.n_pairs++;
    return TERN_OK;
}

static tern_status make(tern_adapter *ad, const tern_adapter_info *info, const tern_adapter_layer *targets,
                        size_t n_targets, tern_error *err)
{
    const char *base = info->base ? info->base : "";
    ad->info.rank = info->rank;
    ad->info.alpha = info->alpha;
    ad->info.dropout = info->dropout;
    ad->info.rslora = info->rslora;
    ad->info.n_layers = ad->config.n_layers;
    ad->info.format = "PEFT";
    TERN_TRY(tern_adapter__check_info(&ad->info, err));
    TERN_TRY(tern_adapter__set_base(ad, "base", (tern_span){(const uint8_t *)base, strlen(base)}, err));
    ad->pairs = tern_calloc((size_t)ad->info.n_layers * TERN_ROLE_COUNT, sizeof *ad->pairs);
    if (!ad->pairs) return tern_fail_alloc(err, (size_t)ad->info.n_layers * TERN_ROLE_COUNT * sizeof *ad->pairs);
    for (size_t i = 0; i < n_targets; i++) TERN_TRY(add_pair(ad, &targets[i], err));
    return n_targets
               ? TERN_OK
               : tern_fail(err, TERN_INVALID_ARGUMENT, "an adapter without layers found, one layer or more expected");
}

tern_status tern_adapter_make(tern_adapter **adapter, const tern_model *model, const tern_adapter_info *info,
                              const tern_adapter_layer *targets, size_t n_targets, tern_error *err)
{
    tern_adapter *a = NULL;
    *adapter = NULL;
    TERN_TRY(tern_adapter__create(&a, tern_model_config(model), err));
    tern_status status = make(a, info, targets, n_targets, err);
    if (status == TERN_OK) *adapter = a;
    else tern_adapter_close(a);
    return status;
}
