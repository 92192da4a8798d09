/* The block of a model that drafts tokens: what it computes, and that texts are those without it. */
#include "base/rng.h"
#include "infer/draft/mtp.h"
#include "infer/session/internal.h"
#include "infer/support.h"
#include "support/golden.h"
#include "support/kernels.h"
#include "support/logits.h"
#include "tern.h"

enum { MAX_VOCAB = 384, GUESSES = 4, CTX = 200, TEXT = 60 };

static tern_error err;

static tern_engine *open_with_block(const char *path)
{
    tern_model *model;
    tern_engine *engine;
    const tern_engine_params params = {.backend.n_threads = 1};
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true, .mtp = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

/* The file that transformers' model would be converted to. */
static const char *converted(const char *type)
{
    const char *path = test_scratch("mtp.gguf");
    const tern_convert_options options = {.size = sizeof options, .type = type, .overwrite = true};
    assert_ok(tern_convert(test_fixture("qwen3_5_mtp"), path, &options, NULL, &err), err);
    return path;
}

static const void *golden_of(const tern_safetensors *st, const char *name)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    assert_non_null(t);
    return t->data;
}

/* The files of a golden: the model's hidden states and ids by transformers, and what the block makes of them. */
typedef struct goldens {
    tern_safetensors *model, *block;
    uint32_t n, n_vocab, n_embd;
    const float *hidden, *logits;
    int32_t ids[64]; /* n, and the next one */
    const int32_t *guesses;
} goldens;

static goldens open_goldens(void)
{
    goldens g = {0};
    assert_ok(tern_safetensors_open(&g.model, test_fixture("qwen3_5/golden.safetensors"), &err), err);
    assert_ok(tern_safetensors_open(&g.block, test_fixture("qwen3_5_mtp/golden_mtp.safetensors"), &err), err);
    const tern_st_tensor *hidden = tern_safetensors_find(g.model, "0.hidden");
    g.n = (uint32_t)hidden->dims[1];
    g.n_embd = (uint32_t)hidden->dims[2];
    g.n_vocab = (uint32_t)tern_safetensors_find(g.block, "logits")->dims[1];
    g.hidden = (const float *)(const void *)hidden->data + (size_t)(hidden->dims[0] - 1) * g.n * g.n_embd;
    g.logits = golden_of(g.block, "logits");
    g.guesses = golden_of(g.block, "guesses");
    memcpy(g.ids, golden_of(g.model, "0.input_ids"), g.n * sizeof *g.ids);
    memcpy(g.ids + g.n, golden_of(g.block, "next"), sizeof *g.ids);
    return g;
}

static void close_goldens(goldens *g)
{
    tern_safetensors_close(g->model);
    tern_safetensors_close(g->block);
}

static void check_block(const goldens *g, const char *path)
{
    static float logits[64 * MAX_VOCAB], states[64 * 128];
    tern_engine *engine = open_with_block(path);
    tern_runner r;
    const tern_runner_params params = {.n_ctx = 64, .n_batch = 16, .max_outputs = 16, .keep_hidden = true, .mtp = true};
    assert_ok(tern_runner_open(&r, engine, &params, &err), err);
    tern_runner_step step = {.ids = g->ids + 1, .n_tokens = g->n, .n_outputs = g->n, .hidden = g->hidden};
    assert_ok(tern_runner_run(&r, &step, logits, &err), err);
    test_check_rows(logits, g->logits, g->n, g->n_vocab, 5e-4, path);
    for (uint32_t i = 0; i + 1 < GUESSES; i++) {
        tern_runner_graph *graph = tern_runner_graph_of(&r, &step);
        assert_ok(tern_runner_read(graph, tern_graph_hidden(&graph->graph, 1), step.n_outputs, states, &err), err);
        step = (tern_runner_step){.ids = g->guesses + i,
                                  .n_tokens = 1,
                                  .first_position = g->n + i,
                                  .n_outputs = 1,
                                  .hidden = states + (size_t)(step.n_outputs - 1) * g->n_embd};
        assert_ok(tern_runner_run(&r, &step, logits, &err), err);
        test_check_rows(logits, g->logits + (g->n + i) * g->n_vocab, 1, g->n_vocab, 5e-4, "a guess behind a guess");
    }
    tern_runner_deinit(&r);
    tern_engine_close(engine);
}

static void golden_logits(void **state)
{
    (void)state;
    goldens g = open_goldens();
    check_block(&g, test_fixture("qwen3_5_mtp"));
    check_block(&g, converted(NULL));
    check_block(&g, converted("f32"));
    close_goldens(&g);
}

static tern_session *session_of(tern_engine *engine, bool mtp, uint32_t n_batch)
{
    return open_session(engine, (tern_session_params){.size = sizeof(tern_session_params),
                                                      .n_ctx = CTX,
                                                      .n_batch = n_batch,
                                                      .max_outputs = GUESSES + 1,
                                                      .mtp = mtp});
}

