/* Training graphs: what is differentiated and what is left out, what is kept for the backward, and what updates. */
#include "graph/training_graph_cases.h"

#include "ops/op.h"
#include "quant/weight.h"

static const char *const models[] = {"bitnet", "llama"};

/* How many ops write the gradient of a weight. */
static size_t n_writers(const tern_graph *g, const tern_weight *w)
{
    size_t n = 0;
    for (size_t k = 0; k < g->n_ops; k++)
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            if (g->ops[k].in[i].value == TERN_NO_VALUE) continue;
            const tern_value *v = &g->values[g->ops[k].in[i].value];
            bool gradient = v->kind == TERN_VALUE_STATE && v->state == TERN_STATE_GRADIENT && v->weight == w;
            n += gradient && tern_op_writes(&g->ops[k], i);
        }
    return n;
}

static size_t n_states(const tern_graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_values; i++) n += g->values[i].kind == TERN_VALUE_STATE;
    return n;
}

/* Every trained weight has one gradient, and nothing else has one. */
static void check_gradients(const tern_graph *g, const test_trained *t)
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)t->config->n_layers * TERN_ROLE_COUNT; i++) {
        const tern_weight *w = &t->copies[i];
        if ((n_writers(g, w) > 0) != w->trained) fail_msg("%s: %zu ops write its gradient", w->name, n_writers(g, w));
        n += w->trained;
        for (uint32_t k = 0; k < t->places[i].n_loras; k++, n += 2) {
            size_t n_writers_each = i == TERN_ROLE_OUTPUT ? test_count_ops(g, TERN_OP_CROSS_ENTROPY) : 1;
            assert_int_equal(n_writers(g, t->places[i].loras[k].a), n_writers_each);
            assert_int_equal(n_writers(g, t->places[i].loras[k].b), n_writers_each);
        }
    }
    assert_int_equal(n_states(g), n);
}

/* Whole tuning, adapters and both, in chunks of rows or not, with and without checkpoints. */
static void graphs_are_sound(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (int kind = 0; kind < 3; kind++)
            for (int variant = 0; variant < 4; variant++) {
                test_trained t;
                tern_graph g;
                test_trained_open(&t, test_fixture(models[m]), false);
                if (kind > 0) training_graph_adapt_all(&t, 0.1f);
                if (kind == 1) test_trained_freeze(&t);
                training_graph_build(&g, &t, variant & 1 ? TOKENS / 2 : TOKENS, variant & 2);
                test_check_order(&g);
                test_check_plan(&g, true);
                check_gradients(&g, &t);
                assert_int_equal(test_count_ops(&g, TERN_OP_CROSS_ENTROPY), variant & 1 ? 2 : 1);
                assert_int_equal(test_count_ops(&g, TERN_OP_KV_WRITE), 0);
                assert_int_equal(test_count_ops(&g, TERN_OP_VARLEN_ATTENTION), variant & 2 ? 2 * LAYERS : LAYERS);
                tern_graph_deinit(&g);
                test_trained_close(&t);
            }
}

/* Layers that keep a state, and experts of which one is every token's. */
static void hybrid_graphs_are_sound(void **state)
{
    (void)state;
    const char *const fixtures[] = {"qwen3_5", "qwen3_next"};
    for (int variant = 0; variant < 8; variant++) {
        test_trained t;
        tern_graph g;
        test_trained_open(&t, test_fixture(fixtures[variant & 1]), true);
        if (variant & 4) {
            test_trained_freeze(&t);
            test_trained_weight(&t, TERN_ROLE_SSM_DT, 2)->trained = true;
        }
        training_graph_build(&g, &t, TOKENS / 2, variant & 2);
        test_check_order(&g);
        test_check_plan(&g, true);
        check_gradients(&g, &t);
        assert_int_equal(test_count_ops(&g, TERN_OP_CONV) + test_count_ops(&g, TERN_OP_GATED_DELTA), 0);
        for (size_t i = 0; i < g.n_ops && variant & 4; i++)
            assert_false(g.ops[i].kind == TERN_OP_VARLEN_CONV_BACKWARD && g.ops[i].layer <= 2);
        tern_graph_deinit(&g);
        test_trained_close(&t);
    }
}

