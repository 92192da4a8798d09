/* Launches of the ops of recurrent layers, and of those beside them. */
#include <math.h>

#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "ops/ref/recurrent/recurrent.h"

/* Steps of up to FEW_ROWS rows are computed row by row; so are runs shorter than LEAST_RUN where there may be several.
 */
enum { FEW_ROWS = 32, LEAST_RUN = 16, WIDE_SLICE = 32, NARROW_SLICE = 16 };

_Static_assert((int)TERN_CUDA_CONV_TAPS == (int)TERN_CONV_MAX_TAPS, "taps");
_Static_assert((int)TERN_CUDA_DELTA_CHUNK == (int)TERN_DELTA_CHUNK, "rows of a chunk");
_Static_assert((int)TERN_CUDA_DELTA_VALUES == (int)TERN_DELTA_MAX_VALUES, "values of a head");

#define RUN(name, type)                                                                                                \
    static cudaError_t name(const void *params, cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return tern_cuda_run_##name((const type *)params, stream);                                                     \
    }
RUN(split, tern_cuda_split)
RUN(split_backward, tern_cuda_split)
RUN(hadamard, tern_cuda_hadamard)
RUN(conv, tern_cuda_conv)
RUN(delta, tern_cuda_delta)
RUN(conv_backward, tern_cuda_conv_backward)
RUN(delta_backward, tern_cuda_delta_backward)
#undef RUN

void tern_cuda__lower_split(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const bool back = op->kind == TERN_OP_SPLIT_BACKWARD;
    const tern_view whole = back ? op->out : op->in[TERN_SPLIT_X],
                    first = back ? op->in[TERN_SPLIT_BACKWARD_DOUT] : op->out,
                    second = op->in[back ? TERN_SPLIT_BACKWARD_DGATE : TERN_SPLIT_GATE];
    out->run = back ? split_backward : split;
    out->params.split = (tern_cuda_split){.count = tern_cuda__count(p, op->rows),
                                          .whole = tern_cuda__rows(p, whole),
                                          .first = tern_cuda__rows(p, first),
                                          .second = tern_cuda__rows(p, second),
                                          .cols = first.cols,
                                          .head_dim = op->head_dim};
}

void tern_cuda__lower_hadamard(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view x = op->in[TERN_HADAMARD_X];
    out->run = hadamard;
    out->params.hadamard = (tern_cuda_hadamard){.count = tern_cuda__count(p, op->rows),
                                                .x = tern_cuda__rows(p, x),
                                                .out = tern_cuda__rows(p, op->out),
                                                .signs = tern_cuda__floats(p, op->in[TERN_HADAMARD_SIGNS]),
                                                .cols = x.cols,
                                                .block = op->block,
                                                .n_heads = op->n_heads,
                                                .n_kv_heads = op->n_kv_heads,
                                                .head_dim = op->head_dim,
                                                .scale = (float)(1 / sqrt(op->block)),
                                                .inverse = op->inverse};
}

tern_status tern_cuda__hadamard_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const uint32_t cols = op->in[TERN_HADAMARD_X].cols, block = op->block;
    if (!block || (block & (block - 1)) || block > TERN_CUDA_HADAMARD_BLOCK || cols % block)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "cuda: op hadamard of %u columns in blocks of %u: a power of two up to %d that divides them "
                         "expected",
                         cols, block, TERN_CUDA_HADAMARD_BLOCK);
    if (!op->n_heads || (op->n_heads * op->head_dim == cols && op->n_heads % op->n_kv_heads == 0)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "cuda: op hadamard of %u columns, %u heads of %u in %u groups: heads of all columns in whole "
                     "groups expected",
                     cols, op->n_heads, op->head_dim, op->n_kv_heads);
}

static tern_cuda_runs runs_of(const tern_prepared *p)
{
    const uint32_t *states = tern_cuda__param(p, TERN_PARAM_STATES);
    return (tern_cuda_runs){.sequences = tern_cuda__param(p, TERN_PARAM_SEQUENCES),
                            .positions = tern_cuda__param(p, TERN_PARAM_POSITIONS),
                            .before = states,
                            .after = states + p->graph->n_sequences,
                            .n_sequences = p->graph->n_sequences};
}

/* Documents of training: any number of them. */
static tern_cuda_runs documents_of(const tern_prepared *p)
{
    return (tern_cuda_runs){.sequences = tern_cuda__param(p, TERN_PARAM_SEQ_STARTS), .n_sequences = UINT32_MAX};
}

static float *state_of(const tern_prepared *p, tern_view view)
{
    return (float *)(void *)tern_cuda__address(p, view.value);
}

