/* Runs the ops of training whose state goes from token to token, and their backward. A task has some channels, one
 * head, or the heads that share a head of keys. It goes through the rows in order, so its result does not depend on the
 * number of threads. */
#include "backend/cpu/ops.h"
#include "backend/cpu/recurrent/conv_block.h"
#include "backend/cpu/rows/rows.h"
#include "ops/op.h"
#include "ops/ref/recurrent/recurrent.h"

static bool begins(const tern_cpu_op *op, uint32_t starts, uint32_t t)
{
    return tern_rows__param(op, starts, t) == t;
}

static void split_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const tern_cpu_op *op = ((tern_rows_job *)context)->op;
    const uint32_t dim = op->op->head_dim;
    const float *dout = tern_rows__at(&op->in[TERN_SPLIT_BACKWARD_DOUT], t),
                *dgate = tern_rows__at(&op->in[TERN_SPLIT_BACKWARD_DGATE], t);
    float *dx = tern_rows__at(&op->out, t);
    for (uint32_t c = 0; c < op->in_cols; c += dim) {
        memcpy(dx + 2 * c, dout + c, dim * sizeof *dx);
        memcpy(dx + 2 * c + dim, dgate + c, dim * sizeof *dx);
    }
}

void tern_cpu__split_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows__run(step, op, split_row);
}

static void conv_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    tern_conv_block b;
    tern_conv_block__load(j->op, task, &b);
    for (uint32_t t = 0, first = 0; t < j->step->n_tokens; t++) {
        const float *taps[TERN_CONV_MAX_TAPS];
        if (begins(j->op, TERN_VARLEN_CONV_STARTS, t)) first = t;
        tern_conv_block__taps(j->op, &b, first, t, taps);
        j->step->cpu->kernels.conv(&(tern_conv_args){.taps = taps,
                                                     .weight = b.weight,
                                                     .n_taps = b.n_taps,
                                                     .n = b.n,
                                                     .y = tern_rows__at(&j->op->out, t) + b.first});
    }
}

void tern_cpu__varlen_conv(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, tern_conv_block__tasks(op), conv_task, &j);
}

/* The block's part of the weight's gradient: to [n_taps][n], or back. */
static void move_dweight(const tern_cpu_op *op, const tern_conv_block *b, float *mine, bool back)
{
    float *all = op->in[TERN_VARLEN_CONV_DWEIGHT].data + (size_t)b->first * b->n_taps;
    for (uint32_t c = 0; c < b->n; c++)
        for (uint32_t k = 0; k < b->n_taps; k++) {
            float *there = &all[c * b->n_taps + k], *here = &mine[k * b->n + c];
            if (back) *there = *here;
            else *here = *there;
        }
}

/* The gradients of the block's inputs of row t and of those before it in a document that begins at row `first`; NULL:
 * before the document. */
static void find_dtaps(const tern_cpu_op *op, const tern_conv_block *b, uint32_t first, uint32_t t, float **dtaps)
{
    for (uint32_t k = 0; k < b->n_taps; k++)
        dtaps[k] = t - first + k + 1 < b->n_taps ? NULL : tern_rows__at(&op->out, t + k + 1 - b->n_taps) + b->first;
}

static void conv_backward_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const tern_rows_job *j = context;
    const tern_cpu_op *op = j->op;
    const bool trained = op->op->n_in > TERN_VARLEN_CONV_DWEIGHT;
    float dweight[TERN_CONV_MAX_TAPS * TERN_CONV_BLOCK];
    tern_conv_block b;
    tern_conv_block__load(op, task, &b);
    if (trained) move_dweight(op, &b, dweight, false);
    for (uint32_t t = 0, first = 0; t < j->step->n_tokens; t++) {
        const float *taps[TERN_CONV_MAX_TAPS];
        float *dtaps[TERN_CONV_MAX_TAPS];
        if (begins(op, TERN_VARLEN_CONV_STARTS, t)) first = t;
        tern_conv_block__taps(op, &b, first, t, taps);
        find_dtaps(op, &b, first, t, dtaps);
        memset(tern_rows__at(&op->out, t) + b.first, 0, b.n * sizeof(float));
        j->step->cpu->kernels.conv_backward(
            &(tern_conv_backward_args){.taps = taps,
                                       .weight = b.weight,
                                       .n_taps = b.n_taps,
                                       .n = b.n,
                                       .dy = tern_rows__at(&op->in[TERN_VARLEN_CONV_DOUT], t) + b.first,
                                       .dtaps = dtaps,
                                       .dweight = trained ? dweight : NULL});
    }
    if (trained) move_dweight(op, &b, dweight, true);
}

void tern_cpu__varlen_conv_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, tern_conv_block__tasks(op), conv_backward_task, &j);
}

static uint32_t n_values(const tern_op *op)
{
    return op->in[TERN_VARLEN_GATED_DELTA_V].cols / op->n_heads;
}

