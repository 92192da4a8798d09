/* Attention with an online softmax, for the level whose vectors are included before.
 *
 * Page by page, up to 16 queries that see the page at a time: scores (tiles of four queries by four positions), the
 * softmax of all 16 side by side, then their shares of V, four queries at a time. When more than four queries share the
 * cache, a page becomes floats in the first caches before they use it; a decoded token reads it where it lies. Queries
 * of a tile that see different positions of the page take V one by one. */
#ifndef TERN_BACKEND_CPU_ATTENTION_BODY_H
#define TERN_BACKEND_CPU_ATTENTION_BODY_H

#include "backend/cpu/floats.h"

enum { PAGE = TERN_PAGE_POSITIONS, BATCH = 16, QUERIES = 4, POSITIONS = 4, MAX_HEAD_DIM = 512 };

/* VEC stored values to floats. */
typedef vec (*load_fn)(const void *p);

/* How values are stored. */
typedef struct store {
    load_fn load;
    uint32_t bytes;
} store;

/* K and V of one page, `row_bytes` from position to position; where those of the next page start, to be prefetched,
 * or NULL. */
typedef struct kv_page {
    const uint8_t *k, *v, *next_k, *next_v;
    size_t row_bytes;
} kv_page;

/* One page as floats, rows of `dim` (head_dim rounded up to the lanes, zeros after head_dim). */
typedef struct page_room {
    _Alignas(64) float k[PAGE * MAX_HEAD_DIM];
    _Alignas(64) float v[PAGE * MAX_HEAD_DIM];
} page_room;

/* Up to 16 queries that see the same page. */
typedef struct batch {
    _Alignas(64) float p[BATCH][PAGE]; /* scores, then their exponentials */
    vec lanes[BATCH][PARTS];
    _Alignas(64) float m[BATCH], c[BATCH];     /* the new maximum; by which earlier sums shrink */
    _Alignas(64) float q[BATCH][MAX_HEAD_DIM]; /* padded rows, where head_dim is not a multiple of the lanes */
    const float *rows[BATCH];
    uint32_t dim, n, index[BATCH];
    uint32_t from[BATCH], to[BATCH]; /* the positions of the page that each sees */
} batch;

INLINE void load_page(const store s, const uint8_t *in, uint32_t head_dim, uint32_t dim, float *out)
{
    for (uint32_t row = 0; row < PAGE; row++, in += head_dim * s.bytes, out += dim) {
        uint8_t rest[TERN_LANES * 4] = {0};
        const uint32_t whole = head_dim / TERN_LANES * TERN_LANES;
        for (uint32_t at = 0; at < whole; at += VEC) vec_store(out + at, s.load(in + at * s.bytes));
        if (whole == head_dim) continue;
        memcpy(rest, in + whole * s.bytes, (head_dim - whole) * s.bytes);
        for (uint32_t at = 0; at < TERN_LANES; at += VEC) vec_store(out + whole + at, s.load(rest + at * s.bytes));
    }
}

/* The next page's rows at the same positions. */
INLINE void prefetch_rows(const kv_page *page, uint32_t position)
{
    const size_t first = position * page->row_bytes, end = first + POSITIONS * page->row_bytes;
    if (!page->next_k) return;
    for (size_t at = first; at < end; at += 64) {
        __builtin_prefetch(page->next_k + at, 0, 3);
        __builtin_prefetch(page->next_v + at, 0, 3);
    }
}

/* Scores of n queries from `first` on (a constant, at most four) at four positions: 16 lanes of sums for each pair,
 * then all trees together. */
INLINE void score_tile(const store s, const kv_page *page, batch *b, uint32_t first, const uint32_t n,
                       uint32_t position)
{
    _Alignas(64) float scores[QUERIES][POSITIONS];
    vec sums[QUERIES * POSITIONS * PARTS];
    const uint8_t *k = page->k + position * page->row_bytes;
    UNROLL
    for (uint32_t part = 0; part < TERN_LANES; part += VEC) {
        vec acc[QUERIES][POSITIONS];
        UNROLL
        for (int i = 0; i < QUERIES * POSITIONS; i++) acc[i / POSITIONS][i % POSITIONS] = vec_set(0);
        for (uint32_t at = part; at < b->dim; at += TERN_LANES) {
            vec row[POSITIONS];
            UNROLL
            for (uint32_t j = 0; j < POSITIONS; j++) row[j] = s.load(k + j * page->row_bytes + at * s.bytes);
            UNROLL
            for (uint32_t i = 0; i < n; i++) {
                const vec q = vec_load(b->rows[first + i] + at);
                UNROLL
                for (uint32_t j = 0; j < POSITIONS; j++) acc[i][j] = vec_fma(q, row[j], acc[i][j]);
            }
        }
        UNROLL
        for (uint32_t i = 0; i < QUERIES * POSITIONS; i++)
            sums[i * PARTS + part / VEC] = acc[i / POSITIONS][i % POSITIONS];
    }
    lanes_sum_16(sums, scores[0]);
    for (uint32_t i = 0; i < n; i++) memcpy(b->p[first + i] + position, scores[i], sizeof scores[i]);
}

