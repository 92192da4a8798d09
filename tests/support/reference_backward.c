/* A whole small model out of the definitions: the backward pass. */
#include <math.h>

#include "ops/ref/backward.h"
#include "support/reference_model.h"
#include "support/test.h"

enum { T = REF_TOKENS };

static void norm_rows_backward(const float *x, ref_param *g, const float *dy, float *dx)
{
    for (uint32_t t = 0; t < T; t++)
        tern_ref_rms_norm_backward(x + t * g->cols, g->w, 1e-5f, g->cols, dy + t * g->cols, dx + t * g->cols, g->grad);
}

/* dx += W^T dy, straight through the quantiser; the master weights' gradient takes that of the ternary ones. */
static void linear_backward(ref_param *p, const float *x, const ref_q8 *q8, const float *dy, float *dx)
{
    tern_q8_rows rows = {.x = q8->q, .stride = p->cols, .sums = q8->sums, .n = T};
    tern_ref_linear_dw_q8(dy, p->rows, &rows, q8->inv_scales, p->rows, p->cols, p->grad);
    tern_ref_linear_dx_i2_s(p->packed, p->cols / 4, p->rows, p->cols, p->scale, dy, p->rows, T, dx, p->cols);
    if (!p->lora.rank) return;
    tern_lora_rows lora = {p->lora.rank, p->rows, p->cols, p->lora.a, p->lora.b, p->lora.scale, x, p->cols, T};
    tern_ref_lora_backward(&lora, p->lora.u, dy, p->rows, p->lora.du, p->lora.da, p->lora.db, dx, p->cols);
}

static void rope_rows_backward(const ref_model *model, float *dx, uint32_t n_heads)
{
    for (uint32_t t = 0; t < T; t++)
        tern_ref_rope_halves_backward(dx + t * n_heads * REF_HEAD_DIM, n_heads, REF_HEAD_DIM,
                                      model->rope + t % REF_SEQUENCE * REF_HEAD_DIM);
}

/* dx: gradient of the layer's output; becomes that of the middle of the layer. */
static void ffn_backward(ref_param *p, const ref_acts *a, float *dx)
{
    static float din[T * REF_FFN], dproduct[T * REF_FFN], dgate[T * REF_FFN], dup[T * REF_FFN], dnormed[T * REF_HIDDEN];
    memset(din, 0, sizeof din);
    memset(dproduct, 0, sizeof dproduct);
    memset(dnormed, 0, sizeof dnormed);
    linear_backward(&p[REF_DOWN], a->down_in, &a->down_q8, dx, din);
    norm_rows_backward(a->product, &p[REF_FFN_SUB_NORM], din, dproduct);
    tern_ref_relu2_backward(a->gate, a->up, dproduct, T * REF_FFN, dgate, dup);
    linear_backward(&p[REF_GATE], a->mid_normed, &a->mid_q8, dgate, dnormed);
    linear_backward(&p[REF_UP], a->mid_normed, &a->mid_q8, dup, dnormed);
    norm_rows_backward(a->mid, &p[REF_POST_NORM], dnormed, dx);
}

static void attention_backward(const ref_model *model, ref_param *p, const ref_acts *a, float *dx)
{
    static float dsub[T * REF_HIDDEN], dout[T * REF_HIDDEN], dq[T * REF_HIDDEN], dnormed[T * REF_HIDDEN],
        dk[T * REF_KV], dv[T * REF_KV];
    memset(dsub, 0, sizeof dsub);
    memset(dout, 0, sizeof dout);
    memset(dq, 0, sizeof dq);
    memset(dk, 0, sizeof dk);
    memset(dv, 0, sizeof dv);
    memset(dnormed, 0, sizeof dnormed);
    linear_backward(&p[REF_O], a->sub_normed, &a->sub_q8, dx, dsub);
    norm_rows_backward(a->attention, &p[REF_ATTN_SUB_NORM], dsub, dout);
    tern_varlen_attention rows = {T,
                                  REF_HEADS,
                                  REF_KV_HEADS,
                                  REF_HEAD_DIM,
                                  a->q,
                                  a->k,
                                  a->v,
                                  REF_HIDDEN,
                                  REF_KV,
                                  model->starts,
                                  1.0f / sqrtf(REF_HEAD_DIM)};
    tern_ref_varlen_attention_backward(&rows, a->attention, a->m, a->l, dout, dq, dk, dv, NULL);
    rope_rows_backward(model, dq, REF_HEADS);
    rope_rows_backward(model, dk, REF_KV_HEADS);
    linear_backward(&p[REF_Q], a->normed, &a->normed_q8, dq, dnormed);
    linear_backward(&p[REF_K], a->normed, &a->normed_q8, dk, dnormed);
    linear_backward(&p[REF_V], a->normed, &a->normed_q8, dv, dnormed);
    norm_rows_backward(a->x, &p[REF_INPUT_NORM], dnormed, dx);
}

void ref_backward(ref_model *model, const int32_t *ids)
{
    static float dlast[T * REF_HIDDEN], dx[T * REF_HIDDEN];
    ref_param *embed = &model->params[REF_EMBED];
    memset(dlast, 0, sizeof dlast);
    memset(dx, 0, sizeof dx);
    tern_ref_linear_dw(model->logits, REF_VOCAB, model->last_normed, REF_HIDDEN, T, REF_VOCAB, REF_HIDDEN, embed->grad);
    tern_ref_linear_dx(embed->w, REF_VOCAB, REF_HIDDEN, model->logits, REF_VOCAB, T, dlast, REF_HIDDEN);
    norm_rows_backward(model->last, &model->params[REF_FINAL_NORM], dlast, dx);
    for (uint32_t i = REF_LAYERS; i-- > 0;) {
        ref_param *p = &model->params[i * REF_LAYER_PARAMS];
        ffn_backward(p, &model->acts[i], dx);
        attention_backward(model, p, &model->acts[i], dx);
    }
    tern_ref_embed_backward(ids, T, REF_HIDDEN, dx, REF_HIDDEN, embed->grad);
}
