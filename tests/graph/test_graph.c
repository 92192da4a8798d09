/* Graphs: what fusion leaves, that it changes no bit, and that the memory plan never lets two live values meet. */
#include <stdlib.h>

#include "support/golden.h"
#include "support/graph_check.h"
#include "support/op_case.h"
#include "support/test.h"

#include "infer/session/runner.h"

enum { CONTEXT = 96, BATCH = 48 };

static const char *const models[] = {"bitnet", "llama", "mixtral", "gpt-oss"};

static void build(tern_graph *g, const tern_engine *engine, bool fused)
{
    tern_error err = {0};
    tern_graph_options options = {
        .max_tokens = BATCH, .max_outputs = 3, .n_ctx = CONTEXT, .n_sequences = 1, .n_pages = 3};
    assert_ok(tern_graph_build(g, tern_engine_model(engine), &options, &err), err);
    if (fused) assert_ok(tern_graph_fuse(g, NULL, &err), err);
    assert_ok(tern_graph_plan(g, TERN_FUSION_IN_PLACE, &err), err);
}

static void fusion_leaves_few_ops(void **state)
{
    (void)state;
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    uint32_t layers = tern_engine_config(engine)->n_layers;
    tern_graph g;
    build(&g, engine, true);
    assert_int_equal(test_count_ops(&g, TERN_OP_LINEAR), 4 * layers + 1); /* q|k|v, o, gate|up, down; the head */
    assert_int_equal(test_count_ops(&g, TERN_OP_NORM_QUANT), 4 * layers);
    assert_int_equal(test_count_ops(&g, TERN_OP_ROPE_KV), layers);
    assert_int_equal(test_count_ops(&g, TERN_OP_ATTENTION), layers);
    assert_int_equal(g.n_ops, 10 * layers + 4); /* and embed, gather, norm, head */
    tern_buf text = {0};
    tern_error err = {0};
    assert_ok(tern_graph_print(&g, &text, &err), err);
    assert_non_null(strstr(text.data, "rope_kv"));
    assert_ok(tern_graph_print_memory(&g, &text, &err), err);
    assert_non_null(strstr(text.data, "KV cache"));
    tern_buf_deinit(&text);
    tern_graph_deinit(&g);
    tern_engine_close(engine);
}

/* Rows of experts, and what fusion joins around them. */
static void experts_have_rows_of_their_own(void **state)
{
    (void)state;
    tern_engine *engine = test_engine(test_fixture("gpt-oss"), NULL);
    const tern_config *config = tern_engine_config(engine);
    tern_error err = {0};
    tern_buf text = {0};
    tern_graph g;
    tern_graph_options options = {
        .max_tokens = BATCH, .max_outputs = 3, .n_ctx = CONTEXT, .n_sequences = 1, .n_pages = 3};
    assert_ok(tern_graph_build(&g, tern_engine_model(engine), &options, &err), err);
    assert_ok(tern_graph_fuse(&g, test_backend("cpu"), &err), err);
    assert_int_equal(g.n_routes, config->n_experts_used);
    assert_int_equal(test_count_ops(&g, TERN_OP_ROUTE), config->n_layers);
    assert_int_equal(test_count_ops(&g, TERN_OP_COMBINE), config->n_layers);
    assert_int_equal(test_count_ops(&g, TERN_OP_GATE), 0); /* under its product, with biases */
    assert_int_equal(test_count_ops(&g, TERN_OP_ADD), 0);  /* in the sum of experts */
    assert_int_equal(test_count_ops(&g, TERN_OP_LINEAR), 5 * config->n_layers + 1);
    for (size_t i = 0; i < g.n_values; i++)
        if (g.values[i].rows == TERN_ROWS_ROUTED)
            assert_int_equal(g.values[i].bytes, BATCH * g.n_routes * g.values[i].cols * 4);
    assert_ok(tern_graph_print(&g, &text, &err), err);
    assert_non_null(strstr(text.data, "softmax over the top"));
    assert_non_null(strstr(text.data, "[routed][2] u32"));
    assert_non_null(strstr(text.data, "*swiglu_oai"));
    tern_buf_deinit(&text);
    tern_graph_deinit(&g);
    tern_engine_close(engine);
}