/* Whether any query of the batch sees one of four positions. */
static bool seen(const batch *b, uint32_t position)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (b->from[i] < position + POSITIONS && b->to[i] > position) return true;
    return false;
}

/* Positions that the i-th query does not see. */
INLINE void hide(batch *b, uint32_t i, float value)
{
    for (uint32_t j = 0; j < b->from[i]; j++) b->p[i][j] = value;
    for (uint32_t j = b->to[i]; j < PAGE; j++) b->p[i][j] = value;
}

/* Scales the scores of all queries; their largest to m. */
INLINE void scale_scores(batch *b, float scale)
{
    for (uint32_t i = 0; i < b->n; i++) {
        for (int j = 0; j < PAGE; j += VEC) vec_store(b->p[i] + j, vec_mul(vec_load(b->p[i] + j), vec_set(scale)));
        hide(b, i, -HUGE_VALF);
        for (int j = 0; j < TERN_LANES; j += VEC) {
            const vec low = vec_max(vec_load(b->p[i] + j), vec_set(-HUGE_VALF));
            b->lanes[i][j / VEC] = vec_max(vec_load(b->p[i] + TERN_LANES + j), low);
        }
    }
    lanes_max_16(b->lanes[0], b->m);
}

/* m and c of every query, from what it had. */
INLINE void new_maxima(batch *b, const tern_attention_args *a)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const float old = a->m[b->index[i]], next = (b->m[i] > old ? b->m[i] : old) + 0.0f;
        b->c[i] = old == -HUGE_VALF ? -HUGE_VALF : old - next;
        b->m[i] = a->m[b->index[i]] = next;
    }
    for (int i = 0; i < BATCH; i += VEC) vec_store(b->c + i, vec_exp(vec_load(b->c + i)));
}

/* Scores to exponentials, and their sums to l. */
INLINE void exponentials(batch *b, const tern_attention_args *a)
{
    float sums[BATCH];
    for (uint32_t i = 0; i < b->n; i++) {
        for (int j = 0; j < PAGE; j += VEC)
            vec_store(b->p[i] + j, vec_exp(vec_sub(vec_load(b->p[i] + j), vec_set(b->m[i]))));
        hide(b, i, 0);
        for (int j = 0; j < TERN_LANES; j += VEC)
            b->lanes[i][j / VEC] = vec_add(vec_load(b->p[i] + j), vec_load(b->p[i] + TERN_LANES + j));
    }
    lanes_sum_16(b->lanes[0], sums);
    for (uint32_t i = 0; i < b->n; i++) a->l[b->index[i]] = a->l[b->index[i]] * b->c[i] + sums[i];
}

/* n_vecs vectors of the accumulators of n queries, which see the same positions: shrunk, then V added row by row. */
INLINE void add_strip(const store s, const batch *b, uint32_t first, uint32_t n, uint32_t n_vecs, const uint8_t *v,
                      size_t row_bytes, float *const *acc)
{
    vec sums[QUERIES][VALUE_VECS];
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        UNROLL
        for (uint32_t d = 0; d < n_vecs; d++)
            sums[i][d] = vec_mul(vec_load(acc[i] + d * VEC), vec_set(b->c[first + i]));
    }
    for (uint32_t j = b->from[first]; j < b->to[first]; j++) {
        vec row[VALUE_VECS];
        UNROLL
        for (uint32_t d = 0; d < n_vecs; d++) row[d] = s.load(v + j * row_bytes + d * VEC * s.bytes);
        UNROLL
        for (uint32_t i = 0; i < n; i++) {
            const vec p = vec_set(b->p[first + i][j]);
            UNROLL
            for (uint32_t d = 0; d < n_vecs; d++) sums[i][d] = vec_fma(p, row[d], sums[i][d]);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        UNROLL
        for (uint32_t d = 0; d < n_vecs; d++) vec_store(acc[i] + d * VEC, sums[i][d]);
    }
}

/* The last floats of a head that fill no vector, through padded copies. */
INLINE void add_rest(const store s, const batch *b, uint32_t first, uint32_t n, const kv_page *page, uint32_t at,
                     uint32_t left, float *const *acc)
{
    float copies[QUERIES][VEC] = {0}, *rows[QUERIES];
    for (uint32_t i = 0; i < n; i++) {
        memcpy(copies[i], acc[i] + at, left * sizeof(float));
        rows[i] = copies[i];
    }
    add_strip(s, b, first, n, 1, page->v + at * s.bytes, page->row_bytes, rows);
    for (uint32_t i = 0; i < n; i++) memcpy(acc[i] + at, copies[i], left * sizeof(float));
}

