/* Linear layers of the decoder: the quantiser before them and the adapters beside them. */
#include <stdio.h>
#include <string.h>

#include "graph/builder.h"
#include "model/hadamard.h"
#include "ops/halves.h"
#include "ops/int8_blocks.h"
#include "quant/encoding.h"
#include "quant/weight.h"

/* "attn_norm_q8" for "attn_norm-3". */
static void name_quantized(const tern_builder *b, uint32_t value, const char *ending, char out[48])
{
    const char *name = b->graph->values ? b->graph->values[value].name : "";
    const char *suffix = b->layer == UINT32_MAX ? NULL : strrchr(name, '-');
    snprintf(out, 48, "%.*s_%s", suffix && suffix - name < 40 ? (int)(suffix - name) : 40, name, ending);
}

/* Those of its tokens, where the first of a layer's experts read it. */
static tern_rows rows_of_x(const tern_builder *b, const tern_build_input *in)
{
    return in->route.cols ? tern_build__rows_of(b, in->x) : in->rows;
}

static tern_view quantized(tern_builder *b, tern_build_input *in)
{
    if (in->quantized.cols) return in->quantized;
    char name[48];
    bool fake = b->options->fake_quantize;
    name_quantized(b, in->x.value, fake ? "fq" : "q8", name);
    const tern_rows rows = rows_of_x(b, in);
    in->quantized = tern_build__activation(b, name, fake ? TERN_DTYPE_F32 : TERN_DTYPE_Q8, rows, in->x.cols);
    tern_op op = {.kind = TERN_OP_QUANTIZE, .in = {[TERN_QUANTIZE_X] = in->x}};
    if (fake)
        op = (tern_op){.kind = TERN_OP_FAKE_QUANTIZE,
                       .in = {[TERN_FAKE_QUANTIZE_X] = in->x,
                              [TERN_FAKE_QUANTIZE_TRAINING] = tern_build__param(b, TERN_PARAM_TRAINING)}};
    tern_build__op(b, op, rows, fake ? TERN_FAKE_QUANTIZE_INPUTS : TERN_QUANTIZE_INPUTS, in->quantized);
    return in->quantized;
}

bool tern_graph_is_ternary(const tern_model *model)
{
    const tern_config *c = tern_model_config(model);
    return c->bit_linear || tern_model_weight(model, tern_config_first_linear(c), 0)->encoding->ternary;
}

/* Whether x goes to int8 by blocks before this weight: of dense layers that have blocks themselves, and of the output
 * table unless it is screened, which bounds f32 logits. */
static bool takes_blocks(const tern_builder *b, const tern_build_input *in, tern_view x, const tern_weight *w)
{
    const bool ternary = tern_graph_is_ternary(b->model);
    const tern_block_rows mode = b->options->int8_blocks;
    if (ternary ? !b->options->int8_table || !in->table : mode == TERN_BLOCK_ROWS_F32) return false;
    if (in->plain || (in->table && b->options->screened_head)) return false;
    if (x.value != in->x.value || w->encoding->ternary || w->encoding->block_elements <= 1) return false;
    return ternary || mode == TERN_BLOCK_ROWS_INT8 || tern_op_multiplies_blocks(w->encoding->id);
}

/* In which 16 bits x and this dense weight are multiplied, if most steps have more than a few rows: a few wait for the
 * weights, whatever the products are. */
static tern_halves takes_halves(const tern_builder *b, const tern_build_input *in, tern_view x, const tern_weight *w,
                                uint32_t group)
{
    enum { FEW = 4 };
    const tern_graph_options *o = b->options;
    const uint32_t n = o->kernel_rows ? o->kernel_rows : o->usual_tokens;
    const uint32_t rows = in->rows == TERN_ROWS_OUTPUTS ? n ? n : o->max_outputs : n ? n : o->max_tokens;
    if (!o->halves || rows <= FEW || in->route.cols || group || x.value != in->x.value) return TERN_HALVES_NONE;
    return in->table && o->screened_head ? TERN_HALVES_NONE : tern_op_halves_of(w->encoding);
}

/* y = a + c; of a group of rows in place of a, whose other rows stay */
static tern_view plus(tern_builder *b, const char *name, tern_rows rows, tern_view a, tern_view c, uint32_t group)
{
    tern_view y = group ? a : tern_build__activation(b, name, TERN_DTYPE_F32, rows, a.cols);
    const tern_op op = {.kind = TERN_OP_ADD, .group = group, .in = {[TERN_ADD_A] = a, [TERN_ADD_B] = c}};
    tern_build__op(b, op, rows, TERN_ADD_INPUTS, y);
    return y;
}

