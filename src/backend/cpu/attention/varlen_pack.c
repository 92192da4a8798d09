/* Helpers of the forward and the backward of attention over rows: packing, and products over the keys that each row
 * sees. */
#include "backend/cpu/attention/varlen.h"

#include "base/half.h"

enum { TILE = 6 /* rows that the kernels take together */ };

uint32_t tern_varlen_attention__block_tokens(const tern_op *op)
{
    uint32_t group = op->n_heads / op->n_kv_heads;
    return group >= TERN_BLOCK_ROWS ? 1 : TERN_BLOCK_ROWS / group;
}

size_t tern_varlen_attention__block_rows(const tern_op *op)
{
    return (size_t)tern_varlen_attention__block_tokens(op) * (op->n_heads / op->n_kv_heads);
}

size_t tern_varlen_attention__kv_floats(uint32_t n, const tern_op *op)
{
    return (size_t)op->n_kv_heads * op->head_dim * tern_varlen_attention__panels(n) * TERN_PANEL;
}

tern_attention_job tern_varlen_attention__job(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_op *o = op->op;
    return (tern_attention_job){
        .step = step,
        .op = op,
        .n = step->n_tokens,
        .group = o->n_heads / o->n_kv_heads,
        .dim = o->head_dim,
        .n_heads = o->n_heads,
        .n_kv_heads = o->n_kv_heads,
        .n_panels = tern_varlen_attention__panels(step->n_tokens),
        .block_tokens = tern_varlen_attention__block_tokens(o),
        .scale = tern_op_score_scale(o),
        .sinks = op->sinks,
        .starts = (const uint32_t *)(const void *)op->base[TERN_VARLEN_ATTENTION_STARTS],
    };
}

uint32_t tern_varlen_attention__first_seen(const tern_attention_job *j, tern_range tokens)
{
    uint32_t first = tokens.first;
    for (uint32_t t = tokens.first; t < tokens.end; t++) {
        const uint32_t key = tern_varlen_attention__first_key(j, t);
        first = key < first ? key : first;
    }
    return first;
}

void tern_varlen_attention__round(const tern_attention_job *j, float *x, size_t n)
{
    for (size_t i = 0; j->op->op->halves && i < n; i++) x[i] = tern_bf16_to_f32(tern_f32_to_bf16(x[i]));
}

typedef struct pack_job {
    const tern_attention_job *j;
    const tern_cpu_rows *from;
    float *panels, *rows;
} pack_job;

static float *panel_at(const tern_attention_job *j, const float *panels, uint32_t kv_head, uint32_t panel)
{
    return (float *)(uintptr_t)panels + ((size_t)kv_head * j->n_panels + panel) * j->dim * TERN_PANEL;
}

static void pack_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const pack_job *p = context;
    const tern_attention_job *j = p->j;
    const uint32_t kv_head = task / j->n_panels, panel = task % j->n_panels, first = panel * TERN_PANEL;
    const uint32_t n = j->n - first < TERN_PANEL ? j->n - first : TERN_PANEL;
    const float *from = tern_rows__at(p->from, first) + (size_t)kv_head * j->dim;
    for (uint32_t i = 0; i < n && p->rows; i++) {
        float *row = tern_varlen_attention__key(j, p->rows, kv_head, first + i);
        memcpy(row, from + i * p->from->stride, j->dim * sizeof *from);
        tern_varlen_attention__round(j, row, j->dim);
    }
    if (!p->panels) return;
    float *to = panel_at(j, p->panels, kv_head, panel);
    if (n < TERN_PANEL) memset(to, 0, (size_t)j->dim * TERN_PANEL * sizeof *to);
    for (uint32_t d = 0; d < j->dim; d++)
        for (uint32_t i = 0; i < n; i++) to[(size_t)d * TERN_PANEL + i] = from[i * p->from->stride + d];
    tern_varlen_attention__round(j, to, (size_t)j->dim * TERN_PANEL);
}

