/* The memory planner on graphs of any shape, and on one as long as that of a whole model's training. */
#include "support/test.h"

#include "ops/op.h"

#include <time.h>

#include "base/rng.h"
#include "graph/graph.h"
#include "support/graph_check.h"

static uint32_t add_value(tern_graph *g, uint32_t cols)
{
    tern_error err = {0};
    uint32_t id;
    tern_value v = {.kind = TERN_VALUE_ACTIVATION, .cols = cols, .bytes = (uint64_t)cols * g->max_tokens * 4};
    snprintf(v.name, sizeof v.name, "v%zu", g->n_values);
    assert_ok(tern_graph__add_value(g, v, &id, &err), err);
    return id;
}

static tern_view view(const tern_graph *g, uint32_t value)
{
    return (tern_view){.value = value, .cols = value == TERN_NO_VALUE ? 0 : g->values[value].cols};
}

static void add_op(tern_graph *g, tern_op op)
{
    tern_error err = {0};
    op.norm_weight = view(g, TERN_NO_VALUE);
    assert_ok(tern_graph__add_op(g, &op, &err), err);
}

/* A value made not long ago, or any. */
static uint32_t some_value(const tern_graph *g, tern_rng *rng)
{
    uint32_t n = (uint32_t)g->n_values, near = n < 8 ? n : 8;
    return tern_rng_below(rng, 4) ? n - 1 - tern_rng_below(rng, near) : tern_rng_below(rng, n);
}

static void add_random_op(tern_graph *g, tern_rng *rng)
{
    static const tern_op_kind kinds[] = {TERN_OP_ADD, TERN_OP_LINEAR_DX, TERN_OP_GATE_BACKWARD, TERN_OP_ROPE,
                                         TERN_OP_RMS_NORM_BACKWARD};
    tern_op op = {.kind = kinds[tern_rng_below(rng, 5)], .n_in = 2};
    for (uint32_t i = 0; i < op.n_in; i++) op.in[i] = view(g, some_value(g, rng));
    op.residual = view(g, TERN_NO_VALUE);
    bool sums = op.kind == TERN_OP_LINEAR_DX || op.kind == TERN_OP_RMS_NORM_BACKWARD;
    if (sums && tern_rng_below(rng, 3)) op.residual = view(g, some_value(g, rng));
    if (op.kind == TERN_OP_GATE_BACKWARD) {
        op.n_in = TERN_GATE_BACKWARD_INPUTS;
        op.in[TERN_GATE_BACKWARD_DY] = view(g, some_value(g, rng));
        op.in[TERN_GATE_BACKWARD_DUP] = view(g, add_value(g, 8 + 8 * tern_rng_below(rng, 4)));
    }
    uint32_t cols = 8 + 8 * tern_rng_below(rng, 4);
    if (op.kind == TERN_OP_ADD) cols = g->values[op.in[TERN_ADD_A].value].cols;
    if (op.residual.value != TERN_NO_VALUE) cols = g->values[op.residual.value].cols;
    op.out = op.kind == TERN_OP_ROPE ? op.in[TERN_ROPE_X] : view(g, add_value(g, cols));
    add_op(g, op);
}

static void check_blocks(const tern_graph *g)
{
    for (size_t i = 0; i < g->n_values; i++) {
        const tern_value *v = &g->values[i];
        if (v->kind != TERN_VALUE_ACTIVATION) continue;
        assert_int_equal(v->offset / g->activation_block, (v->offset + v->bytes - 1) / g->activation_block);
    }
}

static void random_graphs(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_rng rng = {5};
    for (int round = 0; round < 200; round++)
        for (uint32_t way = 0; way < 4; way++) {
            bool in_place = way % 2;
            tern_graph g = {.max_tokens = 4, .max_outputs = 4, .activation_block = way < 2 ? 0 : 2048};
            for (int i = 0; i < 3; i++) add_value(&g, 16);
            for (uint32_t i = 0, n = 1 + tern_rng_below(&rng, 60); i < n; i++) add_random_op(&g, &rng);
            assert_ok(tern_graph_plan(&g, in_place ? TERN_FUSION_IN_PLACE : 0, &err), err);
            test_check_plan(&g, in_place);
            if (g.activation_block) check_blocks(&g);
            tern_graph_deinit(&g);
        }
}

/* A chain of layers that keep what they made for the way back: values of layer i are read again in the mirror of it. */
static void add_layers(tern_graph *g, uint32_t n_layers, uint32_t per_layer)
{
    uint32_t last = add_value(g, 64), *made = calloc((size_t)n_layers * per_layer, sizeof *made);
    tern_view none = view(g, TERN_NO_VALUE);
    for (uint32_t i = 0; i < n_layers * per_layer; i++) {
        made[i] = add_value(g, i % 5 ? 64 : 176);
        add_op(g, (tern_op){.kind = TERN_OP_LINEAR_DX,
                            .n_in = 1,
                            .in = {[TERN_LINEAR_DX_DY] = view(g, last)},
                            .residual = none,
                            .out = view(g, made[i])});
        last = made[i];
    }
    uint32_t gradient = add_value(g, 64);
    for (uint32_t i = n_layers * per_layer; i-- > 0;) {
        uint32_t next = add_value(g, 64);
        add_op(g, (tern_op){.kind = TERN_OP_LINEAR_DX,
                            .n_in = 1,
                            .in = {[TERN_LINEAR_DX_DY] = view(g, made[i])},
                            .residual = view(g, gradient),
                            .out = view(g, next)});
        gradient = next;
    }
    free(made);
}

static void a_long_graph_is_planned_at_once(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_graph g = {.max_tokens = 64, .max_outputs = 64};
    add_layers(&g, 30, 50);
    assert_int_equal(g.n_ops, 3000);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_ok(tern_graph_plan(&g, TERN_FUSION_IN_PLACE, &err), err);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    print_message("%zu values in %.0f ms\n", g.n_values, ms);
    assert_true(test_quick() || ms < 2000);
    test_check_plan(&g, true);
    /* all that is kept, the gradient, and what is read last */
    uint64_t kept = 0;
    for (uint32_t i = 1; i <= 1500; i++) kept += g.values[i].bytes;
    assert_true(g.activation_bytes >= kept);
    assert_true(g.activation_bytes <= kept + kept / 100);
    tern_graph_deinit(&g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_graphs),
    cmocka_unit_test(a_long_graph_is_planned_at_once),
};

TEST_GROUP(plan, "", tests);
