/* Attention over pages of the KV cache with an online softmax. */
#include <math.h>

#include "ops/ref/lanes.h"

enum { PAGE = TERN_PAGE_POSITIONS, MAX_HEAD_DIM = 512 };

/* The rows [from, to) of one page that one query sees. */
typedef struct page_view {
    const uint8_t *k, *v; /* row 0 */
    uint32_t from, to;
} page_view;

static void add_values(const tern_attention_args *a, const page_view *view, const float *p, float c, float *acc)
{
    float row[MAX_HEAD_DIM];
    const uint32_t head_dim = a->head_dim;
    const size_t row_bytes = tern_cache_bytes(a->types.v, head_dim);
    for (uint32_t d = 0; d < head_dim; d++) acc[d] *= c;
    for (uint32_t j = view->from; j < view->to; j++) {
        tern_ref_kv_load(a->types.v, view->v + j * row_bytes, head_dim, row);
        for (uint32_t d = 0; d < head_dim; d++) acc[d] = tern_ref__fmaf(p[j], row[d], acc[d]);
    }
}

float tern_ref_softcap(float x, float cap)
{
    return cap - (cap + cap) / (tern_ref_exp(x * (2.0f / cap)) + 1.0f);
}

float tern_ref_sink(float sink, float m, float l)
{
    return l + tern_ref_exp(sink - m);
}

static void query_page(const tern_attention_args *a, uint32_t query, const page_view *view)
{
    float p[PAGE] = {0}, row[MAX_HEAD_DIM], lanes[TERN_LANES] = {0};
    const size_t row_bytes = tern_cache_bytes(a->types.k, a->head_dim);
    float m = a->m[query];
    for (uint32_t j = view->from; j < view->to; j++) {
        tern_ref_kv_load(a->types.k, view->k + j * row_bytes, a->head_dim, row);
        p[j] = tern_ref_dot(a->q + query * a->q_stride, row, a->head_dim) * a->scale;
        if (a->softcap > 0) p[j] = tern_ref_softcap(p[j], a->softcap);
        if (p[j] > m) m = p[j];
    }
    m += 0.0f;
    float c = a->m[query] == -HUGE_VALF ? 0 : tern_ref_exp(a->m[query] - m);
    for (uint32_t j = view->from; j < view->to; j++) p[j] = tern_ref_exp(p[j] - m);
    for (uint32_t j = 0; j < PAGE; j++) lanes[j % TERN_LANES] += p[j];
    a->m[query] = m;
    a->l[query] = a->l[query] * c + tern_ref__lanes_sum(lanes);
    add_values(a, view, p, c, a->acc + (size_t)query * a->head_dim);
}

/* x cut to [low, high], less low. */
static uint32_t cut(uint32_t x, uint32_t low, uint32_t high)
{
    return (x < low ? low : x > high ? high : x) - low;
}

void tern_ref_attention(const tern_attention_args *a)
{
    uint32_t end = a->first + a->n;
    for (uint32_t at = a->first; at < end; at += PAGE) {
        const uint32_t page = a->pages[at / PAGE], last = end - at < PAGE ? end : at + PAGE;
        for (uint32_t i = 0; i < a->n_queries; i++) {
            page_view view = {a->k + page * a->k_page_bytes, a->v + page * a->v_page_bytes, cut(a->lo[i], at, last),
                              cut(a->hi[i], at, last)};
            if (view.from < view.to) query_page(a, i, &view);
        }
    }
}