static uint64_t number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    assert_non_null(at);
    return strtoull(at + strlen(word), NULL, 10);
}

/* What a token adds to the caches is what they hold for a position; weights are the model's. */
static void bounds_are_printed(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        tern_engine *engine = test_engine(test_fixture(models[m]), NULL);
        tern_error err = {0};
        tern_buf text = {0};
        tern_graph g;
        build(&g, engine, m == 0);
        uint64_t cache = 0;
        for (size_t i = 0; i < g.n_values; i++)
            if (g.values[i].kind == TERN_VALUE_CACHE) cache += g.values[i].bytes;
        assert_ok(tern_graph_print_bounds(&g, &text, &err), err);
        assert_int_equal(number_after(text.data, "a token     ") * CONTEXT, cache);
        assert_int_equal(number_after(text.data, "weights     "), tern_model_bytes(tern_engine_model(engine)));
        assert_non_null(strstr(text.data, "head  "));
        tern_buf_deinit(&text);
        tern_graph_deinit(&g);
        tern_engine_close(engine);
    }
}

/* One token's row is the one whose logits are wanted. */
static void one_token_is_not_gathered(void **state)
{
    (void)state;
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_error err = {0};
    tern_graph g;
    tern_graph_options options = {.max_tokens = 1, .max_outputs = 1, .n_ctx = CONTEXT, .n_sequences = 1, .n_pages = 3};
    assert_ok(tern_graph_build(&g, tern_engine_model(engine), &options, &err), err);
    assert_int_equal(test_count_ops(&g, TERN_OP_GATHER), 1);
    assert_ok(tern_graph_fuse(&g, NULL, &err), err);
    assert_int_equal(test_count_ops(&g, TERN_OP_GATHER), 0);
    assert_int_equal(g.n_ops, 10 * tern_engine_config(engine)->n_layers + 3);
    tern_graph_deinit(&g);
    tern_engine_close(engine);
}

static void plan_keeps_values_apart(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int fused = 0; fused < 2; fused++) {
            tern_engine *engine = test_engine(test_fixture(models[m]), NULL);
            tern_graph g;
            build(&g, engine, fused);
            test_check_plan(&g, true);
            test_check_order(&g);
            uint64_t apart = 0;
            for (size_t i = 0; i < g.n_values; i++)
                if (g.values[i].kind == TERN_VALUE_ACTIVATION) apart += g.values[i].bytes;
            assert_true(g.activation_bytes * (m < 2 ? 4 : 2) < apart); /* the others have two layers */
            tern_graph_deinit(&g);
            tern_engine_close(engine);
        }
}

static void fusion_changes_no_bit(void **state)
{
    (void)state;
    int32_t ids[BATCH];
    for (int i = 0; i < BATCH; i++) ids[i] = i * 7 % 500;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        tern_error err = {0};
        tern_engine *engine = test_engine(test_fixture(models[m]), NULL);
        size_t n = (size_t)BATCH * tern_engine_config(engine)->n_vocab;
        float *logits[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
        for (int unfused = 0; unfused < 2; unfused++) {
            tern_runner runner;
            tern_runner_params params = {.n_ctx = CONTEXT, .n_batch = BATCH, .max_outputs = BATCH, .unfused = unfused};
            tern_runner_step step = {.ids = ids, .n_tokens = BATCH - 1, .n_outputs = BATCH - 1};
            tern_runner_step one = {.ids = ids + BATCH - 1, .n_tokens = 1, .n_outputs = 1, .first_position = BATCH - 1};
            assert_ok(tern_runner_open(&runner, engine, &params, &err), err);
            assert_ok(tern_runner_run(&runner, &step, logits[unfused], &err), err);
            assert_ok(tern_runner_run(&runner, &one, logits[unfused] + n - n / BATCH, &err), err);
            tern_runner_deinit(&runner);
        }
        assert_memory_equal(logits[0], logits[1], n * sizeof(float));
        free(logits[0]);
        free(logits[1]);
        tern_engine_close(engine);
    }
}

