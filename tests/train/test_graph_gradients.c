/* Gradients of whole models: the graph that differentiation leaves, run on the CPU, against central differences, and
 * against itself in all the ways that must not change a bit. */
#include "support/test.h"

#include <math.h>

#include "backend/open.h"
#include "base/rng.h"
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/tuned.h"

enum { TOKENS = TEST_TUNED_TOKENS };

static const char *const models[] = {"bitnet", "llama"}; /* relu2, sub norms, tied; silu, two tables; both GQA */

static size_t elements(const tern_weight *w)
{
    return (size_t)w->rows * w->cols;
}

static void shift(const tern_weight *w, const float *start, const float *direction, double by)
{
    float *data = (float *)(uintptr_t)w->data;
    for (size_t i = 0; i < elements(w); i++) data[i] = (float)((double)start[i] + by * (double)direction[i]);
}

/* The derivative along `direction` by central differences at two distances, of which the error in the square of the
 * distance is taken out (Richardson). */
static double slope(test_tuned *u, const tern_weight *w, const float *direction, double distance)
{
    float *start = malloc(w->bytes);
    double d[2];
    memcpy(start, w->data, w->bytes);
    for (int i = 0; i < 2; i++) {
        double by = distance / (1 + i);
        shift(w, start, direction, by);
        double above = test_tuned_step(u);
        shift(w, start, direction, -by);
        d[i] = (above - test_tuned_step(u)) / (2 * by);
    }
    shift(w, start, direction, 0);
    free(start);
    return (4 * d[1] - d[0]) / 3;
}

/* Along the gradient with half of its elements left out at random, so that each tensor's own gradient is seen. */
static double check_tensor(test_tuned *forward, const tern_weight *w, const float *g, uint64_t seed)
{
    size_t n = elements(w);
    float *direction = calloc(n, sizeof *direction);
    tern_rng rng = {seed};
    double square = 0, weights = 0, inner = 0;
    for (size_t i = 0; i < n; i++) {
        if (tern_rng_f32(&rng) < 0.5f) direction[i] = g[i];
        square += (double)direction[i] * (double)direction[i];
        weights += (double)((const float *)w->data)[i] * (double)((const float *)w->data)[i];
    }
    if (!(square > 0)) fail_msg("%s: the gradient is %g", w->name, sqrt(square));
    for (size_t i = 0; i < n; i++) {
        direction[i] = (float)((double)direction[i] / sqrt(square));
        inner += (double)direction[i] * (double)g[i];
    }
    /* A change of the loss of about 0.02, but not of the weights by more than a tenth. Where the loss hardly changes
     * (norms of heads) that may be so far that the differences themselves are wrong: at half the distance they are so a
     * sixteenth as much, and a wrong derivative is as wrong as before. */
    double want = 0, error = 1, distance = fmin(0.02 / sqrt(square), 0.1 * sqrt(weights));
    for (int i = 0; i < 3 && !(error < 4e-4); i++) {
        want = slope(forward, w, direction, distance / (1 + i));
        error = fabs(inner / want - 1);
    }
    if (!(error < 4e-4)) fail_msg("%s: derivative %g, %g by differences (%g)", w->name, inner, want, error);
    free(direction);
    return error;
}

static void check_model(test_trained *t, const test_how *h)
{
    const tern_weight *all[TEST_TUNED_MAX_TENSORS];
    size_t n = test_tuned_tensors(t, all);
    test_tuned whole, forward;
    test_how only = *h;
    only.forward_only = true;
    test_tuned_open(&whole, t, h, test_backend("cpu"));
    test_tuned_open(&forward, t, &only, test_backend("cpu"));
    double loss = test_tuned_step(&whole), worst = 0;
    assert_true(loss == test_tuned_step(&forward));
    for (size_t i = 0; i < n; i++) {
        if (!test_takes(i, 5, 1)) continue;
        float *g = test_tuned_gradient(&whole, all[i]);
        worst = fmax(worst, check_tensor(&forward, all[i], g, i + 1));
        free(g);
    }
    print_message("%s, %zu tensors, loss %.4f: derivatives within %.1e\n", t->config->architecture, n, loss, worst);
    test_tuned_close(&whole);
    test_tuned_close(&forward);
}

static void whole_models(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        test_trained t;
        test_trained_open(&t, test_fixture(models[m]), true);
        check_model(&t, &(test_how){.dense = true});
        test_trained_close(&t);
    }
}

/* Windows, soft caps, norms of heads and after blocks, biases; with checkpoints and the head in chunks. */
static void other_families(void **state)
{
    (void)state;
    const char *const fixtures[] = {"gemma2", "gemma3"};
    for (size_t i = 0; i < 2 || test_made_families[i - 2]; i++) {
        test_trained t;
        test_trained_open(&t, i < 2 ? test_fixture(fixtures[i]) : test_made(test_made_families[i - 2]), true);
        check_model(&t, &(test_how){.dense = true, .tokens = 64, .chunk = i % 2 ? 0 : 64, .checkpoint = i % 2});
        test_trained_close(&t);
    }
}