/* Numbers of the state of a head. */
static size_t state_size(const tern_op *op)
{
    return (size_t)op->head_dim * n_values(op);
}

/* Where the state of a head before the first row of a chunk is kept; NULL: it is not. */
static float *kept_state(const tern_rows_job *j, uint32_t head, uint32_t chunk)
{
    const tern_cpu_rows *states = &j->op->in[TERN_VARLEN_GATED_DELTA_STATES];
    if ((chunk + 1) * TERN_DELTA_CHUNK > j->step->n_tokens) return NULL;
    return tern_rows__at(states, chunk * TERN_DELTA_CHUNK) + head * state_size(j->op->op);
}

static float element(const tern_cpu_op *op, uint32_t input, uint32_t t, uint32_t head)
{
    return tern_rows__at(&op->in[input], t)[head];
}

static tern_delta_rate rate_of(const tern_cpu_op *op, uint32_t head)
{
    return tern_ref_delta_rate(tern_rows__floats(op, TERN_VARLEN_GATED_DELTA_DECAY)[head], op->op->log_decay);
}

/* The arguments for one head of a row; states and results are set by who walks the rows. */
static tern_delta_args delta_of(const tern_cpu_op *op, uint32_t head, uint32_t t)
{
    const tern_op *o = op->op;
    const size_t key = (size_t)tern_delta_key_head(head, o->n_heads, o->n_kv_heads, o->tiled_heads) * o->head_dim;
    return (tern_delta_args){
        .q = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_Q], t) + key,
        .k = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_K], t) + key,
        .v = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_V], t) + (size_t)head * n_values(o),
        .decay = tern_ref_delta_decay(element(op, TERN_VARLEN_GATED_DELTA_A, t, head),
                                      tern_rows__floats(op, TERN_VARLEN_GATED_DELTA_DT)[head], rate_of(op, head).decay),
        .beta = tern_ref_logistic(element(op, TERN_VARLEN_GATED_DELTA_B, t, head)),
        .keys = o->head_dim,
        .values = n_values(o),
    };
}

static void delta_task(void *context, uint32_t head, uint32_t thread)
{
    const tern_rows_job *j = context;
    const size_t size = state_size(j->op->op);
    float *state = (float *)(void *)tern_cpu__scratch(j->step, thread);
    memset(state, 0, size * sizeof *state);
    for (uint32_t t = 0; t < j->step->n_tokens; t++) {
        if (begins(j->op, TERN_VARLEN_GATED_DELTA_STARTS, t)) memset(state, 0, size * sizeof *state);
        float *kept = t % TERN_DELTA_CHUNK == 0 ? kept_state(j, head, t / TERN_DELTA_CHUNK) : NULL;
        if (kept) memcpy(kept, state, size * sizeof *state);
        tern_delta_args args = delta_of(j->op, head, t);
        args.state = args.next = state;
        args.y = tern_rows__at(&j->op->out, t) + (size_t)head * args.values;
        j->step->cpu->kernels.delta(&args);
    }
}

void tern_cpu__varlen_gated_delta(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, op->op->n_heads, delta_task, &j);
}

size_t tern_cpu__varlen_gated_delta_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    return state_size(op) * sizeof(float);
}

/* The backward of one head, in the scratch memory of a thread. */
typedef struct delta_walk {
    const tern_rows_job *j;
    uint32_t head;
    size_t size;                  /* of a state */
    float *states, *dstate, *out; /* [TERN_DELTA_CHUNK] states of a chunk; their gradient; [values]: not wanted */
} delta_walk;

/* The state after row t of that in `state`; may be the same memory. */
static void step_state(const delta_walk *w, uint32_t t, const float *state, float *next)
{
    tern_delta_args args = delta_of(w->j->op, w->head, t);
    args.state = begins(w->j->op, TERN_VARLEN_GATED_DELTA_STARTS, t) ? NULL : state;
    args.next = next;
    args.y = w->out;
    w->j->step->cpu->kernels.delta(&args);
}

/* The states before rows first .. end - 1 of a chunk. The last one's, where it is not kept, is computed from that
 * before the last but one. */
static void chunk_states(const delta_walk *w, uint32_t first, uint32_t end)
{
    const uint32_t chunk = first / TERN_DELTA_CHUNK;
    const float *kept = kept_state(w->j, w->head, chunk);
    if (!kept && chunk > 0) {
        memcpy(w->states, kept_state(w->j, w->head, chunk - 1), w->size * sizeof(float));
        for (uint32_t t = first - TERN_DELTA_CHUNK; t < first; t++) step_state(w, t, w->states, w->states);
    } else if (kept) memcpy(w->states, kept, w->size * sizeof(float));
    else memset(w->states, 0, w->size * sizeof(float));
    for (uint32_t t = first; t + 1 < end; t++) {
        const float *state = w->states + (t - first) * w->size;
        step_state(w, t, state, w->states + (t + 1 - first) * w->size);
    }
}

