/* Checking the ops of the optimiser. */
#include "ops/update_shape.h"

#include "ops/graph.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/encoding_id.h"
#include "quant/weight.h"

typedef struct checker {
    const tern_graph *graph;
    const tern_op *op;
    tern_error *err;
} checker;

static const tern_value *value(const checker *c, uint32_t i)
{
    return &c->graph->values[c->op->in[i].value];
}

static tern_status wrong(const checker *c, const tern_value *v, const char *what)
{
    return tern_fail(c->err, TERN_INVALID_ARGUMENT, "%s of %s: %s", tern_op_name(c->op->kind), v->name, what);
}

static uint64_t elements(const tern_value *v)
{
    return v->kind == TERN_VALUE_WEIGHT ? (uint64_t)v->weight->rows * v->weight->cols : (uint64_t)v->n_rows * v->cols;
}

/* A master: a state of F32 or BF16, or a dense weight that is trained. */
static tern_status read_master(const checker *c, uint32_t i, bool weights, tern_update_shape *shape)
{
    const tern_value *v = value(c, i);
    bool f32 = v->dtype == TERN_DTYPE_F32, bf16 = v->dtype == TERN_DTYPE_BF16;
    if (v->kind == TERN_VALUE_WEIGHT && weights) {
        if (!v->weight->trained) return wrong(c, v, "a weight that is frozen; a trained one expected");
        f32 = v->weight->encoding->id == TERN_ENC_F32;
        bf16 = v->weight->encoding->id == TERN_ENC_BF16;
        shape->rows = v->weight->rows;
    } else if (v->kind == TERN_VALUE_STATE && v->state == TERN_STATE_MASTER) {
        shape->rows = v->n_rows;
    } else {
        return wrong(c, v, weights ? "a master or a trained weight expected" : "a master expected");
    }
    shape->cols = v->cols;
    shape->n = elements(v);
    shape->w = f32 ? TERN_DTYPE_F32 : TERN_DTYPE_BF16;
    if (!f32 && !bf16) return wrong(c, v, "a master in F32 or BF16 expected");
    if (shape->n == 0 || shape->n > UINT32_MAX) return wrong(c, v, "1 to 2^32 - 1 elements expected");
    return TERN_OK;
}

static tern_status read_state(const checker *c, uint32_t i, tern_state state, tern_dtype bits8,
                              tern_update_shape *shape, tern_dtype *dtype)
{
    const tern_value *v = value(c, i);
    if (v->kind != TERN_VALUE_STATE || v->state != state) return wrong(c, v, "another state expected");
    if (elements(v) != shape->n) return wrong(c, v, "as many elements as the master's expected");
    if (v->dtype != TERN_DTYPE_F32 && v->dtype != TERN_DTYPE_BF16 && v->dtype != bits8)
        return wrong(c, v, "a state in F32, BF16 or 8 bits expected");
    *dtype = v->dtype;
    return TERN_OK;
}

static tern_status shape_of_update(const checker *c, tern_update_shape *shape)
{
    const bool adamw = c->op->optimizer == TERN_OPTIMIZER_ADAMW;
    const uint32_t n = c->op->n_in;
    tern_dtype gradient;
    TERN_TRY(read_master(c, TERN_UPDATE_WEIGHT, true, shape));
    if (adamw ? n != TERN_UPDATE_V + 2 : n != TERN_UPDATE_GRADIENT + 2 && n != TERN_UPDATE_M + 2)
        return wrong(c, value(c, TERN_UPDATE_WEIGHT), "another number of inputs expected");
    TERN_TRY(read_state(c, TERN_UPDATE_GRADIENT, TERN_STATE_GRADIENT, TERN_DTYPE_F32, shape, &gradient));
    if (gradient != TERN_DTYPE_F32) return wrong(c, value(c, TERN_UPDATE_GRADIENT), "a gradient in F32 expected");
    shape->has_m = n > TERN_UPDATE_M + 1;
    shape->has_v = adamw;
    if (shape->has_m) TERN_TRY(read_state(c, TERN_UPDATE_M, TERN_STATE_M, TERN_DTYPE_M8, shape, &shape->m));
    return adamw ? read_state(c, TERN_UPDATE_V, TERN_STATE_V, TERN_DTYPE_V8, shape, &shape->v) : TERN_OK;
}

static tern_status shape_of_requantize(const checker *c, tern_update_shape *shape)
{
    const tern_value *out = &c->graph->values[c->op->out.value];
    const tern_weight *w = shape->out = out->weight;
    TERN_TRY(read_master(c, TERN_REQUANTIZE_MASTER, false, shape));
    if (out->kind != TERN_VALUE_WEIGHT || !w->trained) return wrong(c, out, "a trained weight expected");
    if (w->rows != shape->rows || w->cols != shape->cols) return wrong(c, out, "the shape of the master expected");
    shape->ternary = w->encoding->id == TERN_ENC_I2_S && w->row_scales;
    if (!shape->ternary && w->encoding->id != TERN_ENC_F32)
        return wrong(c, out, "i2_s with a scale for each row, or f32, expected");
    if (!shape->ternary && c->op->clamp > 0)
        return wrong(c, out, "masters are clamped by the scale of ternary weights");
    return TERN_OK;
}

tern_status tern_update_shape_of(tern_update_shape *shape, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    const checker c = {.graph = graph, .op = op, .err = err};
    *shape = (tern_update_shape){.w = TERN_DTYPE_F32, .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32};
    if (op->kind == TERN_OP_UPDATE) return shape_of_update(&c, shape);
    if (op->kind == TERN_OP_REQUANTIZE) return shape_of_requantize(&c, shape);
    const tern_value *v = value(&c, TERN_SUM_SQUARES_GRADIENT);
    shape->rows = v->n_rows;
    shape->cols = v->cols;
    shape->n = elements(v);
    if (v->kind != TERN_VALUE_STATE || v->dtype != TERN_DTYPE_F32) return wrong(&c, v, "a state in F32 expected");
    return shape->n && shape->n <= UINT32_MAX ? TERN_OK : wrong(&c, v, "1 to 2^32 - 1 elements expected");
}
