/* Low-rank adapters beside a frozen model: graphs of inference with them, fused or not, and against merged weights. */
#include "support/test.h"

#include <math.h>

#include "quant/weight.h"
#include "support/golden.h"
#include "support/graph_check.h"
#include "support/graph_run.h"
#include "support/op_case.h"
#include "support/trained.h"

enum { TOKENS = 24, LAYERS = 3, VOCAB = 512 };

static const char *const models[] = {"bitnet", "llama"};

typedef struct how {
    uint32_t max_tokens;
    bool fused, f32;
} how;

static void build(tern_graph *g, const test_trained *t, const how *h, tern_backend *backend)
{
    tern_error err = {0};
    tern_graph_options o = {.weights = t->places,
                            .max_tokens = h->max_tokens,
                            .max_outputs = h->max_tokens,
                            .n_ctx = 32,
                            .n_sequences = 1,
                            .n_pages = 1,
                            .kv = {h->f32 ? TERN_DTYPE_F32 : TERN_DTYPE_F16, h->f32 ? TERN_DTYPE_F32 : TERN_DTYPE_F16},
                            .f32_activations = h->f32};
    assert_ok(tern_graph_build(g, t->model, &o, &err), err);
    if (h->fused) assert_ok(tern_graph_fuse(g, backend, &err), err);
    assert_ok(tern_graph_plan(g, h->fused ? backend->info.fusions : 0, &err), err);
    test_check_order(g);
    test_check_plan(g, true);
}

/* Logits of all tokens, max_tokens of them a step. */
static float *logits_of(const test_trained *t, const how *h, tern_backend *backend)
{
    tern_graph g;
    test_graph_run run;
    build(&g, t, h, backend);
    test_graph_open(&run, backend, &g);
    float *logits = malloc((size_t)TOKENS * VOCAB * sizeof(float));
    for (uint32_t at = 0; at < TOKENS; at += h->max_tokens) {
        int32_t *ids = test_graph_param(&run, TERN_PARAM_IDS);
        uint32_t *positions = test_graph_param(&run, TERN_PARAM_POSITIONS);
        for (uint32_t i = 0; i < h->max_tokens; i++) {
            ids[i] = (int32_t)((at + i) * 37 + 5) % VOCAB;
            positions[i] = at + i;
        }
        test_graph_step(&run);
        test_graph_read(&run, g.logits, logits + (size_t)at * VOCAB);
    }
    test_graph_close(&run);
    tern_graph_deinit(&g);
    return logits;
}

static const tern_role roles[] = {TERN_ROLE_ATTN_Q,   TERN_ROLE_ATTN_K, TERN_ROLE_ATTN_V,   TERN_ROLE_ATTN_OUTPUT,
                                  TERN_ROLE_FFN_GATE, TERN_ROLE_FFN_UP, TERN_ROLE_FFN_DOWN, TERN_ROLE_OUTPUT};

/* Adapters at the roles whose bit is set, two beside the first of them. */
static void adapt(test_trained *t, uint32_t set)
{
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t i = 0, n = 0; i < 8; i++) {
            if (!(set >> i & 1) || (roles[i] == TERN_ROLE_OUTPUT && layer)) continue;
            test_trained_adapt(t, roles[i], layer, 8, 0.5f);
            if (n++ == 0) test_trained_adapt(t, roles[i], layer, 4, 0);
        }
}

/* q and v, as many adapters are; each alone; all. */
static void fusion_changes_no_bit(void **state)
{
    (void)state;
    static const uint32_t sets[] = {0x05, 0xff, 0x7f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x30};
    tern_backend *cpu = test_backend("cpu");
    for (size_t m = 0; m < 2; m++)
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            test_trained t;
            test_trained_open(&t, test_fixture(models[m]), false);
            float *bare = logits_of(&t, &(how){.max_tokens = TOKENS}, cpu);
            adapt(&t, sets[s]);
            float *want = logits_of(&t, &(how){.max_tokens = TOKENS}, cpu);
            float *fused = logits_of(&t, &(how){.max_tokens = TOKENS, .fused = true}, cpu);
            float *one = logits_of(&t, &(how){.max_tokens = 1, .fused = true}, cpu);
            size_t bytes = (size_t)TOKENS * VOCAB * sizeof(float);
            if (memcmp(want, fused, bytes)) fail_msg("%s, adapters %x: other bits when fused", models[m], sets[s]);
            if (memcmp(want, one, bytes)) fail_msg("%s, adapters %x: other bits in steps of one", models[m], sets[s]);
            assert_true(test_rms_error(want, bare, (size_t)TOKENS * VOCAB) > 1e-2);
            free(bare);
            free(want);
            free(fused);
            free(one);
            test_trained_close(&t);
        }
}