/* Layers that keep a state, attention with an output gate; packed documents across the chunks of states. */
static void hybrids(void **state)
{
    (void)state;
    const char *const fixtures[] = {"qwen3_5", "qwen3_next"};
    for (size_t i = 0; i < 2; i++) {
        test_trained t;
        test_trained_open(&t, test_fixture(fixtures[i]), true);
        tern_config *config = (tern_config *)(uintptr_t)t.config;
        config->n_experts_used = config->n_experts; /* as in experts */
        check_model(&t, &(test_how){.dense = true, .checkpoint = i % 2});
        test_trained_close(&t);
    }
}

/* Adapters beside every matrix of a layer that keeps a state, and beside the expert of all tokens. */
static void hybrid_adapters(void **state)
{
    (void)state;
    static const tern_role roles[] = {TERN_ROLE_SSM_QKV,        TERN_ROLE_SSM_GATE,       TERN_ROLE_SSM_ALPHA,
                                      TERN_ROLE_SSM_BETA,       TERN_ROLE_SSM_BETA_ALPHA, TERN_ROLE_SSM_OUT,
                                      TERN_ROLE_FFN_GATE_SHEXP, TERN_ROLE_FFN_UP_SHEXP,   TERN_ROLE_FFN_DOWN_SHEXP};
    const char *const fixtures[] = {"qwen3_5", "qwen3_next"};
    for (size_t i = 0; i < 2; i++) {
        test_trained t;
        test_trained_open(&t, test_fixture(fixtures[i]), true);
        tern_config *config = (tern_config *)(uintptr_t)t.config;
        config->n_experts_used = config->n_experts; /* as in experts */
        for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
            if (test_trained_weight(&t, roles[r], 0)) test_trained_adapt(&t, roles[r], 0, 4, 0);
        test_trained_freeze(&t);
        check_model(&t, &(test_how){.dense = true, .tokens = 96});
        test_trained_close(&t);
    }
}

/* A norm before each linear layer. */
static void linear_norms(void **state)
{
    (void)state;
    for (const char *const *family = test_made_ternary; *family; family++) {
        test_trained t;
        test_trained_open(&t, test_made(*family), true);
        check_model(&t, &(test_how){.dense = true});
        test_trained_close(&t);
    }
}

/* Experts, all of which each token has: which ones it has is no differentiable choice, and a small change may make
 * another. With checkpoints and without. */
static void experts(void **state)
{
    (void)state;
    const char *const fixtures[] = {test_fixture("mixtral"), test_fixture("gpt-oss"), test_made("maple")};
    for (size_t i = 0; i < 3; i++) {
        test_trained t;
        test_trained_open(&t, fixtures[i], true);
        tern_config *config = (tern_config *)(uintptr_t)t.config;
        config->n_experts_used = config->n_experts;
        if (i == 2) config->ffn_limit = 1000; /* differences across a bend are no derivatives; tests/ops has those */
        check_model(&t, &(test_how){.dense = true, .tokens = 64, .checkpoint = i % 2});
        test_trained_freeze(&t);
        for (uint32_t layer = 0; layer < config->n_layers; layer++) {
            test_trained_adapt(&t, TERN_ROLE_ATTN_V, layer, 4, 0);
            test_trained_adapt(&t, TERN_ROLE_FFN_GATE_EXPS, layer, 4, i ? 0.25f : 0);
            test_trained_adapt(&t, TERN_ROLE_FFN_DOWN_EXPS, layer, 4, 0); /* a mask would go by the order of experts */
        }
        check_model(&t, &(test_how){.dense = true, .tokens = 64, .checkpoint = true});
        test_trained_close(&t);
    }
}

/* What no fixture has: adjacent pairs, gates of GELU. */
static void other_ops(void **state)
{
    (void)state;
    test_trained t;
    test_trained_open(&t, test_fixture("llama"), true);
    tern_config *config = (tern_config *)(uintptr_t)t.config;
    config->rope_adjacent = true;
    config->activation = TERN_ACT_GELU;
    check_model(&t, &(test_how){.dense = true, .tokens = 64});
    test_trained_close(&t);
}

/* With dropout, whose mask is the same in every run of one seed; in chunks, with checkpoints. */
static void adapters(void **state)
{
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        test_trained t;
        test_trained_open(&t, test_fixture(models[dropout]), true);
        test_trained_freeze(&t);
        test_tuned_adapt(&t, dropout ? 0.25f : 0);
        check_model(&t, &(test_how){.dense = true, .chunk = 64, .checkpoint = true});
        test_trained_close(&t);
    }
}

/* All gradients of two graphs over the same weights. */
static void same_bits(test_trained *t, const test_how *a, tern_backend *on_a, const test_how *b, tern_backend *on_b)
{
    const tern_weight *all[TEST_TUNED_MAX_TENSORS];
    size_t n = test_tuned_tensors(t, all);
    test_tuned u[2];
    test_tuned_open(&u[0], t, a, on_a);
    test_tuned_open(&u[1], t, b, on_b);
    double loss = test_tuned_step(&u[0]);
    assert_true(loss > 0 && loss == test_tuned_step(&u[1]));
    for (size_t i = 0; i < n; i++) {
        float *g[2] = {test_tuned_gradient(&u[0], all[i]), test_tuned_gradient(&u[1], all[i])};
        if (memcmp(g[0], g[1], elements(all[i]) * sizeof(float))) fail_msg("%s: other bits", all[i]->name);
        free(g[0]);
        free(g[1]);
    }
    test_tuned_close(&u[0]);
    test_tuned_close(&u[1]);
}

