/* The backward of each op, as ops. */
#include <stdio.h>
#include <string.h>

#include "graph/backward.h"
#include "quant/weight.h"

static const tern_view none = {.value = TERN_NO_VALUE};

static tern_op begin(const tern_op *of, tern_op_kind kind)
{
    return (tern_op){.kind = kind, .rows = of->rows, .layer = of->layer, .out = none};
}

static void take_route(const tern_op *from, tern_op *op)
{
    op->route = from->route;
    op->n_experts = from->n_experts;
}

/* The op as one on the rows of x, which are those of tokens or routed ones where it has a route. */
static tern_op on_rows_of(const tern_backward *b, const tern_op *op, tern_view x)
{
    tern_op on = *op;
    if (op->route.cols) on.rows = b->graph->values[x.value].rows;
    return on;
}

/* Adds an op that makes a gradient of x, on top of what is there: its `residual`. */
static void emit_sum(tern_backward *b, const tern_op *of, tern_view x, tern_op *op)
{
    op->residual = tern_backward__gradient(b, x);
    op->out = tern_backward__new(b, of, x);
    tern_backward__emit(b, op);
    tern_backward__set(b, x, op->out);
}

static void bias(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_weight *weight = b->graph->values[op->bias[0].value].weight;
    if (!weight->trained) return;
    tern_op db = begin(op, TERN_OP_BIAS_BACKWARD);
    db.in[TERN_BIAS_BACKWARD_DY] = dy;
    db.in[TERN_BIAS_BACKWARD_DBIAS] = tern_backward__weight_gradient(b, weight);
    db.n_in = TERN_BIAS_BACKWARD_INPUTS;
    take_route(op, &db);
    tern_backward__emit(b, &db);
}

/* bf16 where the option says so. Products of experts, and narrow ones as an adapter's, wait for memory whatever they
 * multiply, and stay f32. */
static tern_halves halves_of(const tern_backward *b, const tern_op *op, const tern_weight *w)
{
    enum { NARROW = 64 };
    const bool narrow = w->rows <= NARROW || w->cols <= NARROW;
    return b->bf16 && !op->route.cols && !narrow ? TERN_HALVES_BF16 : TERN_HALVES_NONE;
}

static void linear(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_view x = op->in[TERN_LINEAR_X], w = op->in[TERN_LINEAR_W];
    if (op->n_parts != 1 || op->gated || op->norm_weight.value != TERN_NO_VALUE) {
        if (b->status == TERN_OK)
            b->status = tern_fail(b->err, TERN_UNSUPPORTED, "backward of a fused %s op: an unfused graph expected",
                                  tern_op_name(op->kind));
        return;
    }
    const tern_weight *weight = b->graph->values[w.value].weight;
    if (op->residual.value != TERN_NO_VALUE) tern_backward__contribute(b, op, op->residual, dy);
    if (op->bias[0].value != TERN_NO_VALUE) bias(b, op, dy);
    if (weight->trained) {
        tern_op dw = begin(op, TERN_OP_LINEAR_DW);
        dw.in[TERN_LINEAR_DW_DY] = dy;
        dw.in[TERN_LINEAR_DW_X] = x;
        dw.in[TERN_LINEAR_DW_DW] = tern_backward__weight_gradient(b, weight);
        dw.n_in = TERN_LINEAR_DW_INPUTS;
        dw.halves = halves_of(b, op, weight);
        take_route(op, &dw);
        tern_backward__emit(b, &dw);
    }
    if (!tern_backward__wanted(b, x)) return;
    const tern_op on_x = on_rows_of(b, op, x);
    tern_op dx = begin(&on_x, TERN_OP_LINEAR_DX);
    dx.in[TERN_LINEAR_DX_DY] = dy;
    dx.in[TERN_LINEAR_DX_W] = w;
    dx.n_in = TERN_LINEAR_DX_INPUTS;
    dx.halves = halves_of(b, op, weight);
    take_route(op, &dx);
    emit_sum(b, &on_x, x, &dx);
}

/* Not of one in place: x would be gone. */
static void rms_norm(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_view x = op->in[TERN_NORM_X], norm_weight = op->in[TERN_NORM_WEIGHT];
    const tern_weight *weight = b->graph->values[norm_weight.value].weight;
    if (op->residual.value != TERN_NO_VALUE) tern_backward__contribute(b, op, op->residual, dy);
    tern_op dx = begin(op, TERN_OP_RMS_NORM_BACKWARD);
    dx.in[TERN_NORM_BACKWARD_X] = x;
    dx.in[TERN_NORM_BACKWARD_WEIGHT] = norm_weight;
    dx.in[TERN_NORM_BACKWARD_DY] = dy;
    const bool trained = weight && weight->trained; /* not a constant */
    if (trained) dx.in[TERN_NORM_BACKWARD_DWEIGHT] = tern_backward__weight_gradient(b, weight);
    dx.n_in = trained ? TERN_NORM_BACKWARD_INPUTS : TERN_NORM_BACKWARD_DWEIGHT;
    dx.eps = op->eps;
    emit_sum(b, op, x, &dx);
}

