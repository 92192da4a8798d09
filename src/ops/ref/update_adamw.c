/* Optimisers: SGD with momentum, and AdamW; and the step of a tensor as it is stored. */
#include <math.h>
#include <string.h>

#include "base/flush.h"
#include "ops/ref/update.h"

void tern_ref_sgd(const tern_sgd *sgd, const float *g, size_t n, float *w, float *buffer)
{
    for (size_t i = 0; i < n; i++) {
        float wi = tern_flush(w[i]), d = tern_flush_add(tern_flush(g[i]), tern_flush_mul(sgd->decay, wi));
        if (buffer) d = buffer[i] = tern_flush_add(tern_flush_mul(sgd->momentum, tern_flush(buffer[i])), d);
        w[i] = tern_flush_sub(wi, tern_flush_mul(sgd->lr, d));
    }
}

tern_adamw_factors tern_ref_adamw_factors(const tern_adamw *adamw, uint64_t step)
{
    return (tern_adamw_factors){
        .keep = (float)(1 - adamw->lr * adamw->decay),
        .blend1 = (float)(1 - adamw->beta1),
        .beta2 = (float)adamw->beta2,
        .blend2 = (float)(1 - adamw->beta2),
        .root = (float)sqrt(1 - pow(adamw->beta2, (double)step)),
        .eps = (float)adamw->eps,
        .pace = (float)(adamw->lr / (1 - pow(adamw->beta1, (double)step))),
    };
}

void tern_ref_adamw(const tern_adamw_factors *f, const float *g, size_t n, float *w, float *m, float *v)
{
    for (size_t i = 0; i < n; i++) {
        const float gi = tern_flush(g[i]), mi = tern_flush(m[i]), vi = tern_flush(v[i]);
        m[i] = tern_flush_add(mi, tern_flush_mul(f->blend1, tern_flush_sub(gi, mi)));
        v[i] = tern_flush_add(tern_flush_mul(vi, f->beta2), tern_flush_mul(tern_flush_mul(f->blend2, gi), gi));
        const float size = tern_flush_add(tern_flush_div(tern_flush(sqrtf(v[i])), f->root), f->eps);
        const float step = tern_flush_mul(f->pace, tern_flush_div(m[i], size));
        w[i] = tern_flush_sub(tern_flush_mul(tern_flush(w[i]), f->keep), step);
    }
}

/* A block in f32. */
typedef struct block {
    float w[TERN_STATE_BLOCK], g[TERN_STATE_BLOCK], m[TERN_STATE_BLOCK], v[TERN_STATE_BLOCK];
} block;

static void load(tern_dtype dtype, const void *from, const float *scale, size_t at, size_t n, float *x)
{
    switch (dtype) {
    case TERN_DTYPE_BF16:
        for (size_t i = 0; i < n; i++) x[i] = tern_bf16_to_f32(((const uint16_t *)from)[at + i]);
        break;
    case TERN_DTYPE_M8: tern_ref_state_unpack((const int8_t *)from + at, scale, n, x); break;
    case TERN_DTYPE_V8: tern_ref_square_unpack((const uint8_t *)from + at, scale, n, x); break;
    default: memcpy(x, (const float *)from + at, n * sizeof *x);
    }
}

/* random [n]; NULL: to the nearest */
static void store(tern_dtype dtype, const float *x, size_t n, const uint32_t *random, void *to, float *scale, size_t at)
{
    switch (dtype) {
    case TERN_DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)to)[at + i] = random ? tern_ref_bf16_stochastic(x[i], random[i]) : tern_f32_to_bf16(x[i]);
        break;
    case TERN_DTYPE_M8: tern_ref_state_pack(x, n, (int8_t *)to + at, scale); break;
    case TERN_DTYPE_V8: tern_ref_square_pack(x, n, random, (uint8_t *)to + at, scale); break;
    default: memcpy((float *)to + at, x, n * sizeof *x);
    }
}

static void step(const tern_update_args *a, block *b, size_t n)
{
    const tern_train_params *p = a->params;
    const tern_sgd sgd = {
        .lr = tern_flush(p->lr), .momentum = tern_flush(p->momentum), .decay = a->decays ? tern_flush(p->decay) : 0};
    const tern_adamw_factors adamw = {.keep = a->decays ? tern_flush(p->keep) : 1,
                                      .blend1 = tern_flush(p->blend1),
                                      .beta2 = tern_flush(p->beta2),
                                      .blend2 = tern_flush(p->blend2),
                                      .root = tern_flush(p->root),
                                      .eps = tern_flush(p->eps),
                                      .pace = tern_flush(p->pace)};
    for (size_t i = 0; i < n; i++) b->g[i] = tern_flush_mul(tern_flush(b->g[i]), tern_flush(p->clip));
    if (a->optimizer == TERN_OPTIMIZER_ADAMW) tern_ref_adamw(&adamw, b->g, n, b->w, b->m, b->v);
    else tern_ref_sgd(&sgd, b->g, n, b->w, a->m ? b->m : NULL);
}

static void update_block(const tern_update_args *a, size_t at, size_t n)
{
    block b = {0};
    uint32_t random[2][TERN_STATE_BLOCK];
    float *m_scale = a->m_scales ? a->m_scales + at / TERN_STATE_BLOCK : NULL,
          *v_scale = a->v_scales ? a->v_scales + at / TERN_STATE_BLOCK : NULL;
    for (size_t i = 0; i < n; i++) {
        const uint32_t index = a->first + (uint32_t)(at + i), r = tern_ref_random_bits(~a->seed, index);
        random[0][i] = tern_ref_random_bits(a->seed, index);
        random[1][i] = a->v_dtype == TERN_DTYPE_BF16 ? r >> 16 : r;
    }
    load(a->w_dtype, a->w, NULL, at, n, b.w);
    if (a->m) load(a->m_dtype, a->m, m_scale, at, n, b.m);
    if (a->v) load(a->v_dtype, a->v, v_scale, at, n, b.v);
    memcpy(b.g, a->g + at, n * sizeof *b.g);
    step(a, &b, n);
    memset(a->g + at, 0, n * sizeof *b.g);
    store(a->w_dtype, b.w, n, random[0], a->w, NULL, at);
    if (a->m) store(a->m_dtype, b.m, n, NULL, a->m, m_scale, at);
    if (a->v) store(a->v_dtype, b.v, n, random[1], a->v, v_scale, at);
}

void tern_ref_update(const tern_update_args *args)
{
    for (size_t at = 0; at < args->n; at += TERN_STATE_BLOCK)
        update_block(args, at, args->n - at < TERN_STATE_BLOCK ? args->n - at : TERN_STATE_BLOCK);
}
