/* Parts of training graphs: checkpoints, chunks of logits, dropout, quantisers that come in slowly, updates. */
#include "graph/training_graph_cases.h"

#include "ops/op.h"
#include "ops/operands.h"
#include "tern/bytes.h"

static const char *const models[] = {"bitnet", "llama"};

/* The values alive while the head runs. */
static size_t n_kept(const tern_graph *g, bool print)
{
    size_t head = 0, n = 0;
    while (g->ops[head].kind != TERN_OP_CROSS_ENTROPY) head++;
    for (uint32_t i = 0; i < g->n_values; i++) {
        size_t first, last;
        if (g->values[i].kind != TERN_VALUE_ACTIVATION || !test_life(g, i, &first, &last)) continue;
        bool of_head = g->ops[first].rows == TERN_ROWS_OUTPUTS;
        if (of_head || first > head || last < head) continue;
        if (print) print_message("%s ", g->values[i].name);
        n++;
    }
    return n;
}

static void a_checkpoint_keeps_the_inputs_of_layers(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        test_trained t;
        tern_graph kept, again;
        test_trained_open(&t, test_fixture(models[m]), false);
        training_graph_build(&kept, &t, TOKENS / 2, false);
        training_graph_build(&again, &t, TOKENS / 2, true);
        /* the embedding, the layers' outputs, the last norm's */
        if (n_kept(&again, false) != LAYERS + 2) fail_msg("%zu values are kept", n_kept(&again, true));
        if (!(again.activation_bytes * 3 < kept.activation_bytes * 2))
            fail_msg("%llu bytes with checkpoints, %llu without", (unsigned long long)again.activation_bytes,
                     (unsigned long long)kept.activation_bytes);
        /* what nobody reads is not made again: the sums of the layers, and what they add */
        assert_int_equal(test_count_ops(&again, TERN_OP_ADD) - test_count_ops(&kept, TERN_OP_ADD), LAYERS);
        assert_int_equal(test_count_ops(&again, TERN_OP_LINEAR) - test_count_ops(&kept, TERN_OP_LINEAR), 6 * LAYERS);
        tern_graph_deinit(&kept);
        tern_graph_deinit(&again);
        test_trained_close(&t);
    }
}

/* Chunks of rows of the head: logits of one chunk at a time. */
static void logits_are_there_in_chunks(void **state)
{
    (void)state;
    test_trained t;
    tern_graph halves;
    test_trained_open(&t, test_fixture("bitnet"), false);
    training_graph_build(&halves, &t, TOKENS / 2, true);
    size_t alive = 0;
    for (size_t i = 0; i < halves.n_ops; i++)
        for (uint32_t v = 0, n = 0; v < halves.n_values; v++) {
            size_t first, last;
            const tern_value *value = &halves.values[v];
            if (value->cols != t.config->n_vocab || value->rows != TERN_ROWS_OUTPUTS) continue;
            n += test_life(&halves, v, &first, &last) && first <= i && i <= last;
            if (n > alive) alive = n;
        }
    assert_int_equal(alive, 1);
    tern_graph_deinit(&halves);
    test_trained_close(&t);
}

static void no_two_dropouts_are_alike(void **state)
{
    (void)state;
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), false);
    test_trained_freeze(&t);
    training_graph_adapt_all(&t, 0.5f);
    training_graph_build(&g, &t, TOKENS / 2, true);
    size_t n = test_count_ops(&g, TERN_OP_DROPOUT);
    assert_true(n > 0);
    bool seen[256] = {0};
    size_t n_streams = 0;
    for (size_t i = 0; i < g.n_ops; i++) {
        if (g.ops[i].kind != TERN_OP_DROPOUT) continue;
        assert_true(g.ops[i].stream < 256);
        n_streams += !seen[g.ops[i].stream];
        seen[g.ops[i].stream] = true;
    }
    assert_int_equal(n_streams, 7 * LAYERS + 1 + 2); /* each adapter's; the head's two chunks */
    tern_graph_deinit(&g);
    test_trained_close(&t);
}

/* The forward alone is what evaluation runs. */
static void quantisers_can_come_in_slowly(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), true);
    tern_graph_options o = training_graph_options(&t, TOKENS);
    o.fake_quantize = true;
    assert_ok(tern_graph_build(&g, t.model, &o, &err), err);
    assert_int_equal(test_count_ops(&g, TERN_OP_FAKE_QUANTIZE), 4 * LAYERS);
    assert_int_equal(test_count_ops(&g, TERN_OP_QUANTIZE), 0);
    assert_ok(tern_graph_differentiate(&g, NULL, &err), err);
    assert_ok(tern_graph_plan(&g, 0, &err), err);
    test_check_order(&g);
    test_check_plan(&g, false);
    tern_graph_deinit(&g);
    test_trained_close(&t);
}

