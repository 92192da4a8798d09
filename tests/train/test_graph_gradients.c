/* Gradients of whole models: the graph that differentiation leaves, run on the CPU, against central differences, and
 * against itself in all the ways that must not change a bit. */
#include "support/test.h"

#include <math.h>

#include "backend/open.h"
#include "base/rng.h"
#include "support/graph_run.h"
#include "support/op_case.h"
#include "support/trained.h"

enum { TOKENS = 128, LAYERS = 3, MAX_TENSORS = 128 };

static const char *const models[] = {"bitnet", "llama"}; /* relu2, sub norms, tied; silu, two tables; both GQA */

typedef struct how {
    bool dense;     /* F32 weights and activations: the loss is smooth */
    uint32_t chunk; /* 0: all rows at once */
    bool checkpoint, forward_only;
    bool fake; /* FAKE_QUANTIZE, with this blend */
    float blend;
} how;

/* A graph over the weights of a model, ready to run on one packed batch of three documents. */
typedef struct tuned {
    test_trained *t;
    tern_graph g;
    test_graph_run run;
    uint32_t n_labels;
} tuned;

static void fill_batch(tuned *u)
{
    int32_t *ids = test_graph_param(&u->run, TERN_PARAM_IDS), *labels = test_graph_param(&u->run, TERN_PARAM_LABELS);
    uint32_t *starts = test_graph_param(&u->run, TERN_PARAM_STARTS);
    uint32_t *positions = test_graph_param(&u->run, TERN_PARAM_POSITIONS);
    for (uint32_t i = 0; i < TOKENS; i++) {
        starts[i] = i < 40 ? 0 : i < 70 ? 40 : 70;
        positions[i] = i - starts[i];
        ids[i] = (int32_t)(i * i * 7 + 3 * i) % 500;
        bool last = i == 39 || i == 69 || i == TOKENS - 1;
        labels[i] = last || i % 5 == 1 ? -100 : (int32_t)((i * 31 + 11) % 500);
        u->n_labels += labels[i] >= 0;
    }
    tern_train_params *p = test_graph_param(&u->run, TERN_PARAM_TRAINING);
    p->loss_weight = 1.0f / (float)u->n_labels;
    p->seed = 77;
}

static void open_tuned(tuned *u, test_trained *t, const how *h, tern_backend *backend)
{
    tern_error err = {0};
    *u = (tuned){.t = t};
    tern_graph_options o = {.weights = t->places,
                            .max_tokens = TOKENS,
                            .max_outputs = h->chunk ? h->chunk : TOKENS,
                            .n_ctx = TOKENS,
                            .training = true,
                            .fake_quantize = h->fake,
                            .f32_activations = h->dense};
    tern_graph_backward_options back = {.checkpoint = h->checkpoint};
    assert_ok(tern_graph_build(&u->g, t->model, &o, &err), err);
    if (!h->forward_only) assert_ok(tern_graph_differentiate(&u->g, &back, &err), err);
    assert_ok(tern_graph_plan(&u->g, backend->fusions, &err), err);
    test_graph_open(&u->run, backend, &u->g);
    fill_batch(u);
    ((tern_train_params *)test_graph_param(&u->run, TERN_PARAM_TRAINING))->blend = h->blend;
}

static void close_tuned(tuned *u)
{
    test_graph_close(&u->run);
    tern_graph_deinit(&u->g);
}

/* The mean loss of one run. */
static double loss_of(tuned *u)
{
    float losses[TOKENS];
    test_graph_step(&u->run);
    test_graph_read(&u->run, u->g.losses, losses);
    double sum = 0;
    for (uint32_t i = 0; i < TOKENS; i++) sum += (double)losses[i];
    return sum / u->n_labels;
}

/* All weights that learn. */
static size_t tensors(const test_trained *t, const tern_weight **out)
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)LAYERS * TERN_ROLE_COUNT; i++) {
        if (t->copies[i].trained) out[n++] = &t->copies[i];
        for (uint32_t k = 0; k < t->places[i].n_loras; k++) {
            out[n++] = t->places[i].loras[k].a;
            out[n++] = t->places[i].loras[k].b;
        }
    }
    assert_true(n <= MAX_TENSORS);
    return n;
}

static size_t elements(const tern_weight *w)
{
    return (size_t)w->rows * w->cols;
}

static float *gradient_of(const tuned *u, const tern_weight *w)
{
    uint32_t state = test_graph_state(&u->g, w, TERN_STATE_GRADIENT);
    if (state == TERN_NO_VALUE) fail_msg("%s has no gradient", w->name);
    float *g = malloc(u->g.values[state].bytes);
    test_graph_read(&u->run, state, g);
    return g;
}

static void shift(const tern_weight *w, const float *start, const float *direction, double by)
{
    float *data = (float *)(uintptr_t)w->data;
    for (size_t i = 0; i < elements(w); i++) data[i] = (float)((double)start[i] + by * (double)direction[i]);
}

/* The derivative along `direction` by central differences at two distances, of which the error in the square of the
 * distance is taken out (Richardson). */
static double slope(tuned *u, const tern_weight *w, const float *direction, double distance)
{
    float *start = malloc(w->bytes);
    double d[2];
    memcpy(start, w->data, w->bytes);
    for (int i = 0; i < 2; i++) {
        double by = distance / (1 + i);
        shift(w, start, direction, by);
        double above = loss_of(u);
        shift(w, start, direction, -by);
        d[i] = (above - loss_of(u)) / (2 * by);
    }
    shift(w, start, direction, 0);
    free(start);
    return (4 * d[1] - d[0]) / 3;
}