static tern_op *first_op(tern_graph *g, tern_op_kind kind)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == kind) return &g->ops[i];
    fail_msg("no op %s", tern_op_name(kind));
    return NULL;
}

/* A gradient whose columns two ops would make, and one of which a half is missing. */
static void columns_have_one_reader_each(void **state)
{
    (void)state;
    static const char *const words[] = {"ssm_conv-0: backward of columns that two ops read",
                                        "q_gate-1: backward of one"};
    tern_error err = {0};
    test_trained t;
    test_trained_open(&t, test_fixture("qwen3_5"), true);
    for (int half = 0; half < 2; half++) {
        tern_graph g;
        const tern_graph_options o = training_graph_options(&t, TOKENS);
        assert_ok(tern_graph_build(&g, t.model, &o, &err), err);
        const tern_op *conv = first_op(&g, TERN_OP_VARLEN_CONV), *split = first_op(&g, TERN_OP_SPLIT);
        for (size_t i = 0; i < g.n_ops; i++) {
            tern_op *op = &g.ops[i];
            const uint32_t read = op->in[0].value;
            if (!half && op->kind == TERN_OP_RMS_NORM && read == conv->out.value) op->in[0].first_col = 0;
            if (half && op->kind == TERN_OP_GATE && read == split->in[TERN_SPLIT_GATE].value)
                op->in[TERN_GATE_GATE] = op->in[TERN_GATE_UP];
        }
        assert_int_equal(tern_graph_differentiate(&g, NULL, &err), TERN_UNSUPPORTED);
        if (!strstr(err.message, words[half])) fail_msg("%s", err.message);
        tern_graph_deinit(&g);
    }
    test_trained_close(&t);
}

/* A sum never becomes an op of its own where a backward can add, but for the gradients that meet behind dropout. */
static void gradients_join_without_sums(void **state)
{
    (void)state;
    for (int adapters = 0; adapters < 2; adapters++) {
        test_trained t;
        tern_graph g;
        test_trained_open(&t, test_fixture("bitnet"), false);
        if (adapters) training_graph_adapt_all(&t, 0);
        training_graph_build(&g, &t, TOKENS, false);
        assert_int_equal(test_count_ops(&g, TERN_OP_ADD), 2 * LAYERS); /* those of the forward */
        tern_graph_deinit(&g);
        test_trained_close(&t);
    }
}

static void a_tied_table_has_one_gradient(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        test_trained t;
        tern_graph g;
        test_trained_open(&t, test_fixture(models[m]), false);
        training_graph_build(&g, &t, TOKENS, false);
        bool tied = t.config->tied_head;
        assert_int_equal(tied, m == 0);
        assert_int_equal(n_writers(&g, test_trained_weight(&t, TERN_ROLE_TOKEN_EMBD, 0)), tied ? 2 : 1);
        if (!tied) assert_int_equal(n_writers(&g, test_trained_weight(&t, TERN_ROLE_OUTPUT, 0)), 1);
        assert_int_equal(test_count_ops(&g, TERN_OP_EMBED_BACKWARD), 1);
        tern_graph_deinit(&g);
        test_trained_close(&t);
    }
}

/* Only what leads to a trained weight is there. */
static void frozen_branches_are_dropped(void **state)
{
    (void)state;
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        test_trained t;
        tern_graph g;
        test_trained_open(&t, test_fixture("bitnet"), false);
        test_trained_freeze(&t);
        test_trained_weight(&t, TERN_ROLE_ATTN_K, 1)->trained = true;
        training_graph_build(&g, &t, TOKENS, checkpoint);
        test_check_order(&g);
        test_check_plan(&g, true);
        check_gradients(&g, &t);
        assert_int_equal(test_count_ops(&g, TERN_OP_EMBED_BACKWARD), 0);
        assert_int_equal(test_count_ops(&g, TERN_OP_LINEAR_DW), 1);
        assert_int_equal(test_count_ops(&g, TERN_OP_LINEAR_DX), 1 + 7 + 4); /* head, layer 2; down, gate, up, o of 1 */
        assert_int_equal(test_count_ops(&g, TERN_OP_VARLEN_ATTENTION), checkpoint ? LAYERS + 2 : LAYERS);
        size_t last_of_0 = 0;
        for (size_t i = 0; i < g.n_ops; i++) {
            if (g.ops[i].layer == 0) last_of_0 = i;
            assert_false(g.ops[i].kind == TERN_OP_RMS_NORM_BACKWARD && g.ops[i].n_in > TERN_NORM_BACKWARD_DWEIGHT);
        }
        assert_true(last_of_0 < 30);
        tern_graph_deinit(&g);
        test_trained_close(&t);
    }
}

