/* Gradients of whole models on a GPU against those on the CPU. The CPU's int8 rows are handed over after each
 * quantiser, as one element that rounds the other way after a sum in another order moves the gradients of so small a
 * model by some percent. */
#include "support/test.h"

#include <math.h>

#include "quant/weight.h"
#include "support/op_case.h"
#include "support/tuned.h"

enum { MAX_SITES = 64 };

typedef struct rows_of_sites {
    uint8_t *bytes[MAX_SITES];
    size_t n_elements, n_flips;
} rows_of_sites;

static void keep(test_graph_run *r, const tern_op *op, uint32_t index, void *context)
{
    rows_of_sites *sites = context;
    assert_true(index < MAX_SITES);
    sites->bytes[index] = malloc(r->graph->values[op->out.value].bytes);
    test_graph_read(r, op->out.value, sites->bytes[index]);
}

/* Counts what was rounded the other way, and puts the rows of before in its place. */
static void hand_over(test_graph_run *r, const tern_op *op, uint32_t index, void *context)
{
    rows_of_sites *sites = context;
    const tern_value *v = &r->graph->values[op->out.value];
    size_t n = (size_t)tern_q8_stride(v->cols) * tern_graph_max_rows(r->graph, v->rows);
    int8_t *got = malloc(v->bytes);
    const int8_t *want = (const int8_t *)sites->bytes[index];
    test_graph_read(r, op->out.value, got);
    for (size_t i = 0; i < n; i++) {
        if (abs(got[i] - want[i]) > 1) fail_msg("%s: %d at %zu, %d on the CPU", v->name, got[i], i, want[i]);
        sites->n_flips += got[i] != want[i];
    }
    sites->n_elements += n;
    test_graph_write(r, op->out.value, want);
    free(got);
}

static void compare(const test_trained *t, const test_how *how, double most)
{
    const tern_weight *all[TEST_TUNED_MAX_TENSORS];
    size_t n = test_tuned_tensors(t, all);
    rows_of_sites sites = {0};
    test_tuned cpu, gpu;
    test_tuned_open(&cpu, t, how, test_backend("cpu"));
    test_tuned_open(&gpu, t, how, test_gpu_backend());
    test_graph_step_by(&cpu.run, TERN_OP_QUANTIZE, keep, &sites);
    test_graph_step_by(&gpu.run, TERN_OP_QUANTIZE, hand_over, &sites);
    double want = test_tuned_loss(&cpu), got = test_tuned_loss(&gpu), worst = 0;
    if (!(fabs(got / want - 1) <= 1e-5)) fail_msg("loss %g, %g on the CPU", got, want);
    for (size_t i = 0; i < n; i++) {
        float *g[2] = {test_tuned_gradient(&gpu, all[i]), test_tuned_gradient(&cpu, all[i])};
        double d = test_distance(g[0], g[1], (size_t)all[i]->rows * all[i]->cols);
        if (!(d <= most)) fail_msg("%s: relative distance %g, at most %g expected", all[i]->name, d, most);
        worst = fmax(worst, d);
        free(g[0]);
        free(g[1]);
    }
    print_message("%s: %zu gradients within %.1e; %zu of %zu int8 rounded the other way\n", t->config->architecture, n,
                  worst, sites.n_flips, sites.n_elements);
    assert_true(sites.n_flips * 1000 <= sites.n_elements);
    for (size_t i = 0; i < MAX_SITES; i++) free(sites.bytes[i]);
    test_tuned_close(&cpu);
    test_tuned_close(&gpu);
}

static void whole_tuning(void **state)
{
    (void)state;
    static const char *const models[] = {"bitnet", "llama"};
    for (size_t m = 0; m < 2; m++) {
        test_trained t;
        test_trained_open(&t, test_fixture(models[m]), false);
        compare(&t, &(test_how){.chunk = m ? 64 : 0, .checkpoint = m == 0}, 1e-4);
        test_trained_close(&t);
    }
}

