/* Graphs of stages: together they have each op once and in order, and what one sends the next one receives. */
#include "ops/op.h"
#include "support/golden.h"
#include "support/test.h"

#include "graph/stages.h"
#include "ops/crossing.h"

enum { CONTEXT = 96, BATCH = 16 };

static void build(tern_graph *g, const tern_model *model)
{
    tern_error err = {0};
    const tern_graph_options options = {.max_tokens = BATCH,
                                        .max_outputs = 3,
                                        .n_ctx = CONTEXT,
                                        .n_sequences = 1,
                                        .n_pages = 3,
                                        .keep_hidden = true,
                                        .keep_states = true};
    assert_ok(tern_graph_build(g, model, &options, &err), err);
    assert_ok(tern_graph_fuse(g, NULL, &err), err);
}

static tern_model *open_stage(const char *name, uint32_t stage, uint32_t n)
{
    tern_error err = {0};
    tern_model *model;
    const tern_model_options options = {.no_tokenizer = true, .stage = stage, .n_stages = n};
    assert_ok(tern_model_open(&model, test_fixture(name), &options, &err), err);
    return model;
}

static bool crosses(tern_op_kind kind)
{
    return kind == TERN_OP_SEND || kind == TERN_OP_RECEIVE;
}

static bool same_op(const tern_op *a, const tern_op *b)
{
    bool same = a->kind == b->kind && a->layer == b->layer && tern_op_n_views(a) == tern_op_n_views(b);
    for (uint32_t i = 0; same && i < tern_op_n_views(a); i++)
        same = tern_op_view(a, i).value == tern_op_view(b, i).value;
    return same;
}

/* The values of the crossings at one end of a stage, in order. */
static uint32_t values_of(const tern_graph *g, tern_op_kind kind, uint32_t peer, uint32_t *values)
{
    uint32_t n = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        const tern_op *op = &g->ops[i];
        if (op->kind != kind) continue;
        assert_int_equal(op->peer, peer);
        values[n++] = kind == TERN_OP_SEND ? op->in[TERN_SEND_X].value : op->out.value;
    }
    return n;
}

/* Nothing is read that no op before has made; returns how many caches are there. */
static uint32_t check_made(const tern_graph *g)
{
    uint32_t n_caches = 0, read[TERN_OP_MAX_VIEWS];
    tern_places *where = calloc(g->n_values, sizeof *where);
    assert_non_null(where);
    for (size_t i = 0; i < g->n_ops; i++) {
        const uint32_t n = tern_op_values_read(&g->ops[i], read);
        for (uint32_t k = 0; k < n; k++) {
            const tern_value_kind kind = g->values[read[k]].kind;
            if (kind == TERN_VALUE_ACTIVATION || kind == TERN_VALUE_OUTPUT) assert_true(where[read[k]]);
        }
        tern_crossing_writes(&g->ops[i], 0, where);
    }
    for (uint32_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_CACHE) {
            assert_int_equal(g->values[i].bytes > 0, where[i] != 0);
            n_caches += where[i] != 0;
        }
    free(where);
    return n_caches;
}

static void check_stages(const char *name, uint32_t n_stages)
{
    tern_error err = {0};
    tern_graph whole = {0};
    tern_model *all = open_stage(name, 0, 0);
    build(&whole, all);
    size_t at = 0;
    uint32_t n_caches = 0, n_sent = 0, sent[8], received[8];
    for (uint32_t stage = 0; stage < n_stages; stage++) {
        tern_model *model = open_stage(name, stage, n_stages);
        tern_graph g = {0};
        build(&g, model);
        assert_ok(tern_graph_take_stage(&g, tern_model_stages(model), &err), err);
        const uint32_t n_received = values_of(&g, TERN_OP_RECEIVE, stage - 1, received);
        assert_int_equal(n_received, n_sent);
        assert_memory_equal(received, sent, n_sent * sizeof *sent);
        n_sent = values_of(&g, TERN_OP_SEND, stage + 1, sent);
        assert_int_equal(n_sent, stage + 1 < n_stages); /* the rows of the layer's result alone */
        for (size_t i = 0; i < g.n_ops; i++)
            if (!crosses(g.ops[i].kind)) assert_true(same_op(&g.ops[i], &whole.ops[at++]));
        n_caches += check_made(&g);
        assert_int_equal(g.values[g.logits].stage, n_stages - 1);
        assert_int_equal(g.values[tern_graph_hidden(&g, 0)].stage, 0);
        tern_graph_deinit(&g);
        tern_model_close(model);
    }
    assert_int_equal(at, whole.n_ops);
    assert_int_equal(n_caches, 2 * tern_model_config(all)->n_layers);
    tern_graph_deinit(&whole);
    tern_model_close(all);
}

static void stages_have_each_op_once(void **state)
{
    (void)state;
    static const char *const names[] = {"bitnet", "gemma3", "mixtral", "gpt-oss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tern_model *model = open_stage(names[i], 0, 0);
        const uint32_t n_layers = tern_model_config(model)->n_layers;
        tern_model_close(model);
        for (uint32_t n = 2; n <= n_layers && n <= 4; n++) check_stages(names[i], n);
    }
}

static void more_stages_than_layers_are_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model;
    const tern_model_options options = {.no_tokenizer = true, .n_stages = TERN_MAX_RANKS};
    assert_int_equal(tern_model_open(&model, test_fixture("bitnet"), &options, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "16 stages for a model of"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(stages_have_each_op_once),
    cmocka_unit_test(more_stages_than_layers_are_refused),
};

TEST_GROUP(stages, "", tests);
