/* Whole models against PyTorch's numbers, at every CPU level, and sequential decoding against the batch. */
#include "support/golden.h"

#include "base/cpu.h"
#include "support/logits.h"
#include "support/places.h"
#include "support/test.h"

enum { N_QUICK = 4 };
static const char *const levels[] = {"scalar",   "sse4.1", "avx2",         "avx-vnni",  "avx512-vnni", "avx512-vbmi",
                                     "amx-int8", "neon",   "neon-dotprod", "neon-i8mm", "simd128"};

static bool available(const char *level)
{
    uint32_t features;
    return tern_cpu_features_parse(level, tern_cpu_features(), &features, NULL) == TERN_OK;
}

/* At the best level; same_bits shows that every other level computes the same. */
static void check_model(const char *name, double max_rms)
{
    char golden[64];
    snprintf(golden, sizeof golden, "%s/golden.safetensors", name);
    test_golden_check(test_fixture(name), test_fixture(golden), NULL, max_rms);
}

static void bitnet(void **state)
{
    (void)state;
    check_model("bitnet", 2e-3);
}

static void bitnet_packed(void **state)
{
    (void)state;
    check_model("bitnet-packed", 2e-3);
}

static void llama(void **state)
{
    (void)state;
    check_model("llama", 5e-4);
}

static const char f32_golden[] = TERN_SOURCE_DIR "/tests/data/activations/bitnet_f32.safetensors";

/* Ternary layers without the int8 quantiser; the golden file is tests/data/activations. There are no ties, so what is
 * left is the noise of f32. */
static void f32_activations(void **state)
{
    (void)state;
    if (test_on_shared()) test_skip("the golden is of the made model");
    test_golden_check(test_fixture("bitnet"), f32_golden, &(tern_engine_params){.f32_activations = true}, 1e-5);
}

static void gemma2(void **state)
{
    (void)state;
    check_model("gemma2", 5e-4);
}

static void gemma3(void **state)
{
    (void)state;
    check_model("gemma3", 5e-4);
}

static void mixtral(void **state)
{
    (void)state;
    check_model("mixtral", 5e-4);
}

static void gpt_oss(void **state)
{
    (void)state;
    check_model("gpt-oss", 5e-4);
}

/* Most layers recur. */
static void qwen3_5(void **state)
{
    (void)state;
    check_model("qwen3_5", 5e-4);
}

static void qwen3_5_moe(void **state)
{
    (void)state;
    check_model("qwen3_5_moe", 5e-4);
}

static void qwen3_next(void **state)
{
    (void)state;
    check_model("qwen3_next", 5e-4);
}

/* Families whose goldens are made by plain arithmetic (tests/data/models/make.py). */
static void other_families(void **state)
{
    (void)state;
    for (const char *const *family = test_made_families; *family; family++) test_golden_check_made(*family, NULL);
    for (const char *const *family = test_made_experts; *family; family++) test_golden_check_made(*family, NULL);
}

/* Ternary models of dense families, with a norm before each linear layer; made in the same way. */
static void linear_norms(void **state)
{
    (void)state;
    for (const char *const *family = test_made_ternary; *family; family++) {
        char golden[64];
        snprintf(golden, sizeof golden, "%s/golden.safetensors", *family);
        test_golden_check(test_made(*family), test_made(golden), NULL, 2e-3);
    }
}

/* Heads of 20 dimensions, which fill no vector. */
static void narrow_heads(void **state)
{
    (void)state;
    test_golden_check_made("llama-heads", NULL);
}

/* LongRoPE has other factors in contexts that are no longer than the original one. */
static void short_context(void **state)
{
    (void)state;
    tern_error err = {0};
    test_golden golden;
    test_golden_open(&golden, test_made("phi3/golden_short.safetensors"));
    tern_engine *engine = test_engine(test_made("phi3"), NULL);
    tern_session *session;
    const tern_session_params params = {
        .size = sizeof params, .n_ctx = 64, .max_outputs = 64, .kv = {TERN_KV_F32, TERN_KV_F32}};
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    for (uint32_t i = 0; i < golden.n_inputs; i++) {
        uint32_t n, n_vocab = tern_engine_config(engine)->n_vocab;
        const int32_t *ids = test_golden_ids(&golden, i, &n);
        tern_session_truncate(session, 0);
        assert_ok(tern_session_append_all(session, ids, n, &err), err);
        test_check_rows(test_logits(session, 0), test_golden_logits(&golden, i, (size_t)n * n_vocab), n, n_vocab, 5e-4,
                        "phi3 in 64 positions");
    }
    test_golden_check_greedy(&golden, session);
    tern_session_close(session);
    tern_engine_close(engine);
    test_golden_close(&golden);
}

