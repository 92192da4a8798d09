/* Causal attention over contiguous rows: forward and backward. */
#include <math.h>

#include "base/half.h"
#include "ops/ref/backward.h"
#include "ops/ref/lanes.h"

/* One query head of one token, and where its rows are. */
typedef struct query {
    uint32_t first, last; /* visible tokens, both included */
    size_t at;            /* in q, out, dout and dq */
    size_t head;          /* column of its head in a row of k, v, dk and dv */
    size_t stat;          /* in m and l */
    float sink;           /* -inf: none */
} query;

static query query_of(const tern_varlen_attention *rows, uint32_t t, uint32_t h)
{
    uint32_t group = rows->n_heads / rows->n_kv_heads, first = rows->starts ? rows->starts[t] : 0;
    if (rows->window && t - first >= rows->window) first = t + 1 - rows->window;
    return (query){
        .first = first,
        .last = t,
        .at = t * rows->q_stride + (size_t)h * rows->head_dim,
        .head = (size_t)(h / group) * rows->head_dim,
        .stat = (size_t)t * rows->n_heads + h,
        .sink = rows->sinks ? rows->sinks[h] : -INFINITY,
    };
}

static float factor(const tern_varlen_attention *rows, float x)
{
    return rows->bf16 ? tern_bf16_to_f32(tern_f32_to_bf16(x)) : x;
}

/* A chain, not the lanes of tern_ref_dot. */
static float product(const tern_varlen_attention *rows, const float *a, const float *b)
{
    float sum = 0;
    for (uint32_t d = 0; d < rows->head_dim; d++) sum = tern_ref__fmaf(factor(rows, a[d]), factor(rows, b[d]), sum);
    return sum;
}

/* y[d] = fmaf(a, x[d], y[d]) */
static void add_scaled(const tern_varlen_attention *rows, float a, const float *x, float *y)
{
    for (uint32_t d = 0; d < rows->head_dim; d++) y[d] = tern_ref__fmaf(factor(rows, a), factor(rows, x[d]), y[d]);
}

static float score(const tern_varlen_attention *rows, const query *q, uint32_t j)
{
    const float s = product(rows, rows->q + q->at, rows->k + j * rows->kv_stride + q->head) * rows->scale;
    return rows->softcap > 0 ? tern_ref_softcap(s, rows->softcap) : s;
}

static void forward(const tern_varlen_attention *rows, const query *q, float *out, float *m, float *l)
{
    float most = -INFINITY, lanes[TERN_LANES] = {0};
    for (uint32_t j = q->first; j <= q->last; j++) most = fmaxf(most, score(rows, q, j));
    *m = most + 0.0f;
    for (uint32_t d = 0; d < rows->head_dim; d++) out[d] = 0;
    for (uint32_t j = q->first; j <= q->last; j++) {
        const float *v = rows->v + j * rows->kv_stride + q->head;
        float p = tern_ref_exp(score(rows, q, j) - *m);
        lanes[j % TERN_LANES] += p;
        add_scaled(rows, p, v, out);
    }
    *l = tern_ref_sink(q->sink, *m, tern_ref__lanes_sum(lanes));
    for (uint32_t d = 0; d < rows->head_dim; d++) out[d] /= *l;
}

void tern_ref_varlen_attention(const tern_varlen_attention *rows, float *out, float *m, float *l)
{
    for (uint32_t t = 0; t < rows->n; t++)
        for (uint32_t h = 0; h < rows->n_heads; h++) {
            query q = query_of(rows, t, h);
            forward(rows, &q, out + q.at, m + q.stat, l + q.stat);
        }
}

/* From the gradient of a probability to that of a product of q and k. */
static float product_gradient(const tern_varlen_attention *rows, float s, float p, float dp, float delta)
{
    const float ds = p * (dp - delta), u = rows->softcap > 0 ? s * (1 / rows->softcap) : 0;
    return (rows->softcap > 0 ? ds * (1 - u * u) : ds) * rows->scale;
}

void tern_ref_varlen_attention_backward(const tern_varlen_attention *rows, const float *out, const float *m,
                                        const float *l, const float *dout, float *dq, float *dk, float *dv,
                                        float *dsinks)
{
    for (uint32_t t = 0; t < rows->n; t++)
        for (uint32_t h = 0; h < rows->n_heads; h++) {
            query q = query_of(rows, t, h);
            const float *d_row = dout + q.at;
            const float r = 1 / l[q.stat];
            float delta = tern_ref_dot(d_row, out + q.at, rows->head_dim);
            if (dsinks) dsinks[h] -= tern_ref_exp(q.sink - m[q.stat]) * r * delta;
            for (uint32_t j = q.first; j <= q.last; j++) {
                size_t kv = j * rows->kv_stride + q.head;
                float s = score(rows, &q, j), p = tern_ref_exp(s - m[q.stat]) * r;
                float ds = product_gradient(rows, s, p, product(rows, d_row, rows->v + kv), delta);
                add_scaled(rows, p, d_row, dv + kv);
                add_scaled(rows, ds, rows->k + kv, dq + q.at);
                add_scaled(rows, ds, rows->q + q.at, dk + kv);
            }
        }
}