static void embed(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_weight *table = b->graph->values[op->in[TERN_EMBED_TABLE].value].weight;
    tern_op dw = begin(op, TERN_OP_EMBED_BACKWARD);
    dw.in[TERN_EMBED_BACKWARD_DY] = dy;
    dw.in[TERN_EMBED_BACKWARD_IDS] = op->in[TERN_EMBED_IDS];
    dw.in[TERN_EMBED_BACKWARD_DW] = tern_backward__weight_gradient(b, table);
    dw.n_in = TERN_EMBED_BACKWARD_INPUTS;
    tern_backward__emit(b, &dw);
}

static void gate(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view g = op->in[TERN_GATE_GATE], up = op->in[TERN_GATE_UP];
    tern_view dgate = tern_backward__new(b, op, g), dup = tern_backward__new(b, op, up);
    tern_op back = begin(op, TERN_OP_GATE_BACKWARD);
    back.in[TERN_GATE_BACKWARD_GATE] = g;
    back.in[TERN_GATE_BACKWARD_UP] = up;
    back.in[TERN_GATE_BACKWARD_DY] = dy;
    back.in[TERN_GATE_BACKWARD_DUP] = dup;
    back.n_in = TERN_GATE_BACKWARD_INPUTS;
    back.out = dgate;
    back.activation = op->activation;
    back.limit = op->limit;
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, g, dgate);
    tern_backward__contribute(b, op, up, dup);
}

static void add(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_backward__contribute(b, op, op->in[TERN_ADD_A], dy);
    tern_backward__contribute(b, op, op->in[TERN_ADD_B], dy);
}

/* SCALE with a soft cap, whose backward makes y of x again: CROSS_ENTROPY has written into it. */
static void softcap(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_op back = begin(op, TERN_OP_SOFTCAP_BACKWARD);
    back.in[TERN_SOFTCAP_BACKWARD_X] = op->in[TERN_SCALE_X];
    back.in[TERN_SOFTCAP_BACKWARD_DY] = dy;
    back.n_in = TERN_SOFTCAP_BACKWARD_INPUTS;
    back.scale = op->scale;
    back.softcap = op->softcap;
    emit_sum(b, op, op->in[TERN_SCALE_X], &back);
}

/* SCALE and DROPOUT: the backward is the op itself, on dy. */
static void again(tern_backward *b, const tern_op *op, tern_view dy)
{
    const uint32_t x = op->kind == TERN_OP_SCALE ? (uint32_t)TERN_SCALE_X : (uint32_t)TERN_DROPOUT_X;
    if (op->softcap > 0) {
        softcap(b, op, dy);
        return;
    }
    tern_op back = *op;
    back.in[x] = dy;
    back.out = tern_backward__new(b, op, op->in[x]);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, op->in[x], back.out);
}

/* Signs and the normed transform are orthogonal: the transpose of one way is the other. */
static void hadamard(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view x = op->in[TERN_HADAMARD_X];
    tern_op back = *op;
    back.inverse = !op->inverse;
    back.in[TERN_HADAMARD_X] = dy;
    back.out = tern_backward__new(b, op, x);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, x, back.out);
}

/* Where the gradients of the weights of routes go. */
static tern_view new_dweights(tern_backward *b, const tern_op *op)
{
    tern_value value = {.kind = TERN_VALUE_ACTIVATION, .dtype = TERN_DTYPE_F32, .rows = TERN_ROWS_ROUTED, .cols = 1};
    value.bytes = tern_row_bytes(TERN_DTYPE_F32, 1, tern_graph_max_rows(b->graph, TERN_ROWS_ROUTED));
    const uint32_t routes = b->of[op->in[TERN_COMBINE_ROUTES].value].original;
    snprintf(value.name, sizeof value.name, "d_%.77s", b->graph->values[routes].name);
    return (tern_view){.value = tern_backward__value(b, value), .cols = 1};
}

