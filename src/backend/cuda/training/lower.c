/* Launches of the ops of training on rows, of products and of attention. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "ops/ref/backward.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { STREAM_SEED = (int)0x9e3779b9 };

/* Launch functions take their own struct; a launch knows only that it is one. */
#define RUN(name, type)                                                                                                \
    static cudaError_t name(const void *params, cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return tern_cuda_run_##name((const type *)params, stream);                                                     \
    }
RUN(dropout, tern_cuda_train_rows)
RUN(fake_quantize, tern_cuda_train_rows)
RUN(softcap_backward, tern_cuda_train_rows)
RUN(gate_backward, tern_cuda_train_rows)
RUN(cross_entropy, tern_cuda_train_rows)
RUN(norm_backward, tern_cuda_norm_backward)
RUN(bias_backward, tern_cuda_row_sums)
RUN(embed_backward, tern_cuda_row_sums)
RUN(linear_dx, tern_cuda_gradient)
RUN(head, tern_cuda_head)
RUN(linear_dw, tern_cuda_gradient)
RUN(varlen, tern_cuda_varlen)
RUN(varlen_backward, tern_cuda_varlen)
#undef RUN

static const tern_cuda_train_params *params_of(const tern_prepared *p)
{
    return (const tern_cuda_train_params *)(const void *)tern_cuda__param(p, TERN_PARAM_TRAINING);
}

static float *state_of(const tern_prepared *p, tern_view view)
{
    return (float *)(void *)tern_cuda__address(p, view.value);
}

static tern_cuda_train_rows rows_of(const tern_prepared *p, const tern_op *op, tern_view a)
{
    return (tern_cuda_train_rows){.count = tern_cuda__count(p, op->rows),
                                  .a = tern_cuda__rows(p, a),
                                  .out = tern_cuda__rows(p, op->out),
                                  .cols = a.cols,
                                  .scale = op->scale,
                                  .softcap = op->softcap,
                                  .activation = op->activation,
                                  .limit = op->limit};
}

void tern_cuda__lower_dropout(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_train_rows *r = &out->params.train_rows;
    *r = rows_of(p, op, op->in[TERN_DROPOUT_X]);
    r->params = params_of(p);
    r->stream = op->stream * (uint32_t)STREAM_SEED;
    r->threshold = tern_ref_dropout_threshold(op->scale);
    r->factor = 1 / (1 - op->scale);
    out->run = dropout;
}

void tern_cuda__lower_fake_quantize(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->params.train_rows = rows_of(p, op, op->in[TERN_FAKE_QUANTIZE_X]);
    out->params.train_rows.params = params_of(p);
    out->run = fake_quantize;
}

void tern_cuda__lower_softcap_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->params.train_rows = rows_of(p, op, op->in[TERN_SOFTCAP_BACKWARD_X]);
    out->params.train_rows.b = tern_cuda__rows(p, op->in[TERN_SOFTCAP_BACKWARD_DY]);
    out->params.train_rows.residual = tern_cuda__rows(p, op->residual);
    out->run = softcap_backward;
}

void tern_cuda__lower_gate_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->params.train_rows = rows_of(p, op, op->in[TERN_GATE_BACKWARD_GATE]);
    out->params.train_rows.b = tern_cuda__rows(p, op->in[TERN_GATE_BACKWARD_UP]);
    out->params.train_rows.c = tern_cuda__rows(p, op->in[TERN_GATE_BACKWARD_DY]);
    out->params.train_rows.second = tern_cuda__rows(p, op->in[TERN_GATE_BACKWARD_DUP]);
    out->params.train_rows.residual = tern_cuda__rows(p, op->residual);
    out->params.train_rows.cols = op->in[TERN_GATE_BACKWARD_UP].cols;
    out->params.train_rows.one_gate = op->in[TERN_GATE_BACKWARD_GATE].cols != op->in[TERN_GATE_BACKWARD_UP].cols;
    out->run = gate_backward;
}

tern_status tern_cuda__gate_backward_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    const uint32_t gates = op->in[TERN_GATE_BACKWARD_GATE].cols, n = op->in[TERN_GATE_BACKWARD_UP].cols;
    if (gates == n || (gates == 1 && !(op->limit > 0))) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "cuda: op gate_backward of %u columns of gates for %u, limit %g: as many, or one without a "
                     "limit, expected",
                     gates, n, (double)op->limit);
}

