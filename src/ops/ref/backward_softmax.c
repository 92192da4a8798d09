/* The parts of attention over rows: a product of matrices in chains, and the softmax of its rows. */
#include <math.h>

#include "ops/ref/backward.h"
#include "ops/ref/lanes.h"

void tern_ref_product(const tern_product_args *args)
{
    for (uint32_t i = 0; i < args->m; i++)
        for (uint32_t j = 0; j < args->n; j++) {
            float *c = &args->c[i * args->c_row + j], sum = args->add ? *c : 0;
            for (uint32_t s = 0; s < args->steps; s++)
                sum = tern_ref__fmaf(args->a[i * args->a_row + s * args->a_step], args->b[s * args->b_step + j], sum);
            *c = sum;
        }
}

static float score(float product, const tern_softmax_row *row)
{
    const float s = product * row->scale;
    return row->softcap > 0 ? tern_ref_softcap(s, row->softcap) : s;
}

void tern_ref_softmax(float *s, uint32_t first, uint32_t end, tern_softmax_row *row)
{
    float most = -INFINITY, lanes[TERN_LANES] = {0};
    for (uint32_t j = first; j < end; j++) {
        s[j] = score(s[j], row);
        most = fmaxf(most, s[j]);
    }
    row->m = most + 0.0f;
    for (uint32_t j = first; j < end; j++) {
        s[j] = tern_ref_exp(s[j] - row->m);
        lanes[j % TERN_LANES] += s[j];
    }
    row->l = tern_ref__lanes_sum(lanes);
}

void tern_ref_softmax_backward(float *s, float *dp, uint32_t first, uint32_t end, const tern_softmax_row *row)
{
    const float r = 1 / row->l;
    for (uint32_t j = first; j < end; j++) {
        const float capped = score(s[j], row);
        s[j] = tern_ref_exp(capped - row->m) * r;
        dp[j] = s[j] * (dp[j] - row->delta);
        if (row->softcap > 0) {
            const float u = capped * (1 / row->softcap);
            dp[j] *= 1 - u * u;
        }
        dp[j] *= row->scale;
    }
}
