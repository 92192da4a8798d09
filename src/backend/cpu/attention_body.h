/* Attention with an online softmax, for the level whose vectors are included before.
 *
 * Page by page: K and V become floats in the first caches, then the queries that see the page, four at a time, take their
 * scores (tiles of four queries by four positions), exponentials and shares of V. Queries of a tile that see different
 * positions of the page take V one by one. */
#ifndef TERN_BACKEND_CPU_ATTENTION_BODY_H
#define TERN_BACKEND_CPU_ATTENTION_BODY_H

#include "backend/cpu/floats.h"

enum { PAGE = TERN_PAGE_POSITIONS, QUERIES = 4, POSITIONS = 4, MAX_HEAD_DIM = 512 };

/* VEC stored values to floats. */
typedef vec (*load_fn)(const void *p);

/* How the cache stores values. */
typedef struct store {
    load_fn load;
    size_t bytes;
} store;

/* One page as floats, rows of `dim` (head_dim rounded up to the lanes, zeros after head_dim). */
typedef struct page_room {
    _Alignas(64) float k[PAGE * MAX_HEAD_DIM];
    _Alignas(64) float v[PAGE * MAX_HEAD_DIM];
    uint32_t dim;
} page_room;

/* Up to four queries that see the same page. */
typedef struct query_tile {
    _Alignas(64) float p[QUERIES][PAGE];         /* scores, then their exponentials */
    _Alignas(64) float q[QUERIES][MAX_HEAD_DIM]; /* padded rows, where head_dim is not a multiple of the lanes */
    const float *rows[QUERIES];                  /* the last one repeated when there are fewer */
    float c[QUERIES];                            /* by which earlier sums shrink */
    uint32_t n, index[QUERIES];
    uint32_t from[QUERIES], to[QUERIES]; /* the positions of the page that each sees */
} query_tile;

INLINE void load_page(const store s, const uint8_t *in, uint32_t head_dim, uint32_t dim, float *out)
{
    if (head_dim == dim) {
        for (uint32_t at = 0; at < PAGE * dim; at += VEC)
            vec_store(out + at, s.load(in + at * s.bytes));
        return;
    }
    for (uint32_t row = 0; row < PAGE; row++, in += head_dim * s.bytes, out += dim) {
        uint8_t rest[TERN_LANES * 4] = {0};
        const uint32_t whole = head_dim / TERN_LANES * TERN_LANES;
        for (uint32_t at = 0; at < whole; at += VEC)
            vec_store(out + at, s.load(in + at * s.bytes));
        memcpy(rest, in + whole * s.bytes, (head_dim - whole) * s.bytes);
        for (uint32_t at = 0; at < TERN_LANES; at += VEC)
            vec_store(out + whole + at, s.load(rest + at * s.bytes));
    }
}

/* Scores of four queries at four positions: 16 lanes of sums for each pair, then all trees together. */
INLINE void score_tile(const page_room *room, query_tile *t, uint32_t position)
{
    _Alignas(64) float sums[QUERIES][POSITIONS][TERN_LANES];
    _Alignas(64) float scores[QUERIES][POSITIONS];
    const float *k = room->k + position * room->dim;
    for (uint32_t part = 0; part < TERN_LANES; part += VEC) {
        vec acc[QUERIES][POSITIONS];
        UNROLL
        for (int i = 0; i < QUERIES * POSITIONS; i++)
            acc[i / POSITIONS][i % POSITIONS] = vec_set(0);
        for (uint32_t at = part; at < room->dim; at += TERN_LANES) {
            vec row[POSITIONS];
            UNROLL
            for (uint32_t j = 0; j < POSITIONS; j++)
                row[j] = vec_load(k + j * room->dim + at);
            UNROLL
            for (uint32_t i = 0; i < QUERIES; i++) {
                const vec q = vec_load(t->rows[i] + at);
                UNROLL
                for (uint32_t j = 0; j < POSITIONS; j++)
                    acc[i][j] = vec_fma(q, row[j], acc[i][j]);
            }
        }
        UNROLL
        for (int i = 0; i < QUERIES * POSITIONS; i++)
            vec_store(sums[i / POSITIONS][i % POSITIONS] + part, acc[i / POSITIONS][i % POSITIONS]);
    }
    lanes_sum_16(sums[0][0], scores[0]);
    for (int i = 0; i < QUERIES; i++)
        memcpy(t->p[i] + position, scores[i], sizeof scores[i]);
}

