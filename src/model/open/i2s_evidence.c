/* Counting codes by column, and asking of which order the norms before them speak. */
#include "model/open/i2s_evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/encoding_id.h"

enum { LAYERS = 4, GROUPS = 64, KINDS = 4, LANE_BITS = 16, MAX_COUNT = 3 * 4 * GROUPS };

static const double enough = 4; /* standard deviations */

/* For every byte of four rows: in how many of the groups looked at each of its four codes is not 0: four lanes. Enough
 * for every order, since all of them keep the codes of four rows in four rows. */
struct tern_i2s_evidence {
    uint64_t *lanes[LAYERS][KINDS]; /* [cols], of all matrices behind one norm */
};

static const tern_role norms[KINDS] = {TERN_ROLE_ATTN_NORM, TERN_ROLE_ATTN_SUB_NORM, TERN_ROLE_FFN_NORM,
                                       TERN_ROLE_FFN_SUB_NORM};

/* The norm whose output a matrix reads; KINDS: none. */
static uint32_t kind_of(tern_role role)
{
    switch (role) {
    case TERN_ROLE_ATTN_Q:
    case TERN_ROLE_ATTN_K:
    case TERN_ROLE_ATTN_V: return 0;
    case TERN_ROLE_ATTN_OUTPUT: return 1;
    case TERN_ROLE_FFN_GATE:
    case TERN_ROLE_FFN_UP: return 2;
    case TERN_ROLE_FFN_DOWN: return 3;
    default: return KINDS;
    }
}

/* The i-th of the layers that are looked at. */
static uint32_t layer_at(const tern_model *model, uint32_t i)
{
    const uint32_t n = model->config.n_layers;
    return n <= LAYERS ? i : (uint32_t)((uint64_t)i * n / LAYERS);
}

/* Which of them a layer is; LAYERS: none. */
static uint32_t place_of(const tern_model *model, uint32_t layer)
{
    uint32_t i = 0;
    while (i < LAYERS && layer_at(model, i) != layer) i++;
    return i;
}

/* Lane f is 1 where the code in bits 6 - 2f up is not 0, whose raw code is 1. */
static void fill_table(uint64_t table[static 256])
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        table[byte] = 0;
        for (uint32_t f = 0; f < 4; f++)
            if ((byte >> (6 - 2 * f) & 3) != 1) table[byte] |= (uint64_t)1 << (LANE_BITS * f);
    }
}

static void count(uint64_t *lanes, const tern_weight *w, uint32_t first, uint32_t n, const uint8_t *bytes)
{
    uint64_t table[256];
    const size_t row_bytes = w->cols / 4;
    const uint32_t groups = (w->rows + 3) / 4, step = (groups + GROUPS - 1) / GROUPS;
    fill_table(table);
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t row = first + r;
        if (row / 4 % step) continue;
        uint64_t *to = lanes + row % 4 * row_bytes;
        const uint8_t *from = bytes + r * row_bytes;
        for (size_t b = 0; b < row_bytes; b++) to[b] += table[from[b]];
    }
}

tern_status tern_i2s_evidence_see(tern_model *model, const tern_weight *w, uint32_t first, uint32_t n,
                                  const uint8_t *bytes, tern_error *err)
{
    const size_t slot = (size_t)(w - model->weights);
    const uint32_t kind = kind_of((tern_role)(slot % TERN_ROLE_COUNT));
    const uint32_t layer = place_of(model, (uint32_t)(slot / TERN_ROLE_COUNT));
    if (kind == KINDS || layer == LAYERS || w->encoding->id != TERN_ENC_I2_S || w->cols % 128) return TERN_OK;
    if (!model->evidence) model->evidence = tern_calloc(1, sizeof *model->evidence);
    if (!model->evidence) return tern_fail_alloc(err, sizeof *model->evidence);
    uint64_t **lanes = &model->evidence->lanes[layer][kind];
    if (!*lanes) *lanes = tern_calloc(w->cols, sizeof **lanes);
    if (!*lanes) return tern_fail_alloc(err, w->cols * sizeof **lanes);
    count(*lanes, w, first, n, bytes);
    return TERN_OK;
}

void tern_i2s_evidence_close(tern_i2s_evidence *evidence)
{
    for (uint32_t i = 0; evidence && i < LAYERS * KINDS; i++) tern_free(evidence->lanes[i / KINDS][i % KINDS]);
    tern_free(evidence);
}

typedef struct gain {
    float value;
    uint32_t column;
} gain;

/* The memory of judging, for the most columns there are. */
typedef struct judge {
    const tern_model *model;
    gain *sorted;
    uint32_t *counts;           /* of one order */
    double *by_gain, *by_count; /* ranks, those of equals their mean, less the mean of all */
    double sums[KINDS][TERN_I2S_ORDERS];
    uint32_t n[KINDS], cols[KINDS];
} judge;

