/* A product of f32 matrices that goes on from what is there. */
#include "ops/ref/gemm.h"

#include "base/half.h"
#include "ops/ref/fma.h"

static float element(const tern_gemm_args *g, uint32_t i, uint32_t l)
{
    const float a = g->a_columns ? g->a[l * g->a_stride + i] : g->a[i * g->a_stride + l];
    return g->a_scales ? a * g->a_scales[l] : a;
}

static float factor(const tern_gemm_args *g, float x)
{
    return g->bf16 ? tern_bf16_to_f32(tern_f32_to_bf16(x)) : x;
}

void tern_ref_gemm(const tern_gemm_args *g)
{
    for (uint32_t i = 0; i < g->m; i++)
        for (uint32_t l = 0; l < g->k; l++) {
            const float a = factor(g, element(g, i, l));
            for (uint32_t j = 0; j < g->n; j++)
                g->c[i * g->c_stride + j] =
                    tern_ref__fmaf(a, factor(g, g->b[l * g->b_stride + j]), g->c[i * g->c_stride + j]);
        }
}
