/* Samples of text while an adapter learns: what the model with the adapter that is written says. */
#include "train/run_support.h"

#include "api/support.h"

typedef struct told {
    char sample[1024];
    uint32_t n;
} told;

static void listen(void *context, const tern_finetune_event *e)
{
    told *t = context;
    if (e->kind != TERN_FINETUNE_SAMPLE) return;
    snprintf(t->sample, sizeof t->sample, "%s", e->text);
    t->n++;
}

/* The prompt, and how the model goes on with what a session of these parameters computes. */
static void tell(tern_engine *engine, const tern_session_params *params, const tern_finetune_options *o, char out[1024])
{
    tern_error err = {0};
    tern_session *session;
    shown s = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_tokens ids = tokens_of(engine, o->sample_prompt, TERN_TOKENIZE_BOS);
    assert_ok(tern_session_open(&session, engine, params, &err), err);
    tern_generate_params how = greedy(&s, o->sample_tokens);
    const tern_sampler_params sampler = TERN_SAMPLER_DEFAULTS;
    how.sampler = sampler;
    how.sampler.seed = o->seed;
    assert_ok(tern_generate(session, ids.ids, (uint32_t)ids.n, &how, &result, &err), err);
    snprintf(out, 1024, "%s%.*s", o->sample_prompt, 900, s.text);
    tern_session_close(session);
    tern_tokens_deinit(&ids);
}

static void the_adapter_speaks(void **state)
{
    static const char text[] = "Blue boats float by the bay. Blue boats bring bread and butter.\n"
                               "Big bears bake brown bread. Both bears bite the bread.\n";
    (void)state;
    tern_error err = {0};
    char *corpus = strdup(put_file("sample-corpus.txt", text, sizeof text - 1));
    const char *list[] = {corpus};
    const run_path out = scratch("sample-adapter.gguf");
    told t = {0};
    tern_finetune_options o = run_options(BUNDLED, list, out.text);
    o.split = TERN_FINETUNE_SPLIT_LINE;
    o.seq = 24;
    o.batch = 1;
    o.steps = 4;
    o.lr = 0.02;
    o.lora_rank = 4;
    o.sample_every = 2;
    o.sample_prompt = "Blue";
    o.sample_tokens = 12;
    o.on_event = listen;
    o.context = &t;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    assert_int_equal(t.n, 2);

    char plain[1024], adapted[1024];
    tern_engine *engine;
    tern_lora *lora;
    assert_ok(tern_engine_load(&engine, BUNDLED, NULL, &err), err);
    assert_ok(tern_lora_load(&lora, engine, out.text, &err), err);
    const tern_lora_use use = {lora, 1};
    tell(engine, &(tern_session_params){.size = sizeof(tern_session_params)}, &o, plain);
    tell(engine, &TERN_SIZED(tern_session_params, .loras = &use, .n_loras = 1), &o, adapted);
    assert_string_equal(t.sample, adapted);
    assert_string_not_equal(t.sample, plain);
    tern_lora_close(lora);
    tern_engine_close(engine);
    free(corpus);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(the_adapter_speaks)};

TEST_GROUP(run_sample, "slow", tests);
