/* Running the ops with a state that goes from token to token. A task has some channels or one head, and goes through
 * the rows of the step in order, so that what it computes does not depend on the number of threads. */
#include "ops/ref/recurrent/recurrent.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/recurrent/conv_block.h"
#include "backend/cpu/rows/rows.h"
#include "ops/op.h"

/* The inputs of an op that lead to the state of a row's sequence. */
typedef struct state_inputs {
    uint32_t positions, sequences, states, state;
} state_inputs;

/* Row `index` of the op's states; NULL: it is not kept. */
static float *state_at(const tern_rows_job *j, const state_inputs *in, uint32_t index)
{
    const size_t cols = j->step->prepared->graph->values[j->op->op->in[in->state].value].cols;
    if (index == TERN_NO_STATE) return NULL;
    return (float *)(void *)j->op->base[in->state] + index * cols;
}

static bool begins_run(const tern_rows_job *j, const state_inputs *in, uint32_t t)
{
    return t == 0 || tern_rows__param(j->op, in->sequences, t) != tern_rows__param(j->op, in->sequences, t - 1);
}

/* The state that row t of its sequence continues from; NULL: zeros. */
static const float *state_before(const tern_rows_job *j, const state_inputs *in, uint32_t t)
{
    if (tern_rows__param(j->op, in->positions, t) == 0) return NULL;
    return state_at(j, in, tern_rows__param(j->op, in->states, tern_rows__param(j->op, in->sequences, t)));
}

/* Where the state after row t goes; NULL: nowhere. */
static float *state_after(const tern_rows_job *j, const state_inputs *in, uint32_t t)
{
    return state_at(j, in, tern_rows__param(j->op, in->states, j->step->prepared->graph->n_sequences + t));
}

static const state_inputs conv_inputs = {TERN_CONV_POSITIONS, TERN_CONV_SEQUENCES, TERN_CONV_STATES, TERN_CONV_STATE};

static void load_weight(const tern_cpu_op *op, tern_conv_block *b)
{
    const float *weight = tern_rows__floats(op, TERN_CONV_WEIGHT);
    for (uint32_t c = 0; c < b->n; c++)
        for (uint32_t k = 0; k < b->n_taps; k++)
            b->weight[k * b->n + c] = weight[(size_t)(b->first + c) * b->n_taps + k];
}

void tern_conv_block__load(const tern_cpu_op *op, uint32_t task, tern_conv_block *block)
{
    *block = (tern_conv_block){.first = task * TERN_CONV_BLOCK, .n_taps = op->op->in[TERN_CONV_WEIGHT].cols};
    const uint32_t left = op->in_cols - block->first;
    block->n = left < TERN_CONV_BLOCK ? left : TERN_CONV_BLOCK;
    load_weight(op, block);
}

static void load_tail(const tern_rows_job *j, tern_conv_block *b, uint32_t t)
{
    const float *state = state_before(j, &conv_inputs, t);
    for (uint32_t k = 0; k + 1 < b->n_taps; k++) {
        float *row = b->tail + k * b->n;
        if (state) memcpy(row, state + (size_t)k * j->op->in_cols + b->first, b->n * sizeof *row);
        else memset(row, 0, b->n * sizeof *row);
    }
}

void tern_conv_block__taps(const tern_cpu_op *op, const tern_conv_block *block, uint32_t first, uint32_t t,
                           const float **taps)
{
    for (uint32_t k = 0; k < block->n_taps; k++) {
        const uint32_t at = t - first + k; /* 0: the first of the tail */
        taps[k] = at + 1 < block->n_taps
                      ? block->tail + at * block->n
                      : tern_rows__at(&op->in[TERN_CONV_X], first + at + 1 - block->n_taps) + block->first;
    }
}

static void conv_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const uint32_t cols = op->in_cols, n_rows = j->step->n_tokens;
    tern_conv_block b;
    tern_conv_block__load(op, task, &b);
    for (uint32_t t = 0, first = 0; t < n_rows; t++) {
        const float *taps[TERN_CONV_MAX_TAPS];
        if (begins_run(j, &conv_inputs, t)) load_tail(j, &b, first = t);
        tern_conv_block__taps(op, &b, first, t, taps);
        const tern_conv_args args = {
            .taps = taps, .weight = b.weight, .n_taps = b.n_taps, .n = b.n, .y = tern_rows__at(&op->out, t) + b.first};
        j->step->cpu->kernels.conv(&args);
        float *after = state_after(j, &conv_inputs, t);
        for (uint32_t k = 1; after && k < b.n_taps; k++)
            memcpy(after + (size_t)(k - 1) * cols + b.first, taps[k], b.n * sizeof *after);
    }
}

