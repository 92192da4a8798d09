/* Products of matrices in chains, for the level whose vectors are included before: what attention over rows is made of.
 *
 * A strip of b, as wide as VALUE_VECS vectors, stays in the first cache while up to six rows at a time go over it; b is
 * read where it lies (attention has packed it, or each element serves dozens of rows). Every element is one chain of
 * fma in order, whatever the tile. */
#ifndef TERN_BACKEND_CPU_PRODUCT_BODY_H
#define TERN_BACKEND_CPU_PRODUCT_BODY_H

#include "backend/cpu/floats.h"
#include "ops/ref/fma.h"

enum { PRODUCT_ROWS = 6 };

/* n_rows x n_vecs vectors of c, from row and column on. */
INLINE void product_tile(const tern_product_args *p, uint32_t row, uint32_t n_rows, uint32_t column, uint32_t n_vecs)
{
    const float *a[PRODUCT_ROWS], *b = p->b + column;
    float *c = p->c + row * p->c_row + column;
    vec sums[PRODUCT_ROWS][VALUE_VECS];
    UNROLL
    for (uint32_t i = 0; i < n_rows; i++) {
        a[i] = p->a + (row + i) * p->a_row;
        UNROLL
        for (uint32_t v = 0; v < n_vecs; v++) sums[i][v] = p->add ? vec_load(c + i * p->c_row + v * VEC) : vec_set(0);
    }
    for (size_t s = 0, at = 0; s < p->steps; s++, at += p->a_step, b += p->b_step) {
        vec other[VALUE_VECS];
        UNROLL
        for (uint32_t v = 0; v < n_vecs; v++) other[v] = vec_load(b + v * VEC);
        UNROLL
        for (uint32_t i = 0; i < n_rows; i++) {
            const vec factor = vec_set(a[i][at]);
            UNROLL
            for (uint32_t v = 0; v < n_vecs; v++) sums[i][v] = vec_fma(factor, other[v], sums[i][v]);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < n_rows; i++) {
        UNROLL
        for (uint32_t v = 0; v < n_vecs; v++) vec_store(c + i * p->c_row + v * VEC, sums[i][v]);
    }
}

/* All rows of a strip. */
INLINE void product_strip(const tern_product_args *p, uint32_t column, uint32_t n_vecs)
{
    uint32_t row = 0;
    for (; p->m - row >= PRODUCT_ROWS; row += PRODUCT_ROWS) product_tile(p, row, PRODUCT_ROWS, column, n_vecs);
    switch (p->m - row) {
    case 5: product_tile(p, row, 5, column, n_vecs); break;
    case 4: product_tile(p, row, 4, column, n_vecs); break;
    case 3: product_tile(p, row, 3, column, n_vecs); break;
    case 2: product_tile(p, row, 2, column, n_vecs); break;
    case 1: product_tile(p, row, 1, column, n_vecs); break;
    default: break;
    }
}

/* The last columns, which fill no vector. */
static void product_rest(const tern_product_args *p, uint32_t column)
{
    for (uint32_t i = 0; i < p->m; i++)
        for (uint32_t j = column; j < p->n; j++) {
            const float *a = p->a + i * p->a_row, *b = p->b + j;
            float *c = &p->c[i * p->c_row + j], sum = p->add ? *c : 0;
            for (uint32_t s = 0; s < p->steps; s++, a += p->a_step, b += p->b_step) sum = tern_ref__fmaf(*a, *b, sum);
            *c = sum;
        }
}

void KERNEL_NAME(product)(const tern_product_args *args)
{
    uint32_t column = 0;
    for (; args->n - column >= VALUE_VECS * VEC; column += VALUE_VECS * VEC) product_strip(args, column, VALUE_VECS);
    for (; args->n - column >= VEC; column += VEC) product_strip(args, column, 1);
    if (column < args->n) product_rest(args, column);
}

#endif