static void combine(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view y = op->in[TERN_COMBINE_Y], routes = op->in[TERN_COMBINE_ROUTES];
    if (op->residual.value != TERN_NO_VALUE) tern_backward__contribute(b, op, op->residual, dy);
    tern_op back = begin(op, TERN_OP_COMBINE_BACKWARD);
    back.rows = TERN_ROWS_ROUTED;
    back.in[TERN_COMBINE_BACKWARD_Y] = y;
    back.in[TERN_COMBINE_BACKWARD_ROUTES] = routes;
    back.in[TERN_COMBINE_BACKWARD_DOUT] = dy;
    back.n_in = TERN_COMBINE_BACKWARD_DWEIGHTS;
    const bool routed = tern_backward__wanted(b, routes);
    if (routed) back.in[back.n_in++] = new_dweights(b, op);
    if (tern_backward__wanted(b, y)) back.out = tern_backward__new(b, &back, y);
    if (!routed && back.out.value == TERN_NO_VALUE) return;
    tern_backward__emit(b, &back);
    if (routed) tern_backward__set(b, routes, back.in[TERN_COMBINE_BACKWARD_DWEIGHTS]);
    if (back.out.value != TERN_NO_VALUE) tern_backward__contribute(b, &back, y, back.out);
}

static void route(tern_backward *b, const tern_op *op, tern_view dweights)
{
    const tern_view logits = op->in[TERN_ROUTE_LOGITS];
    tern_op back = begin(op, TERN_OP_ROUTE_BACKWARD);
    back.in[TERN_ROUTE_BACKWARD_LOGITS] = logits;
    back.in[TERN_ROUTE_BACKWARD_ROUTES] = op->out;
    back.in[TERN_ROUTE_BACKWARD_DWEIGHTS] = dweights;
    back.n_in = TERN_ROUTE_BACKWARD_INPUTS;
    back.n_experts = op->n_experts;
    back.route_rule = op->route_rule;
    emit_sum(b, op, logits, &back);
}

/* A copy of dy, the gradient of x. */
static tern_view copy_of(tern_backward *b, const tern_op *op, tern_view x, tern_view dy)
{
    tern_op scale = begin(op, TERN_OP_SCALE);
    scale.in[TERN_SCALE_X] = dy;
    scale.n_in = TERN_SCALE_INPUTS;
    scale.scale = 1;
    scale.out = tern_backward__new(b, op, x);
    tern_backward__emit(b, &scale);
    return scale.out;
}

/* In place, as the forward was. */
static void rope(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view x = op->in[TERN_ROPE_X];
    tern_view dx = tern_backward__is_shared(b, x, dy) ? copy_of(b, op, x, dy) : dy;
    tern_op back = *op;
    back.kind = TERN_OP_ROPE_BACKWARD;
    back.in[TERN_ROPE_X] = back.out = dx;
    tern_backward__emit(b, &back);
    tern_backward__set(b, x, dx);
}

static void varlen_attention(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view q = op->in[TERN_VARLEN_ATTENTION_Q], k = op->in[TERN_VARLEN_ATTENTION_K],
                    v = op->in[TERN_VARLEN_ATTENTION_V];
    const tern_view dq = tern_backward__new(b, op, q), dk = tern_backward__new(b, op, k),
                    dv = tern_backward__new(b, op, v);
    tern_op back = begin(op, TERN_OP_VARLEN_ATTENTION_BACKWARD);
    memcpy(back.in, op->in, TERN_VARLEN_ATTENTION_INPUTS * sizeof *back.in);
    back.in[TERN_VARLEN_ATTENTION_OUT] = op->out;
    back.in[TERN_VARLEN_ATTENTION_DOUT] = dy;
    back.in[TERN_VARLEN_ATTENTION_DK] = dk;
    back.in[TERN_VARLEN_ATTENTION_DV] = dv;
    back.n_in = TERN_VARLEN_ATTENTION_BACKWARD_INPUTS;
    back.out = dq;
    back.n_heads = op->n_heads;
    back.n_kv_heads = op->n_kv_heads;
    back.head_dim = op->head_dim;
    back.scale = op->scale;
    back.softcap = op->softcap;
    back.window = op->window;
    back.sinks = op->sinks;
    back.halves = op->halves;
    const tern_weight *sinks = op->sinks.cols ? b->graph->values[op->sinks.value].weight : NULL;
    if (sinks && sinks->trained) back.in[back.n_in++] = tern_backward__weight_gradient(b, sinks);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, q, dq);
    tern_backward__contribute(b, op, k, dk);
    tern_backward__contribute(b, op, v, dv);
}

static void split(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view gate = op->in[TERN_SPLIT_GATE], dgate = tern_backward__gradient(b, gate);
    if (dgate.value == TERN_NO_VALUE) {
        tern_backward__refuse(b, "backward of one half of a split: of both expected",
                              b->graph->values[gate.value].name);
        return;
    }
    tern_op back = begin(op, TERN_OP_SPLIT_BACKWARD);
    back.in[TERN_SPLIT_BACKWARD_DOUT] = dy;
    back.in[TERN_SPLIT_BACKWARD_DGATE] = dgate;
    back.n_in = TERN_SPLIT_BACKWARD_INPUTS;
    back.head_dim = op->head_dim;
    back.out = tern_backward__new(b, op, op->in[TERN_SPLIT_X]);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, op->in[TERN_SPLIT_X], back.out);
}

