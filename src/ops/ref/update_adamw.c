/* Optimisers: SGD with momentum, and AdamW. */
#include <math.h>

#include "ops/ref/update.h"

void tern_ref_sgd(const tern_sgd *sgd, const float *g, size_t n, float *w, float *buffer)
{
    for (size_t i = 0; i < n; i++) {
        float d = g[i] + sgd->decay * w[i];
        if (buffer) d = buffer[i] = sgd->momentum * buffer[i] + d;
        w[i] -= sgd->lr * d;
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
        m[i] += f->blend1 * (g[i] - m[i]);
        v[i] = v[i] * f->beta2 + f->blend2 * g[i] * g[i];
        w[i] = w[i] * f->keep - f->pace * (m[i] / (sqrtf(v[i]) / f->root + f->eps));
    }
}
