/* Loading piece by piece onto a GPU: the same tokens as from mapped files, in every encoding. */
#include "infer/loader_cases.h"

#include "support/converted.h"
#include "support/op_case.h"

static tern_engine_params vulkan;

/* Skipped where there is no GPU, and the other tests with it. */
static void opens(void **state)
{
    (void)state;
    test_gpu_backend();
    vulkan = (tern_engine_params){.backend = {.name = "vulkan", .device = getenv("TERN_TEST_DEVICE")}};
}

static void check_file(const char *path, const tern_engine_params *params)
{
    loading log = {0};
    tern_engine *a = map_file(path, params), *b = load_file(path, params, &log);
    assert_true(log.largest <= TERN_MODEL_PIECE_BYTES);
    assert_int_equal(tern_model_bytes(tern_engine_model(a)), tern_model_bytes(tern_engine_model(b)));
    assert_null(tern_model_weight(tern_engine_model(b), TERN_ROLE_ATTN_Q, 0)->data);
    assert_null(tern_model_weight(tern_engine_model(b), TERN_ROLE_TOKEN_EMBD, 0)->data);
    assert_non_null(tern_model_weight(tern_engine_model(b), TERN_ROLE_ATTN_NORM, 0)->data);
    assert_same(a, b, true);
    tern_engine_close(a);
    tern_engine_close(b);
}

static void every_encoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LOADING_CASES; i += test_quick() ? 3 : 1) {
        const loading_case *c = &loading_cases[i];
        check_file(test_converted(test_fixture(c->model), c->linear, c->head), &vulkan);
    }
}

static void bundled(void **state)
{
    (void)state;
    check_file(TERN_SOURCE_DIR "/models/stories.gguf", &vulkan);
}

/* Whoever saved a session, mapped or loaded: it is the same model's. */
static void sessions_move(void **state)
{
    (void)state;
    tern_error err = {0};
    loading log = {0};
    const char *path = TERN_SOURCE_DIR "/models/stories.gguf", *saved = test_scratch("loader.session");
    const int32_t ids[] = {5, 42, 79};
    tern_engine *a = map_file(path, &vulkan), *b = load_file(path, &vulkan, &log);
    tern_session *x = open_session(a, (tern_session_params){.n_ctx = 64}),
                 *y = open_session(b, (tern_session_params){.n_ctx = 64});
    assert_ok(tern_session_append(y, ids, 3, &err), err);
    assert_ok(tern_session_save(y, saved, &err), err);
    assert_ok(tern_session_restore(x, saved, &err), err);
    assert_int_equal(tern_session_n_tokens(x), 3);
    tern_session_close(x);
    tern_session_close(y);
    tern_engine_close(a);
    tern_engine_close(b);
    remove(saved);
}

static void packaged(void **state)
{
    (void)state;
    check_package(&vulkan);
}

/* Rows that do not begin at a byte of their own, and factors for each row, which come after the rows. */
static void extras(void **state)
{
    (void)state;
    static const micro_change changes[] = {{.seed = 7},
                                           {.seed = 7, .extra = "blk.0.ffn_up.scale", .extra_cols = 1},
                                           {.seed = 7, .extra = "blk.0.ffn_up.scale", .extra_cols = 16},
                                           {.seed = 7,
                                            .width = 256,
                                            .tensor = "blk.0.ffn_up.weight",
                                            .type = 35,
                                            .extra = "blk.0.ffn_up.scale",
                                            .extra_cols = 256},
                                           {.seed = 7, .extra = "rope_freqs.weight", .extra_cols = 4}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) check_micro(&changes[i], &vulkan);
}

/* What is wrong with a tensor's values is found in its pieces as well. */
static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < micro_n_refusals; i++)
        if (micro_refusals[i].change.n) refuse_loading(&micro_refusals[i], &vulkan);
}

static void head_encodings(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_loader *loader;
    tern_engine_params params = vulkan;
    params.head = tern_encoding_find(TERN_ENC_Q8_0);
    assert_int_equal(tern_loader_open(&loader, &params, 1000, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "head in q8_0 on vulkan"));
    assert_null(loader);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(extras),        cmocka_unit_test(refused),  cmocka_unit_test(head_encodings),
    cmocka_unit_test(bundled),       cmocka_unit_test(packaged), cmocka_unit_test(every_encoding),
    cmocka_unit_test(sessions_move),
};

TEST_GROUP(loader_vulkan, "gpu long", tests, .first = opens, .teardown = test_backends_close);
