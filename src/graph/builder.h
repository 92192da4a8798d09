/* Helpers of the builders of a graph: values and ops are added one by one, and the first failure sticks. */
#ifndef TERN_GRAPH_BUILDER_H
#define TERN_GRAPH_BUILDER_H

#include "graph/graph.h"
#include "model/model.h"
#include "ops/op.h"

typedef struct tern_builder {
    tern_graph *graph;
    const tern_model *model;
    const tern_config *config;
    const tern_graph_options *options;
    tern_error *err;
    tern_status status; /* sticky: after the first failure every step does nothing */
    uint32_t layer;     /* UINT32_MAX: outside the layers */
    uint32_t n_streams; /* of random bits, given out so far */
    tern_view rope_tables[TERN_MAX_ROPES];
    tern_view signs[8];       /* of rotated inputs, of one width each; no columns: not made yet */
    tern_view head_scales[2]; /* of q and of k in layers that recur: weights of RMS norms that are L2 norms */
} tern_builder;

static inline tern_view tern_build__no_view(void)
{
    return (tern_view){.value = TERN_NO_VALUE};
}

/* A value; within a layer its name ends in the layer's number. */
tern_view tern_build__value(tern_builder *b, tern_value value, const char *name);
/* Rows that an op makes, at the largest batch. */
tern_view tern_build__activation(tern_builder *b, const char *name, tern_dtype dtype, tern_rows rows, uint32_t cols);
tern_view tern_build__param(tern_builder *b, tern_param which);
/* The weight of a role of the present layer: that of the options or the model's. */
const tern_weight *tern_build__weight_at(const tern_builder *b, tern_role role);
/* The graph's weight of a role, with its adapters; NULL when the graph takes the weights of the model. */
const tern_graph_weight *tern_build__graph_weight(const tern_builder *b, tern_role role);
tern_view tern_build__weight(tern_builder *b, const tern_weight *weight);
void tern_build__op(tern_builder *b, tern_op op, tern_rows rows, uint32_t n_in, tern_view out);
tern_rows tern_build__rows_of(const tern_builder *b, tern_view x);
tern_view tern_build__rms_norm(tern_builder *b, const char *name, tern_view x, tern_role role);
/* As above into `out`, which may be x. A norm of fewer columns is one of each run of so many. */
tern_view tern_build__rms_norm_at(tern_builder *b, tern_view x, tern_role role, tern_view out);
/* Whole rows of what every rank has made of a role's rows; x itself where the model is not cut. */
tern_view tern_build__all_gather(tern_builder *b, const char *name, tern_view x, tern_role role);
/* x times the factor, and with a soft cap (not 0) that of it. */
tern_view tern_build__scale(tern_builder *b, const char *name, tern_view x, float factor, float softcap);
/* Makes x hidden state `index`, where they are wanted. */
void tern_build__mark_hidden(tern_builder *b, tern_view x, uint32_t index);

/* x in the basis of weights that lie in one, or, `inverse`, rows of such a table in that of the model. role: of the
 * matrix that reads x. */
tern_view tern_build__rotate(tern_builder *b, tern_view x, tern_role role, bool inverse);

/* The input of linear layers: f32 rows, or their int8 form, which is made once for all layers that share x. */
typedef struct tern_build_input {
    tern_view x, quantized;
    tern_view rotated, rotated_quantized; /* the same in the basis of the weights that lie in one */
    tern_rows rows;
    bool table;      /* for the output table: never quantised */
    bool plain;      /* never quantised either */
    tern_view route; /* of layers with experts, whose results are rows ROUTED; no columns: none */
} tern_build_input;

/* One of the linear layers that share an input. */
typedef struct tern_build_linear {
    const char *name;     /* of the result */
    tern_role role, bias; /* of the bias, where the model has one; else TOKEN_EMBD, which is 0 */
    bool gathered;        /* from all ranks, where the model is cut */
    tern_role norm;       /* of the norm before this layer alone, where models have one; else TOKEN_EMBD */
    tern_view out;
} tern_build_linear;

/* Adds the layers, at most TERN_LINEAR_MAX_PARTS, and what adapters put beside them; fills `out` of each. */
void tern_build__linears(tern_builder *b, tern_build_input *in, tern_build_linear *layers, uint32_t n);

tern_view tern_build__add(tern_builder *b, const char *name, tern_view a, tern_view c);
/* out = activation(gate) * up */
tern_view tern_build__gate(tern_builder *b, const char *name, tern_view gate, tern_view up, tern_activation activation);
/* Halves of each run of 2 * dim columns: the first are returned, the others are *second. */
tern_view tern_build__split(tern_builder *b, const char *first_name, const char *second_name, tern_view x, uint32_t dim,
                            tern_view *second);
/* The result of a layer that recurs from its normed input, before it is added. */
tern_view tern_build__recurrent(tern_builder *b, tern_view x);
/* State that all such layers share. */
void tern_build__recurrent_constants(tern_builder *b);

/* From the last layer's output to the logits; in training to the losses. */
void tern_build__head(tern_builder *b, tern_view x);

#endif
