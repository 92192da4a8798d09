/* Single passes of fusion: what each joins, that leaving it out changes no bit, their names; and those that depend on
 * the device: what it cannot run stays apart. */
#include "support/test.h"

#include "graph/fusions.h"
#include "infer/session/runner.h"
#include "support/golden.h"
#include "support/graph_check.h"
#include "support/op_case.h"

static tern_rng rng;

static tern_status refuse(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b, (void)graph;
    return tern_fail(err, TERN_UNSUPPORTED, "op %s", tern_op_name(op->kind));
}

enum { ROWS = 40, COLS = 96, TOKENS = 5 };

/* What of a gated layer some devices lack: a bias, or a ternary and a dense half on int8 rows. */
typedef struct layer {
    const char *encodings[2];
    bool bias;
} layer;

/* gate and up of one linear layer, and what GATE makes of both. */
static tern_view build(test_case *c, const layer *l, uint64_t seed)
{
    tern_rng same = {seed};
    test_case_open(c, &same, &(test_case_shape){.max_tokens = TOKENS});
    tern_view both = test_case_activation(c, "both", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 2 * ROWS);
    tern_op linear = {.kind = TERN_OP_LINEAR, .n_in = 3, .n_parts = 2, .out = both};
    linear.in[TERN_LINEAR_X] = l->bias ? test_case_rows(c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY)
                                       : test_case_q8(c, "x", TERN_ROWS_TOKENS, COLS);
    for (uint32_t i = 0; i < 2; i++) linear.in[TERN_LINEAR_W + i] = test_case_weight(c, l->encodings[i], ROWS, COLS);
    if (l->bias) linear.bias[1] = test_case_norm_weight(c, ROWS);
    tern_op gate = {.kind = TERN_OP_GATE, .n_in = 2, .activation = TERN_ACT_SILU};
    gate.in[TERN_GATE_GATE] = test_case_columns(both, 0, ROWS);
    gate.in[TERN_GATE_UP] = test_case_columns(both, ROWS, ROWS);
    gate.out = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS);
    test_case_add(c, linear);
    test_case_add(c, gate);
    return gate.out;
}

static void check_where_the_device_can(const layer *l)
{
    tern_backend refusing = *test_backend("cpu");
    refusing.supports = refuse;
    tern_backend *const backends[] = {NULL, &refusing, test_backend("cpu")};
    const uint64_t seed = tern_rng_u64(&rng);
    test_results results[3];
    test_case cases[3];
    for (int i = 0; i < 3; i++) {
        tern_error err = {0};
        const tern_view y = build(&cases[i], l, seed);
        assert_ok(tern_graph_fuse(&cases[i].graph, backends[i], &err), err);
        assert_int_equal(cases[i].graph.n_ops, i == 2 ? 1 : 2);
        test_case_run(&cases[i], test_backend("cpu"), TOKENS, TOKENS, 1, &results[i]);
        assert_true(test_same_bits(test_results_row(&cases[i], &results[i], y, 0),
                                   test_results_row(&cases[0], &results[0], y, 0), TOKENS * ROWS));
    }
    for (int i = 0; i < 3; i++) {
        test_results_free(&results[i]);
        test_case_close(&cases[i]);
    }
}

static void biases_go_under_gates_where_the_device_can(void **state)
{
    (void)state;
    check_where_the_device_can(&(layer){{"f16", "f16"}, true});
}

static void mixed_halves_go_under_gates_where_the_device_can(void **state)
{
    (void)state;
    check_where_the_device_can(&(layer){{"t160", "f16"}, false});
    check_where_the_device_can(&(layer){{"f16", "t160"}, false});
}

enum { PROMPT = 5, CONTEXT = 32 };

typedef struct counted {
    size_t n_ops;              /* of the decode graph */
    uint64_t activation_bytes; /* of the prompt's */
} counted;