static tern_cuda_conv conv_of(const tern_prepared *p, const tern_op *op, tern_view out, tern_cuda_launch *launch)
{
    const tern_cuda_weight weight = tern_cuda__weight(p, op->in[TERN_CONV_WEIGHT]);
    launch->weight_bytes = (uint64_t)weight.rows * weight.row_bytes;
    return (tern_cuda_conv){.count = tern_cuda__count(p, op->rows),
                            .runs = op->kind == TERN_OP_CONV ? runs_of(p) : documents_of(p),
                            .x = tern_cuda__rows(p, op->in[TERN_CONV_X]),
                            .out = tern_cuda__rows(p, out),
                            .weight = (const float *)(const void *)weight.data,
                            .state = op->kind == TERN_OP_CONV ? state_of(p, op->in[TERN_CONV_STATE]) : NULL,
                            .cols = out.cols,
                            .taps = op->in[TERN_CONV_WEIGHT].cols,
                            .weight_stride = weight.row_bytes / (uint32_t)sizeof(float)};
}

void tern_cuda__lower_conv(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = conv;
    out->params.conv = conv_of(p, op, op->out, out);
}

void tern_cuda__lower_conv_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const bool is_trained = op->n_in > TERN_VARLEN_CONV_DWEIGHT;
    out->run = conv_backward;
    out->params.conv_backward =
        (tern_cuda_conv_backward){.forward = conv_of(p, op, op->in[TERN_VARLEN_CONV_DOUT], out),
                                  .dx = tern_cuda__rows(p, op->out),
                                  .dweight = is_trained ? state_of(p, op->in[TERN_VARLEN_CONV_DWEIGHT]) : NULL,
                                  .parts = p->scratch};
}

tern_status tern_cuda__conv_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    const tern_view weight = op->in[TERN_CONV_WEIGHT];
    const tern_weight *w = graph->values[weight.value].weight;
    tern_gpu_layout layout;
    if (weight.cols < 1 || weight.cols > TERN_CONV_MAX_TAPS)
        return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s of %u taps: 1 to %d expected", tern_op_name(op->kind),
                         weight.cols, TERN_CONV_MAX_TAPS);
    TERN_TRY(tern_cuda__layout(&layout, w, err));
    if (layout.format == TERN_GPU_F32) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s: %s in f32 expected", tern_op_name(op->kind),
                     graph->values[weight.value].name);
}

static bool is_delta(const tern_op *op)
{
    return op->kind == TERN_OP_GATED_DELTA || op->kind == TERN_OP_VARLEN_GATED_DELTA;
}

static uint32_t values_of(const tern_op *op)
{
    const tern_view v = op->kind == TERN_OP_GATED_DELTA ? op->out : op->in[TERN_VARLEN_GATED_DELTA_V];
    return v.cols / op->n_heads;
}

/* The shortest run that is computed in chunks (tern_cuda_delta). */
static uint32_t least_chunked(const tern_graph *graph, const tern_op *op)
{
    const uint32_t most = tern_graph_max_rows(graph, op->rows);
    if (op->head_dim > TERN_CUDA_CHUNK_KEYS || most <= FEW_ROWS) return UINT32_MAX;
    return op->kind != TERN_OP_GATED_DELTA || graph->n_sequences == 1 ? 0 : LEAST_RUN;
}

/* Floats of scratch of a row. */
static size_t row_scratch(const tern_op *op)
{
    return op->n_heads * ((size_t)tern_cuda_chunk_keys(op->head_dim) + values_of(op) + TERN_CUDA_DELTA_CHUNK);
}

/* Floats of the states that the backward computes again. */
static size_t states_again(const tern_op *op)
{
    return op->n_heads * tern_cuda_delta_states(op->head_dim, values_of(op));
}

size_t tern_cuda__recurrent_scratch(const tern_graph *graph, const tern_op *op)
{
    const size_t rows = tern_graph_max_rows(graph, op->rows);
    if (op->kind == TERN_OP_VARLEN_CONV_BACKWARD)
        return tern_cuda_conv_parts((uint32_t)rows) * (size_t)op->in[TERN_CONV_WEIGHT].cols * op->out.cols *
               sizeof(float);
    if (op->kind == TERN_OP_VARLEN_GATED_DELTA_BACKWARD)
        return (states_again(op) + rows * op->n_heads * 2 * op->head_dim) * sizeof(float);
    if (!is_delta(op) || least_chunked(graph, op) == UINT32_MAX) return 0;
    return rows * row_scratch(op) * sizeof(float);
}

static void set_chunks(const tern_prepared *p, const tern_op *op, tern_cuda_delta *d)
{
    const size_t rows = tern_graph_max_rows(p->graph, op->rows);
    const uint32_t slices = (d->values + WIDE_SLICE - 1) / WIDE_SLICE;
    d->chunked = least_chunked(p->graph, op);
    if (d->chunked == UINT32_MAX) return;
    d->slice = slices * d->n_heads < p->device->multiprocessors ? NARROW_SLICE : WIDE_SLICE;
    d->w = p->scratch;
    d->u = d->w + rows * d->n_heads * tern_cuda_chunk_keys(d->keys);
    d->scores = d->u + rows * d->n_heads * d->values;
}

