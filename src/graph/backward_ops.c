/* The backward of each op, as ops. */
#include <string.h>

#include "graph/backward.h"

static const tern_view none = {.value = TERN_NO_VALUE};

static tern_op begin(const tern_op *of, tern_op_kind kind)
{
    return (tern_op){
        .kind = kind, .rows = of->rows, .layer = of->layer, .out = none, .residual = none, .norm_weight = none};
}

static void inputs(tern_op *op, uint32_t n, const tern_view *views)
{
    memcpy(op->in, views, n * sizeof *views);
    op->n_in = n;
}

/* Adds an op that makes a gradient of x, on top of what is there: its `residual`. */
static void emit_sum(tern_backward *b, const tern_op *of, tern_view x, tern_op *op)
{
    op->residual = tern_backward__gradient(b, x);
    op->out = tern_backward__room(b, of, x);
    tern_backward__emit(b, op);
    tern_backward__set(b, x, op->out);
}

static void linear(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_view x = op->in[0], w = op->in[1];
    if (op->n_parts != 1 || op->gated || op->norm_weight.value != TERN_NO_VALUE) {
        if (b->status == TERN_OK)
            b->status = tern_fail(b->err, TERN_UNSUPPORTED, "backward of a fused %s op: an unfused graph expected",
                                  tern_op_name(op->kind));
        return;
    }
    const tern_weight *weight = b->graph->values[w.value].weight;
    if (op->residual.value != TERN_NO_VALUE) tern_backward__contribute(b, op, op->residual, dy);
    if (weight->trained) {
        tern_op dw = begin(op, TERN_OP_LINEAR_DW);
        inputs(&dw, 3, (tern_view[]){dy, x, tern_backward__weight_gradient(b, weight)});
        tern_backward__emit(b, &dw);
    }
    if (!tern_backward__wanted(b, x)) return;
    tern_op dx = begin(op, TERN_OP_LINEAR_DX);
    inputs(&dx, 2, (tern_view[]){dy, w});
    emit_sum(b, op, x, &dx);
}

static void rms_norm(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_view x = op->in[0], g = op->in[1];
    const tern_weight *weight = b->graph->values[g.value].weight;
    tern_op dx = begin(op, TERN_OP_RMS_NORM_BACKWARD);
    inputs(&dx, 3, (tern_view[]){x, g, dy});
    if (weight->trained) dx.in[dx.n_in++] = tern_backward__weight_gradient(b, weight);
    dx.eps = op->eps;
    emit_sum(b, op, x, &dx);
}

static void embed(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_weight *table = b->graph->values[op->in[0].value].weight;
    tern_op dw = begin(op, TERN_OP_EMBED_BACKWARD);
    inputs(&dw, 3, (tern_view[]){dy, op->in[1], tern_backward__weight_gradient(b, table)});
    tern_backward__emit(b, &dw);
}

static void gate(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_view dgate = tern_backward__room(b, op, op->in[0]), dup = tern_backward__room(b, op, op->in[1]);
    tern_op back = begin(op, TERN_OP_GATE_BACKWARD);
    inputs(&back, 4, (tern_view[]){op->in[0], op->in[1], dy, dup});
    back.out = dgate;
    back.activation = op->activation;
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, op->in[0], dgate);
    tern_backward__contribute(b, op, op->in[1], dup);
}

static void add(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_backward__contribute(b, op, op->in[0], dy);
    tern_backward__contribute(b, op, op->in[1], dy);
}

/* An op of one input and one factor: its backward is itself. */
static void again(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_op back = *op;
    back.in[0] = dy;
    back.out = tern_backward__room(b, op, op->in[0]);
    tern_backward__emit(b, &back);
    tern_backward__contribute(b, op, op->in[0], back.out);
}

static tern_view copy_of(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_op scale = begin(op, TERN_OP_SCALE);
    inputs(&scale, 1, &dy);
    scale.scale = 1;
    scale.out = tern_backward__room(b, op, op->in[0]);
    tern_backward__emit(b, &scale);
    return scale.out;
}

/* In place, as the forward was. */
static void rope(tern_backward *b, const tern_op *op, tern_view dy)
{
    tern_view dx = tern_backward__is_shared(b, op->in[0], dy) ? copy_of(b, op, dy) : dy;
    tern_op back = *op;
    back.kind = TERN_OP_ROPE_BACKWARD;
    back.in[0] = back.out = dx;
    tern_backward__emit(b, &back);
    tern_backward__set(b, op->in[0], dx);
}

static void varlen_attention(tern_backward *b, const tern_op *op, tern_view dy)
{
    const tern_view *in = op->in;
    tern_view d[3];
    for (int i = 0; i < 3; i++) d[i] = tern_backward__room(b, op, in[i]);
    tern_op back = begin(op, TERN_OP_VARLEN_ATTENTION_BACKWARD);
    inputs(&back, 9, (tern_view[]){in[0], in[1], in[2], in[3], in[4], op->out, dy, d[1], d[2]});
    back.out = d[0];
    back.n_heads = op->n_heads;
    back.n_kv_heads = op->n_kv_heads;
    back.head_dim = op->head_dim;
    tern_backward__emit(b, &back);
    for (int i = 0; i < 3; i++) tern_backward__contribute(b, op, in[i], d[i]);
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
    };
    return table[kind];
}
