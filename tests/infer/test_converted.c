/* Models converted to GGUF in every encoding that loses nothing compute the goldens; lossy ones stay near. */
#include "quant/encoding_id.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

static void check(const char *name, const char *linear, const char *head, double max_rms)
{
    char golden[64];
    snprintf(golden, sizeof golden, "%s/golden.safetensors", name);
    test_golden_check(test_converted(test_fixture(name), linear, head), test_fixture(golden), NULL, max_rms);
}

static void ternary_encodings(void **state)
{
    (void)state;
    static const char *const encodings[] = {NULL, "i2_s", "tq2_0", "tq1_0", "t160"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        check("bitnet", encodings[i], NULL, 2e-3);
        if (test_takes(i, 5, 1)) check("bitnet-packed", encodings[i], "f32", 2e-3);
    }
}

/* BitNet layers stored as numbers: the inputs are int8 all the same. f16 rounds the scale. */
static void bitnet_in_dense_encodings(void **state)
{
    (void)state;
    check("bitnet", "f32", NULL, 2e-3);
    check("bitnet-packed", "f32", NULL, 2e-3);
    check("bitnet-packed", "f16", NULL, 2e-3);
}

static void trained_model(void **state)
{
    (void)state;
    test_golden_check(test_converted(test_model("tiny-stories-bitnet"), "t160", NULL),
                      test_model("tiny-stories-bitnet/golden_logits.safetensors"), NULL, 2e-3);
}

static void dense_encodings(void **state)
{
    (void)state;
    check("llama", NULL, NULL, 5e-4);
    check("llama", "f32", "f32", 5e-4);
    check("llama", "bf16", "bf16", 5e-4);
    check("gemma2", NULL, NULL, 5e-4);
    check("gemma3", "f32", "bf16", 5e-4);
}

static void other_families(void **state)
{
    (void)state;
    for (const char *const *family = test_made_families; *family; family++) {
        test_golden_check_made(*family, test_converted(test_made(*family), NULL, NULL));
        test_golden_check_made(*family, test_converted(test_made(*family), "f32", "f32"));
    }
}

static void linear_norms(void **state)
{
    (void)state;
    static const char *const encodings[] = {NULL, "i2_s", "t160", "f32"};
    for (const char *const *family = test_made_ternary; *family; family++) {
        char golden[64];
        snprintf(golden, sizeof golden, "%s/golden.safetensors", *family);
        for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
            test_golden_check(test_converted(test_made(*family), encodings[i], NULL), test_made(golden), NULL, 2e-3);
    }
}

/* Experts stacked in GGUF files; MXFP4 ones as they are, and as numbers. */
static void experts(void **state)
{
    (void)state;
    check("mixtral", NULL, NULL, 5e-4);
    check("mixtral", "f32", "f32", 5e-4);
    check("gpt-oss", NULL, NULL, 5e-4);
    check("gpt-oss", "bf16", "bf16", 5e-4);
    for (const char *const *family = test_made_experts; *family; family++)
        test_golden_check_made(*family, test_converted(test_made(*family), NULL, NULL));
}

/* Heads of values go into llama.cpp's order. */
static void recurrent(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3_5", "qwen3_5_moe", "qwen3_next"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check(names[i], NULL, NULL, 5e-4);
        check(names[i], "f32", "f32", 5e-4);
    }
}

/* Maple's layers are numbers in its folder, of one magnitude in each row: ternary types hold them exactly. */
static void ternary_experts(void **state)
{
    (void)state;
    const tern_engine_params params = {.f32_activations = true};
    test_golden_check(test_converted(test_made("maple"), "t160", NULL), test_made("maple/golden.safetensors"), &params,
                      5e-4);
}

/* f16 keeps what bf16 weights of this size hold; q8_0 to q4_k lose a little, each its share. */
static void lossy_encodings(void **state)
{
    (void)state;
    static const struct {
        const char *encoding;
        double max_rms;
    } cases[] = {{"f16", 1e-3},  {"q8_0", 0.03}, {"q6_k", 0.1},  {"q5_k", 0.2},  {"q4_k", 0.35},  {"q5_1", 0.18},
                 {"q5_0", 0.21}, {"q4_1", 0.36}, {"q4_0", 0.41}, {"q3_k", 0.65}, {"iq4_nl", 0.4}, {"q2_k", 0.98}};
    tern_error err = {0};
    test_golden golden;
    test_golden_open(&golden, test_fixture("llama/golden.safetensors"));
    const float *want = (const float *)(const void *)tern_safetensors_find(golden.file, "1.logits")->data;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_engine *engine =
            test_engine(test_converted(test_fixture("llama"), cases[i].encoding, cases[i].encoding), NULL);
        tern_session *session = test_session(engine, false);
        uint32_t n, n_vocab = tern_engine_config(engine)->n_vocab;
        const int32_t *ids = test_golden_ids(&golden, 1, &n);
        assert_ok(tern_session_append_all(session, ids, n, &err), err);
        double error = test_rms_error(test_logits(session, 0), want, (size_t)n * n_vocab);
        print_message("llama in %s: relative rms %g\n", cases[i].encoding, error);
        assert_true(error <= cases[i].max_rms);
        tern_session_close(session);
        tern_engine_close(engine);
    }
    test_golden_close(&golden);
}

/* A model in blocks computes what the same numbers as f32 do: their decoders and their products are right, however few
 * bits they have. */
static void blocks_are_their_numbers(void **state)
{
    (void)state;
#define NAME(X, name, NAME, elements, bytes) #name,
    static const char *const encodings[] = {TERN_ENCODING_BLOCK_LIST(NAME, )};
#undef NAME
    tern_error err = {0};
    const int32_t ids[] = {3, 14, 15, 92, 65, 35, 89, 79};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        char stored[1024];
        float *logits[2];
        uint32_t n_vocab = 0;
        snprintf(stored, sizeof stored, "%s", test_converted(test_fixture("llama"), encodings[i], encodings[i]));
        for (int decoded = 0; decoded < 2; decoded++) {
            tern_engine *engine = test_engine(decoded ? test_converted(stored, "f32", "f32") : stored, NULL);
            tern_session *session = test_session(engine, false);
            n_vocab = tern_engine_config(engine)->n_vocab;
            assert_ok(tern_session_append_all(session, ids, 8, &err), err);
            logits[decoded] = malloc(8 * n_vocab * sizeof(float));
            memcpy(logits[decoded], test_logits(session, 0), 8 * n_vocab * sizeof(float));
            tern_session_close(session);
            tern_engine_close(engine);
        }
        double error = test_rms_error(logits[0], logits[1], (size_t)8 * n_vocab);
        if (!(error <= 1e-6)) fail_msg("%s: relative rms %g", encodings[i], error);
        free(logits[0]);
        free(logits[1]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ternary_encodings), cmocka_unit_test(bitnet_in_dense_encodings),
    cmocka_unit_test(trained_model),     cmocka_unit_test(dense_encodings),
    cmocka_unit_test(experts),           cmocka_unit_test(other_families),
    cmocka_unit_test(lossy_encodings),   cmocka_unit_test(blocks_are_their_numbers),
    cmocka_unit_test(linear_norms),      cmocka_unit_test(ternary_experts),
    cmocka_unit_test(recurrent),
};

TEST_GROUP(converted, "shared slow", tests);