static tern_cuda_delta delta_of(const tern_prepared *p, const tern_op *op)
{
    return (tern_cuda_delta){.count = tern_cuda__count(p, op->rows),
                             .out = tern_cuda__rows(p, op->out),
                             .n_heads = op->n_heads,
                             .n_key_heads = op->n_kv_heads,
                             .keys = op->head_dim,
                             .values = values_of(op),
                             .tiled = op->tiled_heads,
                             .log_decay = op->log_decay};
}

static void finish_delta(const tern_prepared *p, const tern_op *op, tern_cuda_delta *d, tern_cuda_launch *out)
{
    set_chunks(p, op, d);
    out->run = delta;
    out->kernel = d->chunked == UINT32_MAX ? "delta_rows" : d->chunked ? "delta_mixed" : "delta_chunks";
    out->params.delta = *d;
}

void tern_cuda__lower_gated_delta(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_delta d = delta_of(p, op);
    const uint32_t cols = d.n_key_heads * d.keys;
    const tern_view state = op->in[TERN_GATED_DELTA_STATE];
    tern_view q = op->in[TERN_GATED_DELTA_QKV], k = q, v = q;
    q.cols = cols;
    k.first_col += cols, k.cols = cols;
    v.first_col += 2 * cols, v.cols = op->out.cols;
    d.runs = runs_of(p);
    d.q = tern_cuda__rows(p, q);
    d.k = tern_cuda__rows(p, k);
    d.v = tern_cuda__rows(p, v);
    d.a = tern_cuda__rows(p, op->in[TERN_GATED_DELTA_A]);
    d.b = tern_cuda__rows(p, op->in[TERN_GATED_DELTA_B]);
    d.decay = tern_cuda__floats(p, op->in[TERN_GATED_DELTA_DECAY]);
    d.dt = tern_cuda__floats(p, op->in[TERN_GATED_DELTA_DT]);
    d.state = state_of(p, state);
    d.state_stride = p->graph->values[state.value].cols;
    finish_delta(p, op, &d, out);
}

static tern_cuda_delta documents_delta(const tern_prepared *p, const tern_op *op)
{
    tern_cuda_delta d = delta_of(p, op);
    const tern_view states = op->in[TERN_VARLEN_GATED_DELTA_STATES];
    d.runs = documents_of(p);
    d.q = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_Q]);
    d.k = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_K]);
    d.v = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_V]);
    d.a = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_A]);
    d.b = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_B]);
    d.decay = tern_cuda__floats(p, op->in[TERN_VARLEN_GATED_DELTA_DECAY]);
    d.dt = tern_cuda__floats(p, op->in[TERN_VARLEN_GATED_DELTA_DT]);
    d.state = state_of(p, states);
    d.state_stride = (size_t)TERN_DELTA_CHUNK * p->graph->values[states.value].cols;
    return d;
}

void tern_cuda__lower_varlen_delta(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_delta d = documents_delta(p, op);
    finish_delta(p, op, &d, out);
}

/* The gradient [1][n_heads] of a weight; NULL: it is frozen. */
static float *trained(const tern_prepared *p, const tern_op *op, uint32_t input)
{
    return input < op->n_in && op->in[input].value != TERN_NO_VALUE ? state_of(p, op->in[input]) : NULL;
}

void tern_cuda__lower_delta_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_delta_backward *b = &out->params.delta_backward;
    *b = (tern_cuda_delta_backward){.forward = documents_delta(p, op),
                                    .dq = tern_cuda__rows(p, op->out),
                                    .dk = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_DK]),
                                    .dv = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_DV]),
                                    .da = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_DA]),
                                    .db = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_DB]),
                                    .ddecay = trained(p, op, TERN_VARLEN_GATED_DELTA_DDECAY),
                                    .ddt = trained(p, op, TERN_VARLEN_GATED_DELTA_DDT),
                                    .states = p->scratch,
                                    .states_each = tern_cuda_delta_states(op->head_dim, values_of(op))};
    b->forward.out = tern_cuda__rows(p, op->in[TERN_VARLEN_GATED_DELTA_DOUT]);
    b->parts = b->states + states_again(op);
    out->run = delta_backward;
}

tern_status tern_cuda__delta_backward_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    const uint32_t values = values_of(op);
    TERN_TRY(tern_cuda__delta_supports(graph, op, err));
    if (values <= TERN_CUDA_BACKWARD_VALUES) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s of heads of %u values: at most %d expected",
                     tern_op_name(op->kind), values, TERN_CUDA_BACKWARD_VALUES);
}

tern_status tern_cuda__delta_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const uint32_t values = values_of(op);
    if (op->head_dim <= TERN_CUDA_DELTA_KEYS && values % 4 == 0 && values <= TERN_CUDA_DELTA_VALUES &&
        op->n_heads % op->n_kv_heads == 0)
        return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "cuda: op %s of %u heads of %u values, %u heads of %u keys: a multiple of 4 values up to %d, up "
                     "to %d keys, and a multiple of heads of keys expected",
                     tern_op_name(op->kind), op->n_heads, values, op->n_kv_heads, op->head_dim, TERN_CUDA_DELTA_VALUES,
                     TERN_CUDA_DELTA_KEYS);
}