/* Queries first .. first + n - 1 of the batch, which see the same positions. */
INLINE void add_values(const store s, const batch *b, uint32_t first, uint32_t n, const kv_page *page,
                       const tern_attention_args *a)
{
    uint32_t at = 0;
    float *acc[QUERIES], *rows[QUERIES];
    for (uint32_t i = 0; i < n; i++) acc[i] = a->acc + (size_t)b->index[first + i] * a->head_dim;
    while (a->head_dim - at >= VEC) {
        const uint8_t *v = page->v + at * s.bytes;
        for (uint32_t i = 0; i < n; i++) rows[i] = acc[i] + at;
        if (a->head_dim - at >= VALUE_VECS * VEC) {
            add_strip(s, b, first, n, VALUE_VECS, v, page->row_bytes, rows);
            at += VALUE_VECS * VEC;
        } else {
            add_strip(s, b, first, n, 1, v, page->row_bytes, rows);
            at += VEC;
        }
    }
    if (at < a->head_dim) add_rest(s, b, first, n, page, at, a->head_dim - at, acc);
}

/* Whether four queries from `first` on see the same positions. */
static bool same_positions(const batch *b, uint32_t first)
{
    bool same = b->n - first >= QUERIES;
    for (uint32_t i = first + 1; same && i < first + QUERIES; i++)
        same = b->from[i] == b->from[first] && b->to[i] == b->to[first];
    return same;
}

INLINE void run_batch(const store s, batch *b, const kv_page *page, const tern_attention_args *a)
{
    for (uint32_t i = b->n; i % QUERIES; i++) b->rows[i] = b->rows[b->n - 1];
    for (uint32_t first = 0; first < b->n; first += QUERIES)
        for (uint32_t at = 0; at < PAGE; at += POSITIONS) {
            if (!first) prefetch_rows(page, at);
            if (!seen(b, at)) continue;
            if (b->n - first == 1) score_tile(s, page, b, first, 1, at);
            else score_tile(s, page, b, first, QUERIES, at);
        }
    scale_scores(b, a->scale);
    new_maxima(b, a);
    exponentials(b, a);
    for (uint32_t first = 0; first < b->n;) {
        const bool four = same_positions(b, first);
        if (four) add_values(s, b, first, QUERIES, page, a);
        else add_values(s, b, first, 1, page, a);
        first += four ? QUERIES : 1;
    }
    b->n = 0;
}

static void add_query(batch *b, const tern_attention_args *a, uint32_t query)
{
    const float *q = a->q + query * a->q_stride;
    if (a->head_dim != b->dim) {
        memset(b->q[b->n] + a->head_dim, 0, (b->dim - a->head_dim) * sizeof *q);
        q = memcpy(b->q[b->n], q, a->head_dim * sizeof *q);
    }
    b->rows[b->n] = q;
    b->index[b->n++] = query;
}

/* x cut to [low, high], less low. */
static uint32_t cut(uint32_t x, uint32_t low, uint32_t high)
{
    return (x < low ? low : x > high ? high : x) - low;
}

/* The first query from *query on that sees any of the positions [at, end) is added; false when there is none. */
static bool take_query(batch *b, const tern_attention_args *a, uint32_t *query, uint32_t at, uint32_t end)
{
    for (; *query < a->n_queries; ++*query) {
        b->from[b->n] = cut(a->lo[*query], at, end);
        b->to[b->n] = cut(a->hi[*query], at, end);
        if (b->from[b->n] >= b->to[b->n]) continue;
        add_query(b, a, (*query)++);
        return true;
    }
    return false;
}

INLINE void run_page(const store s, page_room *room, batch *b, const tern_attention_args *a, uint32_t at)
{
    const uint32_t last = a->first + a->n, end = last - at < PAGE ? last : at + PAGE;
    const size_t offset = (size_t)a->pages[at / PAGE] * a->page_bytes;
    const bool direct = a->head_dim == b->dim && (s.bytes == 4 || a->n_queries <= 2 * QUERIES);
    kv_page page = {a->k + offset, a->v + offset, .row_bytes = (size_t)a->head_dim * s.bytes};
    uint32_t query = 0;
    if (!take_query(b, a, &query, at, end)) return;
    if (direct && end < last) {
        page.next_k = a->k + (size_t)a->pages[end / PAGE] * a->page_bytes;
        page.next_v = a->v + (size_t)a->pages[end / PAGE] * a->page_bytes;
    }
    if (!direct) {
        load_page(s, page.k, a->head_dim, b->dim, room->k);
        load_page(s, page.v, a->head_dim, b->dim, room->v);
        page = (kv_page){(const uint8_t *)room->k, (const uint8_t *)room->v, .row_bytes = b->dim * sizeof(float)};
    }
    do {
        while (b->n < BATCH && take_query(b, a, &query, at, end)) {}
        if (direct) run_batch(s, b, &page, a);
        else run_batch((store){vec_load, 4}, b, &page, a);
    } while (take_query(b, a, &query, at, end));
}

INLINE void attention(const store s, const tern_attention_args *a)
{
    page_room room;
    batch b;
    b.n = 0;
    b.dim = (a->head_dim + TERN_LANES - 1) / TERN_LANES * TERN_LANES;
    memset(b.lanes, 0, sizeof b.lanes);
    memset(b.c, 0, sizeof b.c);
    for (uint32_t at = a->first; at < a->first + a->n; at += PAGE) run_page(s, &room, &b, a, at);
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