/* Logits of a prompt and of a token after it. */
static counted run_without(const char *list, float *logits, size_t n_vocab)
{
    tern_engine_params how = {0};
    tern_error err = {0};
    tern_runner r;
    int32_t ids[PROMPT + 1];
    for (int i = 0; i <= PROMPT; i++) ids[i] = i * 11 % 60;
    assert_ok(tern_graph_fusions_parse(list, &how.no_fusion, &err), err);
    tern_engine *engine = test_engine_with(test_fixture("bitnet"), &how);
    const tern_runner_params params = {.n_ctx = CONTEXT, .n_batch = PROMPT, .max_outputs = PROMPT};
    const tern_runner_step step = {.ids = ids, .n_tokens = PROMPT, .n_outputs = PROMPT};
    const tern_runner_step one = {.ids = ids + PROMPT, .n_tokens = 1, .n_outputs = 1, .first_position = PROMPT};
    assert_ok(tern_runner_open(&r, engine, &params, &err), err);
    assert_ok(tern_runner_run(&r, &step, logits, &err), err);
    assert_ok(tern_runner_run(&r, &one, logits + PROMPT * n_vocab, &err), err);
    const counted c = {r.graphs->decode.graph.n_ops, r.graphs->prefill.graph.activation_bytes};
    tern_runner_deinit(&r);
    tern_engine_close(engine);
    return c;
}

/* Every pass that a CPU has joins something (`sparse` says something), and what it joins computes the same bits. */
static void each_pass_can_be_left_out(void **state)
{
    (void)state;
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    const size_t n_vocab = tern_engine_config(engine)->n_vocab, bytes = (PROMPT + 1) * n_vocab * sizeof(float);
    float *fused = malloc(bytes), *other = malloc(bytes);
    const counted all = run_without("", fused, n_vocab);
    tern_fusion_pass pass;
    tern_engine_close(engine);
    for (uint32_t i = 0; tern_graph_fusion_at(i, &pass); i++) {
        const counted c = run_without(pass.name, other, n_vocab);
        const bool gpu = strstr(pass.what, "(GPU") != NULL;
        if (i == 0) assert_true(c.n_ops == all.n_ops && c.activation_bytes > all.activation_bytes);
        else if (gpu || strcmp(pass.name, "sparse") == 0) assert_int_equal(c.n_ops, all.n_ops);
        else assert_true(c.n_ops > all.n_ops);
        assert_memory_equal(fused, other, bytes);
    }
    assert_true(run_without("all", other, n_vocab).n_ops > 2 * all.n_ops);
    assert_memory_equal(fused, other, bytes);
    free(fused);
    free(other);
}

static void lists_of_passes(void **state)
{
    (void)state;
    tern_error err = {0};
    uint32_t mask;
    tern_fusion_pass pass;
    for (uint32_t i = 0; tern_graph_fusion_at(i, &pass); i++) {
        assert_ok(tern_graph_fusions_parse(pass.name, &mask, &err), err);
        assert_int_equal(mask, 1u << i);
    }
    assert_ok(tern_graph_fusions_parse("in_place,norm_quant", &mask, &err), err);
    assert_int_equal(mask, TERN_FUSION_PASS_IN_PLACE | 2);
    assert_ok(tern_graph_fusions_parse("gate,all", &mask, &err), err);
    assert_int_equal(mask, UINT32_MAX);
    assert_ok(tern_graph_fusions_parse(NULL, &mask, &err), err);
    assert_int_equal(mask, 0);
    static const char *const wrong[][2] = {{"sibling", "did you mean \"siblings\"?"},
                                           {"gate,,all", "fusion \"\": all, in_place, norm_quant"},
                                           {"gate,", "fusion \"\": all"},
                                           {"ALL\n", "fusion \"ALL\\x0a\""},
                                           {"some_pass_that_was_never_there_at_all", "expected, with commas between"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tern_graph_fusions_parse(wrong[i][0], &mask, &err), TERN_INVALID_ARGUMENT);
        if (!strstr(err.message, wrong[i][1])) fail_msg("%s: \"%s\" expected", err.message, wrong[i][1]);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(biases_go_under_gates_where_the_device_can),
                                          cmocka_unit_test(mixed_halves_go_under_gates_where_the_device_can),
                                          cmocka_unit_test(each_pass_can_be_left_out),
                                          cmocka_unit_test(lists_of_passes)};

TEST_GROUP(fuse, "", tests, .setup = seed, .teardown = test_backends_close);