/* Positions that the i-th query of the tile does not see. */
INLINE void hide(query_tile *t, uint32_t i, float value)
{
    for (uint32_t j = 0; j < t->from[i]; j++)
        t->p[i][j] = value;
    for (uint32_t j = t->to[i]; j < PAGE; j++)
        t->p[i][j] = value;
}

/* m' of one query, its scores scaled in place. */
INLINE float scale_scores(query_tile *t, uint32_t i, float scale, float m)
{
    vec most = vec_set(m);
    for (int j = 0; j < PAGE; j += VEC)
        vec_store(t->p[i] + j, vec_mul(vec_load(t->p[i] + j), vec_set(scale)));
    hide(t, i, -HUGE_VALF);
    for (int j = 0; j < PAGE; j += VEC)
        most = vec_max(vec_load(t->p[i] + j), most);
    return vec_largest(most) + 0.0f;
}

/* Scores to exponentials; their sum. */
INLINE float exponentials(query_tile *t, uint32_t i, float m)
{
    lanes sum;
    for (int j = 0; j < PAGE; j += VEC)
        vec_store(t->p[i] + j, vec_exp(vec_sub(vec_load(t->p[i] + j), vec_set(m))));
    hide(t, i, 0);
    for (int j = 0; j < PARTS; j++)
        sum.v[j] = vec_add(vec_load(t->p[i] + j * VEC), vec_load(t->p[i] + TERN_LANES + j * VEC));
    return lanes_sum(sum.v);
}

INLINE void softmax(query_tile *t, const tern_attention_args *a)
{
    float less[VEC] = {0}, shrink[VEC], sums[QUERIES];
    for (uint32_t i = 0; i < t->n; i++) {
        const float m = a->m[t->index[i]], next = scale_scores(t, i, a->scale, m);
        sums[i] = exponentials(t, i, next);
        less[i] = m == -HUGE_VALF ? -HUGE_VALF : m - next;
        a->m[t->index[i]] = next;
    }
    vec_store(shrink, vec_exp(vec_load(less)));
    for (uint32_t i = 0; i < t->n; i++) {
        t->c[i] = shrink[i];
        a->l[t->index[i]] = a->l[t->index[i]] * shrink[i] + sums[i];
    }
}

/* n_vecs vectors of the accumulators of n queries, which see the same positions: shrunk, then V added row by row. */
INLINE void add_strip(const query_tile *t, uint32_t first, uint32_t n, uint32_t n_vecs, const float *v, uint32_t dim,
                      float *const *acc)
{
    vec sums[QUERIES][VALUE_VECS];
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        UNROLL
        for (uint32_t d = 0; d < n_vecs; d++)
            sums[i][d] = vec_mul(vec_load(acc[i] + d * VEC), vec_set(t->c[first + i]));
    }
    for (uint32_t j = t->from[first]; j < t->to[first]; j++) {
        vec row[VALUE_VECS];
        UNROLL
        for (uint32_t d = 0; d < n_vecs; d++)
            row[d] = vec_load(v + j * dim + d * VEC);
        UNROLL
        for (uint32_t i = 0; i < n; i++) {
            const vec p = vec_set(t->p[first + i][j]);
            UNROLL
            for (uint32_t d = 0; d < n_vecs; d++)
                sums[i][d] = vec_fma(p, row[d], sums[i][d]);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        UNROLL
        for (uint32_t d = 0; d < n_vecs; d++)
            vec_store(acc[i] + d * VEC, sums[i][d]);
    }
}

/* The last floats of a head that fill no vector, through padded copies. */
INLINE void add_rest(const query_tile *t, uint32_t first, uint32_t n, const page_room *room, uint32_t at, uint32_t left,
                     float *const *acc)
{
    float copies[QUERIES][VEC] = {0}, *rows[QUERIES];
    for (uint32_t i = 0; i < n; i++) {
        memcpy(copies[i], acc[i] + at, left * sizeof(float));
        rows[i] = copies[i];
    }
    add_strip(t, first, n, 1, room->v + at, room->dim, rows);
    for (uint32_t i = 0; i < n; i++)
        memcpy(acc[i] + at, copies[i], left * sizeof(float));
}