static void training_graphs_print(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    tern_buf text = {0};
    test_trained_open(&t, test_fixture("bitnet"), false);
    training_graph_adapt_all(&t, 0.5f);
    training_graph_build(&g, &t, TOKENS / 2, true);
    assert_ok(tern_graph_print(&g, &text, &err), err);
    assert_ok(tern_graph_print_memory(&g, &text, &err), err);
    if (getenv("TERN_TEST_PRINT")) print_message("%s", text.data);
    assert_non_null(strstr(text.data, "rms_norm_backward"));
    assert_non_null(strstr(text.data, " losses[64..]"));
    assert_non_null(strstr(text.data, "grad.model.embed_tokens.weight!"));
    tern_buf_deinit(&text);
    tern_graph_deinit(&g);
    test_trained_close(&t);
}

static void check_update(const tern_graph *g, size_t at, tern_op_kind kind, uint32_t n_in)
{
    assert_true(at < g->n_ops);
    assert_int_equal(g->ops[at].kind, kind);
    assert_int_equal(g->ops[at].n_in, n_in);
}

static void updates_follow_their_phase(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), false);
    tern_graph_update updates[] = {{.weight = test_trained_weight(&t, TERN_ROLE_ATTN_Q, 0),
                                    .optimizer = TERN_OPTIMIZER_ADAMW,
                                    .m = TERN_DTYPE_M8,
                                    .v = TERN_DTYPE_V8,
                                    .decays = true,
                                    .has_master = true},
                                   {.weight = test_trained_weight(&t, TERN_ROLE_OUTPUT_NORM, 0)},
                                   {.weight = test_trained_weight(&t, TERN_ROLE_FFN_NORM, 1), .momentum = true}};
    assert_ok(tern_graph_build_updates(&g, t.config, updates, 3, TERN_GRAPH_NORMS, true, &err), err);
    assert_int_equal(g.n_ops, 3);
    for (uint32_t i = 0; i < 3; i++) {
        check_update(&g, i, TERN_OP_SUM_SQUARES, TERN_SUM_SQUARES_INPUTS);
        assert_int_equal(g.ops[i].out.value, g.norms);
        assert_int_equal(g.ops[i].out.first_col, i);
    }
    tern_graph_deinit(&g);
    updates[1].elsewhere = true; /* has no norm, and is cleared all the same */
    for (int clears = 0; clears < 2; clears++) {
        const tern_graph_phase phase = clears ? TERN_GRAPH_CLEAR : TERN_GRAPH_NORMS;
        assert_ok(tern_graph_build_updates(&g, t.config, updates, 3, phase, true, &err), err);
        assert_int_equal(g.n_ops, 2 + clears);
        for (size_t i = 0; i < g.n_ops; i++) assert_int_equal(g.ops[i].clears, clears);
        tern_graph_deinit(&g);
    }
    updates[1].elsewhere = false;
    assert_ok(tern_graph_build_updates(&g, t.config, updates, 3, TERN_GRAPH_UPDATE, true, &err), err);
    assert_int_equal(g.n_ops, 4);
    check_update(&g, 0, TERN_OP_UPDATE, TERN_UPDATE_V + 2);
    check_update(&g, 1, TERN_OP_REQUANTIZE, TERN_REQUANTIZE_INPUTS);
    check_update(&g, 2, TERN_OP_UPDATE, TERN_UPDATE_GRADIENT + 2);
    check_update(&g, 3, TERN_OP_UPDATE, TERN_UPDATE_M + 2);
    assert_int_equal(g.ops[0].in[TERN_UPDATE_WEIGHT].value, g.ops[1].in[TERN_REQUANTIZE_MASTER].value);
    assert_ptr_equal(g.values[g.ops[1].out.value].weight, updates[0].weight);
    assert_int_equal(g.values[g.ops[0].in[TERN_UPDATE_M].value].bytes, (256 * 256 / 256) * 260);
    tern_graph_deinit(&g);
    assert_ok(tern_graph_build_updates(&g, t.config, updates, 3, TERN_GRAPH_UPDATE, false, &err), err);
    assert_int_equal(g.n_ops, 3);
    tern_graph_deinit(&g);
    assert_ok(tern_graph_build_updates(&g, t.config, updates, 3, TERN_GRAPH_REQUANTIZE, false, &err), err);
    assert_int_equal(g.n_ops, 1);
    tern_graph_deinit(&g);
    assert_int_equal(tern_graph_build_updates(&g, t.config, updates + 1, 2, TERN_GRAPH_REQUANTIZE, true, &err),
                     TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_graph_build_updates(&g, t.config, updates, 0, TERN_GRAPH_UPDATE, true, &err),
                     TERN_INVALID_ARGUMENT);
    test_trained_close(&t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_checkpoint_keeps_the_inputs_of_layers),
    cmocka_unit_test(logits_are_there_in_chunks),
    cmocka_unit_test(no_two_dropouts_are_alike),
    cmocka_unit_test(quantisers_can_come_in_slowly),
    cmocka_unit_test(training_graphs_print),
    cmocka_unit_test(updates_follow_their_phase),
};

TEST_GROUP(training_graph_parts, "", tests);
