/* A whole small model out of the definitions: parameters and the forward pass. */
#include "support/reference_model.h"

#include <math.h>

#include "format/safetensors.h"
#include "ops/ref/backward.h"
#include "ops/ref/update.h"
#include "support/test.h"

enum { T = REF_TOKENS };

static const struct {
    const char *name;
    uint32_t rows, cols;
} shapes[REF_LAYER_PARAMS] = {
    [REF_INPUT_NORM] = {"input_layernorm", 0, REF_HIDDEN},
    [REF_Q] = {"self_attn.q_proj", REF_HEADS *REF_HEAD_DIM, REF_HIDDEN},
    [REF_K] = {"self_attn.k_proj", REF_KV, REF_HIDDEN},
    [REF_V] = {"self_attn.v_proj", REF_KV, REF_HIDDEN},
    [REF_ATTN_SUB_NORM] = {"self_attn.attn_sub_norm", 0, REF_HIDDEN},
    [REF_O] = {"self_attn.o_proj", REF_HIDDEN, REF_HIDDEN},
    [REF_POST_NORM] = {"post_attention_layernorm", 0, REF_HIDDEN},
    [REF_GATE] = {"mlp.gate_proj", REF_FFN, REF_HIDDEN},
    [REF_UP] = {"mlp.up_proj", REF_FFN, REF_HIDDEN},
    [REF_FFN_SUB_NORM] = {"mlp.ffn_sub_norm", 0, REF_FFN},
    [REF_DOWN] = {"mlp.down_proj", REF_HIDDEN, REF_FFN},
};

static void *room(ref_model *model, size_t bytes)
{
    void *p = tern_arena_alloc(&model->arena, bytes, 1);
    assert_non_null(p);
    return p;
}

static float *floats(ref_model *model, size_t n)
{
    return room(model, n * sizeof(float));
}

static ref_q8 q8_rows(ref_model *model, uint32_t cols)
{
    return (ref_q8){room(model, (size_t)T * cols), floats(model, T), room(model, T * sizeof(int32_t))};
}

static void open_param(ref_model *model, ref_param *p, const tern_safetensors *st, uint32_t rows, uint32_t cols,
                       bool ternary)
{
    const tern_st_tensor *t = tern_safetensors_find(st, p->name);
    assert_non_null(t);
    p->is_norm = rows == 0;
    p->rows = rows ? rows : 1;
    p->cols = cols;
    p->n = (size_t)p->rows * cols;
    assert_int_equal(t->n_elements, p->n);
    p->w = floats(model, p->n);
    p->grad = floats(model, p->n);
    p->m = floats(model, p->n);
    p->v = floats(model, p->n);
    if (ternary) p->packed = room(model, p->n / 4);
    tern_st_to_f32(t, 0, p->n, p->w);
}

static void open_acts(ref_model *model, ref_acts *a)
{
    float **const wide[] = {&a->gate, &a->up, &a->product, &a->down_in};
    float **const narrow[] = {&a->x, &a->normed, &a->q, &a->attention, &a->sub_normed, &a->mid, &a->mid_normed};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) *wide[i] = floats(model, T * REF_FFN);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) *narrow[i] = floats(model, T * REF_HIDDEN);
    a->k = floats(model, T * REF_KV);
    a->v = floats(model, T * REF_KV);
    a->m = floats(model, T * REF_HEADS);
    a->l = floats(model, T * REF_HEADS);
    a->normed_q8 = q8_rows(model, REF_HIDDEN);
    a->sub_q8 = q8_rows(model, REF_HIDDEN);
    a->mid_q8 = q8_rows(model, REF_HIDDEN);
    a->down_q8 = q8_rows(model, REF_FFN);
}

/* In f32 at each step, as transformers has it. */
static void fill_rope(float *table)
{
    for (uint32_t t = 0; t < REF_SEQUENCE; t++)
        for (uint32_t i = 0; i < REF_HEAD_DIM / 2; i++, table += 2) {
            float angle = (float)t * (1.0f / powf(500000.0f, (float)(2 * i) / REF_HEAD_DIM));
            table[0] = cosf(angle);
            table[1] = sinf(angle);
        }
}