/* Norms of heads and after blocks, biases, soft caps, windows, scaled embeddings. */
static void other_families(void **state)
{
    (void)state;
    const char *const fixtures[] = {"gemma2", "gemma3"};
    for (size_t m = 0; m < 2 || test_made_families[m - 2]; m++) {
        test_trained t;
        test_trained_open(&t, m < 2 ? test_fixture(fixtures[m]) : test_made(test_made_families[m - 2]), false);
        compare(&t, &(test_how){.chunk = m % 2 ? 64 : 0}, 1e-4);
        test_trained_close(&t);
    }
}

static void adapters(void **state)
{
    (void)state;
    test_trained t;
    test_trained_open(&t, test_fixture("bitnet"), false);
    test_trained_freeze(&t);
    test_tuned_adapt(&t, 0.25f);
    compare(&t, &(test_how){.chunk = 64}, 1e-4);
    test_trained_close(&t);
}

/* All weights, with checkpoints, and adapters beside attention and beside experts. */
static void experts(void **state)
{
    (void)state;
    const char *const paths[] = {test_fixture("mixtral"), test_fixture("gpt-oss"), test_made(test_made_experts[0])};
    if (strcmp(test_gpu_name(), "cuda") == 0) test_skip("CUDA lacks these gradients"); /* test_trainer_models.c */
    for (size_t m = 0; m < sizeof paths / sizeof *paths; m++) {
        test_trained t;
        test_trained_open(&t, paths[m], false);
        compare(&t, &(test_how){.chunk = m ? 64 : 0, .checkpoint = m == 0}, 1e-4);
        test_trained_freeze(&t);
        for (uint32_t layer = 0; layer < t.config->n_layers; layer++) {
            test_trained_adapt(&t, TERN_ROLE_ATTN_V, layer, 4, 0);
            test_trained_adapt(&t, TERN_ROLE_FFN_GATE_EXPS, layer, 8, 0.25f);
            test_trained_adapt(&t, TERN_ROLE_FFN_DOWN_EXPS, layer, 4, 0.25f);
        }
        compare(&t, &(test_how){.chunk = 64}, 1e-4);
        test_trained_close(&t);
    }
}

/* Layers that keep a state, of two whole chunks and a part of one; output gates, some of them one number for all
 * columns. CUDA lacks the gradients of experts, which all but the first have. */
static void hybrids(void **state)
{
    (void)state;
    static const char *const models[] = {"qwen3_5", "qwen3_5_moe", "qwen3_next"};
    const bool cuda = strcmp(test_gpu_name(), "cuda") == 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        if (!test_takes(m, 3, 1) || (cuda && m)) continue;
        test_trained t;
        test_trained_open(&t, test_fixture(models[m]), true);
        compare(&t, &(test_how){.dense = true, .tokens = m ? 64 : 150, .checkpoint = m == 0}, 2e-4);
        test_trained_close(&t);
    }
}

/* Int8 rows of tokens and of experts; and those that are to be quantised, none of which is yet (blend 0: nothing rounds
 * the other way). */
static void quantised_experts(void **state)
{
    (void)state;
    if (strcmp(test_gpu_name(), "cuda") == 0) test_skip("CUDA lacks these gradients");
    for (int fake = 0; fake < 2; fake++) {
        test_trained t;
        test_trained_open(&t, test_fixture("mixtral"), fake);
        ((tern_config *)(uintptr_t)t.config)->bit_linear = true;
        compare(&t, &(test_how){.chunk = 64, .fake = fake}, 1e-4);
        test_trained_close(&t);
    }
}

/* Half quantised, from dense weights. */
static void gradual_quantisation(void **state)
{
    (void)state;
    test_trained t;
    test_trained_open(&t, test_fixture("bitnet"), true);
    compare(&t, &(test_how){.fake = true, .blend = 0}, 1e-4);
    test_trained_close(&t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(whole_tuning),
    cmocka_unit_test(other_families),
    cmocka_unit_test(adapters),
    cmocka_unit_test(experts),
    cmocka_unit_test(hybrids),
    cmocka_unit_test(quantised_experts),
    cmocka_unit_test(gradual_quantisation),
};

TEST_GROUP(graph_gpu, "devices", tests, .teardown = test_backends_close);