/* The gradient of a weight, or TERN_NO_VALUE: it is frozen. */
static tern_view gradient_of(tern_backward *b, tern_view weight)
{
    const tern_weight *w = b->graph->values[weight.value].weight;
    return w->trained ? tern_backward__weight_gradient(b, w) : none;
}

static void varlen_conv(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view x = op->in[TERN_VARLEN_CONV_X], dweight = gradient_of(b, op->in[TERN_VARLEN_CONV_WEIGHT]);
    tern_op back = begin(op, TERN_OP_VARLEN_CONV_BACKWARD);
    memcpy(back.in, op->in, TERN_VARLEN_CONV_INPUTS * sizeof *back.in);
    back.in[TERN_VARLEN_CONV_DOUT] = dy;
    back.in[TERN_VARLEN_CONV_DWEIGHT] = dweight;
    back.n_in = dweight.value != TERN_NO_VALUE ? TERN_VARLEN_CONV_BACKWARD_INPUTS : TERN_VARLEN_CONV_DWEIGHT;
    back.out = tern_backward__new(b, op, x);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, x, back.out);
}

static void varlen_gated_delta(tern_backward *b, const tern_op *op, tern_view dy)
{
    /* whose gradients the backward writes besides q's, in the order of its operands */
    static const uint32_t inputs[] = {TERN_VARLEN_GATED_DELTA_K, TERN_VARLEN_GATED_DELTA_V, TERN_VARLEN_GATED_DELTA_A,
                                      TERN_VARLEN_GATED_DELTA_B};
    const tern_view q = op->in[TERN_VARLEN_GATED_DELTA_Q],
                    ddecay = gradient_of(b, op->in[TERN_VARLEN_GATED_DELTA_DECAY]),
                    ddt = gradient_of(b, op->in[TERN_VARLEN_GATED_DELTA_DT]);
    const bool frozen = ddecay.value == TERN_NO_VALUE && ddt.value == TERN_NO_VALUE;
    tern_op back = begin(op, TERN_OP_VARLEN_GATED_DELTA_BACKWARD);
    memcpy(back.in, op->in, TERN_VARLEN_GATED_DELTA_INPUTS * sizeof *back.in);
    back.in[TERN_VARLEN_GATED_DELTA_DOUT] = dy;
    for (uint32_t i = 0; i < 4; i++)
        back.in[TERN_VARLEN_GATED_DELTA_DK + i] = tern_backward__new(b, op, op->in[inputs[i]]);
    back.in[TERN_VARLEN_GATED_DELTA_DDECAY] = ddecay;
    back.in[TERN_VARLEN_GATED_DELTA_DDT] = ddt;
    back.n_in = frozen ? TERN_VARLEN_GATED_DELTA_DDECAY : TERN_VARLEN_GATED_DELTA_BACKWARD_INPUTS;
    back.n_heads = op->n_heads;
    back.n_kv_heads = op->n_kv_heads;
    back.head_dim = op->head_dim;
    back.tiled_heads = op->tiled_heads;
    back.log_decay = op->log_decay;
    back.out = tern_backward__new(b, op, q);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, q, back.out);
    for (uint32_t i = 0; i < 4; i++)
        tern_backward__contribute(b, op, op->in[inputs[i]], back.in[TERN_VARLEN_GATED_DELTA_DK + i]);
}

/* The gradient passes unchanged (tern_backward_value.source). */
static void straight_through(tern_backward *b, const tern_op *op, tern_view dy)
{
    (void)b;
    (void)op;
    (void)dy;
}

/* CROSS_ENTROPY is not here: its gradient lies where the logits were. */
tern_backward_fn tern_backward__of(tern_op_kind kind)
{
    static const tern_backward_fn table[TERN_OP_COUNT] = {
        [TERN_OP_EMBED] = embed,
        [TERN_OP_RMS_NORM] = rms_norm,
        [TERN_OP_QUANTIZE] = straight_through,
        [TERN_OP_FAKE_QUANTIZE] = straight_through,
        [TERN_OP_LINEAR] = linear,
        [TERN_OP_ROPE] = rope,
        [TERN_OP_GATE] = gate,
        [TERN_OP_ADD] = add,
        [TERN_OP_SCALE] = again,
        [TERN_OP_DROPOUT] = again,
        [TERN_OP_VARLEN_ATTENTION] = varlen_attention,
        [TERN_OP_HADAMARD] = hadamard,
        [TERN_OP_SPLIT] = split,
        [TERN_OP_VARLEN_CONV] = varlen_conv,
        [TERN_OP_VARLEN_GATED_DELTA] = varlen_gated_delta,
        [TERN_OP_ROUTE] = route,
        [TERN_OP_COMBINE] = combine,
    };
    return table[kind];
}