static void bad_graphs_are_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), false);
    tern_graph_options o = training_graph_options(&t, TOKENS / 4);
    assert_int_equal(tern_graph_build(&g, t.model, &o, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "multiple of 64"));
    o.max_outputs = 96;
    assert_int_equal(tern_graph_build(&g, t.model, &o, &err), TERN_INVALID_ARGUMENT);
    o.max_outputs = TOKENS;
    o.sampler = true;
    assert_int_equal(tern_graph_build(&g, t.model, &o, &err), TERN_INVALID_ARGUMENT);
    o.sampler = false;
    test_trained_freeze(&t);
    assert_ok(tern_graph_build(&g, t.model, &o, &err), err);
    assert_int_equal(tern_graph_differentiate(&g, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "trained"));
    tern_graph_deinit(&g);
    o = (tern_graph_options){.max_tokens = 8, .max_outputs = 8, .n_ctx = 8, .n_sequences = 1, .n_pages = 1};
    assert_ok(tern_graph_build(&g, t.model, &o, &err), err);
    assert_int_equal(tern_graph_differentiate(&g, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "losses"));
    tern_graph_deinit(&g);
    test_trained_close(&t);
}

static void an_op_without_a_backward_is_named(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), false);
    tern_graph_options o = training_graph_options(&t, TOKENS);
    assert_ok(tern_graph_build(&g, t.model, &o, &err), err);
    assert_ok(tern_graph_fuse(&g, NULL, &err), err);
    assert_int_equal(tern_graph_differentiate(&g, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "norm_quant (ffn_sub_norm_q8-2)"));
    tern_graph_deinit(&g);
    test_trained_close(&t);
}

/* Wherever memory runs out, the error says so and nothing is left behind. */
static void memory_may_run_out(void **state)
{
    (void)state;
    test_trained t;
    test_trained_open(&t, test_fixture("bitnet"), false);
    training_graph_adapt_all(&t, 0.5f);
    tern_graph_options o = training_graph_options(&t, TOKENS / 2);
    tern_graph_backward_options back = {.checkpoint = true};
    int64_t live = tern_alloc_live();
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        tern_error err = {0};
        tern_graph g;
        tern_alloc_fail_after(n, false);
        tern_status status = tern_graph_build(&g, t.model, &o, &err);
        bool built = status == TERN_OK;
        if (built) status = tern_graph_differentiate(&g, &back, &err);
        if (status == TERN_OK) status = tern_graph_plan(&g, 0, &err);
        tern_alloc_fail_after(0, false);
        done = status == TERN_OK;
        if (!done) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        if (built) tern_graph_deinit(&g);
        assert_int_equal(tern_alloc_live(), live);
        assert_true(n < 1000);
    }
    test_trained_close(&t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(graphs_are_sound),
    cmocka_unit_test(hybrid_graphs_are_sound),
    cmocka_unit_test(columns_have_one_reader_each),
    cmocka_unit_test(gradients_join_without_sums),
    cmocka_unit_test(a_tied_table_has_one_gradient),
    cmocka_unit_test(frozen_branches_are_dropped),
    cmocka_unit_test(bad_graphs_are_refused),
    cmocka_unit_test(an_op_without_a_backward_is_named),
    cmocka_unit_test(memory_may_run_out),
};

TEST_GROUP(training_graph, "", tests);