static tern_backend *with_threads(uint32_t n)
{
    tern_error err = {0};
    tern_backend *backend;
    assert_ok(tern_backend_open(&backend, &(tern_backend_options){.n_threads = n}, &err), err);
    return backend;
}

/* Neither checkpoints, chunks of the head nor threads change a bit. */
static void bits_do_not_depend_on_the_plan(void **state)
{
    (void)state;
    tern_backend *one = test_backend("cpu"), *three = with_threads(3);
    for (size_t m = 0; m < 2; m++)
        for (int adapted = 0; adapted < 2; adapted++) {
            test_trained t;
            test_trained_open(&t, test_fixture(models[m]), false);
            if (adapted) test_trained_freeze(&t);
            if (adapted) test_tuned_adapt(&t, 0);
            test_how plain = {0}, checkpoint = {.checkpoint = true}, chunks = {.chunk = 64};
            same_bits(&t, &plain, one, &checkpoint, one);
            same_bits(&t, &plain, one, &chunks, one);
            same_bits(&t, &plain, one, &plain, three);
            test_trained_close(&t);
        }
    three->close(three);
}

/* Quantisers that have not come in yet leave the graph of floats. */
static void a_blend_of_nothing_changes_nothing(void **state)
{
    (void)state;
    test_trained t;
    test_trained_open(&t, test_fixture("bitnet"), true);
    same_bits(&t, &(test_how){.dense = true}, test_backend("cpu"), &(test_how){.fake = true}, test_backend("cpu"));
    test_trained_close(&t);
}

/* Gradients add up: two runs give twice one run's, and a batch is the sum of its documents. */
static void gradients_add_up(void **state)
{
    (void)state;
    test_trained t;
    test_tuned u;
    const tern_weight *all[TEST_TUNED_MAX_TENSORS];
    test_trained_open(&t, test_fixture("bitnet"), false);
    test_tuned_open(&u, &t, &(test_how){.checkpoint = true}, test_backend("cpu"));
    size_t n = test_tuned_tensors(&t, all);
    float *whole[TEST_TUNED_MAX_TENSORS];
    test_tuned_step(&u);
    for (size_t i = 0; i < n; i++) {
        whole[i] = test_tuned_gradient(&u, all[i]);
        test_graph_clear(&u.run, test_graph_state(&u.graph, all[i], TERN_STATE_GRADIENT));
    }
    int32_t labels[TOKENS], *now = test_graph_param(&u.run, TERN_PARAM_LABELS);
    memcpy(labels, now, sizeof labels);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < TOKENS; i++) now[i] = (i < 40) == (half == 0) ? labels[i] : -1;
        test_tuned_step(&u);
    }
    for (size_t i = 0; i < n; i++) {
        float *sum = test_tuned_gradient(&u, all[i]);
        double error = test_distance(sum, whole[i], elements(all[i]));
        if (!(error <= 1e-5)) fail_msg("%s: %g", all[i]->name, error);
        free(sum);
        free(whole[i]);
    }
    test_tuned_close(&u);
    test_trained_close(&t);
}

/* Weights that both sides learn would be two. */
static void a_split_backend_is_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *split;
    const tern_backend_options options = {.name = "cpu", .n_threads = 1, .split = true, .gpu_layers = 1};
    assert_ok(tern_backend_open(&split, &options, &err), err);
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("bitnet"), false);
    tern_graph_options o = {.weights = t.places, .max_tokens = 8, .max_outputs = 8, .n_ctx = 8, .training = true};
    assert_ok(tern_graph_build(&g, t.model, &o, &err), err);
    assert_ok(tern_graph_differentiate(&g, NULL, &err), err);
    assert_ok(tern_graph_plan(&g, 0, &err), err);
    tern_binding *bindings = calloc(g.n_values, sizeof *bindings);
    tern_prepared *prepared = NULL;
    assert_int_equal(split->prepare(split, &g, bindings, &prepared, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--gpu-layers"));
    free(bindings);
    tern_graph_deinit(&g);
    test_trained_close(&t);
    split->close(split);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(whole_models),
    cmocka_unit_test(other_families),
    cmocka_unit_test(experts),
    cmocka_unit_test(hybrids),
    cmocka_unit_test(hybrid_adapters),
    cmocka_unit_test(linear_norms),
    cmocka_unit_test(other_ops),
    cmocka_unit_test(adapters),
    cmocka_unit_test(bits_do_not_depend_on_the_plan),
    cmocka_unit_test(a_blend_of_nothing_changes_nothing),
    cmocka_unit_test(gradients_add_up),
    cmocka_unit_test(a_split_backend_is_refused),
};

TEST_GROUP(graph_gradients, "slow", tests, .teardown = test_backends_close);
