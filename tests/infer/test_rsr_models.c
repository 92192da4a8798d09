/* Whole models with RSR layers, and with look-up tables: the same tokens and the same logits, bit for bit, as with dot
 * products; from a file that holds them as well. */
#include "infer/support.h"
#include "model/model.h"
#include "quant/encoding.h"
#include "quant/rsr.h"
#include "quant/weight.h"
#include "support/adapters.h"
#include "support/logits.h"

static tern_engine *open_kernel(const char *path, const char *kernel, uint32_t n_threads, const char *features)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){0}, &err), err);
    const tern_engine_params params = {.backend = {.n_threads = n_threads, .kernel = kernel, .cpu_features = features}};
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

/* What a run leaves behind: its text, and the last logits. */
typedef struct outcome {
    seen seen;
    float *logits;
    size_t n;
} outcome;

static outcome run(const char *path, const char *kernel, uint32_t n_threads, const char *features)
{
    outcome o = {0};
    tern_engine *engine = open_kernel(path, kernel, n_threads, features);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 160));
    const tern_generate_params params = greedy_params(&o.seen, 48);
    generate(session, "Once upon a time", &params);
    o.n = tern_engine_config(engine)->n_vocab;
    o.logits = malloc(o.n * sizeof *o.logits);
    memcpy(o.logits, test_logits(session, 0), o.n * sizeof *o.logits);
    tern_session_close(session);
    tern_engine_close(engine);
    return o;
}

static void forget_outcome(outcome *o)
{
    free(o->logits);
    forget(&o->seen);
}

static void assert_same(const outcome *want, outcome got)
{
    assert_int_equal(want->seen.n_ids, got.seen.n_ids);
    assert_memory_equal(want->seen.ids, got.seen.ids, want->seen.n_ids * sizeof *got.seen.ids);
    assert_memory_equal(want->logits, got.logits, want->n * sizeof *got.logits);
    forget_outcome(&got);
}

static void same_tokens(void **state)
{
    (void)state;
    const char *model = test_model("tiny-stories-bitnet");
    outcome want = run(model, NULL, 1, NULL);
    assert_true(want.seen.n_ids >= 40);
    static const char *const kernels[] = {"dot", "t160", "rsr", "rsr:1", "rsr:4", "rsr:7", "rsr:16", "lut"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) assert_same(&want, run(model, kernels[i], 2, NULL));
    static const uint32_t threads[] = {1, 3, 8};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        assert_same(&want, run(model, "rsr", threads[i], NULL));
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        assert_same(&want, run(model, "lut", threads[i], NULL));
    assert_same(&want, run(model, "rsr", 2, "scalar"));
    assert_same(&want, run(model, "lut", 2, "scalar"));
    forget_outcome(&want);
}

static const char *convert(const char *from, const char *name, tern_export_options options)
{
    tern_error err = {0};
    tern_model *model;
    const char *path = test_scratch(name);
    assert_ok(tern_model_open(&model, from, &(tern_model_options){0}, &err), err);
    assert_ok(tern_model_write_gguf(model, path, &options, &err), err);
    tern_model_close(model);
    return path;
}

static void stored_sections(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "t160", "tq2_0"};
    const char *from = test_model("tiny-stories-bitnet");
    outcome want = run(from, NULL, 1, NULL);
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        const char *path =
            convert(from, "rsr.gguf",
                    (tern_export_options){.linear = tern_encoding_by_name(encodings[i]), .rsr = true, .rsr_rows = 3});
        tern_error err = {0};
        tern_model *model;
        assert_ok(tern_model_open(&model, path, &(tern_model_options){0}, &err), err);
        const tern_weight *down = tern_model_weight(model, TERN_ROLE_FFN_DOWN, 1);
        tern_rsr_slices s;
        assert_non_null(down->rsr);
        assert_ok(tern_rsr_slices_open(&s, down->rsr, down->rsr_bytes, &err), err);
        assert_true(s.k == 3 && s.rows == down->rows && s.cols == down->cols);
        tern_rsr_slices_deinit(&s);
        assert_null(tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0)->rsr);
        tern_model_close(model);
        assert_same(&want, run(path, "rsr", 2, NULL));
        assert_same(&want, run(path, NULL, 2, NULL));
    }
    forget_outcome(&want);
}

/* Logits after each of the steps of 1 to 9 tokens, with an adapter beside every layer; the second half in a session
 * restored from `file`, if there is one; otherwise that of the first half is left in a file. */
static float *in_steps(const char *kernel, const char *file, uint32_t *n_vocab)
{
    enum { MOST = 9, HALF = 5 };
    tern_error err = {0};
    tern_engine *engine = open_kernel(test_model("tiny-stories-bitnet"), kernel, 2, NULL);
    tern_lora *lora = test_lora(engine, 4, 3, false);
    const tern_lora_use use = {lora, 1};
    tern_session *s = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 96, .loras = &use, .n_loras = 1));
    tern_tokens ids = ids_of(
        engine,
        "Once upon a time, a young cat lived in the park. Every morning the cat liked to run. One foggy morning, "
        "the cat heard a noise behind a rock. It was a sleepy duck who was stuck in a hat. The cat was scared, but it "
        "did not run away.");
    *n_vocab = tern_engine_config(engine)->n_vocab;
    float *logits = malloc((size_t)MOST * *n_vocab * sizeof *logits);
    assert_true(ids.n >= MOST * (MOST + 1) / 2);
    for (uint32_t n = 1, at = 0; n <= MOST; at += n++) {
        assert_ok(tern_session_append(s, ids.ids + at, n, &err), err);
        memcpy(logits + (size_t)(n - 1) * *n_vocab, test_logits(s, 0), *n_vocab * sizeof *logits);
        if (n == HALF && file) assert_ok(tern_session_restore(s, file, &err), err);
        if (n == HALF && !file) assert_ok(tern_session_save(s, test_scratch("half.session"), &err), err);
    }
    tern_tokens_deinit(&ids);
    tern_session_close(s);
    tern_lora_close(lora);
    tern_engine_close(engine);
    return logits;
}

/* Adapters, steps up to and beyond those that layouts serve, a session that another kernel has left. */
static void adapters_steps_and_files(void **state)
{
    (void)state;
    static const char *const kernels[] = {"rsr", "rsr:4", "lut", "t160"};
    uint32_t n_vocab;
    float *want = in_steps("dot", NULL, &n_vocab);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        float *got = in_steps(kernels[i], test_scratch("half.session"), &n_vocab);
        for (uint32_t n = 0; n < 9; n++)
            if (memcmp(want + (size_t)n * n_vocab, got + (size_t)n * n_vocab, n_vocab * sizeof *got) != 0)
                fail_msg("kernel %s: other logits than dot's after a step of %u tokens", kernels[i], n + 1);
        free(got);
    }
    free(want);
}

static void models_without_ternary_layers(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model;
    assert_ok(tern_model_open(&model, test_fixture("llama"), &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_int_equal(tern_model_write_gguf(model, test_scratch("none.gguf"), &(tern_export_options){.rsr = true}, &err),
                     TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "rsr: a model without ternary layers found, some expected");
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_tokens),
    cmocka_unit_test(stored_sections),
    cmocka_unit_test(adapters_steps_and_files),
    cmocka_unit_test(models_without_ternary_layers),
};

TEST_GROUP(rsr_models, "", tests);
