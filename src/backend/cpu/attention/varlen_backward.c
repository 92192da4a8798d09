/* Running the backward of attention over rows.
 *
 * Tokens are cut in blocks, as queries and as keys; one task is a pair of blocks for one KV head (waves.h).
 * It computes their probabilities again and adds its part to dq of its queries and to dk, dv of its keys. */
#include "backend/cpu/attention/waves.h"
#include "backend/cpu/ops.h"

enum {
    BLOCK = 4 * TERN_PANEL,
    P_ROW = BLOCK + 16 /* floats of a row of p: rows do not meet in the same sets of the cache */
};

typedef struct backward_job {
    tern_attention_job a;
    tern_attention_waves waves;
    const tern_attention_pair *wave; /* the pairs of the one that runs */
    float *delta;                    /* [n][n_heads] */
} backward_job;

/* A pair, a few of its queries at a time, and its rows in a thread's scratch. */
typedef struct part {
    uint32_t kv_head, n_rows, n_keys;
    tern_range tokens, keys;
    tern_range panels;             /* of the block: all that any row sees */
    float *dk, *dv;                /* [n_keys][dim] */
    float *q, *dout, *dq, *p, *ds; /* [n_rows][dim]; p, ds: [n_rows][P_ROW] */
    tern_range *seen;              /* of each row: keys of the block */
    tern_range *seen_by;           /* of each key: rows */
} part;

static size_t padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

size_t tern_cpu__varlen_attention_backward_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    const size_t rows = tern_varlen_attention__block_rows(op), dim = op->head_dim;
    return (2 * padded(BLOCK * dim) + 3 * padded(rows * dim) + 2 * padded(rows * P_ROW) + padded(2 * rows) +
            padded(2 * BLOCK)) *
           sizeof(float);
}

size_t tern_cpu__varlen_attention_backward_shared(const tern_graph *graph, const tern_op *op)
{
    return (3 * tern_varlen_attention__kv_floats(graph->max_tokens, op) +
            padded((size_t)graph->max_tokens * op->n_heads) + tern_attention_waves__floats(graph->max_tokens, BLOCK)) *
           sizeof(float);
}

static backward_job open_job(tern_cpu_step *step, const tern_cpu_op *op)
{
    backward_job j = {.a = tern_varlen_attention__job(step, op)};
    float *memory = step->prepared->shared;
    const size_t kv = tern_varlen_attention__kv_floats(j.a.n, op->op);
    j.a.k_panels = tern_varlen_attention__lend(&memory, kv);
    j.a.v_panels = tern_varlen_attention__lend(&memory, kv);
    j.a.k_rows = tern_varlen_attention__lend(&memory, kv);
    j.delta = tern_varlen_attention__lend(&memory, (size_t)j.a.n * j.a.n_heads);
    j.waves = tern_attention_waves__make(&j.a, BLOCK, memory);
    return j;
}

/* delta of the heads of a token; dq starts at the residual or at 0, dk and dv at 0. */
static void start_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const backward_job *j = context;
    const tern_cpu_op *op = j->a.op;
    const float *out = tern_rows__at(&op->in[TERN_VARLEN_ATTENTION_OUT], t),
                *dout = tern_rows__at(&op->in[TERN_VARLEN_ATTENTION_DOUT], t);
    const size_t width = (size_t)j->a.n_heads * j->a.dim, kv_width = (size_t)j->a.n_kv_heads * j->a.dim;
    for (uint32_t h = 0; h < j->a.n_heads; h++)
        j->a.step->cpu->kernels.f32((const uint8_t *)(dout + (size_t)h * j->a.dim), j->a.dim * sizeof(float), 1,
                                    j->a.dim, out + (size_t)h * j->a.dim, j->a.dim, 1,
                                    &j->delta[(size_t)t * j->a.n_heads + h], 1);
    float *dq = tern_rows__at(&op->out, t);
    const float *residual = op->residual.data ? tern_rows__at(&op->residual, t) : NULL;
    if (!residual) memset(dq, 0, width * sizeof *dq);
    else if (residual != dq) memcpy(dq, residual, width * sizeof *dq);
    memset(tern_rows__at(&op->in[TERN_VARLEN_ATTENTION_DK], t), 0, kv_width * sizeof(float));
    memset(tern_rows__at(&op->in[TERN_VARLEN_ATTENTION_DV], t), 0, kv_width * sizeof(float));
}