/* Queries first .. first + n - 1 of the tile, which see the same positions. */
INLINE void add_values(const query_tile *t, uint32_t first, uint32_t n, const page_room *room,
                       const tern_attention_args *a)
{
    uint32_t at = 0;
    float *acc[QUERIES], *rows[QUERIES];
    for (uint32_t i = 0; i < n; i++)
        acc[i] = a->acc + (size_t)t->index[first + i] * a->head_dim;
    while (a->head_dim - at >= VEC) {
        const uint32_t n_vecs = a->head_dim - at >= VALUE_VECS * VEC ? VALUE_VECS : 1;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = acc[i] + at;
        if (n_vecs == 1)
            add_strip(t, first, n, 1, room->v + at, room->dim, rows);
        else
            add_strip(t, first, n, VALUE_VECS, room->v + at, room->dim, rows);
        at += n_vecs * VEC;
    }
    if (at < a->head_dim) add_rest(t, first, n, room, at, a->head_dim - at, acc);
}

static bool same_positions(const query_tile *t)
{
    bool same = t->n == QUERIES;
    for (uint32_t i = 1; i < t->n; i++)
        same = same && t->from[i] == t->from[0] && t->to[i] == t->to[0];
    return same;
}

static void run_tile(query_tile *t, const page_room *room, const tern_attention_args *a)
{
    for (uint32_t i = t->n; i < QUERIES; i++)
        t->rows[i] = t->rows[t->n - 1];
    for (uint32_t at = 0; at < PAGE; at += POSITIONS)
        score_tile(room, t, at);
    softmax(t, a);
    if (same_positions(t)) {
        add_values(t, 0, QUERIES, room, a);
    } else {
        for (uint32_t i = 0; i < t->n; i++)
            add_values(t, i, 1, room, a);
    }
    t->n = 0;
}

static void add_query(query_tile *t, const tern_attention_args *a, uint32_t query, uint32_t dim)
{
    const float *q = a->q + query * a->q_stride;
    if (a->head_dim != dim) {
        memset(t->q[t->n] + a->head_dim, 0, (dim - a->head_dim) * sizeof *q);
        q = memcpy(t->q[t->n], q, a->head_dim * sizeof *q);
    }
    t->rows[t->n] = q;
    t->index[t->n++] = query;
}

/* x cut to [low, high], less low. */
static uint32_t cut(uint32_t x, uint32_t low, uint32_t high)
{
    return (x < low ? low : x > high ? high : x) - low;
}

/* Whether the query sees any of the positions [at, end), with the range noted for the tile's next place. */
static bool sees(query_tile *t, const tern_attention_args *a, uint32_t query, uint32_t at, uint32_t end)
{
    t->from[t->n] = cut(a->lo[query], at, end);
    t->to[t->n] = cut(a->hi[query], at, end);
    return t->from[t->n] < t->to[t->n];
}

INLINE void run_page(const store s, page_room *room, query_tile *t, const tern_attention_args *a, uint32_t at)
{
    const uint32_t last = a->first + a->n, end = last - at < PAGE ? last : at + PAGE;
    const size_t page = (size_t)a->pages[at / PAGE] * a->page_bytes;
    bool loaded = false;
    t->n = 0;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        if (!sees(t, a, i, at, end)) continue;
        if (!loaded) {
            load_page(s, a->k + page, a->head_dim, room->dim, room->k);
            load_page(s, a->v + page, a->head_dim, room->dim, room->v);
            loaded = true;
        }
        add_query(t, a, i, room->dim);
        if (t->n == QUERIES) run_tile(t, room, a);
    }
    if (t->n) run_tile(t, room, a);
}

INLINE void attention(const store s, const tern_attention_args *a)
{
    page_room room;
    query_tile tile;
    room.dim = (a->head_dim + TERN_LANES - 1) / TERN_LANES * TERN_LANES;
    for (uint32_t at = a->first; at < a->first + a->n; at += PAGE)
        run_page(s, &room, &tile, a, at);
}

void KERNEL_NAME(attention_f16)(const tern_attention_args *args)
{
    attention((store){vec_load_f16, 2}, args);
}

void KERNEL_NAME(attention_f32)(const tern_attention_args *args)
{
    attention((store){vec_load, 4}, args);
}

#endif