void ref_open(ref_model *model, const char *path)
{
    tern_error err = {0};
    tern_safetensors *st;
    *model = (ref_model){0};
    assert_ok(tern_safetensors_open(&st, path, &err), err);
    for (uint32_t i = 0; i < REF_LAYERS; i++)
        for (uint32_t n = 0; n < REF_LAYER_PARAMS; n++) {
            ref_param *p = &model->params[i * REF_LAYER_PARAMS + n];
            snprintf(p->name, sizeof p->name, "model.layers.%u.%s.weight", i, shapes[n].name);
            open_param(model, p, st, shapes[n].rows, shapes[n].cols, shapes[n].rows != 0);
        }
    strcpy(model->params[REF_EMBED].name, "model.embed_tokens.weight");
    open_param(model, &model->params[REF_EMBED], st, REF_VOCAB, REF_HIDDEN, false);
    strcpy(model->params[REF_FINAL_NORM].name, "model.norm.weight");
    open_param(model, &model->params[REF_FINAL_NORM], st, 0, REF_HIDDEN, false);
    tern_safetensors_close(st);
    for (uint32_t i = 0; i < REF_LAYERS; i++) open_acts(model, &model->acts[i]);
    model->last = floats(model, T * REF_HIDDEN);
    model->last_normed = floats(model, T * REF_HIDDEN);
    model->logits = floats(model, T * REF_VOCAB);
    for (uint32_t t = 0; t < T; t++) model->starts[t] = t / REF_SEQUENCE * REF_SEQUENCE;
    fill_rope(model->rope);
    ref_requantise(model);
}

void ref_free(ref_model *model)
{
    tern_arena_deinit(&model->arena);
}

void ref_requantise(ref_model *model)
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        ref_param *p = &model->params[i];
        if (!p->packed) continue;
        p->scale = tern_ref_absmean(p->w, p->n);
        tern_ref_requantize_codes(TERN_DTYPE_F32, p->w, p->n, tern_ref_ternary_rule(p->scale, 0), p->packed);
    }
}

void ref_zero_grads(ref_model *model)
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        ref_param *p = &model->params[i];
        memset(p->grad, 0, p->n * sizeof(float));
        if (!p->lora.rank) continue;
        memset(p->lora.da, 0, p->lora.rank * p->cols * sizeof(float));
        memset(p->lora.db, 0, p->lora.rank * p->rows * sizeof(float));
    }
}

static void norm_rows(const float *x, const ref_param *g, float *y)
{
    for (uint32_t t = 0; t < T; t++) tern_ref_rms_norm(x + t * g->cols, g->w, 1e-5f, g->cols, y + t * g->cols);
}

static void flip_ties(ref_ties *ties, const float *x, uint32_t first, uint32_t cols, float scale, int8_t *q)
{
    for (uint32_t c = 0; c < cols; c++) {
        float v = x[c] * scale, nearest = rintf(v);
        if (!(fabsf(v - nearest) > 0.5f - ties->width)) continue;
        assert_true(ties->n < REF_MAX_TIES);
        ties->values[ties->n] = v;
        ties->found[ties->n++] = first + c;
        for (uint32_t i = 0; i < ties->n_flipped; i++)
            if (ties->flipped[i] == first + c) q[c] = (int8_t)(nearest > v ? nearest - 1 : nearest + 1);
    }
}

static void quantise_rows(ref_model *model, uint32_t site, const float *x, uint32_t cols, const ref_q8 *q8)
{
    for (uint32_t t = 0; t < T; t++) {
        int8_t *q = q8->q + t * cols;
        tern_ref_quantize(x + t * cols, cols, q, cols, &q8->inv_scales[t], &q8->sums[t]);
        float most = 1e-5f;
        for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(x[t * cols + c]));
        if (model->ties.width > 0)
            flip_ties(&model->ties, x + t * cols, (site * T + t) * REF_FFN, cols, 127.0f / most, q);
    }
}

/* y[t] = W x[t], with W ternary and x as int8 rows, plus the adapter on x. */
static void linear(const ref_param *p, const float *x, const ref_q8 *q8, float *y)
{
    static int32_t dots[T * REF_FFN];
    tern_q8_rows rows = {.x = q8->q, .stride = p->cols, .sums = q8->sums, .n = T};
    tern_ref_i2_s(p->packed, p->cols / 4, p->rows, p->cols, &rows, dots, p->rows);
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t r = 0; r < p->rows; r++)
            y[t * p->rows + r] = (float)dots[t * p->rows + r] * (q8->inv_scales[t] * p->scale);
    if (!p->lora.rank) return;
    tern_lora_rows lora = {p->lora.rank, p->rows, p->cols, p->lora.a, p->lora.b, p->lora.scale, x, p->cols, T};
    tern_ref_lora(&lora, p->lora.u, y, p->rows);
}