void tern_cpu__conv(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, tern_conv_block__tasks(op), conv_task, &j);
}

tern_status tern_cpu__conv_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const uint32_t n = op->in[TERN_CONV_WEIGHT].cols;
    if (n >= 1 && n <= TERN_CONV_MAX_TAPS) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cpu: op %s of %u taps: 1 to %d expected", tern_op_name(op->kind), n,
                     TERN_CONV_MAX_TAPS);
}

static const state_inputs delta_inputs = {TERN_GATED_DELTA_POSITIONS, TERN_GATED_DELTA_SEQUENCES,
                                          TERN_GATED_DELTA_STATES, TERN_GATED_DELTA_STATE};

static float element(const tern_cpu_op *op, uint32_t input, uint32_t t, uint32_t head)
{
    return tern_rows__at(&op->in[input], t)[head];
}

/* The arguments for one head of a row; its state is set by who walks the rows. */
static tern_delta_args delta_of(const tern_cpu_op *op, uint32_t head, uint32_t t)
{
    const tern_op *o = op->op;
    const uint32_t values = o->out.cols / o->n_heads, dim = o->head_dim;
    const float *qkv = tern_rows__at(&op->in[TERN_GATED_DELTA_QKV], t);
    const size_t key = (size_t)tern_delta_key_head(head, o->n_heads, o->n_kv_heads, o->tiled_heads) * dim,
                 keys = (size_t)o->n_kv_heads * dim;
    return (tern_delta_args){
        .q = qkv + key,
        .k = qkv + keys + key,
        .v = qkv + 2 * keys + (size_t)head * values,
        .decay = tern_ref_delta_decay(element(op, TERN_GATED_DELTA_A, t, head),
                                      tern_rows__floats(op, TERN_GATED_DELTA_DT)[head],
                                      tern_rows__floats(op, TERN_GATED_DELTA_DECAY)[head]),
        .beta = tern_ref_logistic(element(op, TERN_GATED_DELTA_B, t, head)),
        .keys = dim,
        .values = values,
        .y = tern_rows__at(&op->out, t) + (size_t)head * values,
    };
}

/* A state that is not kept lies in the thread's scratch memory. */
static void delta_task(void *context, uint32_t head, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_op *op = j->op->op;
    float *own = (float *)(void *)tern_cpu__scratch(j->step, thread);
    const size_t at = (size_t)head * op->head_dim * (op->out.cols / op->n_heads);
    const float *state = NULL;
    for (uint32_t t = 0; t < j->step->n_tokens; t++) {
        if (begins_run(j, &delta_inputs, t)) {
            state = state_before(j, &delta_inputs, t);
            if (state) state += at;
        }
        tern_delta_args args = delta_of(j->op, head, t);
        float *after = state_after(j, &delta_inputs, t);
        args.state = state;
        args.next = after ? after + at : own;
        j->step->cpu->kernels.delta(&args);
        state = args.next;
    }
}

void tern_cpu__gated_delta(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, op->op->n_heads, delta_task, &j);
}

size_t tern_cpu__gated_delta_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    return (size_t)op->head_dim * (op->out.cols / op->n_heads) * sizeof(float);
}

tern_status tern_cpu__gated_delta_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const tern_view v = op->kind == TERN_OP_GATED_DELTA ? op->out : op->in[TERN_VARLEN_GATED_DELTA_V];
    const uint32_t values = v.cols / op->n_heads;
    if (values % 8 == 0 && values <= TERN_DELTA_MAX_VALUES && op->n_heads % op->n_kv_heads == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "cpu: op %s of %u heads of %u values, %u heads of keys: a multiple of 8 values, at most %d, and a "
                     "multiple of heads of keys expected",
                     tern_op_name(op->kind), op->n_heads, values, op->n_kv_heads, TERN_DELTA_MAX_VALUES);
}

static void split_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_cpu_op *op = ((tern_rows_job *)context)->op;
    const uint32_t dim = op->op->head_dim;
    const float *x = tern_rows__at(&op->in[TERN_SPLIT_X], t);
    float *out = tern_rows__at(&op->out, t), *gate = tern_rows__at(&op->in[TERN_SPLIT_GATE], t);
    for (uint32_t c = 0; c < op->op->out.cols; c += dim) {
        memcpy(out + c, x + 2 * c, dim * sizeof *x);
        memcpy(gate + c, x + 2 * c + dim, dim * sizeof *x);
    }
}

void tern_cpu__split(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, split_row);
}