static int by_value(const void *a, const void *b)
{
    const float x = ((const gain *)a)->value, y = ((const gain *)b)->value;
    return (x > y) - (x < y);
}

static void rank_gains(judge *j, const tern_weight *norm)
{
    const uint32_t n = norm->cols;
    for (uint32_t i = 0; i < n; i++) j->sorted[i] = (gain){tern_load_f32(norm->data + i * sizeof(float)), i};
    qsort(j->sorted, n, sizeof *j->sorted, by_value);
    for (uint32_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && j->sorted[to].value == j->sorted[from].value;) to++;
        for (uint32_t i = from; i < to; i++) j->by_gain[j->sorted[i].column] = 0.5 * (from + to) - 0.5 * n;
    }
}

/* The four codes of a byte are `stride` columns apart (0: in one), as columns are whole groups of every order. */
static void count_columns(const judge *j, const tern_i2s_order *order, const uint64_t *lanes, uint32_t cols)
{
    const ptrdiff_t step = order->low_first ? -(ptrdiff_t)order->stride : (ptrdiff_t)order->stride;
    memset(j->counts, 0, cols * sizeof *j->counts);
    for (uint32_t b = 0; b < cols; b++) {
        uint32_t *to = j->counts + tern_i2s_order_element(order, b, 0, cols) % cols;
        for (uint32_t f = 0; f < 4; f++) to[(ptrdiff_t)f * step] += lanes[b] >> (LANE_BITS * f) & 0xffff;
    }
}

static void rank_counts(const judge *j, uint32_t cols)
{
    uint32_t below[MAX_COUNT + 2] = {0};
    for (uint32_t i = 0; i < cols; i++) below[j->counts[i] + 1]++;
    for (uint32_t c = 0; c <= MAX_COUNT; c++) below[c + 1] += below[c];
    for (uint32_t i = 0; i < cols; i++)
        j->by_count[i] = 0.5 * (below[j->counts[i]] + below[j->counts[i] + 1]) - 0.5 * cols;
}

static double correlation(const double *a, const double *b, uint32_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static void hear(judge *j, uint32_t layer, uint32_t kind)
{
    const tern_weight *norm = tern_model_weight(j->model, norms[kind], layer_at(j->model, layer));
    const uint64_t *lanes = j->model->evidence->lanes[layer][kind];
    if (!lanes || !norm->encoding) return;
    rank_gains(j, norm);
    if (j->sorted[0].value == j->sorted[norm->cols - 1].value) return; /* not trained */
    for (size_t o = 0; o < TERN_I2S_ORDERS; o++) {
        count_columns(j, tern_i2s_order_at(o), lanes, norm->cols);
        rank_counts(j, norm->cols);
        j->sums[kind][o] += fabs(correlation(j->by_gain, j->by_count, norm->cols));
    }
    j->n[kind]++;
    j->cols[kind] = norm->cols;
}

/* How many standard deviations an order is better than Tern's own. Layers are not taken for independent. */
static double lead(const judge *j, size_t order)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < KINDS; k++) {
        if (j->n[k] == 0) continue;
        sum += sqrt(j->cols[k]) * (j->sums[k][order] - j->sums[k][0]) / j->n[k];
        n++;
    }
    return n ? sum / sqrt(2.0 * n) : 0;
}

static void decide(judge *j, const tern_i2s_order **order, double *z)
{
    for (uint32_t i = 0; i < LAYERS * KINDS; i++)
        if (i / KINDS < j->model->config.n_layers) hear(j, i / KINDS, i % KINDS);
    for (size_t o = 1; o < TERN_I2S_ORDERS; o++) {
        const double better = lead(j, o);
        if (better < enough || better <= *z) continue;
        *z = better;
        *order = tern_i2s_order_at(o);
    }
}

static uint32_t most_columns(const tern_config *c)
{
    const uint32_t heads = c->n_heads * c->head_dim, most = c->n_embd > c->n_ff ? c->n_embd : c->n_ff;
    return heads > most ? heads : most;
}

tern_status tern_i2s_evidence_judge(const tern_model *model, const tern_i2s_order **order, double *z, tern_error *err)
{
    const size_t n = most_columns(&model->config);
    *order = tern_i2s_order_at(0);
    *z = 0;
    if (!model->evidence) return TERN_OK;
    judge j = {.model = model,
               .sorted = tern_calloc(n, sizeof *j.sorted),
               .counts = tern_calloc(n, sizeof *j.counts),
               .by_gain = tern_calloc(n, sizeof *j.by_gain),
               .by_count = tern_calloc(n, sizeof *j.by_count)};
    const bool room = j.sorted && j.counts && j.by_gain && j.by_count;
    if (room) decide(&j, order, z);
    tern_free(j.sorted);
    tern_free(j.counts);
    tern_free(j.by_gain);
    tern_free(j.by_count);
    return room ? TERN_OK : tern_fail_alloc(err, n * (sizeof(gain) + sizeof(uint32_t) + 2 * sizeof(double)));
}
