/* Dense models with activations that are int8 by blocks: the same bits at every CPU level, in prefill and decode, with
 * and without fusion; near what f32 activations give; refused where there is none. */
#include "base/cpu.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

enum { N_IDS = 41, N_STEPS = 6 };

static const char *const encodings[] = {"q8_0", "q6_k", "q5_k",   "q4_k", "mxfp4", "q5_1", "q5_0",
                                        "q4_1", "q4_0", "iq4_nl", "q2_0", "pq2_0", "q1_0"};
enum { N_ENCODINGS = sizeof encodings / sizeof *encodings };

static int32_t ids[N_IDS];
static tern_error err;

/* The logits of all ids in one batch, [N_IDS][n_vocab], the caller's to free. */
static float *batch_logits(tern_engine *engine, uint32_t *n_vocab)
{
    tern_session *session = test_session(engine, false);
    *n_vocab = tern_engine_config(engine)->n_vocab;
    assert_ok(tern_session_append_all(session, ids, N_IDS, &err), err);
    const size_t bytes = (size_t)N_IDS * *n_vocab * sizeof(float);
    float *out = malloc(bytes);
    assert_non_null(out);
    memcpy(out, test_logits(session, 0), bytes);
    tern_session_close(session);
    return out;
}

static float *logits_of(const char *path, const tern_engine_params *params, uint32_t *n_vocab)
{
    tern_engine *engine = test_engine_with(path, params);
    float *out = batch_logits(engine, n_vocab);
    tern_engine_close(engine);
    return out;
}

static void check_steps(tern_engine *engine, const float *batch, uint32_t n_vocab)
{
    tern_session *session = test_session(engine, false);
    for (uint32_t t = 0; t < N_STEPS; t++) {
        assert_ok(tern_session_append(session, &ids[t], 1, &err), err);
        assert_memory_equal(batch + (size_t)t * n_vocab, test_logits(session, 0), n_vocab * sizeof *batch);
    }
    tern_session_close(session);
}

static void same_bits(void **state)
{
    static const char *const levels[] = {"scalar",   "avx2", "avx-vnni",     "avx512-vnni",
                                         "amx-int8", "neon", "neon-dotprod", "simd128"};
    (void)state;
    for (size_t e = 0; e < N_ENCODINGS; e++) {
        const char *path = test_converted(test_fixture("llama"), encodings[e], encodings[e]);
        float *first = NULL;
        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
            uint32_t features, n_vocab;
            if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
            tern_engine *engine =
                test_engine_with(path, &(tern_engine_params){.backend.cpu_features = levels[i], .int8_blocks = true});
            float *got = batch_logits(engine, &n_vocab);
            check_steps(engine, got, n_vocab);
            tern_engine_close(engine);
            if (first) assert_memory_equal(first, got, (size_t)N_IDS * n_vocab * sizeof *got);
            if (!first) first = got;
            else free(got);
        }
        free(first);
    }
}

/* What the rounding of activations does to the logits of this untrained model, whose layers pass on all of it. */
static void near_f32(void **state)
{
    static const double budgets[N_ENCODINGS] = {0.03, 0.04, 0.04, 0.04, 0.03, 0.03, 0.03,
                                                0.03, 0.03, 0.03, 0.04, 0.04, 0.04};
    (void)state;
    for (size_t e = 0; e < N_ENCODINGS; e++) {
        const char *path = test_converted(test_fixture("llama"), encodings[e], encodings[e]);
        uint32_t n_vocab;
        float *f32 = logits_of(path, NULL, &n_vocab),
              *int8 = logits_of(path, &(tern_engine_params){.int8_blocks = true}, &n_vocab);
        const double rms = test_rms_error(int8, f32, (size_t)N_IDS * n_vocab);
        print_message("%s: rms %.5f\n", encodings[e], rms);
        assert_true(rms > 1e-4 && rms <= budgets[e]);
        free(f32);
        free(int8);
    }
}

/* Of a ternary model the table alone takes part: its hidden states are as they were, and logits differ by the rounding
 * of one row. */
static void table_of_ternary(void **state)
{
    (void)state;
    const char *path = test_converted(test_fixture("bitnet"), "i2_s", "q6_k");
    uint32_t n_vocab;
    float *f32 = logits_of(path, NULL, &n_vocab),
          *int8 = logits_of(path, &(tern_engine_params){.int8_blocks = true}, &n_vocab);
    const double rms = test_rms_error(int8, f32, (size_t)N_IDS * n_vocab);
    print_message("rms %.5f\n", rms);
    assert_true(rms > 1e-4 && rms <= 0.02);
    free(f32);
    free(int8);
}

/* Layers without blocks, and a ternary model whose table has none, are as they were. */
static void others_are_unchanged(void **state)
{
    (void)state;
    const char *const paths[] = {test_converted(test_fixture("llama"), "f16", "f16"),
                                 test_converted(test_fixture("bitnet"), "i2_s", "f16")};
    for (size_t i = 0; i < 2; i++) {
        uint32_t n_vocab;
        float *a = logits_of(paths[i], NULL, &n_vocab),
              *b = logits_of(paths[i], &(tern_engine_params){.int8_blocks = true}, &n_vocab);
        assert_memory_equal(a, b, (size_t)N_IDS * n_vocab * sizeof *a);
        free(a);
        free(b);
    }
}

static int open_ids(void **state)
{
    (void)state;
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 97 + 13) % 512;
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_bits),
    cmocka_unit_test(near_f32),
    cmocka_unit_test(table_of_ternary),
    cmocka_unit_test(others_are_unchanged),
};

TEST_GROUP(int8_blocks, "web", tests, .setup = open_ids);
