/* Dense models whose steps of several tokens multiply 16 bits, as CUDA does, on the CPU: the same bits at every level,
 * near what f32 activations give, and f32 in steps of one token. */
#include "base/cpu.h"
#include "infer/compare/compare.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/places.h"
#include "support/test.h"

enum { N_IDS = 41 };

static int32_t ids[N_IDS];
static tern_error err;

static const tern_engine_params rounds = {.half_rows = TERN_HALF_ROWS_F16};

/* The logits of the ids, `step` of them at a time, [N_IDS][n_vocab], the caller's to free. */
static float *logits_of(const char *path, const tern_engine_params *params, uint32_t step, uint32_t *n_vocab)
{
    tern_engine *engine = test_engine_with(path, params);
    tern_session *session = test_session(engine, false);
    *n_vocab = tern_engine_config(engine)->n_vocab;
    float *out = malloc((size_t)N_IDS * *n_vocab * sizeof *out);
    assert_non_null(out);
    for (uint32_t at = 0; at < N_IDS; at += step) {
        const uint32_t n = at + step < N_IDS ? step : N_IDS - at;
        assert_ok(tern_session_append_all(session, ids + at, n, &err), err);
        memcpy(out + (size_t)at * *n_vocab, test_logits(session, 0), (size_t)n * *n_vocab * sizeof *out);
    }
    tern_session_close(session);
    tern_engine_close(engine);
    return out;
}

static void near_f32(void **state)
{
    static const char *const encodings[] = {"f16", "bf16", "q8_0", "q4_k", "q3_k"};
    (void)state;
    for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++) {
        const char *path = test_converted(test_fixture("llama"), encodings[e], encodings[e]);
        uint32_t n_vocab;
        float *f32 = logits_of(path, NULL, N_IDS, &n_vocab), *rounded = logits_of(path, &rounds, N_IDS, &n_vocab);
        const double rms = test_rms_error(rounded, f32, (size_t)N_IDS * n_vocab);
        print_message("%s: rms %.6f\n", encodings[e], rms);
        assert_true(rms > 1e-5 && rms <= (e == 1 ? 0.02 : 0.003));
        free(f32);
        free(rounded);
    }
}

static void same_bits(void **state)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512-vnni", "neon", "simd128"};
    (void)state;
    const char *path = test_converted(test_fixture("llama"), "q4_k", "q6_k");
    float *first = NULL;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        uint32_t features, n_vocab;
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        tern_engine_params params = rounds;
        params.backend.cpu_features = levels[i];
        float *got = logits_of(path, &params, N_IDS, &n_vocab), *cut = logits_of(path, &params, 7, &n_vocab);
        assert_memory_equal(got, cut, (size_t)N_IDS * n_vocab * sizeof *got);
        if (first) assert_memory_equal(first, got, (size_t)N_IDS * n_vocab * sizeof *got);
        free(cut);
        if (!first) first = got;
        else free(got);
    }
    free(first);
}

static void one_token_is_f32(void **state)
{
    (void)state;
    const char *path = test_converted(test_fixture("llama"), "f16", "f16");
    uint32_t n_vocab;
    float *f32 = logits_of(path, NULL, 1, &n_vocab), *rounded = logits_of(path, &rounds, 1, &n_vocab);
    assert_memory_equal(f32, rounded, (size_t)N_IDS * n_vocab * sizeof *f32);
    free(f32);
    free(rounded);
}

/* AUTO on the CPU is f32; the description names what layers multiply; ternary layers are as they were. */
static void what_it_comes_to(void **state)
{
    (void)state;
    static const struct {
        const char *model, *linear;
        tern_half_rows rows;
        const char *activations;
        bool halves;
    } cases[] = {{"llama", "f16", TERN_HALF_ROWS_AUTO, "f32", false},
                 {"llama", "f16", TERN_HALF_ROWS_F16, "f16", true},
                 {"llama", "f32", TERN_HALF_ROWS_F16, "f32", true},
                 {"bitnet", "i2_s", TERN_HALF_ROWS_F16, "int8", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = test_converted(test_fixture(cases[i].model), cases[i].linear, "f16");
        tern_engine *engine = test_engine_with(path, &(tern_engine_params){.half_rows = cases[i].rows});
        assert_string_equal(tern_engine_activations(engine), cases[i].activations);
        assert_int_equal(tern_engine_half_rows(engine), cases[i].halves);
        tern_engine_close(engine);
    }
}

/* A comparison takes what the tested engine multiplies on both sides. */
static void compared(void **state)
{
    (void)state;
    const char *path = test_converted(test_fixture("llama"), "q8_0", "q8_0");
    tern_engine *f32 = test_engine_with(path, NULL), *other = test_engine_with(path, &rounds);
    const tern_compare_params params = {.ids = ids, .n_ids = 9, .kv = {TERN_KV_F32, TERN_KV_F32}};
    tern_compare_result result;
    assert_ok(tern_compare(f32, other, &params, &result, &err), err);
    assert_true(result.identical && result.ok);
    tern_compare_result_deinit(&result);
    tern_engine_close(f32);
    tern_engine_close(other);
}

static int open_ids(void **state)
{
    (void)state;
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 97 + 13) % 512;
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(near_f32),         cmocka_unit_test(same_bits), cmocka_unit_test(one_token_is_f32),
    cmocka_unit_test(what_it_comes_to), cmocka_unit_test(compared),
};

TEST_GROUP(half_rows, "web", tests, .setup = open_ids);
