/* Inputs of weights that lie in a rotated basis (model/hadamard.h). */
#include <stdio.h>
#include <string.h>

#include "graph/builder.h"
#include "model/hadamard.h"

/* The signs of rows of this width, one constant for all that have it. */
static tern_view signs_of(tern_builder *b, uint32_t width)
{
    const tern_hadamard *h = tern_model_hadamard(b->model);
    size_t at = 0;
    while (at + 1 < sizeof b->signs / sizeof *b->signs && b->signs[at].cols && b->signs[at].cols != width) at++;
    if (b->signs[at].cols == width) return b->signs[at];
    char name[32];
    const uint32_t layer = b->layer;
    tern_value value = {.kind = TERN_VALUE_CONSTANT,
                        .dtype = TERN_DTYPE_F32,
                        .cols = width,
                        .bytes = (uint64_t)width * 4,
                        .numbers = tern_hadamard_signs_of(h, width),
                        .fill = 1.0f};
    snprintf(name, sizeof name, "signs_%u", width);
    b->layer = UINT32_MAX;
    b->signs[at] = tern_build__value(b, value, name);
    b->layer = layer;
    return b->signs[at];
}

/* "ffn_norm_rotated" for "ffn_norm-3". */
static void name_rotated(const tern_builder *b, uint32_t value, char out[64])
{
    const char *name = b->graph->values ? b->graph->values[value].name : "";
    const char *suffix = b->layer == UINT32_MAX ? NULL : strrchr(name, '-');
    snprintf(out, 64, "%.*s_rotated", suffix && suffix - name < 48 ? (int)(suffix - name) : 48, name);
}

tern_view tern_build__rotate(tern_builder *b, tern_view x, tern_role role, bool inverse)
{
    const tern_hadamard *h = tern_model_hadamard(b->model);
    const tern_recurrence *c = &b->config->recurrence;
    const bool heads = h->grouped_heads && role == TERN_ROLE_SSM_OUT;
    const tern_rows rows = tern_build__rows_of(b, x);
    char name[64];
    name_rotated(b, x.value, name);
    const tern_view y = tern_build__activation(b, name, TERN_DTYPE_F32, rows, x.cols);
    const tern_op op = {.kind = TERN_OP_HADAMARD,
                        .in = {[TERN_HADAMARD_X] = x, [TERN_HADAMARD_SIGNS] = signs_of(b, x.cols)},
                        .block = h->block,
                        .inverse = inverse,
                        .n_heads = heads ? c->n_heads : 0,
                        .n_kv_heads = heads ? c->n_key_heads : 0,
                        .head_dim = heads ? c->value_dim : 0};
    tern_build__op(b, op, rows, TERN_HADAMARD_INPUTS, y);
    return y;
}
