/* Training graphs: what is differentiated and what is left out, what is kept for the backward, and what updates. */
#include "base/alloc.h"
#include "support/graph_check.h"
#include "support/test.h"
#include "support/trained.h"

enum { TOKENS = 128, LAYERS = 3 /* of both models */ };

static const char *const models[] = {"bitnet", "llama"};

static tern_graph_options options(const test_trained *t, uint32_t outputs)
{
    return (tern_graph_options){
        .weights = t->places, .max_tokens = TOKENS, .max_outputs = outputs, .n_ctx = 64, .training = true};
}

static void build(tern_graph *g, const test_trained *t, uint32_t outputs, bool checkpoint)
{
    tern_error err = {0};
    tern_graph_options o = options(t, outputs);
    tern_graph_backward_options back = {.checkpoint = checkpoint};
    assert_ok(tern_graph_build(g, t->model, &o, &err), err);
    assert_ok(tern_graph_differentiate(g, &back, &err), err);
    assert_ok(tern_graph_plan(g, TERN_FUSION_IN_PLACE, &err), err);
}

/* How many ops write the gradient of a weight. */
static size_t n_writers(const tern_graph *g, const tern_weight *w)
{
    size_t n = 0;
    for (size_t k = 0; k < g->n_ops; k++)
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
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
    for (size_t i = 0; i < (size_t)LAYERS * TERN_ROLE_COUNT; i++) {
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

static void adapt_all(test_trained *t, float dropout)
{
    static const tern_role roles[] = {TERN_ROLE_ATTN_Q,   TERN_ROLE_ATTN_V, TERN_ROLE_ATTN_OUTPUT, TERN_ROLE_FFN_GATE,
                                      TERN_ROLE_FFN_DOWN, TERN_ROLE_FFN_UP, TERN_ROLE_ATTN_K};
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) test_trained_adapt(t, roles[i], layer, 8, dropout);
    test_trained_adapt(t, TERN_ROLE_FFN_DOWN, 1, 4, dropout); /* two at one place */
    test_trained_adapt(t, TERN_ROLE_OUTPUT, 0, 4, dropout);
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
                if (kind > 0) adapt_all(&t, 0.1f);
                if (kind == 1) test_trained_freeze(&t);
                build(&g, &t, variant & 1 ? TOKENS / 2 : TOKENS, variant & 2);
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

/* A sum never becomes an op of its own where a backward can add, but for the gradients that meet behind dropout. */
static void gradients_join_without_sums(void **state)
{
    (void)state;
    for (int adapters = 0; adapters < 2; adapters++) {
        test_trained t;
        tern_graph g;
        test_trained_open(&t, test_fixture("bitnet"), false);
        if (adapters) adapt_all(&t, 0);
        build(&g, &t, TOKENS, false);
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
        build(&g, &t, TOKENS, false);
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
        build(&g, &t, TOKENS, checkpoint);
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
        build(&kept, &t, TOKENS / 2, false);
        build(&again, &t, TOKENS / 2, true);
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
    build(&halves, &t, TOKENS / 2, true);
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
    adapt_all(&t, 0.5f);
    build(&g, &t, TOKENS / 2, true);
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
    tern_graph_options o = options(&t, TOKENS);
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

static void bad_graphs_are_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), false);
    tern_graph_options o = options(&t, TOKENS / 4);
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
    tern_graph_options o = options(&t, TOKENS);
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
    adapt_all(&t, 0.5f);
    tern_graph_options o = options(&t, TOKENS / 2);
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

static void training_graphs_print(void **state)
{
    (void)state;
    tern_error err = {0};
    test_trained t;
    tern_graph g;
    tern_buf text = {0};
    test_trained_open(&t, test_fixture("bitnet"), false);
    adapt_all(&t, 0.5f);
    build(&g, &t, TOKENS / 2, true);
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
    cmocka_unit_test(graphs_are_sound),
    cmocka_unit_test(gradients_join_without_sums),
    cmocka_unit_test(a_tied_table_has_one_gradient),
    cmocka_unit_test(frozen_branches_are_dropped),
    cmocka_unit_test(a_checkpoint_keeps_the_inputs_of_layers),
    cmocka_unit_test(logits_are_there_in_chunks),
    cmocka_unit_test(no_two_dropouts_are_alike),
    cmocka_unit_test(quantisers_can_come_in_slowly),
    cmocka_unit_test(bad_graphs_are_refused),
    cmocka_unit_test(an_op_without_a_backward_is_named),
    cmocka_unit_test(memory_may_run_out),
    cmocka_unit_test(training_graphs_print),
    cmocka_unit_test(updates_follow_their_phase),
};

TEST_GROUP(training_graph, "", tests);
