/* Running the ops that work row by row: embedding, norm, quantiser, gate, sum, gather, RoPE, KV write. */
#include "backend/cpu/rows/rows.h"

#include "backend/cpu/ops.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

void tern_rows__for(tern_cpu_step *step, uint32_t n_rows, tern_task_fn fn, void *context)
{
    if (n_rows < 4)
        for (uint32_t t = 0; t < n_rows; t++) fn(context, t, 0);
    else tern_pool_for(step->cpu->pool, n_rows, fn, context);
}

void tern_rows__run(tern_cpu_step *step, const tern_cpu_op *op, tern_task_fn fn)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_rows__for(step, tern_cpu__rows(step, op->op->rows), fn, &j);
}

size_t tern_cpu__row_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    return op->in[TERN_NORM_X].cols * sizeof(float);
}

static void embed_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_cpu_op *op = ((tern_rows_job *)context)->op;
    const tern_buffer *table = op->weight[TERN_EMBED_TABLE];
    const tern_weight *w = table->weight;
    uint32_t id = tern_rows__param(op, TERN_EMBED_IDS, t);
    const tern_encoding *e = w->encoding;
    if (e->ternary) tern_decode_rows(e, w->data, w->rows, w->cols, id, 1, tern_rows__at(&op->out, t), NULL);
    else e->unpack(table->data + id * table->row_bytes, w->cols / e->block_elements, tern_rows__at(&op->out, t));
}

void tern_cpu__embed(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, embed_row);
}

static void norm_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const tern_cpu_kernels *k = &j->step->cpu->kernels;
    const float *x = tern_rows__at(&op->in[TERN_NORM_X], t), *weight = tern_rows__floats(op, TERN_NORM_WEIGHT);
    const uint32_t group = op->op->in[TERN_NORM_WEIGHT].cols;
    float *out = tern_rows__at(&op->out, t);
    float *y = op->residual.data ? (float *)(void *)tern_cpu__scratch(j->step, thread) : out;
    for (uint32_t c = 0; c < op->in_cols; c += group) k->rms_norm(x + c, weight, op->op->eps, group, y + c);
    if (op->residual.data) k->add(tern_rows__at(&op->residual, t), y, op->in_cols, out);
}

void tern_cpu__rms_norm(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, norm_row);
}

static void quantize_one(const tern_rows_job *j, const float *x, uint32_t t)
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
    const tern_rows_job *j = context;
    quantize_one(j, tern_rows__at(&j->op->in[TERN_QUANTIZE_X], t), t);
}

void tern_cpu__quantize(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, quantize_row);
}

static void norm_quant_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    float *normed = (float *)(void *)tern_cpu__scratch(j->step, thread);
    j->step->cpu->kernels.rms_norm(tern_rows__at(&op->in[TERN_NORM_X], t), tern_rows__floats(op, TERN_NORM_WEIGHT),
                                   op->op->eps, op->in_cols, normed);
    quantize_one(j, normed, t);
}

void tern_cpu__norm_quant(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, norm_quant_row);
}

enum { GATE_RUN = 64 }; /* columns at a time, where one gate is that of all */

static void gate_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const tern_cpu_kernels *k = &j->step->cpu->kernels;
    const float *gate = tern_rows__at(&op->in[TERN_GATE_GATE], t), *up = tern_rows__at(&op->in[TERN_GATE_UP], t);
    const uint32_t n = op->op->out.cols;
    const bool one = op->in_cols != n;
    const uint32_t run = one ? GATE_RUN : n;
    float same[GATE_RUN];
    for (uint32_t i = 0; one && i < GATE_RUN; i++) same[i] = gate[0];
    for (uint32_t c = 0; c < n; c += run)
        tern_cpu__activate(k, op->op, one ? same : gate, up + c, n - c < run ? n - c : run,
                           tern_rows__at(&op->out, t) + c);
}

void tern_cpu__gate(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, gate_row);
}

static void add_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    j->step->cpu->kernels.add(tern_rows__at(&op->in[TERN_ADD_A], t), tern_rows__at(&op->in[TERN_ADD_B], t), op->in_cols,
                              tern_rows__at(&op->out, t));
}

void tern_cpu__add(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, add_row);
}

/* Heads in the order of their groups, or of the inverse back from it. */
static void order_heads(const tern_op *op, const float *x, float *out)
{
    const uint32_t n = op->n_heads, groups = op->n_kv_heads, each = n / groups;
    const size_t dim = op->head_dim;
    for (uint32_t h = 0; h < n; h++) {
        const uint32_t place = h % groups * each + h / groups;
        memcpy(out + (op->inverse ? h : place) * dim, x + (op->inverse ? place : h) * dim, dim * sizeof *x);
    }
}

static void hadamard_row(void *context, uint32_t t, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_op *op = j->op->op;
    const tern_cpu_kernels *k = &j->step->cpu->kernels;
    const float *x = tern_rows__at(&j->op->in[TERN_HADAMARD_X], t);
    const float *signs = tern_rows__floats(j->op, TERN_HADAMARD_SIGNS);
    float *ordered = (float *)(void *)tern_cpu__scratch(j->step, thread), *y = tern_rows__at(&j->op->out, t);
    if (op->n_heads && !op->inverse) {
        order_heads(op, x, ordered);
        x = ordered;
    }
    const bool back = op->n_heads && op->inverse;
    (op->inverse ? k->hadamard_inverse : k->hadamard)(x, signs, j->op->in_cols, op->block, back ? ordered : y);
    if (back) order_heads(op, ordered, y);
}

void tern_cpu__hadamard(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, hadamard_row);
}