/* y = W x (+ bias) (+ residual), of the experts on the route where there is one; bias NULL: none. The sum of a group of
 * rows goes in place of the residual, whose other rows stay. */
static tern_view multiply(tern_builder *b, const char *name, const tern_build_input *in, tern_view x,
                          const tern_weight *w, const tern_weight *bias, tern_view residual, uint32_t group)
{
    const uint32_t n_experts = in->route.cols ? b->config->n_experts : 1;
    const bool in_place = group && residual.value != TERN_NO_VALUE;
    tern_view y = in_place ? residual : tern_build__activation(b, name, TERN_DTYPE_F32, in->rows, w->rows / n_experts);
    tern_op op = {.kind = TERN_OP_LINEAR,
                  .group = group,
                  .in = {[TERN_LINEAR_X] = x, [TERN_LINEAR_W] = tern_build__weight(b, w)},
                  .n_parts = 1,
                  .int8_blocks = takes_blocks(b, in, x, w),
                  .halves = takes_halves(b, in, x, w, group),
                  .residual = residual,
                  .route = in->route,
                  .n_experts = in->route.cols ? n_experts : 0};
    if (bias) op.bias[0] = tern_build__weight(b, bias);
    tern_build__op(b, op, in->rows, TERN_LINEAR_W + 1, y);
    return y;
}

static tern_view dropped(tern_builder *b, const char *name, const tern_build_input *in, float p)
{
    tern_view training = tern_build__param(b, TERN_PARAM_TRAINING);
    const tern_rows rows = rows_of_x(b, in);
    tern_view out = tern_build__activation(b, name, TERN_DTYPE_F32, rows, in->x.cols);
    tern_op op = {.kind = TERN_OP_DROPOUT,
                  .in = {[TERN_DROPOUT_X] = in->x, [TERN_DROPOUT_TRAINING] = training},
                  .scale = p,
                  .stream = b->n_streams++};
    tern_build__op(b, op, rows, TERN_DROPOUT_INPUTS, out);
    return out;
}

/* A dropout(x) */
static tern_view inner(tern_builder *b, const tern_build_linear *layer, const tern_build_input *in, uint32_t index)
{
    const tern_graph_lora *lora = &tern_build__graph_weight(b, layer->role)->loras[index];
    char name[64];
    tern_view x = in->x;
    snprintf(name, sizeof name, "%s_lora%u_dropout", layer->name, index);
    if (b->options->training && lora->dropout > 0) x = dropped(b, name, in, lora->dropout);
    snprintf(name, sizeof name, "%s_lora%u_a", layer->name, index);
    return multiply(b, name, in, x, lora->a, NULL, tern_build__no_view(), lora->group);
}

/* u, which is A dropout(x), times the scale; outside training a scale of 1 is not an op. */
static tern_view scaled(tern_builder *b, const tern_build_linear *layer, const tern_build_input *in, uint32_t index,
                        tern_view u)
{
    const tern_graph_lora *lora = &tern_build__graph_weight(b, layer->role)->loras[index];
    char name[64];
    if (lora->scale == 1 && !b->options->training) return u;
    snprintf(name, sizeof name, "%s_lora%u_scaled", layer->name, index);
    tern_view out = tern_build__activation(b, name, TERN_DTYPE_F32, in->rows, u.cols);
    const tern_op op = {.kind = TERN_OP_SCALE, .group = lora->group, .in = {[TERN_SCALE_X] = u}, .scale = lora->scale};
    tern_build__op(b, op, in->rows, TERN_SCALE_INPUTS, out);
    return out;
}

static uint32_t n_loras(const tern_builder *b, tern_role role)
{
    const tern_graph_weight *weight = tern_build__graph_weight(b, role);
    return weight ? weight->n_loras : 0;
}

/* B u + out: in one op, but where there is a route, whose products have no sum of their own. */
static tern_view outer(tern_builder *b, const char *name, const tern_build_input *in, tern_view u,
                       const tern_graph_lora *lora, tern_view out)
{
    char made[80];
    if (!in->route.cols) return multiply(b, name, in, u, lora->b, NULL, out, lora->group);
    snprintf(made, sizeof made, "%.60s_lora_b", name);
    const tern_view product = multiply(b, made, in, u, lora->b, NULL, tern_build__no_view(), lora->group);
    return plus(b, name, in->rows, out, product, lora->group);
}

