/* A product of f32 matrices that goes on from what is there. */
#include "ops/ref/gemm.h"

#include "ops/ref/fma.h"

static float element(const tern_gemm_args *g, uint32_t i, uint32_t l)
{
    if (!g->a_columns) return g->a[i * g->a_stride + l];
    const float a = g->a[l * g->a_stride + i];
    return g->a_scales ? a * g->a_scales[l] : a;
}

void tern_ref_gemm(const tern_gemm_args *g)
{
    for (uint32_t i = 0; i < g->m; i++)
        for (uint32_t l = 0; l < g->k; l++) {
            const float a = element(g, i, l);
            for (uint32_t j = 0; j < g->n; j++)
                g->c[i * g->c_stride + j] = tern_ref__fmaf(a, g->b[l * g->b_stride + j], g->c[i * g->c_stride + j]);
        }
}
