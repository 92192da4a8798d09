/* Graphs of families with layers that recur: the backend has every op of theirs, as sessions and training build them.
 * No device is asked. */
#include "graph/backward.h"
#include "graph/graph.h"
#include "graph/training.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "support/golden.h"
#include "support/graph_check.h"
#include "support/test.h"
#include "support/trained.h"

#include "backend/cuda/cuda_internal.h"

enum { CONTEXT = 96, ROWS = 80 };

static const char *const models[] = {"qwen3_5", "qwen3_5_moe", "qwen3_next"};

/* A made-up device. */
static tern_cuda device(void)
{
    return (tern_cuda){.base = {.supports = tern_cuda__supports,
                                .info = {.name = "cuda",
                                         .fusions = TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION,
                                         .samples_rows = true,
                                         .groups_rows = true}},
                       .limits = {.capability = 90, .multiprocessors = 132, .shared_bytes = 227 << 10}};
}

static void check(tern_cuda *cuda, const tern_graph *g)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        tern_error err = {0};
        assert_ok(tern_cuda__supports(&cuda->base, g, &g->ops[i], &err), err);
    }
}

static void session(tern_cuda *cuda, const tern_model *model, tern_graph_options options)
{
    tern_error err = {0};
    tern_graph g;
    options.n_ctx = CONTEXT;
    options.n_pages = options.n_sequences * (CONTEXT / TERN_PAGE_SIZE);
    options.n_states = options.n_sequences;
    assert_ok(tern_graph_build(&g, model, &options, &err), err);
    assert_ok(tern_graph_fuse(&g, &cuda->base, &err), err);
    assert_ok(tern_graph_plan(&g, cuda->base.info.fusions, &err), err);
    assert_true(test_count_ops(&g, TERN_OP_GATED_DELTA) > 0 && test_count_ops(&g, TERN_OP_CONV) > 0);
    check(cuda, &g);
    tern_graph_deinit(&g);
}

static void sessions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        tern_cuda cuda = device();
        tern_engine *engine = test_engine(test_fixture(models[i]), NULL);
        const tern_model *model = tern_engine_model(engine);
        session(&cuda, model,
                (tern_graph_options){.max_tokens = 1, .max_outputs = 1, .n_sequences = 1, .sampler = true});
        session(&cuda, model, (tern_graph_options){.max_tokens = ROWS, .max_outputs = 3, .n_sequences = 1});
        session(&cuda, model,
                (tern_graph_options){.max_tokens = ROWS, .max_outputs = 3, .n_sequences = 3, .sampler_rows = true});
        tern_engine_close(engine);
    }
}

static void training(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        tern_error err = {0};
        tern_cuda cuda = device();
        test_trained t;
        tern_graph g;
        test_trained_open(&t, test_fixture(models[i]), false);
        const tern_graph_options options = {
            .weights = t.places, .max_tokens = ROWS, .max_outputs = ROWS, .n_ctx = CONTEXT, .training = true};
        assert_ok(tern_graph_build(&g, t.model, &options, &err), err);
        assert_ok(tern_graph_differentiate(&g, &(tern_graph_backward_options){0}, &err), err);
        assert_ok(tern_graph_plan(&g, cuda.base.info.fusions, &err), err);
        assert_true(test_count_ops(&g, TERN_OP_VARLEN_GATED_DELTA_BACKWARD) > 0);
        check(&cuda, &g);
        tern_graph_deinit(&g);
        test_trained_close(&t);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sessions),
    cmocka_unit_test(training),
};

TEST_GROUP(cuda_hybrids, "", tests);