/* out = B scale A dropout(x) + out for the adapter of this index of each layer; the result of the last one has the name
 * of the layer. The inner products first, which do not wait for each other. Whether there was any. */
static bool adapt(tern_builder *b, const tern_build_input *in, tern_build_linear *layers, uint32_t n, uint32_t index)
{
    tern_view u[TERN_LINEAR_MAX_PARTS];
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        if (index >= n_loras(b, layers[i].role)) continue;
        u[i] = inner(b, &layers[i], in, index);
        any = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (index < n_loras(b, layers[i].role)) u[i] = scaled(b, &layers[i], in, index, u[i]);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t all = n_loras(b, layers[i].role);
        char name[64];
        if (index >= all) continue;
        snprintf(name, sizeof name, "%s_lora%u", layers[i].name, index);
        layers[i].out = outer(b, index + 1 == all ? layers[i].name : name, in, u[i],
                              &tern_build__graph_weight(b, layers[i].role)->loras[index], layers[i].out);
    }
    return any;
}

/* A dense weight that stands in for a ternary one, or becomes one (gradual quantisation), is multiplied by quantised
 * rows too. */
static bool takes_quantized(const tern_builder *b, const tern_build_input *in, tern_role role)
{
    if (in->table || in->plain || b->options->f32_activations) return false;
    const tern_weight *own = tern_model_weight(b->model, role, b->layer), *there = tern_build__weight_at(b, role);
    bool becomes_ternary = b->options->fake_quantize && there->trained;
    return there->encoding->ternary || own->encoding->ternary || becomes_ternary || b->config->bit_linear;
}

/* The input that this layer alone reads: adapters beside it read its source. */
static tern_build_input normed(tern_builder *b, const tern_build_input *in, const tern_build_linear *layer)
{
    char name[48];
    snprintf(name, sizeof name, "%s_in_norm", layer->name);
    tern_build_input own = *in;
    own.quantized = tern_build__no_view();
    own.x = tern_build__rms_norm(b, name, in->x, layer->norm);
    return own;
}

/* Inputs of weights in a rotated basis, made once for all layers that share x. */
static tern_build_input rotated(tern_builder *b, tern_build_input *in, tern_role role)
{
    tern_build_input own = *in;
    if (!in->rotated.cols) in->rotated = tern_build__rotate(b, in->x, role, false);
    own.x = in->rotated;
    own.quantized = in->rotated_quantized;
    return own;
}

/* The rows that other ranks have made, beside what is here. */
static tern_view gathered(tern_builder *b, const tern_build_linear *layer)
{
    char name[48];
    snprintf(name, sizeof name, "%s_all", layer->name);
    return tern_build__all_gather(b, name, layer->out, layer->role);
}

void tern_build__linears(tern_builder *b, tern_build_input *in, tern_build_linear *layers, uint32_t n)
{
    /* the layers first, so that they follow each other and can be fused */
    for (uint32_t i = 0; i < n; i++) {
        tern_build_linear *l = &layers[i];
        char base[48];
        snprintf(base, sizeof base, n_loras(b, l->role) ? "%s_base" : "%s", l->name);
        const tern_weight *w = in->table && b->options->head ? b->options->head : tern_build__weight_at(b, l->role);
        tern_build_input own = *in, *read = in;
        if (l->norm && b->config->linear_norms) own = normed(b, in, l), read = &own;
        const uint32_t layer = b->layer == UINT32_MAX ? 0 : b->layer;
        const bool rotates = tern_hadamard_rotates(tern_model_hadamard(b->model), l->role, layer);
        if (rotates) own = rotated(b, in, l->role), read = &own;
        tern_view x = takes_quantized(b, read, l->role) ? quantized(b, read) : read->x;
        if (rotates) in->rotated_quantized = own.quantized;
        const tern_weight *bias = l->bias ? tern_build__weight_at(b, l->bias) : NULL;
        l->out = multiply(b, base, read, x, w, bias && bias->encoding ? bias : NULL, tern_build__no_view(), 0);
    }
    bool more = true;
    for (uint32_t k = 0; more; k++) more = adapt(b, in, layers, n, k);
    for (uint32_t i = 0; i < n; i++)
        if (layers[i].gathered) layers[i].out = gathered(b, &layers[i]);
}