/* A GPU reads the same rows and columns: an int8 that is rounded the other way moves the logits by a few percent at
 * most, a view of the wrong columns by all they are. */
static void a_gpu_agrees(void **state)
{
    (void)state;
    tern_backend *cpu = test_backend("cpu"), *gpu = test_gpu_backend();
    for (size_t m = 0; m < 2; m++)
        for (uint32_t max_tokens = 1; max_tokens <= TOKENS; max_tokens += TOKENS - 1) {
            test_trained t;
            how h = {.max_tokens = max_tokens, .fused = true};
            test_trained_open(&t, test_fixture(models[m]), false);
            adapt(&t, max_tokens > 1 ? 0xff : 0x05);
            float *want = logits_of(&t, &h, cpu), *got = logits_of(&t, &h, gpu);
            double error = test_rms_error(got, want, (size_t)TOKENS * VOCAB), most = m == 0 ? 5e-2 : 2e-3;
            if (!(error <= most)) fail_msg("%s, steps of %u: off by %g", models[m], max_tokens, error);
            free(want);
            free(got);
            test_trained_close(&t);
        }
}

/* Layers without an adapter stay fused, and those with one are joined before it. */
static void fusion_joins_the_layers_themselves(void **state)
{
    (void)state;
    test_trained t;
    tern_graph g;
    test_trained_open(&t, test_fixture("llama"), false);
    adapt(&t, 0x05);
    build(&g, &t, &(how){.max_tokens = TOKENS, .fused = true}, test_backend("cpu"));
    assert_int_equal(test_count_ops(&g, TERN_OP_SCALE), 3 * LAYERS);
    /* q|k|v, three adapters of two, o, gate|up, down; the head */
    assert_int_equal(test_count_ops(&g, TERN_OP_LINEAR), LAYERS * (1 + 3 * 2 + 3) + 1);
    tern_graph_deinit(&g);
    test_trained_close(&t);
}

/* W + scale B A in one matrix. */
static void merge(const test_trained *t, tern_role role, uint32_t layer)
{
    size_t at = (size_t)layer * TERN_ROLE_COUNT + role;
    const tern_weight *w = &t->copies[at];
    float *data = (float *)(uintptr_t)w->data;
    for (uint32_t i = 0; i < t->places[at].n_loras; i++) {
        const tern_graph_lora *lora = &t->places[at].loras[i];
        const float *a = (const float *)lora->a->data, *b = (const float *)lora->b->data;
        for (uint32_t r = 0; r < w->rows; r++)
            for (uint32_t c = 0; c < w->cols; c++) {
                double sum = 0;
                for (uint32_t k = 0; k < lora->a->rows; k++)
                    sum += (double)b[r * lora->a->rows + k] * (double)a[k * w->cols + c];
                data[(size_t)r * w->cols + c] += (float)((double)lora->scale * sum);
            }
    }
    t->places[at].n_loras = 0;
}

static void adapters_add_to_the_weights(void **state)
{
    (void)state;
    tern_backend *cpu = test_backend("cpu");
    how h = {.max_tokens = TOKENS, .f32 = true};
    for (size_t m = 0; m < 2; m++) {
        test_trained t;
        test_trained_open(&t, test_fixture(models[m]), true);
        adapt(&t, t.config->tied_head ? 0x7f : 0xff); /* a tied head has no matrix of its own to merge into */
        float *beside = logits_of(&t, &h, cpu);
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            for (uint32_t i = 0; i < 8; i++)
                if (test_trained_weight(&t, roles[i], layer)) merge(&t, roles[i], layer);
        float *merged = logits_of(&t, &h, cpu);
        double error = test_rms_error(beside, merged, (size_t)TOKENS * VOCAB);
        if (!(error <= 1e-5)) fail_msg("%s: merged weights differ by %g", models[m], error);
        free(beside);
        free(merged);
        test_trained_close(&t);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fusion_changes_no_bit),
    cmocka_unit_test(a_gpu_agrees),
    cmocka_unit_test(fusion_joins_the_layers_themselves),
    cmocka_unit_test(adapters_add_to_the_weights),
};

TEST_GROUP(adapters, "gpu swiftshader", tests, .teardown = test_backends_close);