void tern_cuda__lower_cross_entropy(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const uint32_t *labels = tern_cuda__param(p, TERN_PARAM_LABELS) + op->in[TERN_CROSS_ENTROPY_LABELS].first_row;
    out->params.train_rows = rows_of(p, op, op->in[TERN_CROSS_ENTROPY_LOGITS]);
    out->params.train_rows.labels = (const int32_t *)labels;
    out->params.train_rows.params = params_of(p);
    out->run = cross_entropy;
}

void tern_cuda__lower_norm_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view x = op->in[TERN_NORM_BACKWARD_X], weight = op->in[TERN_NORM_BACKWARD_WEIGHT];
    const bool wanted = op->n_in > TERN_NORM_BACKWARD_DWEIGHT;
    out->params.norm_backward =
        (tern_cuda_norm_backward){.count = tern_cuda__count(p, op->rows),
                                  .x = tern_cuda__rows(p, x),
                                  .dy = tern_cuda__rows(p, op->in[TERN_NORM_BACKWARD_DY]),
                                  .residual = tern_cuda__rows(p, op->residual),
                                  .out = tern_cuda__rows(p, op->out),
                                  .weight = tern_cuda__floats(p, weight),
                                  .dweight = wanted ? state_of(p, op->in[TERN_NORM_BACKWARD_DWEIGHT]) : NULL,
                                  .parts = wanted ? p->scratch : NULL,
                                  .cols = x.cols,
                                  .group = weight.cols,
                                  .eps = op->eps};
    out->run = norm_backward;
}

void tern_cuda__lower_bias_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    if (op->route.cols) {
        tern_cuda__lower_routed_bias(p, op, out);
        return;
    }
    const tern_view dy = op->in[TERN_BIAS_BACKWARD_DY];
    out->params.row_sums = (tern_cuda_row_sums){.count = tern_cuda__count(p, op->rows),
                                                .dy = tern_cuda__rows(p, dy),
                                                .sums = state_of(p, op->in[TERN_BIAS_BACKWARD_DBIAS]),
                                                .cols = dy.cols};
    out->run = bias_backward;
}

void tern_cuda__lower_embed_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view dw = op->in[TERN_EMBED_BACKWARD_DW];
    const tern_value *v = &p->graph->values[dw.value];
    out->params.row_sums = (tern_cuda_row_sums){.count = tern_cuda__count(p, op->rows),
                                                .dy = tern_cuda__rows(p, op->in[TERN_EMBED_BACKWARD_DY]),
                                                .ids = (const int32_t *)tern_cuda__param(p, TERN_PARAM_IDS),
                                                .sums = state_of(p, dw),
                                                .cols = v->cols,
                                                .n_rows = v->n_rows};
    out->run = embed_backward;
}

void tern_cuda__lower_linear_dx(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    if (op->route.cols) {
        tern_cuda__lower_routed_dx(p, op, out);
        return;
    }
    const tern_cuda_weight w = tern_cuda__weight(p, op->in[TERN_LINEAR_DX_W]);
    out->params.gradient = (tern_cuda_gradient){.count = tern_cuda__count(p, op->rows),
                                                .dy = tern_cuda__rows(p, op->in[TERN_LINEAR_DX_DY]),
                                                .weight = w,
                                                .residual = tern_cuda__rows(p, op->residual),
                                                .out = tern_cuda__rows(p, op->out),
                                                .n_rows = w.rows,
                                                .cols = w.cols,
                                                .scratch = p->scratch,
                                                .bf16 = op->halves};
    out->weight_bytes = (uint64_t)w.rows * w.row_bytes;
    out->run = linear_dx;
}

bool tern_cuda__is_head(const tern_graph *graph, const tern_op *op)
{
    enum { LEAST_TOKENS = 64, LEAST_ROWS = 4096 };
    const tern_view x = op->in[TERN_LINEAR_X];
    const tern_weight *w = graph->values[op->in[TERN_LINEAR_W].value].weight;
    const bool plain =
        op->n_parts == 1 && !op->gated && !op->halves && !op->route.cols && !op->bias[0].cols && !op->norm_weight.cols;
    return plain && w && !w->encoding->ternary && strcmp(w->encoding->name, "f16") == 0 && w->rows >= LEAST_ROWS &&
           w->cols % 8 == 0 && !tern_cuda__is_q8(graph, x) && tern_graph_max_rows(graph, op->rows) >= LEAST_TOKENS;
}

