/* Models in every encoding on a GPU, compared with the same file on the CPU. */
#include "support/test.h"

#include <unistd.h>

#include "base/file.h"
#include "quant/encoding.h"
#include "support/converted.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/micro_model.h"
#include "support/op_case.h"

enum { N_SINGLE = 4 };
static const double ternary_budget = 2e-3, dense_budget = 5e-4;

/* One input in one step, and the first tokens of it one by one. */
static void check_pair(test_pair *pair, const int32_t *ids, uint32_t n)
{
    tern_error err = {0};
    size_t row = tern_engine_config(pair->cpu_engine)->n_vocab * sizeof(float);
    assert_ok(tern_session_append_all(pair->gpu, ids, n, &err), err);
    test_pair_check(pair, ids, n, test_logits(pair->gpu, 0));
    uint8_t *logits = malloc(N_SINGLE * row);
    tern_session_truncate(pair->gpu, 0);
    for (uint32_t t = 0; t < N_SINGLE; t++) {
        assert_ok(tern_session_append(pair->gpu, &ids[t], 1, &err), err);
        memcpy(logits + t * row, test_logits(pair->gpu, 0), row);
    }
    test_pair_check(pair, ids, N_SINGLE, (const float *)(const void *)logits);
    free(logits);
}

/* `linear` and `head`: what the file is converted to; `how`: how it is opened. */
static void check(const char *name, const char *linear, const char *head, const tern_engine_params *how, double max_rms)
{
    char golden_name[64], what[96];
    const char *opened_head = how && how->head ? how->head->name : head;
    snprintf(golden_name, sizeof golden_name, "%s/golden.safetensors", name);
    snprintf(what, sizeof what, "%s in %s, head %s%s", name, linear ? linear : "its own",
             opened_head ? opened_head : "its own", how && how->f32_activations ? ", f32 activations" : "");
    test_golden golden;
    test_golden_open(&golden, test_fixture(golden_name));
    test_pair pair;
    test_pair_open(&pair, test_converted(test_fixture(name), linear, head), test_all_layers, how, max_rms);
    pair.what = what;
    uint32_t n;
    const int32_t *ids = test_golden_ids(&golden, 1, &n);
    check_pair(&pair, ids, n);
    test_pair_close(&pair);
    test_golden_close(&golden);
}

static void ternary_encodings(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "tq2_0", "tq1_0", "t160"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        check("bitnet", encodings[i], NULL, NULL, ternary_budget);
        if (test_takes(i, 5, 1)) check("bitnet-packed", encodings[i], "f32", NULL, ternary_budget);
    }
}

/* Without the quantiser there are no ties. */
static void f32_activations(void **state)
{
    (void)state;
    check("bitnet", "i2_s", NULL, &(tern_engine_params){.f32_activations = true}, dense_budget);
    check("bitnet", "t160", NULL, &(tern_engine_params){.f32_activations = true}, dense_budget);
}

/* BitNet layers stored as numbers: the inputs are int8 all the same. */
static void bitnet_in_dense_encodings(void **state)
{
    (void)state;
    check("bitnet", "f32", NULL, NULL, ternary_budget);
    check("bitnet", "f16", NULL, NULL, ternary_budget);
}

static void dense_encodings(void **state)
{
    (void)state;
    static const char *const encodings[] = {"f32", "f16", "bf16", "q8_0", "q6_k", "q4_k"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        check("llama", encodings[i], encodings[i], NULL, dense_budget);
}

/* The table stays for the embedding, another one is the head. */
static void heads(void **state)
{
    (void)state;
    static const char *const encodings[] = {"q8_0", "q6_k", "q4_k", "f32", "f16", "bf16"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        if (!test_takes(i, 3, 1)) continue;
        check("bitnet", NULL, NULL, &(tern_engine_params){.head = tern_encoding_by_name(encodings[i])}, ternary_budget);
    }
}

static const char *written(const tern_buf *bytes)
{
    char name[64];
    snprintf(name, sizeof name, "small-%d.gguf", (int)getpid());
    const char *path = test_scratch(name);
    test_write_file(path, bytes->data, bytes->size);
    return path;
}

static void check_small(const micro_change *change)
{
    static const int32_t ids[] = {1, 5, 2, 7, 3, 3, 0, 6, 4, 1, 7};
    tern_buf bytes = micro_model(change);
    const char *path = written(&bytes);
    test_pair pair;
    test_pair_open(&pair, path, test_all_layers, NULL, ternary_budget);
    unlink(path);
    check_pair(&pair, ids, sizeof ids / sizeof *ids);
    test_pair_close(&pair);
    tern_buf_deinit(&bytes);
}

/* Rows that fill no group, and no workgroup; head_dim is half of the width. */
static void small_shapes(void **state)
{
    (void)state;
    static const uint32_t widths[] = {16, 48, 144, 272};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (test_takes(i, 2, 1)) check_small(&(micro_change){.width = widths[i], .seed = 7});
}

/* A window that is full after 3 tokens. */
static void windows(void **state)
{
    (void)state;
    check_small(&(micro_change){.width = 48, .seed = 7, .key = "attention.sliding_window", .value = 3});
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ternary_encodings), cmocka_unit_test(f32_activations), cmocka_unit_test(bitnet_in_dense_encodings),
    cmocka_unit_test(dense_encodings),   cmocka_unit_test(heads),           cmocka_unit_test(small_shapes),
    cmocka_unit_test(windows),
};

TEST_GROUP(models_gpu, "devices long", tests, .teardown = test_backends_close);
