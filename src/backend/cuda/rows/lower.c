/* Launches of the ops on rows. */
#include "backend/cuda/cuda_internal.h"
#include "ops/op.h"

/* Launch functions take their own struct; a launch knows only that it is one. */
#define RUN(name, type)                                                                                                \
    static cudaError_t name(const void *params, cudaStream_t stream)                                                   \
    {                                                                                                                  \
        return tern_cuda_run_##name((const type *)params, stream);                                                     \
    }
RUN(embed, tern_cuda_embed)
RUN(norm, tern_cuda_norm)
RUN(rounded_norm, tern_cuda_rounded_norm)
RUN(quantize, tern_cuda_quantize)
RUN(gate, tern_cuda_elements)
RUN(add, tern_cuda_elements)
RUN(scale, tern_cuda_elements)
RUN(gather, tern_cuda_elements)
RUN(combine, tern_cuda_elements)
RUN(route, tern_cuda_route)
#undef RUN

void tern_cuda__lower_embed(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = embed;
    out->params.embed = (tern_cuda_embed){.count = tern_cuda__count(p, op->rows),
                                          .table = tern_cuda__weight(p, op->in[TERN_EMBED_TABLE]),
                                          .ids = (const int32_t *)tern_cuda__param(p, TERN_PARAM_IDS),
                                          .out = tern_cuda__rows(p, op->out)};
}

void tern_cuda__lower_norm(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view x = op->in[TERN_NORM_X], weight = op->in[TERN_NORM_WEIGHT];
    out->run = norm;
    out->params.norm = (tern_cuda_norm){.count = tern_cuda__count(p, op->rows),
                                        .x = tern_cuda__rows(p, x),
                                        .residual = tern_cuda__rows(p, op->residual),
                                        .out = tern_cuda__rows(p, op->out),
                                        .weight = tern_cuda__floats(p, weight),
                                        .cols = x.cols,
                                        .group = weight.cols,
                                        .eps = op->eps};
}

bool tern_cuda__round_in_norm(tern_cuda_launch *before, const tern_cuda_linear *linear)
{
    const tern_cuda_norm n = before->params.norm;
    if (before->run != norm || !tern_cuda_can_round_norm(&n)) return false;
    before->run = rounded_norm;
    before->params.rounded_norm = (tern_cuda_rounded_norm){n, linear->halves, linear->rounded};
    return true;
}

void tern_cuda__lower_quantize(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const bool normed = op->kind == TERN_OP_NORM_QUANT;
    const tern_view x = op->in[normed ? TERN_NORM_X : TERN_QUANTIZE_X];
    out->run = quantize;
    out->params.quantize = (tern_cuda_quantize){.count = tern_cuda__count(p, op->rows),
                                                .x = tern_cuda__rows(p, x),
                                                .norm = normed ? tern_cuda__floats(p, op->in[TERN_NORM_WEIGHT]) : NULL,
                                                .cols = x.cols,
                                                .eps = op->eps,
                                                .out = tern_cuda__q8(p, op->out)};
}

static tern_cuda_elements elements(const tern_prepared *p, const tern_op *op, tern_view a, tern_view b)
{
    return (tern_cuda_elements){.count = tern_cuda__group_count(p, op),
                                .a = tern_cuda__rows(p, a),
                                .b = tern_cuda__rows(p, b),
                                .out = tern_cuda__rows(p, op->out),
                                .cols = op->out.cols};
}

static const tern_view nothing = {.value = TERN_NO_VALUE};

void tern_cuda__lower_gate(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = gate;
    out->params.elements = elements(p, op, op->in[TERN_GATE_GATE], op->in[TERN_GATE_UP]);
    out->params.elements.activation = op->activation;
    out->params.elements.limit = op->limit;
    out->params.elements.one_gate = op->in[TERN_GATE_GATE].cols == 1;
}

void tern_cuda__lower_add(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = add;
    out->params.elements = elements(p, op, op->in[TERN_ADD_A], op->in[TERN_ADD_B]);
}

void tern_cuda__lower_scale(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = scale;
    out->params.elements = elements(p, op, op->in[TERN_SCALE_X], nothing);
    out->params.elements.scale = op->scale;
    out->params.elements.softcap = op->softcap;
}

void tern_cuda__lower_gather(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = gather;
    out->params.elements = elements(p, op, op->in[TERN_GATHER_X], nothing);
    out->params.elements.index = tern_cuda__param(p, TERN_PARAM_OUTPUTS);
}

static uint32_t *routes_at(const tern_prepared *p, tern_view view)
{
    return (uint32_t *)(void *)tern_cuda__address(p, view.value);
}

void tern_cuda__lower_combine(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = combine;
    out->params.elements = elements(p, op, op->in[TERN_COMBINE_Y], op->residual);
    out->params.elements.index = routes_at(p, op->in[TERN_COMBINE_ROUTES]);
    out->params.elements.n_routes = p->graph->n_routes;
}

void tern_cuda__lower_route(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    const tern_view logits = op->in[TERN_ROUTE_LOGITS];
    out->run = route;
    out->params.route = (tern_cuda_route){.count = tern_cuda__count(p, TERN_ROWS_TOKENS),
                                          .logits = tern_cuda__rows(p, logits),
                                          .n_experts = logits.cols,
                                          .n_routes = p->graph->n_routes,
                                          .rule = op->route_rule,
                                          .routes = routes_at(p, op->out)};
}