/* However the prompt was cut into steps, and whatever was taken back. */
static void golden_guesses(void **state)
{
    (void)state;
    goldens g = open_goldens();
    tern_engine *engine = open_with_block(test_fixture("qwen3_5_mtp"));
    for (uint32_t n_batch = GUESSES + 1; n_batch < 9; n_batch++) {
        tern_session *s = session_of(engine, true, n_batch);
        for (uint32_t more = 0; more < 3; more++) {
            int32_t out[GUESSES];
            uint32_t n;
            assert_ok(tern_session_append(s, g.ids, g.n, &err), err);
            assert_ok(tern_mtp_propose(s->mtp, g.ids, g.n + 1, out, GUESSES, &n, &err), err);
            assert_int_equal(n, GUESSES);
            assert_memory_equal(out, g.guesses, sizeof out);
            for (uint32_t i = 0; i < more * 4; i++) assert_ok(tern_session_append(s, g.ids + i % g.n, 1, &err), err);
            tern_session_truncate(s, 0);
        }
        tern_session_close(s);
    }
    tern_engine_close(engine);
    close_goldens(&g);
}

static tern_generate_result text_of(tern_session *s, const int32_t *prompt, uint32_t n, bool drawn, uint32_t n_drafted)
{
    tern_generate_result result = {.size = sizeof result};
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = TEXT,
                                   .draft_tokens = n_drafted,
                                   .draft_costs = n_drafted ? equal_costs : NULL};
    params.sampler.temperature = drawn ? 3 : 0;
    params.sampler.seed = 7;
    assert_ok(tern_generate(s, prompt, n, &params, &result, &err), err);
    return result;
}

/* Turns of a conversation, of which some begin earlier: the same tokens, and the same bits of the last logits. */
static void same_texts(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    tern_engine *engine = open_with_block(test_fixture("qwen3_5_mtp"));
    tern_session *drafts = session_of(engine, true, 16), *plain = session_of(engine, false, 16);
    uint32_t n_drafted = 0, n_accepted = 0;
    for (uint32_t turn = 0; turn < (test_quick() ? 4 : 12); turn++) {
        int32_t prompt[40];
        const uint32_t n = 1 + tern_rng_below(&rng, 40), keep = turn % 3 ? tern_rng_below(&rng, 60) : 0;
        for (uint32_t i = 0; i < n; i++) prompt[i] = (int32_t)tern_rng_below(&rng, MAX_VOCAB);
        tern_session_truncate(drafts, keep);
        tern_session_truncate(plain, keep);
        const tern_generate_result got = text_of(drafts, prompt, n, turn % 2, GUESSES);
        text_of(plain, prompt, n, turn % 2, 0);
        n_drafted += got.n_drafted;
        n_accepted += got.n_accepted;
        assert_int_equal(tern_session_n_tokens(drafts), tern_session_n_tokens(plain));
        assert_memory_equal(tern_session_tokens(drafts), tern_session_tokens(plain),
                            tern_session_n_tokens(plain) * sizeof(int32_t));
        const int32_t one = 5;
        assert_ok(tern_session_append(drafts, &one, 1, &err), err);
        assert_ok(tern_session_append(plain, &one, 1, &err), err);
        assert_memory_equal(test_logits(drafts, 0), test_logits(plain, 0), MAX_VOCAB * sizeof(float));
    }
    print_message("%u drafted, %u accepted\n", n_drafted, n_accepted);
    assert_true(n_drafted > n_accepted && n_accepted > n_drafted / 4);
    tern_session_close(drafts);
    tern_session_close(plain);
    tern_engine_close(engine);
}

/* A restored session has no hidden states of its tokens: the block goes on from those that come. */
static void restored(void **state)
{
    (void)state;
    const char *path = test_scratch("mtp.session");
    const int32_t prompt[] = {22, 326, 117, 7, 319, 143, 248, 189};
    tern_engine *engine = open_with_block(test_fixture("qwen3_5_mtp"));
    tern_session *first = session_of(engine, false, 16), *second = session_of(engine, true, 16);
    assert_ok(tern_session_append(first, prompt, 8, &err), err);
    assert_ok(tern_session_save(first, path, &err), err);
    text_of(second, prompt, 5, false, GUESSES);
    assert_ok(tern_session_restore(second, path, &err), err);
    const tern_generate_result got = text_of(second, NULL, 0, false, GUESSES);
    text_of(first, NULL, 0, false, 0);
    assert_memory_equal(tern_session_tokens(first), tern_session_tokens(second),
                        tern_session_n_tokens(first) * sizeof *prompt);
    assert_true(got.n_accepted > 0);
    tern_session_close(first);
    tern_session_close(second);
    tern_engine_close(engine);
}

static void refused(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3_5", "llama"};
    tern_session *s;
    const tern_session_params params = {.size = sizeof params, .n_ctx = 32, .mtp = true};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tern_engine *engine = open_with_block(test_fixture(names[i]));
        assert_int_equal(tern_session_open(&s, engine, &params, &err), TERN_UNSUPPORTED);
        assert_non_null(strstr(err.message, "drafting by the model's own block: none was read"));
        tern_engine_close(engine);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(golden_logits), cmocka_unit_test(golden_guesses),
                                          cmocka_unit_test(same_texts), cmocka_unit_test(restored),
                                          cmocka_unit_test(refused)};
TEST_GROUP(mtp, "", tests);