void tern_cuda__lower_head(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_cuda_weight w = tern_cuda__weight(p, op->in[TERN_LINEAR_W]);
    out->params.head = (tern_cuda_head){.count = tern_cuda__count(p, op->rows),
                                        .x = tern_cuda__rows(p, op->in[TERN_LINEAR_X]),
                                        .residual = tern_cuda__rows(p, op->residual),
                                        .out = tern_cuda__rows(p, op->out),
                                        .weight = w,
                                        .scratch = p->scratch};
    out->weight_bytes = (uint64_t)w.rows * w.row_bytes;
    out->run = head;
}

void tern_cuda__lower_linear_dw(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    if (op->route.cols) {
        tern_cuda__lower_routed_dw(p, op, out);
        return;
    }
    const tern_view dy = op->in[TERN_LINEAR_DW_DY], x = op->in[TERN_LINEAR_DW_X], dw = op->in[TERN_LINEAR_DW_DW];
    tern_cuda_gradient *g = &out->params.gradient;
    *g = (tern_cuda_gradient){.count = tern_cuda__count(p, op->rows),
                              .dy = tern_cuda__rows(p, dy),
                              .out = {.data = state_of(p, dw), .stride = x.cols},
                              .n_rows = dy.cols,
                              .cols = x.cols,
                              .scratch = p->scratch,
                              .bf16 = op->halves};
    if (tern_cuda__is_q8(p->graph, x)) g->q8 = tern_cuda__q8(p, x);
    else g->x = tern_cuda__rows(p, x);
    out->run = linear_dw;
}

tern_status tern_cuda__varlen_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)graph;
    if (op->halves && (op->halves != TERN_HALVES_BF16 || op->head_dim > TERN_CUDA_TILE_DIM))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "cuda: op %s in 16 bits: head dimension %u: bf16 and at most %d expected",
                         tern_op_name(op->kind), op->head_dim, TERN_CUDA_TILE_DIM);
    if (op->head_dim <= TERN_CUDA_TRAIN_DIM && op->n_heads % op->n_kv_heads == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s: head dimension %u: at most %d expected",
                     tern_op_name(op->kind), op->head_dim, TERN_CUDA_TRAIN_DIM);
}

size_t tern_cuda__backward_scratch(uint32_t rows, const tern_op *op)
{
    return tern_cuda_rounded(tern_cuda_varlen_bytes(rows, op->n_heads, op->n_kv_heads, op->head_dim));
}

size_t tern_cuda__varlen_scratch(uint32_t rows, const tern_op *op)
{
    const bool backward = op->kind == TERN_OP_VARLEN_ATTENTION_BACKWARD;
    if (!op->halves) return 0;
    return tern_cuda_varlen_rounded_bytes(rows, op->n_heads, op->n_kv_heads, op->head_dim, backward);
}

void tern_cuda__lower_varlen(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const bool backward = op->kind == TERN_OP_VARLEN_ATTENTION_BACKWARD;
    tern_cuda_varlen *v = &out->params.varlen;
    *v = (tern_cuda_varlen){.count = tern_cuda__count(p, op->rows),
                            .q = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_Q]),
                            .k = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_K]),
                            .v = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_V]),
                            .statistics = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_STATISTICS]),
                            .starts = tern_cuda__param(p, TERN_PARAM_SEQ_STARTS),
                            .sinks = tern_cuda__floats(p, op->sinks),
                            .n_heads = op->n_heads,
                            .n_kv_heads = op->n_kv_heads,
                            .head_dim = op->head_dim,
                            .window = op->window,
                            .scale = tern_op_score_scale(op),
                            .softcap = op->softcap,
                            .bf16 = op->halves};
    out->run = backward ? varlen_backward : varlen;
    if (v->bf16) {
        const size_t before = backward ? tern_cuda__backward_scratch(v->count.most, op) : 0;
        tern_cuda_varlen_place_rounded(v, (uint8_t *)p->scratch + before, backward);
    }
    if (!backward) {
        v->out = tern_cuda__rows(p, op->out);
        return;
    }
    v->out = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_OUT]);
    v->dout = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_DOUT]);
    v->dq = tern_cuda__rows(p, op->out);
    v->dk = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_DK]);
    v->dv = tern_cuda__rows(p, op->in[TERN_VARLEN_ATTENTION_DV]);
    v->deltas = p->scratch;
    v->of_heads = v->deltas + (size_t)v->count.most * op->n_heads;
    if (op->n_in > TERN_VARLEN_ATTENTION_DSINKS) v->dsinks = state_of(p, op->in[TERN_VARLEN_ATTENTION_DSINKS]);
}