static void rope_rows(const ref_model *model, float *x, uint32_t n_heads)
{
    for (uint32_t t = 0; t < T; t++)
        tern_ref_rope_halves(x + t * n_heads * REF_HEAD_DIM, n_heads, REF_HEAD_DIM,
                             model->rope + t % REF_SEQUENCE * REF_HEAD_DIM);
}

static void attention_part(ref_model *model, uint32_t layer, const ref_param *p, ref_acts *a)
{
    norm_rows(a->x, &p[REF_INPUT_NORM], a->normed);
    quantise_rows(model, 4 * layer + 0, a->normed, REF_HIDDEN, &a->normed_q8);
    linear(&p[REF_Q], a->normed, &a->normed_q8, a->q);
    linear(&p[REF_K], a->normed, &a->normed_q8, a->k);
    linear(&p[REF_V], a->normed, &a->normed_q8, a->v);
    rope_rows(model, a->q, REF_HEADS);
    rope_rows(model, a->k, REF_KV_HEADS);
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
    tern_ref_varlen_attention(&rows, a->attention, a->m, a->l);
    norm_rows(a->attention, &p[REF_ATTN_SUB_NORM], a->sub_normed);
    quantise_rows(model, 4 * layer + 1, a->sub_normed, REF_HIDDEN, &a->sub_q8);
    linear(&p[REF_O], a->sub_normed, &a->sub_q8, a->mid);
    tern_ref_add(a->mid, a->x, T * REF_HIDDEN, a->mid);
}

static void ffn_part(ref_model *model, uint32_t layer, const ref_param *p, ref_acts *a, float *out)
{
    norm_rows(a->mid, &p[REF_POST_NORM], a->mid_normed);
    quantise_rows(model, 4 * layer + 2, a->mid_normed, REF_HIDDEN, &a->mid_q8);
    linear(&p[REF_GATE], a->mid_normed, &a->mid_q8, a->gate);
    linear(&p[REF_UP], a->mid_normed, &a->mid_q8, a->up);
    tern_ref_relu2(a->gate, a->up, T * REF_FFN, a->product);
    norm_rows(a->product, &p[REF_FFN_SUB_NORM], a->down_in);
    quantise_rows(model, 4 * layer + 3, a->down_in, REF_FFN, &a->down_q8);
    linear(&p[REF_DOWN], a->down_in, &a->down_q8, out);
    tern_ref_add(out, a->mid, T * REF_HIDDEN, out);
}

void ref_forward(ref_model *model, const int32_t *ids)
{
    const ref_param *embed = &model->params[REF_EMBED];
    model->ties.n = 0;
    for (uint32_t t = 0; t < T; t++)
        memcpy(model->acts[0].x + t * REF_HIDDEN, embed->w + ids[t] * REF_HIDDEN, REF_HIDDEN * sizeof(float));
    for (uint32_t i = 0; i < REF_LAYERS; i++) {
        const ref_param *p = &model->params[i * REF_LAYER_PARAMS];
        attention_part(model, i, p, &model->acts[i]);
        ffn_part(model, i, p, &model->acts[i], i + 1 < REF_LAYERS ? model->acts[i + 1].x : model->last);
    }
    norm_rows(model->last, &model->params[REF_FINAL_NORM], model->last_normed);
    tern_ref_f32((const uint8_t *)embed->w, REF_HIDDEN * sizeof(float), REF_VOCAB, REF_HIDDEN, model->last_normed,
                 REF_HIDDEN, T, model->logits, REF_VOCAB);
}

double ref_loss(ref_model *model, const int32_t *labels)
{
    uint32_t n = tern_ref_count_labels(labels, T);
    double sum = 0;
    for (uint32_t t = 0; t < T; t++)
        sum += (double)tern_ref_cross_entropy(model->logits + t * REF_VOCAB, REF_VOCAB, labels[t], 1.0f / (float)n);
    return sum / n;
}