/* Along the gradient with half of its elements left out at random, so that each tensor's own gradient is seen. */
static double check_tensor(tuned *forward, const tern_weight *w, const float *g, uint64_t seed)
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
    /* a change of the loss of about 0.02, but not of the weights by more than a tenth */
    double distance = fmin(0.02 / sqrt(square), 0.1 * sqrt(weights));
    double want = slope(forward, w, direction, distance), error = fabs(inner / want - 1);
    if (!(error < 4e-4)) fail_msg("%s: derivative %g, %g by differences (%g)", w->name, inner, want, error);
    free(direction);
    return error;
}

static void check_model(test_trained *t, const how *h)
{
    const tern_weight *all[MAX_TENSORS];
    size_t n = tensors(t, all);
    tuned whole, forward;
    how only = *h;
    only.forward_only = true;
    open_tuned(&whole, t, h, test_backend("cpu"));
    open_tuned(&forward, t, &only, test_backend("cpu"));
    double loss = loss_of(&whole), worst = 0;
    assert_true(loss == loss_of(&forward));
    for (size_t i = 0; i < n; i++) {
        if (test_quick() && i % 5) continue;
        float *g = gradient_of(&whole, all[i]);
        worst = fmax(worst, check_tensor(&forward, all[i], g, i + 1));
        free(g);
    }
    print_message("%s, %zu tensors, loss %.4f: derivatives within %.1e\n", t->config->architecture, n, loss, worst);
    close_tuned(&whole);
    close_tuned(&forward);
}

static void whole_models(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        test_trained t;
        test_trained_open(&t, test_fixture(models[m]), true);
        check_model(&t, &(how){.dense = true});
        test_trained_close(&t);
    }
}

static void adapt_all(test_trained *t, float dropout)
{
    static const tern_role roles[] = {TERN_ROLE_ATTN_Q,   TERN_ROLE_ATTN_V, TERN_ROLE_ATTN_OUTPUT, TERN_ROLE_FFN_GATE,
                                      TERN_ROLE_FFN_DOWN, TERN_ROLE_FFN_UP, TERN_ROLE_ATTN_K};
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) test_trained_adapt(t, roles[i], layer, 8, dropout);
    test_trained_adapt(t, TERN_ROLE_FFN_DOWN, 1, 4, dropout);
    test_trained_adapt(t, TERN_ROLE_OUTPUT, 0, 4, dropout);
}

/* With dropout, whose mask is the same in every run of one seed; in chunks, with checkpoints. */
static void adapters(void **state)
{
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        test_trained t;
        test_trained_open(&t, test_fixture(models[dropout]), true);
        test_trained_freeze(&t);
        adapt_all(&t, dropout ? 0.25f : 0);
        check_model(&t, &(how){.dense = true, .chunk = 64, .checkpoint = true});
        test_trained_close(&t);
    }
}

/* All gradients of two graphs over the same weights. */
static void same_bits(test_trained *t, const how *a, tern_backend *on_a, const how *b, tern_backend *on_b)
{
    const tern_weight *all[MAX_TENSORS];
    size_t n = tensors(t, all);
    tuned u[2];
    open_tuned(&u[0], t, a, on_a);
    open_tuned(&u[1], t, b, on_b);
    double loss = loss_of(&u[0]);
    assert_true(loss > 0 && loss == loss_of(&u[1]));
    for (size_t i = 0; i < n; i++) {
        float *g[2] = {gradient_of(&u[0], all[i]), gradient_of(&u[1], all[i])};
        if (memcmp(g[0], g[1], elements(all[i]) * sizeof(float))) fail_msg("%s: other bits", all[i]->name);
        free(g[0]);
        free(g[1]);
    }
    close_tuned(&u[0]);
    close_tuned(&u[1]);
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
            if (adapted) adapt_all(&t, 0);
            how plain = {0}, checkpoint = {.checkpoint = true}, chunks = {.chunk = 64};
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
    same_bits(&t, &(how){.dense = true}, test_backend("cpu"), &(how){.fake = true}, test_backend("cpu"));
    test_trained_close(&t);
}

/* Gradients add up: two runs give twice one run's, and a batch is the sum of its documents. */
static void gradients_add_up(void **state)
{
    (void)state;
    test_trained t;
    tuned u;
    const tern_weight *all[MAX_TENSORS];
    test_trained_open(&t, test_fixture("bitnet"), false);
    open_tuned(&u, &t, &(how){.checkpoint = true}, test_backend("cpu"));
    size_t n = tensors(&t, all);
    float *whole[MAX_TENSORS];
    loss_of(&u);
    for (size_t i = 0; i < n; i++) {
        whole[i] = gradient_of(&u, all[i]);
        test_graph_clear(&u.run, test_graph_state(&u.g, all[i], TERN_STATE_GRADIENT));
    }
    int32_t labels[TOKENS], *now = test_graph_param(&u.run, TERN_PARAM_LABELS);
    memcpy(labels, now, sizeof labels);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < TOKENS; i++) now[i] = (i < 40) == (half == 0) ? labels[i] : -1;
        loss_of(&u);
    }
    for (size_t i = 0; i < n; i++) {
        float *sum = gradient_of(&u, all[i]);
        double error = 0, size = 0;
        for (size_t k = 0; k < elements(all[i]); k++) {
            error += pow((double)sum[k] - (double)whole[i][k], 2);
            size += pow((double)whole[i][k], 2);
        }
        if (!(error <= 1e-10 * size)) fail_msg("%s: %g", all[i]->name, sqrt(error / size));
        free(sum);
        free(whole[i]);
    }
    close_tuned(&u);
    test_trained_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_models),
        cmocka_unit_test(adapters),
        cmocka_unit_test(bits_do_not_depend_on_the_plan),
        cmocka_unit_test(a_blend_of_nothing_changes_nothing),
        cmocka_unit_test(gradients_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, test_backends_close);
}
