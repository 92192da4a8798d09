/* Running the ops that work row by row: embedding, norm, quantiser, gate, sum, gather, RoPE, KV write. */
#include <string.h>

#include "backend/cpu/exec.h"

typedef struct job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
} job;

void tern_cpu__for_rows(tern_cpu_step *step, uint32_t n_rows, tern_task_fn fn, void *context)
{
    if (n_rows < 4)
        for (uint32_t t = 0; t < n_rows; t++) fn(context, t, 0);
    else tern_pool_for(step->cpu->pool, n_rows, fn, context);
}

static void for_rows(tern_cpu_step *step, const tern_cpu_op *op, tern_task_fn fn)
{
    job j = {.step = step, .op = op};
    tern_cpu__for_rows(step, tern_cpu__rows(step, op->op->rows), fn, &j);
}

static uint32_t u32_at(const uint8_t *base, uint32_t i)
{
    uint32_t v;
    memcpy(&v, base + (size_t)i * 4, 4);
    return v;
}

static float *row(const tern_cpu_rows *rows, uint32_t t)
{
    return rows->data + t * rows->stride;
}

static const float *norm_weight(const tern_cpu_op *op)
{
    return (const float *)(const void *)op->weight[1]->data;
}

static void embed_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_cpu_op *op = ((job *)context)->op;
    const tern_buffer *table = op->weight[0];
    const tern_weight *w = table->weight;
    uint32_t id = u32_at(op->base[1], t);
    const tern_encoding *e = w->encoding;
    if (e->ternary) tern_decode_rows(e, w->data, w->rows, w->cols, id, 1, row(&op->out, t), NULL);
    else e->unpack(table->data + id * table->row_bytes, w->cols / e->block_elements, row(&op->out, t));
}

void tern_cpu__embed(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, embed_row);
}

static void norm_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const tern_cpu_op *op = j->op;
    j->step->cpu->kernels.rms_norm(row(&op->in[0], t), norm_weight(op), op->op->eps, op->in_cols, row(&op->out, t));
}

void tern_cpu__rms_norm(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, norm_row);
}

static void quantize_one(const job *j, const float *x, uint32_t t)
{
    const tern_cpu_op *op = j->op;
    size_t stride = (size_t)tern_q8_stride(op->in_cols);
    float *scales = (float *)(void *)(op->out_base + tern_q8_scales_offset(op->in_cols, op->max_rows));
    int32_t *sums = (int32_t *)(void *)(op->out_base + tern_q8_sums_offset(op->in_cols, op->max_rows));
    j->step->cpu->kernels.quantize(x, op->in_cols, (int8_t *)op->out_base + t * stride, stride, &scales[t], &sums[t]);
}

static void quantize_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    quantize_one(j, row(&j->op->in[0], t), t);
}

void tern_cpu__quantize(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, quantize_row);
}

static void norm_quant_row(void *context, uint32_t t, uint32_t thread)
{
    const job *j = context;
    const tern_cpu_op *op = j->op;
    float *normed = (float *)(void *)tern_cpu__scratch(j->step, thread);
    j->step->cpu->kernels.rms_norm(row(&op->in[0], t), norm_weight(op), op->op->eps, op->in_cols, normed);
    quantize_one(j, normed, t);
}

void tern_cpu__norm_quant(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, norm_quant_row);
}

static void gate_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const tern_cpu_op *op = j->op;
    tern_gate_fn fn = tern_cpu__gate_kernel(&j->step->cpu->kernels, op->op->activation);
    fn(row(&op->in[0], t), row(&op->in[1], t), op->in_cols, row(&op->out, t));
}

void tern_cpu__gate(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, gate_row);
}

static void add_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const tern_cpu_op *op = j->op;
    j->step->cpu->kernels.add(row(&op->in[0], t), row(&op->in[1], t), op->in_cols, row(&op->out, t));
}

void tern_cpu__add(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, add_row);
}

void tern_cpu__gather(tern_cpu_step *step, const tern_cpu_op *op)
{
    for (uint32_t t = 0; t < step->n_outputs; t++)
        memcpy(row(&op->out, t), row(&op->in[0], u32_at(op->base[1], t)), op->in_cols * sizeof(float));
}

static tern_rope_fn rope_of(const job *j)
{
    const tern_cpu_kernels *k = &j->step->cpu->kernels;
    return j->op->op->rope_adjacent ? k->rope_adjacent : k->rope_halves;
}

static void rope_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const tern_op *op = j->op->op;
    const float *table = (const float *)(const void *)j->op->base[2];
    rope_of(j)(row(&j->op->in[0], t), op->n_heads, op->head_dim,
               table + (size_t)u32_at(j->op->base[1], t) * op->head_dim);
}

void tern_cpu__rope(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, rope_row);
}

/* Where the K and V of one token go. `first` is the input number of the K cache. */
static void store_kv(const job *j, const float *k, const float *v, uint32_t position, uint32_t sequence, uint32_t first)
{
    const tern_op *op = j->op->op;
    const tern_graph *g = j->step->prepared->graph;
    bool f32 = g->values[op->in[first].value].dtype == TERN_DTYPE_F32;
    tern_kv_store_fn store = f32 ? j->step->cpu->kernels.kv_store_f32 : j->step->cpu->kernels.kv_store_f16;
    const uint8_t *pages = j->step->prepared->params[TERN_PARAM_PAGES];
    uint32_t page = u32_at(pages, sequence * g->max_pages + position / TERN_PAGE_SIZE);
    size_t row_bytes = (size_t)op->head_dim * (f32 ? 4 : 2);
    for (uint32_t h = 0; h < op->n_kv_heads; h++) {
        size_t slot = ((size_t)page * op->n_kv_heads + h) * TERN_PAGE_SIZE + position % TERN_PAGE_SIZE;
        store(k + (size_t)h * op->head_dim, op->head_dim, j->op->base[first] + slot * row_bytes);
        store(v + (size_t)h * op->head_dim, op->head_dim, j->op->base[first + 1] + slot * row_bytes);
    }
}

static void kv_write_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const tern_cpu_op *op = j->op;
    store_kv(j, row(&op->in[0], t), row(&op->in[1], t), u32_at(op->base[4], t), u32_at(op->base[5], t), 2);
}

void tern_cpu__kv_write(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, kv_write_row);
}

static void rope_kv_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const tern_cpu_op *op = j->op;
    uint32_t position = u32_at(op->base[1], t), heads = op->op->n_heads, kv_heads = op->op->n_kv_heads,
             dim = op->op->head_dim;
    const float *cs = (const float *)(const void *)op->base[2] + (size_t)position * dim;
    float *x = row(&op->in[0], t), *k = x + (size_t)heads * dim;
    rope_of(j)(x, heads + kv_heads, dim, cs);
    store_kv(j, k, k + (size_t)kv_heads * dim, position, u32_at(op->base[5], t), 3);
}

void tern_cpu__rope_kv(tern_cpu_step *step, const tern_cpu_op *op)
{
    for_rows(step, op, rope_kv_row);
}
