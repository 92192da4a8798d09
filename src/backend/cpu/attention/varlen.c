/* Running attention over the rows of a packed batch: the scores of a few tokens with all that they see, their softmax,
 * their sums of V. Nothing of size [n][n] is kept. */
#include "backend/cpu/attention/varlen.h"

#include "backend/cpu/ops.h"

enum { ROW_GAP = 16 /* so that rows of scores do not meet in the same sets of the cache */ };

/* A block of tokens for one KV head, and its rows in a thread's scratch. */
typedef struct block {
    uint32_t kv_head, n_rows;
    tern_range tokens, panels;
    size_t s_row;
    float *q, *sums, *l, *s;
    tern_range *seen;  /* of each row: keys, from the first panel's on */
    tern_range *steps; /* of them in one panel */
} block;

tern_status tern_cpu__varlen_attention_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    if (op->halves != TERN_HALVES_F16) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cpu: op %s in f16: f32 or bf16 expected", tern_op_name(op->kind));
}

size_t tern_cpu__varlen_attention_scratch(const tern_graph *graph, const tern_op *op)
{
    size_t rows = tern_varlen_attention__block_rows(op);
    size_t row = 2 * op->head_dim + (size_t)tern_varlen_attention__panels(graph->max_tokens) * TERN_PANEL + ROW_GAP + 5;
    return rows * row * sizeof(float) + 6 * 64;
}

size_t tern_cpu__varlen_attention_shared(const tern_graph *graph, const tern_op *op)
{
    return 2 * tern_varlen_attention__kv_floats(graph->max_tokens, op) * sizeof(float);
}

static block open_block(const tern_attention_job *j, uint32_t task, uint32_t thread)
{
    const uint32_t n_blocks = (j->n + j->block_tokens - 1) / j->block_tokens;
    block b = {.kv_head = task / n_blocks}; /* a head's keys and values stay in the caches */
    b.tokens.first = (n_blocks - 1 - task % n_blocks) * j->block_tokens; /* the longest first */
    b.tokens.end = j->n - b.tokens.first < j->block_tokens ? j->n : b.tokens.first + j->block_tokens;
    b.n_rows = (b.tokens.end - b.tokens.first) * j->group;
    b.panels.first = tern_varlen_attention__first_seen(j, b.tokens) / TERN_PANEL;
    b.panels.end = (b.tokens.end - 1) / TERN_PANEL + 1;
    b.s_row = (size_t)(b.panels.end - b.panels.first) * TERN_PANEL + ROW_GAP;
    float *memory = (float *)(void *)tern_cpu__scratch(j->step, thread);
    b.q = tern_varlen_attention__lend(&memory, (size_t)b.n_rows * j->dim);
    b.sums = tern_varlen_attention__lend(&memory, (size_t)b.n_rows * j->dim);
    b.l = tern_varlen_attention__lend(&memory, b.n_rows);
    b.s = tern_varlen_attention__lend(&memory, b.n_rows * b.s_row);
    b.seen = (tern_range *)(void *)tern_varlen_attention__lend(&memory, 2 * (size_t)b.n_rows);
    b.steps = (tern_range *)(void *)tern_varlen_attention__lend(&memory, 2 * (size_t)b.n_rows);
    return b;
}

static void softmax(const tern_attention_job *j, const block *b)
{
    const uint32_t origin = b->panels.first * TERN_PANEL;
    for (uint32_t i = 0; i < b->n_rows; i++) {
        const uint32_t t = b->tokens.first + i / j->group, h = b->kv_head * j->group + i % j->group;
        float *statistics = tern_rows__at(&j->op->in[TERN_VARLEN_ATTENTION_STATISTICS], t);
        tern_softmax_row row = {.scale = j->scale, .softcap = j->op->op->softcap};
        b->seen[i] = (tern_range){tern_varlen_attention__first_key(j, t) - origin, t + 1 - origin};
        j->step->cpu->kernels.softmax(b->s + i * b->s_row, b->seen[i].first, b->seen[i].end, &row);
        if (j->sinks) row.l = tern_ref_sink(j->sinks[h], row.m, row.l);
        statistics[h] = row.m;
        statistics[j->n_heads + h] = b->l[i] = row.l;
        tern_varlen_attention__round(j, b->s + i * b->s_row + b->seen[i].first, b->seen[i].end - b->seen[i].first);
    }
}

static void add_values(const tern_attention_job *j, const block *b, uint32_t panel)
{
    const uint32_t at = (panel - b->panels.first) * TERN_PANEL;
    for (uint32_t i = 0; i < b->n_rows; i++) {
        const tern_range seen = b->seen[i];
        b->steps[i] = (tern_range){seen.first > at ? seen.first - at : 0, seen.end < at                ? 0
                                                                          : seen.end - at < TERN_PANEL ? seen.end - at
                                                                                                       : TERN_PANEL};
    }
    const tern_product_args args = {.a = b->s + at,
                                    .a_row = b->s_row,
                                    .a_step = 1,
                                    .b = tern_varlen_attention__key(j, j->v_rows, b->kv_head, panel * TERN_PANEL),
                                    .b_step = j->dim,
                                    .c = b->sums,
                                    .c_row = j->dim,
                                    .m = b->n_rows,
                                    .n = j->dim};
    tern_varlen_attention__ragged(j, &args, b->steps);
}

static void block_task(void *context, uint32_t task, uint32_t thread)
{
    const tern_attention_job *j = context;
    block b = open_block(j, task, thread);
    tern_varlen_attention__gather(j, &j->op->in[TERN_VARLEN_ATTENTION_Q], b.kv_head, b.tokens, b.q);
    tern_varlen_attention__round(j, b.q, (size_t)b.n_rows * j->dim);
    for (uint32_t panel = b.panels.first; panel < b.panels.end; panel++)
        tern_varlen_attention__scores(j, b.q, b.n_rows, j->k_panels, b.kv_head, panel,
                                      b.s + (size_t)(panel - b.panels.first) * TERN_PANEL, b.s_row);
    softmax(j, &b);
    memset(b.sums, 0, (size_t)b.n_rows * j->dim * sizeof(float));
    for (uint32_t panel = b.panels.first; panel < b.panels.end; panel++) add_values(j, &b, panel);
    for (uint32_t i = 0; i < b.n_rows; i++)
        for (uint32_t d = 0; d < j->dim; d++) b.sums[(size_t)i * j->dim + d] /= b.l[i];
    tern_varlen_attention__scatter(j, b.sums, b.kv_head, b.tokens, &j->op->residual, &j->op->out);
}

void tern_cpu__varlen_attention(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_attention_job j = tern_varlen_attention__job(step, op);
    j.k_panels = step->prepared->shared;
    j.v_rows = j.k_panels + tern_varlen_attention__kv_floats(j.n, op->op);
    tern_varlen_attention__pack(&j, TERN_VARLEN_ATTENTION_K, j.k_panels, NULL);
    tern_varlen_attention__pack(&j, TERN_VARLEN_ATTENTION_V, NULL, j.v_rows);
    const uint32_t n_blocks = (j.n + j.block_tokens - 1) / j.block_tokens;
    tern_pool_for(step->cpu->pool, n_blocks * j.n_kv_heads, block_task, &j);
}
