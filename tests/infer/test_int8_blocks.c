/* Dense models with activations that are int8 by blocks, which the CPU takes where nothing is chosen: the same bits at
 * every CPU level, in prefill, decode, drafts and batches; near what f32 activations give; refused where there is none.
 */
#include "base/cpu.h"
#include "infer/batch_cases.h"
#include "quant/encoding.h"
#include "support/converted.h"
#include "support/formats.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/places.h"
#include "support/test.h"

enum { N_IDS = 41, N_STEPS = 6 };

static const char *const encodings[] = {TERN_ENCODING_INT8_LIST(TEST_FORMAT_NAME, )};
enum { N_ENCODINGS = sizeof encodings / sizeof *encodings };

static const tern_block_rows automatic = TERN_BLOCK_ROWS_AUTO, int8 = TERN_BLOCK_ROWS_INT8;
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
            tern_engine *engine = test_engine_with(
                path, &(tern_engine_params){.backend.cpu_features = levels[i], .int8_blocks = automatic});
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
    (void)state;
    for (size_t e = 0; e < N_ENCODINGS; e++) {
        const char *path = test_converted(test_fixture("llama"), encodings[e], encodings[e]);
        uint32_t n_vocab;
        float *f32 = logits_of(path, NULL, &n_vocab),
              *rounded = logits_of(path, &(tern_engine_params){.int8_blocks = int8}, &n_vocab);
        const double rms = test_rms_error(rounded, f32, (size_t)N_IDS * n_vocab);
        print_message("%s: rms %.5f\n", encodings[e], rms);
        assert_true(rms > 1e-4 && rms <= (tern_encoding_by_name(encodings[e])->block_elements > 32 ? 0.04 : 0.03));
        free(f32);
        free(rounded);
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
          *rounded = logits_of(path, &(tern_engine_params){.int8_blocks = int8}, &n_vocab);
    const double rms = test_rms_error(rounded, f32, (size_t)N_IDS * n_vocab);
    print_message("rms %.5f\n", rms);
    assert_true(rms > 1e-4 && rms <= 0.02);
    free(f32);
    free(rounded);
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
              *b = logits_of(paths[i], &(tern_engine_params){.int8_blocks = int8}, &n_vocab);
        assert_memory_equal(a, b, (size_t)N_IDS * n_vocab * sizeof *a);
        free(a);
        free(b);
    }
}

/* A model whose layers and table are in these encodings computes with AUTO what it does with one of the others. */
static void check_automatic(const char *linear, const char *head, const char *activations, bool rounds)
{
    const char *path = test_converted(test_fixture("llama"), linear, head);
    uint32_t n_vocab;
    tern_engine *engine = test_engine_with(path, &(tern_engine_params){.int8_blocks = automatic});
    assert_string_equal(tern_engine_activations(engine), activations);
    assert_true(tern_engine_rounds_blocks(engine) == rounds);
    float *got = batch_logits(engine, &n_vocab);
    tern_engine_close(engine);
    float *other = logits_of(path, &(tern_engine_params){.int8_blocks = rounds ? int8 : TERN_BLOCK_ROWS_F32}, &n_vocab);
    assert_memory_equal(got, other, (size_t)N_IDS * n_vocab * sizeof *got);
    free(got);
    free(other);
}

static void what_auto_takes(void **state)
{
    (void)state;
    for (size_t e = 0; e < N_ENCODINGS; e++) check_automatic(encodings[e], encodings[e], "int8", true);
    check_automatic("q4_k", "f16", "int8", true);
    check_automatic("f16", "q8_0", "int8", true);
    check_automatic("f16", "bf16", "f32", false);
    check_automatic("q3_k", "q2_k", "f32", false);
}

/* Layers in an encoding without such products stay f32 beside a table that has them; chosen by name they are refused.
 */
static void some_encodings_have_none(void **state)
{
    (void)state;
    const char *path = test_converted(test_fixture("llama"), "q3_k", "q8_0");
    uint32_t n_vocab;
    tern_session *session;
    float *f32 = logits_of(path, NULL, &n_vocab),
          *mixed = logits_of(path, &(tern_engine_params){.int8_blocks = automatic}, &n_vocab);
    const double rms = test_rms_error(mixed, f32, (size_t)N_IDS * n_vocab);
    assert_true(rms > 1e-4 && rms < 0.02);
    free(f32);
    free(mixed);
    tern_engine *engine = test_engine_with(path, &(tern_engine_params){.int8_blocks = int8});
    assert_int_equal(tern_session_open(&session, engine, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no int8 activations by block with q3_k weights"));
    tern_engine_close(engine);
}

/* A ternary model rounds nothing by blocks unless asked: all backends compute the same. */
static void auto_leaves_ternary_models(void **state)
{
    (void)state;
    const char *path = test_converted(test_fixture("bitnet"), "i2_s", "q6_k");
    uint32_t n_vocab;
    float *f32 = logits_of(path, NULL, &n_vocab),
          *got = logits_of(path, &(tern_engine_params){.int8_blocks = automatic}, &n_vocab);
    assert_memory_equal(f32, got, (size_t)N_IDS * n_vocab * sizeof *got);
    free(f32);
    free(got);
}

/* Requests of all kinds, with drafts and without, beside each other and alone, of a trained model. */
static void any_company(void **state)
{
    (void)state;
    enum { N_CASES = 16, N_CTX = 256 };
    static const char path[] = TERN_SOURCE_DIR "/tests/data/dense/stories-dense.gguf";
    static const tern_kv_types f32 = {TERN_KV_F32, TERN_KV_F32};
    const tern_engine_params params = {.backend.n_threads = 2, .int8_blocks = automatic};
    tern_engine *engine;
    batch_case *cases = calloc(N_CASES, sizeof *cases);
    assert_ok(tern_engine_open_path(&engine, path, &(tern_model_options){0}, &params, &err), err);
    assert_true(tern_engine_rounds_blocks(engine));
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = N_CTX, .kv = f32));
    batch_fill(cases, N_CASES, tern_engine_config(engine)->n_vocab, 40);
    batch_run_alone(session, cases, N_CASES);
    tern_session_close(session);
    for (uint32_t n_parallel = 1; n_parallel <= N_CASES; n_parallel += 5) {
        tern_batch *batch = batch_open(
            engine, TERN_SIZED(tern_batch_params, .n_parallel = n_parallel, .n_ctx = N_CTX, .n_chunk = 7, .kv = f32));
        batch_run_together(batch, cases, N_CASES, 1);
        batch_check(cases, N_CASES, "int8 by blocks");
        tern_batch_close(batch);
        for (uint32_t i = 0; i < N_CASES; i++) cases[i].params.draft_tokens = i % 5;
    }
    tern_engine_close(engine);
    free(cases);
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
    cmocka_unit_test(what_auto_takes),
    cmocka_unit_test(some_encodings_have_none),
    cmocka_unit_test(auto_leaves_ternary_models),
    cmocka_unit_test(any_company),
};

TEST_GROUP(int8_blocks, "web", tests, .setup = open_ids);
