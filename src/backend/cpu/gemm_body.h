/* c += a b in f32, for the level whose vectors are included before; the file says how many rows (GEMM_ROWS) and vectors
 * (GEMM_VECS) of c a tile keeps in registers.
 *
 * a is packed once into panels of GEMM_ROWS rows. Then for every panel of GEMM_VECS vectors of columns b is packed,
 * which stays in the first cache while the panels of a run over it. Every element is one chain of fma in order,
 * whatever the tile. */
#ifndef TERN_BACKEND_CPU_GEMM_BODY_H
#define TERN_BACKEND_CPU_GEMM_BODY_H

#include "backend/cpu/floats.h"

enum {
    GEMM_COLS = GEMM_VECS * VEC,
    PANELS = 4,
    ROW_APART = TERN_GEMM_K + 16 /* rows of a panel, so that they do not meet in the same sets of the cache */
};

/* Where element (i, l) of a panel lies: a[i * row + l * product]. */
typedef struct panel_strides {
    size_t row, product;
} panel_strides;

/* GEMM_ROWS x GEMM_COLS elements of c, k products each. */
INLINE void tile(uint32_t k, const float *a, const panel_strides s, const float *b, float *c, size_t c_stride)
{
    vec sums[GEMM_ROWS][GEMM_VECS];
    UNROLL
    for (int i = 0; i < GEMM_ROWS; i++) {
        UNROLL
        for (int v = 0; v < GEMM_VECS; v++) sums[i][v] = vec_load(c + (size_t)i * c_stride + v * VEC);
    }
    for (; k > 0; k--, a += s.product, b += GEMM_COLS) {
        vec row[GEMM_VECS];
        UNROLL
        for (int v = 0; v < GEMM_VECS; v++) row[v] = vec_load(b + v * VEC);
        UNROLL
        for (int i = 0; i < GEMM_ROWS; i++) {
            const vec factor = vec_set(a[(size_t)i * s.row]);
            UNROLL
            for (int v = 0; v < GEMM_VECS; v++) sums[i][v] = vec_fma(factor, row[v], sums[i][v]);
        }
    }
    UNROLL
    for (int i = 0; i < GEMM_ROWS; i++) {
        UNROLL
        for (int v = 0; v < GEMM_VECS; v++) vec_store(c + (size_t)i * c_stride + v * VEC, sums[i][v]);
    }
}

/* A tile of which only m x n elements are there. */
INLINE void edge_tile(uint32_t k, const float *a, const panel_strides s, const float *b, float *c, size_t c_stride,
                      uint32_t m, uint32_t n)
{
    float whole[GEMM_ROWS][GEMM_COLS] = {0};
    for (uint32_t i = 0; i < m; i++) memcpy(whole[i], c + i * c_stride, n * sizeof(float));
    tile(k, a, s, b, whole[0], GEMM_COLS);
    for (uint32_t i = 0; i < m; i++) memcpy(c + i * c_stride, whole[i], n * sizeof(float));
}

static inline uint32_t at_most(uint32_t n, uint32_t most)
{
    return n < most ? n : most;
}

/* Rows of a to rows of the panels, zeros to the end of the last. */
static inline void pack_rows(const tern_gemm_args *g)
{
    float *to = g->room;
    uint32_t i = 0;
    for (; i < g->m; i++, to += ROW_APART) memcpy(to, g->a + i * g->a_stride, g->k * sizeof(float));
    for (; i % GEMM_ROWS; i++, to += ROW_APART) memset(to, 0, g->k * sizeof(float));
}

/* GEMM_ROWS elements of a row of a, of which n are there. */
INLINE void pack_piece(const float *from, uint32_t n, float scale, float *to)
{
    float piece[GEMM_ROWS] = {0};
    if (n == GEMM_ROWS) memcpy(piece, from, sizeof piece);
    else memcpy(piece, from, n * sizeof(float));
    UNROLL
    for (int i = 0; i < GEMM_ROWS; i++) piece[i] *= scale;
    memcpy(to, piece, sizeof piece);
}

/* Columns of a to panels of GEMM_ROWS elements for each product. A few panels go together: rows of a are often in pages
 * of their own, and each is come to as seldom as possible. */
static inline void pack_columns(const tern_gemm_args *g)
{
    for (uint32_t group = 0; group < g->m; group += PANELS * GEMM_ROWS) {
        const uint32_t end = at_most(g->m, group + PANELS * GEMM_ROWS);
        for (uint32_t l = 0; l < g->k; l++) {
            const float scale = g->a_scales ? g->a_scales[l] : 1, *from = g->a + l * g->a_stride;
            for (uint32_t i = group; i < end; i += GEMM_ROWS)
                pack_piece(from + i, at_most(g->m - i, GEMM_ROWS), scale,
                           g->room + (size_t)i * TERN_GEMM_K + l * GEMM_ROWS);
        }
    }
}

INLINE void pack_b(const tern_gemm_args *g, uint32_t first, float *panel)
{
    const uint32_t n = at_most(g->n - first, GEMM_COLS);
    const float *from = g->b + first;
    for (uint32_t l = 0; l < g->k; l++, from += g->b_stride, panel += GEMM_COLS) {
        if (n == GEMM_COLS) {
            UNROLL
            for (int v = 0; v < GEMM_VECS; v++) vec_store(panel + v * VEC, vec_load(from + v * VEC));
        } else {
            memcpy(panel, from, n * sizeof(float));
        }
    }
}

/* Rows of c that are wanted soon, but may lie in pages far from each other, where no hardware looks ahead. */
INLINE void prefetch_tile(const float *c, size_t c_stride, uint32_t m)
{
    for (uint32_t i = 0; i < m; i++) {
        UNROLL
        for (int at = 0; at < GEMM_COLS; at += 16) __builtin_prefetch(c + i * c_stride + at, 1, 3);
    }
}

/* All of a's panels times one panel of b. */
INLINE void column_of_tiles(const tern_gemm_args *g, const panel_strides s, const float *b, uint32_t first)
{
    const uint32_t n = at_most(g->n - first, GEMM_COLS);
    const size_t apart = g->a_columns ? TERN_GEMM_K : ROW_APART; /* from one row of a to the next, in panels */
    for (uint32_t i = 0; i < g->m; i += GEMM_ROWS) {
        const float *a = g->room + i * apart;
        float *c = g->c + i * g->c_stride + first;
        const uint32_t m = at_most(g->m - i, GEMM_ROWS);
        prefetch_tile(c + GEMM_ROWS * g->c_stride, g->c_stride, at_most(g->m - i - m, GEMM_ROWS));
        if (m == GEMM_ROWS && n == GEMM_COLS) tile(g->k, a, s, b, c, g->c_stride);
        else edge_tile(g->k, a, s, b, c, g->c_stride, m, n);
    }
}

void KERNEL_NAME(gemm)(const tern_gemm_args *g)
{
    _Alignas(64) float panel[TERN_GEMM_K * GEMM_COLS];
    memset(panel, 0, g->n % GEMM_COLS ? sizeof panel : 0);
    if (g->a_columns) pack_columns(g);
    else pack_rows(g);
    for (uint32_t first = 0; first < g->n; first += GEMM_COLS) {
        pack_b(g, first, panel);
        if (g->a_columns) column_of_tiles(g, (panel_strides){1, GEMM_ROWS}, panel, first);
        else column_of_tiles(g, (panel_strides){ROW_APART, 1}, panel, first);
    }
}

#endif
