/* Ops of a group of rows (tern_op.group) on a GPU, against the CPU: the group's rows alone are written. */
#include "ops/operands.h"
#include "support/test.h"

#include "support/op_case.h"

enum { N_GROUPS = 3, GROUP = 2, EXPERTS = 5, ROUTES = 2 };

static tern_rng rng;

/* Linear layers as an adapter has them. */
typedef struct linear_case {
    const char *encoding;
    uint32_t rows, cols, max_tokens;
    bool in_place, outputs, routed;
} linear_case;

static const linear_case linears[] = {
    {"f32", 9, 96, 1, false, false, false},   {"f16", 96, 9, 1, true, false, false},
    {"f32", 16, 640, 5, false, false, false}, {"bf16", 640, 16, 5, true, true, false},
    {"q8_0", 72, 64, 8, true, false, false},  {"f32", 16, 2048, 140, false, false, false},
    {"f16", 300, 16, 140, true, true, false}, {"f32", 8, 96, 6, false, false, true},
    {"bf16", 96, 8, 6, false, false, true},   {"f32", 16, 32, 42, false, false, true},
};
enum { N_LINEARS = sizeof linears / sizeof *linears };

/* The group's rows: first and n of the tokens, and of the outputs; another group has others. */
static void put_group(test_case *c, uint32_t first, uint32_t n)
{
    tern_row_group *groups = (tern_row_group *)(void *)test_case_param(c, TERN_PARAM_GROUPS);
    groups[0] = (tern_row_group){0, first, 0, first};
    groups[GROUP - 1] = (tern_row_group){first, n, first, n};
    groups[2] = (tern_row_group){first + n, 1, first + n, 1};
}

/* None, all, one in the middle, those across tiles. */
static void compare(test_case *c, tern_backend *backend, uint32_t cols)
{
    const uint32_t most = c->graph.max_tokens, ranges[][2] = {{0, 0}, {0, most}, {most / 2, 1}, {most / 3, most / 2}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        put_group(c, ranges[i][0], ranges[i][1]);
        test_case_compare(c, backend, most, most, (test_tolerance){.absolute = 0.25e-6 * cols});
    }
}

static tern_view routes_of(test_case *c)
{
    const tern_view logits = test_case_rows(c, "logits", TERN_ROWS_TOKENS, EXPERTS, TEST_ORDINARY),
                    routes = test_case_output(c, "routes", TERN_ROWS_ROUTED, TERN_DTYPE_U32, 2);
    test_case_add(c, (tern_op){.kind = TERN_OP_ROUTE,
                               .n_in = TERN_ROUTE_INPUTS,
                               .in = {[TERN_ROUTE_LOGITS] = logits},
                               .out = routes,
                               .n_experts = EXPERTS});
    return routes;
}

static void run_linear(const linear_case *l, tern_backend *backend)
{
    test_case c;
    const tern_rows rows = l->routed ? TERN_ROWS_ROUTED : l->outputs ? TERN_ROWS_OUTPUTS : TERN_ROWS_TOKENS;
    test_case_open(
        &c, &rng,
        &(test_case_shape){.max_tokens = l->max_tokens, .n_groups = N_GROUPS, .n_routes = l->routed ? ROUTES : 0});
    tern_op op = {.kind = TERN_OP_LINEAR, .rows = rows, .group = GROUP, .n_in = 2, .n_parts = 1};
    if (l->routed) op.route = routes_of(&c), op.n_experts = EXPERTS;
    op.in[TERN_LINEAR_X] = test_case_rows(&c, "x", l->routed ? TERN_ROWS_TOKENS : rows, l->cols, TEST_ORDINARY);
    op.in[TERN_LINEAR_W] = test_case_weight(&c, l->encoding, l->rows * (l->routed ? EXPERTS : 1), l->cols);
    if (l->in_place) op.residual = op.out = test_case_rows(&c, "y", rows, l->rows, TEST_ORDINARY);
    else op.out = test_case_output(&c, "y", rows, TERN_DTYPE_F32, l->rows);
    test_case_add(&c, op);
    compare(&c, backend, l->cols);
    test_case_close(&c);
}

static void linear_layers(void **state)
{
    (void)state;
    test_seed(&rng);
    for (size_t i = 0; i < N_LINEARS; i++)
        for (int kind = 0; kind < test_gpu_kinds(); kind++) {
            if (!test_takes(i + (size_t)kind, 2, TEST_GPU_N_KINDS)) continue;
            print_message("%s: %u x %u, %u tokens\n", linears[i].encoding, linears[i].rows, linears[i].cols,
                          linears[i].max_tokens);
            run_linear(&linears[i], test_gpu_backend_of((test_gpu_kind)kind));
        }
}

/* SCALE, and ADD in place, of rows and of experts' rows. */
static void rows(void **state)
{
    (void)state;
    test_seed(&rng);
    for (int routed = 0; routed < 2; routed++) {
        test_case c;
        const tern_rows kind = routed ? TERN_ROWS_ROUTED : TERN_ROWS_TOKENS;
        test_case_open(&c, &rng,
                       &(test_case_shape){.max_tokens = 7, .n_groups = N_GROUPS, .n_routes = routed ? ROUTES : 0});
        const tern_view x = test_case_rows(&c, "x", kind, 300, TEST_ORDINARY),
                        sum = test_case_rows(&c, "sum", kind, 300, TEST_ORDINARY),
                        y = test_case_output(&c, "y", kind, TERN_DTYPE_F32, 300);
        test_case_add(&c, (tern_op){.kind = TERN_OP_SCALE,
                                    .rows = kind,
                                    .group = GROUP,
                                    .n_in = TERN_SCALE_INPUTS,
                                    .in = {[TERN_SCALE_X] = x},
                                    .scale = -0.7f,
                                    .out = y});
        test_case_add(&c, (tern_op){.kind = TERN_OP_ADD,
                                    .rows = kind,
                                    .group = GROUP,
                                    .n_in = TERN_ADD_INPUTS,
                                    .in = {[TERN_ADD_A] = sum, [TERN_ADD_B] = x},
                                    .out = sum});
        compare(&c, test_gpu_backend(), 1);
        test_case_close(&c);
    }
}

/* What no adapter is made of. */
static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    test_case c;
    test_seed(&rng);
    tern_backend *gpu = test_gpu_backend();
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2, .n_groups = N_GROUPS});
    const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 96, TEST_ORDINARY),
                    y = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 96);
    tern_op op = {.kind = TERN_OP_RMS_NORM, .group = 1, .n_in = 2, .in = {x, test_case_norm_weight(&c, 96)}, .out = y};
    test_case_add(&c, op);
    assert_int_equal(gpu->supports(gpu, &c.graph, &c.graph.ops[0], &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "of a group of rows"));
    test_case_add(&c, (tern_op){.kind = TERN_OP_SCALE, .group = N_GROUPS + 1, .n_in = 1, .in = {x}, .out = y});
    assert_int_equal(gpu->supports(gpu, &c.graph, &c.graph.ops[1], &err), TERN_UNSUPPORTED);
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(linear_layers),
    cmocka_unit_test(rows),
    cmocka_unit_test(refusals),
};

TEST_GROUP(groups, "gpu web simulated", tests, .teardown = test_backends_close);
