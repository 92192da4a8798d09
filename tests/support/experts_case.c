/* The backward of a layer with experts for cases made by hand. */
#include "support/experts_case.h"

#include "ops/operands.h"

static tern_view add_route(test_case *c, const test_experts *e, tern_route_rule rule, tern_view logits)
{
    const tern_view routes = test_case_output(c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
    test_case_add(c, (tern_op){.kind = TERN_OP_ROUTE,
                               .n_in = TERN_ROUTE_INPUTS,
                               .in = {logits},
                               .n_experts = e->n_experts,
                               .route_rule = rule,
                               .out = routes});
    return routes;
}

/* Of the sum, whose result is what the matrix's backward reads, and of the choice. */
static tern_view add_combine(test_case *c, const test_experts *e, tern_route_rule rule, tern_view logits,
                             tern_view routes)
{
    tern_op op = {.kind = TERN_OP_COMBINE_BACKWARD, .rows = TERN_ROWS_ROUTED, .n_in = TERN_COMBINE_BACKWARD_INPUTS};
    const tern_view dweights = test_case_output(c, "dweights", TERN_ROWS_ROUTED, TERN_DTYPE_F32, 1);
    op.in[TERN_COMBINE_BACKWARD_Y] = test_case_rows(c, "y", TERN_ROWS_ROUTED, e->rows, TEST_ORDINARY);
    op.in[TERN_COMBINE_BACKWARD_ROUTES] = routes;
    op.in[TERN_COMBINE_BACKWARD_DOUT] = test_case_rows(c, "dout", TERN_ROWS_TOKENS, e->rows, TEST_ORDINARY);
    op.in[TERN_COMBINE_BACKWARD_DWEIGHTS] = dweights;
    op.out = test_case_output(c, "dy", TERN_ROWS_ROUTED, TERN_DTYPE_F32, e->rows);
    test_case_add(c, op);
    test_case_add(c, (tern_op){.kind = TERN_OP_ROUTE_BACKWARD,
                               .n_in = TERN_ROUTE_BACKWARD_INPUTS,
                               .in = {logits, routes, dweights},
                               .n_experts = e->n_experts,
                               .route_rule = rule,
                               .out = test_case_output(c, "dlogits", TERN_ROWS_TOKENS, TERN_DTYPE_F32, e->n_experts)});
    return op.out;
}

static void add_dx(test_case *c, const test_experts *e, tern_rows rows, tern_view dy, tern_view routes)
{
    tern_op op = {.kind = TERN_OP_LINEAR_DX, .rows = rows, .n_in = TERN_LINEAR_DX_INPUTS, .n_experts = e->n_experts};
    op.in[TERN_LINEAR_DX_DY] = dy;
    op.in[TERN_LINEAR_DX_W] = test_case_weight(c, e->encoding, e->n_experts * e->rows, e->cols);
    op.route = routes;
    op.residual = test_case_rows(c, "residual", rows, e->cols, TEST_ORDINARY);
    op.out = test_case_output(c, "dx", rows, TERN_DTYPE_F32, e->cols);
    test_case_add(c, op);
}

static void add_dw(test_case *c, const test_experts *e, tern_view x, tern_view dy, tern_view routes)
{
    tern_op op = {.kind = TERN_OP_LINEAR_DW, .rows = TERN_ROWS_ROUTED, .n_in = TERN_LINEAR_DW_INPUTS};
    op.in[TERN_LINEAR_DW_DY] = dy;
    op.in[TERN_LINEAR_DW_X] = x;
    op.in[TERN_LINEAR_DW_DW] =
        test_case_state(c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, e->n_experts * e->rows, e->cols, TEST_ORDINARY);
    op.out.value = TERN_NO_VALUE;
    op.route = routes;
    op.n_experts = e->n_experts;
    test_case_add(c, op);
}

static void add_bias(test_case *c, const test_experts *e, tern_view dy, tern_view routes)
{
    tern_op op = {.kind = TERN_OP_BIAS_BACKWARD, .rows = TERN_ROWS_ROUTED, .n_in = TERN_BIAS_BACKWARD_INPUTS};
    op.in[TERN_BIAS_BACKWARD_DY] = dy;
    op.in[TERN_BIAS_BACKWARD_DBIAS] =
        test_case_state(c, "db", TERN_STATE_GRADIENT, TERN_DTYPE_F32, e->n_experts, e->rows, TEST_ORDINARY);
    op.out.value = TERN_NO_VALUE;
    op.route = routes;
    op.n_experts = e->n_experts;
    test_case_add(c, op);
}

void test_experts_backward_add(test_case *c, const test_experts *e, tern_route_rule rule)
{
    const tern_view logits = test_case_rows(c, "logits", TERN_ROWS_TOKENS, e->n_experts, TEST_ORDINARY),
                    routes = add_route(c, e, rule, logits), dy = add_combine(c, e, rule, logits, routes);
    add_dx(c, e, TERN_ROWS_TOKENS, dy, routes);
    add_dx(c, e, TERN_ROWS_ROUTED, dy, routes);
    add_dw(c, e, test_case_rows(c, "x", TERN_ROWS_TOKENS, e->cols, TEST_ORDINARY), dy, routes);
    add_dw(c, e, test_case_q8(c, "q8", TERN_ROWS_TOKENS, e->cols), dy, routes);
    add_dw(c, e, test_case_rows(c, "routed_x", TERN_ROWS_ROUTED, e->cols, TEST_ORDINARY), dy, routes);
    add_bias(c, e, dy, routes);
}