void tern_varlen_attention__pack(const tern_attention_job *j, uint32_t input, float *panels, float *rows)
{
    pack_job p = {.j = j, .from = &j->op->in[input], .panels = panels, .rows = rows};
    tern_pool_for(j->step->cpu->pool, j->n_kv_heads * j->n_panels, pack_task, &p);
}

void tern_varlen_attention__gather(const tern_attention_job *j, const tern_cpu_rows *from, uint32_t kv_head,
                                   tern_range tokens, float *to)
{
    const size_t row = (size_t)j->group * j->dim;
    for (uint32_t t = tokens.first; t < tokens.end; t++, to += row)
        memcpy(to, tern_rows__at(from, t) + kv_head * row, row * sizeof *to);
}

void tern_varlen_attention__scatter(const tern_attention_job *j, const float *from, uint32_t kv_head, tern_range tokens,
                                    const tern_cpu_rows *residual, const tern_cpu_rows *to)
{
    const size_t row = (size_t)j->group * j->dim, at = kv_head * row;
    for (uint32_t t = tokens.first; t < tokens.end; t++, from += row) {
        float *out = tern_rows__at(to, t) + at;
        if (residual && residual->data) j->step->cpu->kernels.add(tern_rows__at(residual, t) + at, from, row, out);
        else memcpy(out, from, row * sizeof *from);
    }
}

void tern_varlen_attention__scores(const tern_attention_job *j, const float *rows, uint32_t n_rows, const float *panels,
                                   uint32_t kv_head, uint32_t panel, float *c, size_t c_row)
{
    const tern_product_args args = {.a = rows,
                                    .a_row = j->dim,
                                    .a_step = 1,
                                    .b = panel_at(j, panels, kv_head, panel),
                                    .b_step = TERN_PANEL,
                                    .c = c,
                                    .c_row = c_row,
                                    .m = n_rows,
                                    .n = TERN_PANEL,
                                    .steps = j->dim};
    j->step->cpu->kernels.product(&args);
}

/* Rows first .. first + n - 1, all with these steps. */
static void part(const tern_attention_job *j, const tern_product_args *args, uint32_t first, uint32_t n,
                 tern_range steps)
{
    if (steps.first >= steps.end) return;
    tern_product_args rows = *args;
    rows.a += first * args->a_row + steps.first * args->a_step;
    rows.b += steps.first * args->b_step;
    rows.c += first * args->c_row;
    rows.m = n;
    rows.steps = steps.end - steps.first;
    rows.add = true;
    j->step->cpu->kernels.product(&rows);
}

static uint32_t same_range(const tern_range *ranges, uint32_t n)
{
    uint32_t same = 1;
    while (same < n && ranges[same].first == ranges[0].first && ranges[same].end == ranges[0].end) same++;
    return same;
}

/* A few rows: alone up to where all begin, together, then alone again, so that each row's steps stay in order. */
static void tile(const tern_attention_job *j, const tern_product_args *args, uint32_t first, uint32_t n,
                 const tern_range *ranges)
{
    tern_range common = ranges[0];
    for (uint32_t i = 1; i < n; i++) {
        if (ranges[i].first > common.first) common.first = ranges[i].first;
        if (ranges[i].end < common.end) common.end = ranges[i].end;
    }
    if (common.first >= common.end) {
        for (uint32_t i = 0; i < n; i++) part(j, args, first + i, 1, ranges[i]);
        return;
    }
    for (uint32_t i = 0; i < n; i++) part(j, args, first + i, 1, (tern_range){ranges[i].first, common.first});
    part(j, args, first, n, common);
    for (uint32_t i = 0; i < n; i++) part(j, args, first + i, 1, (tern_range){common.end, ranges[i].end});
}

void tern_varlen_attention__ragged(const tern_attention_job *j, const tern_product_args *args, const tern_range *ranges)
{
    for (uint32_t first = 0; first < args->m;) {
        uint32_t left = args->m - first, n = same_range(ranges + first, left);
        if (n >= TILE || n == left) {
            part(j, args, first, n, ranges[first]);
        } else {
            n = left < TILE ? left : TILE;
            tile(j, args, first, n, ranges + first);
        }
        first += n;
    }
}