static void trained_model(void **state)
{
    (void)state;
    test_golden_check(test_model("tiny-stories-bitnet"), test_model("tiny-stories-bitnet/golden_logits.safetensors"),
                      NULL, 2e-3);
}

/* Prefill, one token at a time (when quick, the first few), and every CPU level: the same bits. */
static void same_bits(const char *name, bool f32_activations)
{
    tern_error err = {0};
    test_golden golden;
    char path[64];
    snprintf(path, sizeof path, "%s/golden.safetensors", name);
    test_golden_open(&golden, test_fixture(path));
    uint32_t n;
    const int32_t *ids = test_golden_ids(&golden, 2, &n);
    float *first = NULL;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!available(levels[i])) continue;
        const tern_engine_params how = {.backend.cpu_features = levels[i], .f32_activations = f32_activations};
        tern_engine *engine = test_engine_with(test_fixture(name), &how);
        tern_session *session = test_session(engine, false);
        size_t n_vocab = tern_engine_config(engine)->n_vocab;
        assert_ok(tern_session_append_all(session, ids, n, &err), err);
        if (!first) {
            first = malloc(n * n_vocab * sizeof *first);
            memcpy(first, test_logits(session, 0), n * n_vocab * sizeof *first);
        }
        assert_memory_equal(first, test_logits(session, 0), n * n_vocab * sizeof *first);
        tern_session_truncate(session, 0);
        for (uint32_t t = 0; t < n && (t < N_QUICK || !test_quick()); t++) {
            assert_ok(tern_session_append(session, &ids[t], 1, &err), err);
            assert_memory_equal(first + t * n_vocab, test_logits(session, 0), n_vocab * sizeof *first);
        }
        tern_session_close(session);
        tern_engine_close(engine);
    }
    free(first);
    test_golden_close(&golden);
}

static void same_bits_bitnet(void **state)
{
    (void)state;
    same_bits("bitnet", false);
}

static void same_bits_f32_activations(void **state)
{
    (void)state;
    same_bits("bitnet", true);
}

static void same_bits_llama(void **state)
{
    (void)state;
    same_bits("llama", false);
}

static void same_bits_gemma(void **state)
{
    (void)state;
    same_bits("gemma2", false);
    same_bits("gemma3", false);
}

static void same_bits_experts(void **state)
{
    (void)state;
    same_bits("mixtral", false);
    same_bits("gpt-oss", false);
}

static void same_bits_recurrent(void **state)
{
    (void)state;
    same_bits("qwen3_5", false);
    same_bits("qwen3_next", false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bitnet),          cmocka_unit_test(bitnet_packed),
    cmocka_unit_test(llama),           cmocka_unit_test(f32_activations),
    cmocka_unit_test(trained_model),   cmocka_unit_test(same_bits_bitnet),
    cmocka_unit_test(same_bits_llama), cmocka_unit_test(same_bits_f32_activations),
    cmocka_unit_test(gemma2),          cmocka_unit_test(gemma3),
    cmocka_unit_test(same_bits_gemma), cmocka_unit_test(other_families),
    cmocka_unit_test(short_context),   cmocka_unit_test(mixtral),
    cmocka_unit_test(gpt_oss),         cmocka_unit_test(same_bits_experts),
    cmocka_unit_test(linear_norms),    cmocka_unit_test(narrow_heads),
    cmocka_unit_test(qwen3_5),         cmocka_unit_test(qwen3_5_moe),
    cmocka_unit_test(qwen3_next),      cmocka_unit_test(same_bits_recurrent),
};

TEST_GROUP(goldens, "shared arm64 web", tests);
