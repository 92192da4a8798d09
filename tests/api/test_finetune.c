/* Fine-tuning through the public header: a model learns and runs; mistakes have words; memory that runs out leaks
 * nothing. */
#include "api/support.h"

#include <math.h>

#include "base/alloc.h"
#include "support/places.h"

static const char *const data[] = {TERN_SOURCE_DIR "/examples/finetune/logbook.txt"};

static tern_finetune_options quick(const char *output)
{
    tern_finetune_options o = {.size = sizeof o};
    tern_finetune_defaults(&o, NULL);
    o.model = BUNDLED;
    o.data = data;
    o.n_data = 1;
    o.split = TERN_FINETUNE_SPLIT_BLANK;
    o.output = output;
    o.overwrite = true;
    o.validation_split = 0.02;
    o.seq = 64;
    o.batch = 2;
    o.steps = 16;
    o.evaluate_every = 16;
    o.cpu.n_threads = 2;
    return o;
}

static void a_model_learns_and_runs(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_finetune_result result = {.size = sizeof result};
    char *path = strdup(test_scratch("api-tuned.gguf"));
    const tern_finetune_options o = quick(path);
    assert_ok(tern_finetune(&o, &result, &err), err);
    assert_int_equal(result.n_steps, 16);
    if (!(result.best_validation < 0.8 * result.first_validation))
        fail_msg("%g to %g", result.first_validation, result.best_validation);
    assert_true(result.seconds > 0 && result.step_ms > 0 && result.dispatches == 0);
    shown s = {0};
    tern_engine *engine = load(path, NULL);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64));
    tern_tokens tokens = tokens_of(engine, "1 March.", TERN_TOKENIZE_BOS);
    tern_generate_params params = greedy(&s, 8);
    tern_generate_result generated = {.size = sizeof generated};
    assert_ok(tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &generated, &err), err);
    assert_true(s.n > 0);
    tern_tokens_deinit(&tokens);
    tern_session_close(session);
    tern_engine_close(engine);
    free(path);
}

static void take_sample(void *context, const tern_finetune_event *e)
{
    if (e->kind == TERN_FINETUNE_SAMPLE) snprintf(context, 1024, "%s", e->text);
}

/* What an adapter's sample says is what the adapter says when it is loaded. */
static void adapters_show_samples(void **state)
{
    (void)state;
    tern_error err = {0};
    char text[1024] = "", *path = strdup(test_scratch("api-adapter.gguf"));
    tern_finetune_options o = quick(path);
    o.lora_rank = 4;
    o.lr = 1e-2;
    o.validation_split = 0; /* the last weights are written */
    o.sample_every = 8;
    o.sample_prompt = "1 March.";
    o.sample_tokens = 12;
    o.on_event = take_sample;
    o.context = text;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    shown s = {0};
    tern_lora *lora;
    tern_engine *engine = load(BUNDLED, NULL);
    assert_ok(tern_lora_load(&lora, engine, path, &err), err);
    tern_session *session =
        open_session(engine, TERN_SIZED(tern_session_params, .loras = &(tern_lora_use){lora, 1}, .n_loras = 1));
    tern_tokens tokens = tokens_of(engine, "1 March.", TERN_TOKENIZE_BOS);
    tern_generate_params params = {
        .size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 12, .on_piece = show, .context = &s};
    params.sampler.seed = o.seed;
    tern_generate_result generated = {.size = sizeof generated};
    assert_ok(tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &generated, &err), err);
    assert_true(strncmp(text, "1 March.", 8) == 0 && s.n > 0);
    assert_string_equal(text + 8, s.text);
    tern_tokens_deinit(&tokens);
    tern_session_close(session);
    tern_lora_close(lora);
    tern_engine_close(engine);
    free(path);
}

static void mistakes_have_words(void **state)
{
    (void)state;
    tern_error err = {0};
    assert_int_equal(tern_finetune(NULL, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "options is NULL");
    assert_int_equal(tern_finetune(NULL, NULL, NULL), TERN_INVALID_ARGUMENT);
    const tern_finetune_options none = {.size = sizeof none};
    assert_int_equal(tern_finetune(&none, NULL, &err), TERN_INVALID_ARGUMENT);
    tern_finetune_options o = {0};
    assert_int_equal(tern_finetune_defaults(&o, &err), TERN_INVALID_ARGUMENT);
    o.size = sizeof o;
    assert_ok(tern_finetune_defaults(&o, &err), err);
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "neither a model nor a config"));
    o = quick(test_scratch("unused.gguf"));
    o.lr = NAN;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "learning rate nan"));
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static void it_can_be_stopped_at_once(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_finetune_options o = quick(test_scratch("stopped.gguf"));
    o.go_on = never;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_CANCELLED);
}

/* Every allocation of a short run fails once (of many, some). */
static void no_memory_is_an_error_without_a_leak(void **state)
{
    (void)state;
    tern_error err = {0};
    char *path = strdup(test_scratch("no-memory.gguf"));
    tern_finetune_options o = quick(path);
    o.seq = 16;
    o.steps = 1;
    o.validation_split = 0;
    o.cpu.n_threads = 1;
    o.lora_rank = 2;
    const int64_t live = tern_alloc_live();
    unsigned n_failed = 0, n_tried = 0;
    const uint64_t before = tern_alloc_count();
    assert_ok(tern_finetune(&o, NULL, &err), err);
    const uint64_t all = tern_alloc_count() - before;
    for (uint64_t n = 1; n < all; n += 1 + n / (test_quick() ? 2 : 16), n_tried++) {
        tern_alloc_fail_after(n, false);
        tern_status status = tern_finetune(&o, NULL, &err);
        tern_alloc_fail_after(0, false);
        n_failed += status != TERN_OK; /* PCRE2 does without its compiler */
        if (status != TERN_OK && status != TERN_OUT_OF_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.message);
        if (tern_alloc_live() != live)
            fail_msg("allocation %llu leaves %lld blocks", (unsigned long long)n,
                     (long long)(tern_alloc_live() - live));
    }
    assert_true(n_failed * 10 >= n_tried * 9);
    free(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_model_learns_and_runs),
    cmocka_unit_test(adapters_show_samples),
    cmocka_unit_test(mistakes_have_words),
    cmocka_unit_test(it_can_be_stopped_at_once),
    cmocka_unit_test(no_memory_is_an_error_without_a_leak),
};

TEST_GROUP(finetune, "slow", tests);
