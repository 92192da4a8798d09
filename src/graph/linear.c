/* Linear layers of the decoder: the quantiser before them and the adapters beside them. */
#include <stdio.h>
#include <string.h>

#include "graph/builder.h"

/* "attn_norm_q8" for "attn_norm-3". */
static void name_quantized(const tern_builder *b, uint32_t value, const char *ending, char out[48])
{
    const char *name = b->graph->values ? b->graph->values[value].name : "";
    const char *suffix = b->layer == UINT32_MAX ? NULL : strrchr(name, '-');
    snprintf(out, 48, "%.*s_%s", suffix && suffix - name < 40 ? (int)(suffix - name) : 40, name, ending);
}

static tern_view quantized(tern_builder *b, tern_build_input *in)
{
    if (in->quantized.cols) return in->quantized;
    char name[48];
    bool fake = b->options->fake_quantize;
    name_quantized(b, in->x.value, fake ? "fq" : "q8", name);
    in->quantized = tern_build__activation(b, name, fake ? TERN_DTYPE_F32 : TERN_DTYPE_Q8, in->rows, in->x.cols);
    tern_op op = {.kind = TERN_OP_QUANTIZE, .in = {in->x}};
    if (fake) {
        op.kind = TERN_OP_FAKE_QUANTIZE;
        op.in[1] = tern_build__param(b, TERN_PARAM_TRAINING);
    }
    tern_build__op(b, op, in->rows, fake ? 2 : 1, in->quantized);
    return in->quantized;
}

/* y = W x (+ residual) */
static tern_view multiply(tern_builder *b, const char *name, const tern_build_input *in, tern_view x,
                          const tern_weight *w, tern_view residual)
{
    tern_view y = tern_build__activation(b, name, TERN_DTYPE_F32, in->rows, w->rows);
    tern_op op = {.kind = TERN_OP_LINEAR, .in = {x, tern_build__weight(b, w)}, .n_parts = 1, .residual = residual};
    tern_build__op(b, op, in->rows, 2, y);
    return y;
}

/* out = B scale A dropout(x) + y; the result of the last adapter has the name of the layer. */
static tern_view adapt(tern_builder *b, const tern_build_linear *layer, const tern_build_input *in, uint32_t index,
                       bool last, tern_view y)
{
    const tern_graph_lora *lora = &tern_build__place(b, layer->role)->loras[index];
    char name[64];
    tern_view x = in->x;
    if (b->options->training && lora->dropout > 0) {
        snprintf(name, sizeof name, "%s_lora%u_dropout", layer->name, index);
        tern_view training = tern_build__param(b, TERN_PARAM_TRAINING);
        tern_view dropped = tern_build__activation(b, name, TERN_DTYPE_F32, in->rows, x.cols);
        tern_op op = {.kind = TERN_OP_DROPOUT, .in = {x, training}, .scale = lora->dropout, .stream = b->n_streams++};
        tern_build__op(b, op, in->rows, 2, dropped);
        x = dropped;
    }
    snprintf(name, sizeof name, "%s_lora%u_a", layer->name, index);
    tern_view a = multiply(b, name, in, x, lora->a, tern_build__no_view());
    snprintf(name, sizeof name, "%s_lora%u_scaled", layer->name, index);
    tern_view scaled = tern_build__activation(b, name, TERN_DTYPE_F32, in->rows, a.cols);
    tern_build__op(b, (tern_op){.kind = TERN_OP_SCALE, .in = {a}, .scale = lora->scale}, in->rows, 1, scaled);
    snprintf(name, sizeof name, "%s_lora%u", layer->name, index);
    return multiply(b, last ? layer->name : name, in, scaled, lora->b, y);
}

static uint32_t n_loras(const tern_builder *b, tern_role role)
{
    const tern_graph_weight *place = tern_build__place(b, role);
    return place ? place->n_loras : 0;
}

/* A dense weight that stands in for a ternary one, or becomes one (gradual quantisation), is multiplied by quantised
 * rows too. */
static bool takes_quantized(const tern_builder *b, const tern_build_input *in, tern_role role)
{
    if (in->table || b->options->f32_activations) return false;
    const tern_weight *own = tern_model_weight(b->model, role, b->layer), *there = tern_build__weight_at(b, role);
    bool becomes_ternary = b->options->fake_quantize && there->trained;
    return there->encoding->ternary || own->encoding->ternary || becomes_ternary || b->config->bit_linear;
}

void tern_build__linears(tern_builder *b, tern_build_input *in, tern_build_linear *layers, uint32_t n)
{
    /* the layers first, so that they follow each other and can be fused */
    for (uint32_t i = 0; i < n; i++) {
        tern_build_linear *l = &layers[i];
        char base[48];
        snprintf(base, sizeof base, n_loras(b, l->role) ? "%s_base" : "%s", l->name);
        const tern_weight *w = in->table && b->options->head ? b->options->head : tern_build__weight_at(b, l->role);
        tern_view x = takes_quantized(b, in, l->role) ? quantized(b, in) : in->x;
        l->out = multiply(b, base, in, x, w, tern_build__no_view());
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t last = n_loras(b, layers[i].role);
        for (uint32_t k = 0; k < last; k++) layers[i].out = adapt(b, &layers[i], in, k, k + 1 == last, layers[i].out);
    }
}
