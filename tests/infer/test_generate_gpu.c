/* Generation in steps on a GPU: the text of the CPU, and what a token costs. */
#include "backend/counters.h"
#include "infer/steps.h"
#include "support/logits.h"

static tern_session *session_with(tern_engine *engine, tern_kv_type kv, uint32_t steps)
{
    return open_session(engine,
                        TERN_SIZED(tern_session_params, .n_ctx = 128, .kv = {kv, kv}, .steps = steps, .n_batch = 64));
}

/* How many tokens of the GPU's greedy text are the CPU's, which follows it. */
static uint32_t same_tokens(tern_session *gpu, tern_session *host, const char *prompt, uint32_t length)
{
    seen got = {0};
    tern_error err = {0};
    const uint32_t n_vocab = tern_engine_config(tern_session_engine(host))->n_vocab;
    tern_tokens ids = ids_of(tern_session_engine(host), prompt);
    tern_generate_params params = greedy_params(&got, length);
    uint32_t n_same = 0;
    generate(gpu, prompt, &params);
    assert_ok(tern_session_append(host, ids.ids, (uint32_t)ids.n, &err), err);
    for (uint32_t t = 0; t < got.n_ids; t++) {
        const float *logits = test_logits(host, 0);
        uint32_t best = 0;
        for (uint32_t v = 1; v < n_vocab; v++)
            if (logits[v] > logits[best]) best = v;
        n_same += best == (uint32_t)got.ids[t];
        assert_true(logits[best] - logits[got.ids[t]] < 0.25f);
        assert_ok(tern_session_append(host, &got.ids[t], 1, &err), err);
    }
    tern_tokens_deinit(&ids);
    forget(&got);
    return n_same;
}

/* Greedy text against the CPU's, as far as its margins decide: a rounding tie may turn a token that was hardly ahead.
 */
static void as_on_the_cpu(void **state)
{
    steps_fixture *f = *state;
    enum { LENGTH = 16 };
    static const tern_kv_type types[] = {TERN_KV_F32, TERN_KV_Q8_0, TERN_KV_Q4_0};
    tern_engine *cpu = open_trained(1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        static const char *const prompts[] = {steps_story, "ROMEO:"};
        uint32_t n_same = 0;
        for (size_t j = 0; j < 2; j++) {
            tern_session *gpu = session_with(f->engine, types[i], 8), *host = session_with(cpu, types[i], 0);
            n_same += same_tokens(gpu, host, prompts[j], LENGTH);
            tern_session_close(gpu);
            tern_session_close(host);
        }
        print_message("%u of %d tokens are the CPU's\n", n_same, 2 * LENGTH);
        assert_true(n_same + 2 >= 2 * LENGTH);
    }
    tern_engine_close(cpu);
}

/* What a decoded token costs, as docs/internals/vulkan.md says: 5 dispatches a layer of BitNet, 4 outside the layers (5
 * where the table is large), no allocation of the device's. */
static void dispatches(void **state)
{
    enum { STEPS = 8, RUNS = 2, IN_A_LAYER = 5, OUTSIDE = 4 };
    steps_fixture *f = *state;
    tern_backend *b = tern_engine_backend(f->engine);
    tern_session *session = steps_session(f, 256, STEPS);
    seen s = {0};
    tern_error err = {0};
    tern_generate_params params = greedy_params(&s, STEPS);
    tern_generate_result result = {.size = sizeof result};
    tern_backend_counters before, after;
    params.ignore_eos = true;
    generate(session, steps_story, &params);
    params.max_tokens = RUNS * STEPS;
    b->counters(b, &before);
    assert_ok(tern_generate(session, NULL, 0, &params, &result, &err), err);
    b->counters(b, &after);
    const uint64_t n_layers = tern_engine_config(f->engine)->n_layers, n_tokens = RUNS * STEPS;
    const uint64_t in_layers = after.layer_dispatches - before.layer_dispatches,
                   all = after.dispatches - before.dispatches;
    print_message("a token: %.2f dispatches a layer, %.1f in all, %.1f barriers\n",
                  (double)in_layers / (double)(n_layers * n_tokens), (double)all / (double)n_tokens,
                  (double)(after.barriers - before.barriers) / (double)n_tokens);
    assert_int_equal(in_layers, IN_A_LAYER * n_layers * n_tokens);
    assert_int_equal(all - in_layers, OUTSIDE * n_tokens);
    assert_int_equal(after.submits - before.submits, RUNS);
    assert_int_equal(after.downloaded_bytes - before.downloaded_bytes, RUNS * (4 * STEPS + 4));
    assert_int_equal(after.allocations, before.allocations);
    forget(&s);
    tern_session_close(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(as_on_the_cpu),
    cmocka_unit_test(dispatches),
};

TEST_GROUP(generate_gpu, "devices long", tests, .setup = steps_open, .teardown = steps_close);