tern_status tern_cpu__hadamard_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const uint32_t cols = op->in[TERN_HADAMARD_X].cols, block = op->block;
    if (block && (block & (block - 1)) == 0 && cols % block == 0) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "cpu: op hadamard of %u columns in blocks of %u: a power of two that "
                     "divides them expected",
                     cols, block);
}

void tern_cpu__gather(tern_cpu_step *step, const tern_cpu_op *op)
{
    for (uint32_t t = 0; t < step->n_outputs; t++)
        memcpy(tern_rows__at(&op->out, t),
               tern_rows__at(&op->in[TERN_GATHER_X], tern_rows__param(op, TERN_GATHER_OUTPUTS, t)),
               op->in_cols * sizeof(float));
}

static tern_rope_fn rope_of(const tern_rows_job *j)
{
    const tern_cpu_kernels *k = &j->step->cpu->kernels;
    return j->op->op->rope_adjacent ? k->rope_adjacent : k->rope_halves;
}

void tern_rows__rope(const tern_op *op, tern_rope_fn rope, float *x, uint32_t n_heads, const float *cs)
{
    if (!op->rope_dim) rope(x, n_heads, op->head_dim, cs);
    for (uint32_t h = 0; op->rope_dim && h < n_heads; h++) rope(x + (size_t)h * op->head_dim, 1, op->rope_dim, cs);
}

static void rope_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_op *op = j->op->op;
    const float *table = tern_rows__floats(j->op, TERN_ROPE_TABLE);
    const size_t position = tern_rows__param(j->op, TERN_ROPE_POSITIONS, t);
    tern_rows__rope(op, rope_of(j), tern_rows__at(&j->op->in[TERN_ROPE_X], t), op->n_heads,
                    table + position * op->head_dim);
}

void tern_cpu__rope(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, rope_row);
}

/* Which inputs of an op are the caches and what leads to a token's slot of them. */
typedef struct kv_inputs {
    uint32_t k_cache, v_cache, positions, sequences, pages;
} kv_inputs;

static tern_kv_store_fn store_of(const tern_cpu_kernels *k, tern_dtype type)
{
    switch (type) {
#define STORE(X, name, NAME, elements, bytes)                                                                          \
    case TERN_DTYPE_##NAME: return k->kv_store_##name;
        TERN_CACHE_TYPE_LIST(STORE, )
#undef STORE
    default: return NULL;
    }
}

/* Where a token's rows lie in a page. */
typedef struct kv_slot {
    uint32_t page, row;
} kv_slot;

/* The rows of all heads of K or of V. */
static void store_heads(const tern_rows_job *j, const float *x, uint32_t cache, kv_slot at)
{
    const tern_op *op = j->op->op;
    const tern_dtype type = j->step->prepared->graph->values[op->in[cache].value].dtype;
    const tern_kv_store_fn store = store_of(&j->step->cpu->kernels, type);
    const size_t row_bytes = tern_cache_bytes(type, op->head_dim);
    for (uint32_t h = 0; h < op->n_kv_heads; h++) {
        const size_t slot = ((size_t)at.page * op->n_kv_heads + h) * TERN_PAGE_SIZE + at.row;
        store(x + (size_t)h * op->head_dim, op->head_dim, j->op->base[cache] + slot * row_bytes);
    }
}

/* Writes the K and V of token t to its slot of the caches. */
static void store_kv(const tern_rows_job *j, const float *k, const float *v, uint32_t t, const kv_inputs *in)
{
    const uint32_t position = tern_rows__param(j->op, in->positions, t);
    const uint32_t first = tern_rows__param(j->op, in->sequences, t) * j->step->prepared->graph->max_pages;
    const kv_slot at = {.page = tern_rows__param(j->op, in->pages, first + position / TERN_PAGE_SIZE),
                        .row = position % TERN_PAGE_SIZE};
    store_heads(j, k, in->k_cache, at);
    store_heads(j, v, in->v_cache, at);
}

static void kv_write_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    static const kv_inputs in = {TERN_KV_WRITE_K_CACHE, TERN_KV_WRITE_V_CACHE, TERN_KV_WRITE_POSITIONS,
                                 TERN_KV_WRITE_SEQUENCES, TERN_KV_WRITE_PAGES};
    store_kv(j, tern_rows__at(&op->in[TERN_KV_WRITE_K], t), tern_rows__at(&op->in[TERN_KV_WRITE_V], t), t, &in);
}

void tern_cpu__kv_write(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, kv_write_row);
}

static void rope_kv_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    uint32_t position = tern_rows__param(op, TERN_ROPE_KV_POSITIONS, t), heads = op->op->n_heads,
             kv_heads = op->op->n_kv_heads, dim = op->op->head_dim;
    const float *cs = tern_rows__floats(op, TERN_ROPE_KV_TABLE) + (size_t)position * dim;
    float *x = tern_rows__at(&op->in[TERN_ROPE_KV_QKV], t), *k = x + (size_t)heads * dim;
    tern_rows__rope(op->op, rope_of(j), x, heads + kv_heads, cs);
    static const kv_inputs in = {TERN_ROPE_KV_K_CACHE, TERN_ROPE_KV_V_CACHE, TERN_ROPE_KV_POSITIONS,
                                 TERN_ROPE_KV_SEQUENCES, TERN_ROPE_KV_PAGES};
    store_kv(j, k, k + (size_t)kv_heads * dim, t, &in);
}

tern_status tern_cpu__rope_kv_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    if (!op->head_norms[0].cols) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cpu: op rope_kv with norms of heads: rms_norm before it expected");
}

void tern_cpu__rope_kv(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, rope_kv_row);
}