/* da becomes the gradient of the decay's logarithm. */
static void delta_backward_row(const delta_walk *w, uint32_t t, const float *state)
{
    const tern_cpu_op *op = w->j->op;
    const tern_delta_args of = delta_of(op, w->head, t);
    const size_t key = (size_t)(of.k - tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_K], t)),
                 value = (size_t)w->head * of.values;
    const bool last = t + 1 == w->j->step->n_tokens || begins(op, TERN_VARLEN_GATED_DELTA_STARTS, t + 1);
    float dbeta;
    if (last) memset(w->dstate, 0, w->size * sizeof *w->dstate);
    w->j->step->cpu->kernels.delta_backward(&(tern_delta_backward_args){
        .state = begins(op, TERN_VARLEN_GATED_DELTA_STARTS, t) ? NULL : state,
        .q = of.q,
        .k = of.k,
        .v = of.v,
        .dy = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_DOUT], t) + value,
        .decay = of.decay,
        .beta = of.beta,
        .keys = of.keys,
        .values = of.values,
        .dstate = w->dstate,
        .dq = tern_rows__at(&op->out, t) + key,
        .dk = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_DK], t) + key,
        .dv = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_DV], t) + value,
        .dlog = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_DA], t) + w->head,
        .dbeta = &dbeta,
    });
    tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_DB], t)[w->head] = tern_ref_delta_beta_backward(of.beta, dbeta);
}

/* The head's number of the gradient of a weight [1][n_heads]; NULL: it is frozen. */
static float *trained(const tern_cpu_op *op, uint32_t input, uint32_t head)
{
    return input < op->op->n_in && op->in[input].data ? op->in[input].data + head : NULL;
}

static void finish_decay(const delta_walk *w)
{
    const tern_cpu_op *op = w->j->op;
    const float dt = tern_rows__floats(op, TERN_VARLEN_GATED_DELTA_DT)[w->head];
    const tern_delta_rate rate = rate_of(op, w->head);
    float *ddecay = trained(op, TERN_VARLEN_GATED_DELTA_DDECAY, w->head),
          *ddt = trained(op, TERN_VARLEN_GATED_DELTA_DDT, w->head);
    for (uint32_t t = 0; t < w->j->step->n_tokens; t++) {
        float *da = tern_rows__at(&op->in[TERN_VARLEN_GATED_DELTA_DA], t) + w->head;
        *da = tern_ref_delta_decay_backward(element(op, TERN_VARLEN_GATED_DELTA_A, t, w->head), dt, rate, *da, ddecay,
                                            ddt);
    }
}

static void walk_head(const delta_walk *w)
{
    for (uint32_t end = w->j->step->n_tokens; end > 0;) {
        const uint32_t first = (end - 1) / TERN_DELTA_CHUNK * TERN_DELTA_CHUNK;
        chunk_states(w, first, end);
        for (uint32_t t = end; t-- > first;) delta_backward_row(w, t, w->states + (t - first) * w->size);
        end = first;
    }
    finish_decay(w);
}

/* All heads that share a head of keys, in order: each adds to its dq and dk. */
static void delta_backward_task(void *context, uint32_t key_head, uint32_t thread)
{
    const tern_rows_job *j = context;
    const tern_op *op = j->op->op;
    const size_t size = state_size(op), key = (size_t)key_head * op->head_dim;
    float *room = (float *)(void *)tern_cpu__scratch(j->step, thread);
    for (uint32_t t = 0; t < j->step->n_tokens; t++) {
        memset(tern_rows__at(&j->op->out, t) + key, 0, op->head_dim * sizeof(float));
        memset(tern_rows__at(&j->op->in[TERN_VARLEN_GATED_DELTA_DK], t) + key, 0, op->head_dim * sizeof(float));
    }
    for (uint32_t head = 0; head < op->n_heads; head++)
        if (tern_delta_key_head(head, op->n_heads, op->n_kv_heads, op->tiled_heads) == key_head)
            walk_head(&(delta_walk){.j = j,
                                    .head = head,
                                    .size = size,
                                    .states = room,
                                    .dstate = room + TERN_DELTA_CHUNK * size,
                                    .out = room + (TERN_DELTA_CHUNK + 1) * size});
}

void tern_cpu__varlen_gated_delta_backward(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_rows_job j = {.step = step, .op = op};
    tern_pool_for(step->cpu->pool, op->op->n_kv_heads, delta_backward_task, &j);
}

size_t tern_cpu__varlen_gated_delta_backward_scratch(const tern_graph *graph, const tern_op *op)
{
    (void)graph;
    return ((TERN_DELTA_CHUNK + 1) * state_size(op) + n_values(op)) * sizeof(float);
}