static part open_part(const backward_job *j, uint32_t kv_head, tern_range keys, uint32_t thread)
{
    const size_t rows = tern_varlen_attention__block_rows(j->a.op->op), dim = j->a.dim;
    float *memory = (float *)(void *)tern_cpu__scratch(j->a.step, thread);
    part p = {.kv_head = kv_head, .keys = keys, .n_keys = keys.end - keys.first};
    p.dk = tern_varlen_attention__lend(&memory, BLOCK * dim);
    p.dv = tern_varlen_attention__lend(&memory, BLOCK * dim);
    p.q = tern_varlen_attention__lend(&memory, rows * dim);
    p.dout = tern_varlen_attention__lend(&memory, rows * dim);
    p.dq = tern_varlen_attention__lend(&memory, rows * dim);
    p.p = tern_varlen_attention__lend(&memory, rows * P_ROW);
    p.ds = tern_varlen_attention__lend(&memory, rows * P_ROW);
    p.seen = (tern_range *)(void *)tern_varlen_attention__lend(&memory, 2 * rows);
    p.seen_by = (tern_range *)(void *)tern_varlen_attention__lend(&memory, 2 * BLOCK);
    return p;
}

/* The keys that each row sees; then which rows see each key. Documents follow each other, so those are neighbours.
 */
static void find_seen(const tern_attention_job *j, part *p)
{
    bool all = true;
    tern_range any = {p->n_keys, 0};
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const uint32_t t = p->tokens.first + i / j->group, start = tern_varlen_attention__first_key(j, t);
        p->seen[i].first = start < p->keys.first ? 0 : start - p->keys.first;
        p->seen[i].end = t + 1 < p->keys.first ? 0 : t + 1 < p->keys.end ? t + 1 - p->keys.first : p->n_keys;
        if (p->seen[i].first > p->seen[i].end) p->seen[i].first = p->seen[i].end;
        all = all && p->seen[i].first == 0 && p->seen[i].end == p->n_keys;
        if (p->seen[i].first == p->seen[i].end) continue;
        any.first = p->seen[i].first < any.first ? p->seen[i].first : any.first;
        any.end = p->seen[i].end > any.end ? p->seen[i].end : any.end;
    }
    p->panels = (tern_range){any.first / TERN_PANEL, tern_varlen_attention__panels(any.end)};
    for (uint32_t k = 0; k < p->n_keys; k++) p->seen_by[k] = (tern_range){0, all ? p->n_rows : 0};
    for (uint32_t i = 0; i < p->n_rows && !all; i++)
        for (uint32_t k = p->seen[i].first; k < p->seen[i].end; k++) {
            if (p->seen_by[k].end == 0) p->seen_by[k].first = i;
            p->seen_by[k].end = i + 1;
        }
}

/* Probabilities and ds of the rows, from the products of Q K and dO V. */
static void probabilities(const backward_job *j, const part *p)
{
    const tern_attention_job *a = &j->a;
    const uint32_t first = p->keys.first / TERN_PANEL;
    for (uint32_t panel = p->panels.first; panel < p->panels.end; panel++) {
        const uint32_t at = panel * TERN_PANEL;
        tern_varlen_attention__scores(a, p->q, p->n_rows, a->k_panels, p->kv_head, first + panel, p->p + at, P_ROW);
        tern_varlen_attention__scores(a, p->dout, p->n_rows, a->v_panels, p->kv_head, first + panel, p->ds + at, P_ROW);
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const uint32_t t = p->tokens.first + i / a->group, h = p->kv_head * a->group + i % a->group;
        const float *statistics = tern_rows__at(&a->op->in[TERN_VARLEN_ATTENTION_STATISTICS], t);
        const tern_softmax_row row = {.scale = a->scale,
                                      .softcap = a->op->op->softcap,
                                      .m = statistics[h],
                                      .l = statistics[a->n_heads + h],
                                      .delta = j->delta[(size_t)t * a->n_heads + h]};
        if (p->seen[i].first >= p->seen[i].end) continue;
        const size_t at = (size_t)i * P_ROW, first_key = p->seen[i].first, n = p->seen[i].end - first_key;
        a->step->cpu->kernels.softmax_backward(p->p + at, p->ds + at, p->seen[i].first, p->seen[i].end, &row);
        tern_varlen_attention__round(a, p->p + at + first_key, n);
        tern_varlen_attention__round(a, p->ds + at + first_key, n);
    }
}

/* dq += dS K */
static void add_dq(const tern_attention_job *j, const part *p)
{
    const tern_product_args args = {.a = p->ds,
                                    .a_row = P_ROW,
                                    .a_step = 1,
                                    .b = tern_varlen_attention__key(j, j->k_rows, p->kv_head, p->keys.first),
                                    .b_step = j->dim,
                                    .c = p->dq,
                                    .c_row = j->dim,
                                    .m = p->n_rows,
                                    .n = j->dim};
    tern_varlen_attention__ragged(j, &args, p->seen);
}

