/* Whole training graphs, run by hand. */
#include "support/tuned.h"

#include <math.h>

#include "quant/weight.h"
#include "support/test.h"

void test_tuned_fill(test_tuned *u, const int32_t *ids, const int32_t *labels, const uint32_t *starts)
{
    uint32_t n = u->n_tokens, *positions = test_graph_param(&u->run, TERN_PARAM_POSITIONS);
    memcpy(test_graph_param(&u->run, TERN_PARAM_IDS), ids, n * sizeof *ids);
    memcpy(test_graph_param(&u->run, TERN_PARAM_LABELS), labels, n * sizeof *labels);
    memcpy(test_graph_param(&u->run, TERN_PARAM_SEQ_STARTS), starts, n * sizeof *starts);
    u->n_labels = 0;
    for (uint32_t i = 0; i < n; i++) {
        positions[i] = i - starts[i];
        u->n_labels += labels[i] >= 0;
    }
    tern_train_params *p = test_graph_param(&u->run, TERN_PARAM_TRAINING);
    p->loss_weight = 1.0f / (float)u->n_labels;
}

static void fill_batch(test_tuned *u, uint32_t n_ids)
{
    enum { MOST = 1024 };
    int32_t ids[MOST], labels[MOST];
    uint32_t starts[MOST], n = u->n_tokens, second = n * 5 / 16, third = n * 9 / 16;
    assert_true(n <= MOST);
    for (uint32_t i = 0; i < n; i++) {
        starts[i] = i < second ? 0 : i < third ? second : third;
        ids[i] = (int32_t)((i * i * 7 + 3 * i) % n_ids);
        bool last = i + 1 == second || i + 1 == third || i + 1 == n;
        labels[i] = last || i % 5 == 1 ? -100 : (int32_t)((i * 31 + 11) % n_ids);
    }
    test_tuned_fill(u, ids, labels, starts);
}

void test_tuned_open(test_tuned *u, const test_trained *t, const test_how *how, tern_backend *backend)
{
    tern_error err = {0};
    *u = (test_tuned){.t = t, .n_tokens = how->tokens ? how->tokens : TEST_TUNED_TOKENS};
    tern_graph_options o = {.weights = t->places,
                            .max_tokens = u->n_tokens,
                            .max_outputs = how->chunk ? how->chunk : u->n_tokens,
                            .n_ctx = u->n_tokens,
                            .training = true,
                            .fake_quantize = how->fake,
                            .f32_activations = how->dense};
    tern_graph_backward_options back = {.checkpoint = how->checkpoint};
    assert_ok(tern_graph_build(&u->graph, t->model, &o, &err), err);
    if (!how->forward_only) assert_ok(tern_graph_differentiate(&u->graph, &back, &err), err);
    assert_ok(tern_graph_plan(&u->graph, backend->info.fusions, &err), err);
    test_graph_open(&u->run, backend, &u->graph);
    tern_train_params *p = test_graph_param(&u->run, TERN_PARAM_TRAINING);
    p->blend = how->blend;
    p->seed = 77;
    fill_batch(u, t->config->n_vocab - 12);
}

void test_tuned_close(test_tuned *u)
{
    test_graph_close(&u->run);
    tern_graph_deinit(&u->graph);
}

double test_tuned_loss(test_tuned *u)
{
    float *losses = malloc(u->n_tokens * sizeof *losses);
    test_graph_read(&u->run, u->graph.losses, losses);
    double sum = 0;
    for (uint32_t i = 0; i < u->n_tokens; i++) sum += (double)losses[i];
    free(losses);
    return sum / u->n_labels;
}

double test_tuned_step(test_tuned *u)
{
    test_graph_step(&u->run);
    return test_tuned_loss(u);
}

float *test_tuned_gradient(test_tuned *u, const tern_weight *w)
{
    uint32_t state = test_graph_state(&u->graph, w, TERN_STATE_GRADIENT);
    if (state == TERN_NO_VALUE) fail_msg("%s has no gradient", w->name);
    float *g = malloc(u->graph.values[state].bytes);
    test_graph_read(&u->run, state, g);
    return g;
}

size_t test_tuned_tensors(const test_trained *t, const tern_weight *out[TEST_TUNED_MAX_TENSORS])
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)t->config->n_layers * TERN_ROLE_COUNT; i++) {
        assert_true(n + 2 * t->places[i].n_loras < TEST_TUNED_MAX_TENSORS);
        if (t->copies[i].trained) out[n++] = &t->copies[i];
        for (uint32_t k = 0; k < t->places[i].n_loras; k++) {
            out[n++] = t->places[i].loras[k].a;
            out[n++] = t->places[i].loras[k].b;
        }
    }
    return n;
}

void test_tuned_adapt(test_trained *t, float dropout)
{
    static const tern_role roles[] = {TERN_ROLE_ATTN_Q,   TERN_ROLE_ATTN_V, TERN_ROLE_ATTN_OUTPUT, TERN_ROLE_FFN_GATE,
                                      TERN_ROLE_FFN_DOWN, TERN_ROLE_FFN_UP, TERN_ROLE_ATTN_K};
    for (uint32_t layer = 0; layer < t->config->n_layers; layer++)
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) test_trained_adapt(t, roles[i], layer, 8, dropout);
    test_trained_adapt(t, TERN_ROLE_FFN_DOWN, 1, 4, dropout);
    test_trained_adapt(t, TERN_ROLE_OUTPUT, 0, 4, dropout);
}

double test_distance(const float *a, const float *b, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        error += d * d;
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(error / size);
}