/* Logits of BATCH tokens, `at_once` of them in a step. */
static float *run_tokens(tern_engine *engine, uint32_t at_once)
{
    tern_error err = {0};
    tern_runner runner;
    const size_t n_vocab = tern_engine_config(engine)->n_vocab;
    const tern_runner_params params = {.n_ctx = CONTEXT, .n_batch = BATCH, .max_outputs = BATCH};
    float *logits = malloc(BATCH * n_vocab * sizeof *logits);
    int32_t ids[BATCH];
    for (int32_t i = 0; i < BATCH; i++) ids[i] = i * 37 % 500;
    assert_ok(tern_runner_open(&runner, engine, &params, &err), err);
    for (uint32_t first = 0; first < BATCH; first += at_once) {
        const tern_runner_step step = {
            .ids = ids + first, .n_tokens = at_once, .n_outputs = at_once, .first_position = first};
        assert_ok(tern_runner_run(&runner, &step, logits + first * n_vocab, &err), err);
    }
    tern_runner_deinit(&runner);
    return logits;
}

/* Whether logits of the engine, as it is now, have these bits: in one step and token by token. */
static bool logits_are(tern_engine *engine, const float *want)
{
    const size_t bytes = BATCH * tern_engine_config(engine)->n_vocab * sizeof *want;
    float *together = run_tokens(engine, BATCH), *alone = run_tokens(engine, 1);
    assert_memory_equal(together, alone, bytes);
    const bool same = memcmp(together, want, bytes) == 0;
    free(together);
    free(alone);
    return same;
}

/* A second rope and windows in the layers that have them, and no change where both are like the others'. */
static void layers_have_windows_and_ropes_of_their_own(void **state)
{
    (void)state;
    tern_engine *engine = test_engine(test_fixture("llama"), NULL);
    tern_config *c = (tern_config *)(uintptr_t)tern_engine_config(engine);
    float *plain = run_tokens(engine, BATCH);
    tern_graph g;
    uint32_t layer = 0, n_tables = 0;
    c->window = BATCH;
    c->full_period = 2;
    c->rope[1] = c->rope[0];
    assert_true(logits_are(engine, plain));
    c->window = BATCH - 1; /* the last token does not see the first */
    assert_false(logits_are(engine, plain));
    c->window = BATCH;
    c->rope[1].base = 7;
    assert_false(logits_are(engine, plain));
    build(&g, engine, true);
    for (size_t i = 0; i < g.n_values; i++) n_tables += g.values[i].kind == TERN_VALUE_CONSTANT;
    assert_int_equal(n_tables, 2);
    for (size_t i = 0; i < g.n_ops; i++) {
        const tern_op *op = &g.ops[i];
        const bool full = op->layer % 2 == 1; /* of the layers 0, 1, 2 the second sees everything */
        if (op->kind == TERN_OP_ROPE_KV)
            assert_string_equal(g.values[op->in[TERN_ROPE_KV_TABLE].value].name,
                                full ? "rope_table" : "rope_table_window");
        if (op->kind != TERN_OP_ATTENTION) continue;
        assert_int_equal(op->window, full ? 0 : BATCH);
        layer++;
    }
    assert_int_equal(layer, c->n_layers);
    tern_graph_deinit(&g);
    free(plain);
    tern_engine_close(engine);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_error err = {0};
    tern_graph g;
    tern_graph_options options = {.max_tokens = 1, .max_outputs = 2, .n_ctx = 8, .n_sequences = 1, .n_pages = 1};
    assert_int_equal(tern_graph_build(&g, tern_engine_model(engine), &options, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "outputs"));
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fusion_leaves_few_ops),   cmocka_unit_test(experts_have_rows_of_their_own),
    cmocka_unit_test(bounds_are_printed),      cmocka_unit_test(one_token_is_not_gathered),
    cmocka_unit_test(plan_keeps_values_apart), cmocka_unit_test(fusion_changes_no_bit),
    cmocka_unit_test(bad_options_are_refused), cmocka_unit_test(layers_have_windows_and_ropes_of_their_own),
};

TEST_GROUP(graph, "", tests);