/* dk += dS^T Q, dv += P^T dO */
static void add_to_keys(const tern_attention_job *j, const part *p, const float *of, const float *rows, float *to)
{
    const tern_product_args args = {.a = of,
                                    .a_row = 1,
                                    .a_step = P_ROW,
                                    .b = rows,
                                    .b_step = j->dim,
                                    .c = to,
                                    .c_row = j->dim,
                                    .m = p->n_keys,
                                    .n = j->dim};
    tern_varlen_attention__ragged(j, &args, p->seen_by);
}

static void run_part(const backward_job *j, part *p)
{
    const tern_attention_job *a = &j->a;
    const tern_cpu_op *op = a->op;
    if (p->tokens.end <= p->keys.first || tern_varlen_attention__first_seen(a, p->tokens) >= p->keys.end) return;
    p->n_rows = (p->tokens.end - p->tokens.first) * a->group;
    tern_varlen_attention__gather(a, &op->in[TERN_VARLEN_ATTENTION_Q], p->kv_head, p->tokens, p->q);
    tern_varlen_attention__gather(a, &op->in[TERN_VARLEN_ATTENTION_DOUT], p->kv_head, p->tokens, p->dout);
    tern_varlen_attention__round(a, p->q, (size_t)p->n_rows * a->dim);
    tern_varlen_attention__round(a, p->dout, (size_t)p->n_rows * a->dim);
    tern_varlen_attention__gather(a, &op->out, p->kv_head, p->tokens, p->dq);
    find_seen(a, p);
    probabilities(j, p);
    add_to_keys(a, p, p->p, p->dout, p->dv);
    add_to_keys(a, p, p->ds, p->q, p->dk);
    add_dq(a, p);
    tern_varlen_attention__scatter(a, p->dq, p->kv_head, p->tokens, NULL, &op->out);
}

/* The rows of the keys of a part between dk or dv and its copy. */
static void copy_keys(const backward_job *j, const part *p, const tern_cpu_rows *all, float *copy, bool back)
{
    for (uint32_t k = 0; k < p->n_keys; k++, copy += j->a.dim) {
        float *row = tern_rows__at(all, p->keys.first + k) + (size_t)p->kv_head * j->a.dim;
        memcpy(back ? row : copy, back ? copy : row, j->a.dim * sizeof *row);
    }
}

static void pair_task(void *context, uint32_t task, uint32_t thread)
{
    const backward_job *j = context;
    const tern_attention_pair at = j->wave[task / j->a.n_kv_heads];
    const tern_range queries = tern_attention_waves__tokens(&j->a, BLOCK, at.queries);
    const tern_cpu_rows *dk = &j->a.op->in[TERN_VARLEN_ATTENTION_DK], *dv = &j->a.op->in[TERN_VARLEN_ATTENTION_DV];
    part p = open_part(j, task % j->a.n_kv_heads, tern_attention_waves__tokens(&j->a, BLOCK, at.keys), thread);
    copy_keys(j, &p, dk, p.dk, false);
    copy_keys(j, &p, dv, p.dv, false);
    for (uint32_t first = queries.first; first < queries.end; first += j->a.block_tokens) {
        const uint32_t left = queries.end - first, n = left < j->a.block_tokens ? left : j->a.block_tokens;
        p.tokens = (tern_range){first, first + n};
        run_part(j, &p);
    }
    copy_keys(j, &p, dk, p.dk, true);
    copy_keys(j, &p, dv, p.dv, true);
}

static void add_dsinks(const backward_job *j, float *dsinks)
{
    const tern_attention_job *a = &j->a;
    for (uint32_t t = 0; t < a->n; t++) {
        const float *m = tern_rows__at(&a->op->in[TERN_VARLEN_ATTENTION_STATISTICS], t), *l = m + a->n_heads;
        for (uint32_t h = 0; h < a->n_heads; h++)
            dsinks[h] -= tern_ref_exp(a->sinks[h] - m[h]) * (1 / l[h]) * j->delta[(size_t)t * a->n_heads + h];
    }
}

void tern_cpu__varlen_attention_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    backward_job j = open_job(step, op);
    tern_pool *pool = step->cpu->pool;
    tern_pool_for(pool, j.a.n, start_row, &j);
    if (op->op->n_in > TERN_VARLEN_ATTENTION_DSINKS) add_dsinks(&j, op->in[TERN_VARLEN_ATTENTION_DSINKS].data);
    tern_varlen_attention__pack(&j.a, TERN_VARLEN_ATTENTION_K, j.a.k_panels, j.a.k_rows);
    tern_varlen_attention__pack(&j.a, TERN_VARLEN_ATTENTION_V, j.a.v_panels, NULL);
    for (uint32_t wave = 0, first = 0; wave < j.waves.n; first = j.waves.end[wave++]) {
        j.wave = j.waves.pairs + first;
        tern_pool_for(pool, (j.waves.end[wave] - first) * j.a.n_kv_heads, pair_task, &j);
    }
}
