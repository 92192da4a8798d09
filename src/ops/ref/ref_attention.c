/* Attention over pages of the KV cache with an online softmax. */
#include <math.h>

#include "base/bytes.h"
#include "base/half.h"
#include "ops/ref/lanes.h"

enum { PAGE = TERN_PAGE_POSITIONS, MAX_HEAD_DIM = 512 };

/* n stored values to f32. */
typedef void (*load_fn)(const uint8_t *in, size_t n, float *out);

static void load_f16(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_f16_to_f32(tern_load_u16(in + 2 * i));
}

static void load_f32(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_load_f32(in + 4 * i);
}

/* How the cache stores a value. */
typedef struct store {
    load_fn load;
    size_t bytes;
} store;

/* The rows [from, to) of one page that one query sees. */
typedef struct page_view {
    const uint8_t *k, *v; /* row 0 */
    uint32_t from, to;
} page_view;

static void add_values(const store *s, const page_view *view, uint32_t head_dim, const float *p, float c, float *acc)
{
    float row[MAX_HEAD_DIM];
    for (uint32_t d = 0; d < head_dim; d++) acc[d] *= c;
    for (uint32_t j = view->from; j < view->to; j++) {
        s->load(view->v + j * s->bytes * head_dim, head_dim, row);
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

static void query_page(const store *s, const tern_attention_args *a, uint32_t query, const page_view *view)
{
    float p[PAGE] = {0}, row[MAX_HEAD_DIM], lanes[TERN_LANES] = {0};
    float m = a->m[query];
    for (uint32_t j = view->from; j < view->to; j++) {
        s->load(view->k + j * s->bytes * a->head_dim, a->head_dim, row);
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
    add_values(s, view, a->head_dim, p, c, a->acc + (size_t)query * a->head_dim);
}

/* x cut to [low, high], less low. */
static uint32_t cut(uint32_t x, uint32_t low, uint32_t high)
{
    return (x < low ? low : x > high ? high : x) - low;
}

static void attention(const store *s, const tern_attention_args *a)
{
    uint32_t end = a->first + a->n;
    for (uint32_t at = a->first; at < end; at += PAGE) {
        size_t page = (size_t)a->pages[at / PAGE] * a->page_bytes;
        uint32_t last = end - at < PAGE ? end : at + PAGE;
        for (uint32_t i = 0; i < a->n_queries; i++) {
            page_view view = {a->k + page, a->v + page, cut(a->lo[i], at, last), cut(a->hi[i], at, last)};
            if (view.from < view.to) query_page(s, a, i, &view);
        }
    }
}

void tern_ref_attention_f16(const tern_attention_args *args)
{
    static const store f16 = {load_f16, 2};
    attention(&f16, args);
}

void tern_ref_attention_f32(const tern_attention_args *args)
{
    static const store f32 = {load_f32, 4};
    attention(&f32, args);
}
