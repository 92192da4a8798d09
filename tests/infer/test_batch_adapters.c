/* Sequences with adapters of their own, and texts whose vectors are wanted, beside others in one run a step: every one
 * gets the bits that it gets alone. */
#include <math.h>

#include "infer/batch_cases.h"

#include "backend/counters.h"
#include "support/adapters.h"
#include "support/golden.h"
#include "support/gpu_model.h"
#include "support/op_case.h"

enum { GPU_CASES = 15, GPU_TEXTS = 5, GPU_PROMPT = 40, GPU_TOKENS = 6 }; /* what an emulated GPU does in seconds */
enum {
    N_CASES = 40,
    QUICK_CASES = 20,
    QUICK_TEXTS = 6,
    N_TEXTS = 12,
    N_CTX = 256,
    N_IDS = 250,
    N_SETS = 5,
    MAX_EMBD = 512
};

/* A text and its vector. */
typedef struct text_case {
    tern_request_params params;
    tern_request *request;
    float alone[MAX_EMBD], together[MAX_EMBD];
    uint32_t n_embd, n_ends;
} text_case;

typedef struct fixture {
    tern_engine *engine;
    uint32_t n_cases, n_texts;
    bool tries;     /* the backend runs made-up steps beside those of a batch, when its graphs are made */
    bool same_bits; /* it is batch-invariant; CUDA is not */
    bool int8;      /* rows are rounded to it */
    tern_lora *a, *b;
    tern_lora_use uses[N_SETS][2]; /* of set 0: none */
    batch_case cases[N_CASES];
    text_case texts[N_TEXTS];
} fixture;

static const uint32_t set_sizes[N_SETS] = {0, 1, 1, 2, 1};

static void take_vector(void *context, const tern_request_result *result)
{
    text_case *t = context;
    t->n_ends++;
    if (result->error) fail_msg("%s", result->error->message);
    assert_non_null(result->embedding);
    memcpy(t->together, result->embedding, t->n_embd * sizeof *t->together);
}

static void fill_texts(fixture *f)
{
    for (uint32_t i = 0; i < f->n_texts; i++) {
        text_case *t = &f->texts[i];
        t->n_embd = tern_engine_config(f->engine)->n_embd;
        assert_in_range(t->n_embd, 1, MAX_EMBD);
        t->params = (tern_request_params){.size = sizeof(tern_request_params),
                                          .prompt = f->cases[i].prompt,
                                          .n_prompt = f->cases[i].params.n_prompt,
                                          .loras = f->uses[i % N_SETS],
                                          .n_loras = set_sizes[i % N_SETS],
                                          .embed = true,
                                          .pooling = (tern_pooling)(i % 3),
                                          .normalize = i & 1,
                                          .on_end = take_vector,
                                          .context = t};
    }
}

static void run_alone(fixture *f)
{
    tern_error err = {0};
    tern_session *s = open_session(f->engine, (tern_session_params){.size = sizeof(tern_session_params),
                                                                    .n_ctx = N_CTX,
                                                                    .kv = {TERN_KV_F32, TERN_KV_F32},
                                                                    .keep_hidden = true,
                                                                    .max_outputs = 32});
    for (uint32_t i = 0; i < f->n_cases; i++) {
        const tern_request_params *p = &f->cases[i].params;
        assert_ok(tern_session_set_loras(s, p->loras, p->n_loras, &err), err);
        batch_run_alone(s, &f->cases[i], 1);
    }
    for (uint32_t i = 0; i < f->n_texts; i++) {
        text_case *t = &f->texts[i];
        assert_ok(tern_session_set_loras(s, t->params.loras, t->params.n_loras, &err), err);
        assert_ok(tern_session_embed(s, t->params.prompt, t->params.n_prompt, t->params.pooling, t->params.normalize,
                                     t->alone, &err),
                  err);
    }
    tern_session_close(s);
}

static void shorten(tern_request_params *p)
{
    if (p->n_prompt > GPU_PROMPT) p->n_prompt = GPU_PROMPT;
    if (p->max_tokens > GPU_TOKENS) p->max_tokens = GPU_TOKENS;
}

/* n_experts: of a layer, that are on the device at once; 0: all. */
static fixture *open_fixture(const char *model, bool gpu, uint32_t n_experts)
{
    fixture *f = calloc(1, sizeof *f);
    f->int8 = strcmp(model, "bitnet") == 0;
    f->same_bits = !gpu || strcmp(test_gpu_name(), "cuda") != 0;
    const tern_engine_params invariant = {.batch_invariant = f->same_bits, .experts.per_layer = n_experts};
    f->engine = gpu ? test_gpu_engine(test_fixture(model), test_all_layers, &invariant)
                    : test_engine_with(test_fixture(model), &invariant);
    f->n_cases = gpu ? GPU_CASES : test_quick() ? QUICK_CASES : N_CASES;
    f->n_texts = gpu ? GPU_TEXTS : test_quick() ? QUICK_TEXTS : N_TEXTS;
    f->a = test_lora(f->engine, 4, 1, false);
    f->b =
        test_lora(f->engine, gpu && tern_engine_config(f->engine)->n_experts ? 8 : 9, 2, true); /* of experts: fours */
    const tern_lora_use uses[N_SETS][2] = {{{0}}, {{f->a, 1}}, {{f->b, 0.7f}}, {{f->b, 1}, {f->a, -0.5f}}, {{f->b, 1}}};
    memcpy(f->uses, uses, sizeof uses);
    batch_fill(f->cases, f->n_cases, N_IDS, 5);
    for (uint32_t i = 0; i < f->n_cases; i++) {
        f->cases[i].params.loras = f->uses[i * 7 % N_SETS];
        f->cases[i].params.n_loras = set_sizes[i * 7 % N_SETS];
        f->cases[i].params.stops = NULL; /* these models have no words */
        f->cases[i].params.n_stops = 0;
        if (gpu) shorten(&f->cases[i].params);
    }
    fill_texts(f);
    run_alone(f);
    return f;
}

static void close_fixture(fixture *f)
{
    tern_lora_close(f->a);
    tern_lora_close(f->b);
    tern_engine_close(f->engine);
    free(f);
}

static uint64_t runs_of(const fixture *f)
{
    tern_backend_counters c;
    const tern_backend *backend = tern_engine_backend(f->engine);
    backend->counters(backend, &c);
    return c.runs;
}

/* Where bits may differ, vectors are within a share of their largest number: of int8 rows, where one level more or less
 * goes on through all layers, 1/20. */
static bool same_number(const fixture *f, const text_case *t, uint32_t k)
{
    float most = 0;
    if (f->same_bits) return memcmp(&t->together[k], &t->alone[k], sizeof t->alone[k]) == 0;
    for (uint32_t i = 0; i < t->n_embd; i++) most = fmaxf(most, fabsf(t->alone[i]));
    return fabsf(t->together[k] - t->alone[k]) <= (f->int8 ? 0.05f : 1e-4f) * most;
}

/* Where bits may differ, two numbers that are nearly the same may change places: three texts of four are the same. */
static void check_cases(fixture *f, const char *what)
{
    uint32_t same = 0;
    if (f->same_bits) {
        batch_check(f->cases, f->n_cases, what);
        return;
    }
    for (uint32_t i = 0; i < f->n_cases; i++) {
        same += batch_same_tokens(&f->cases[i]);
        tern_request_free(f->cases[i].request);
        f->cases[i].request = NULL;
    }
    print_message("%s: %u of %u texts are what they are alone\n", what, same, f->n_cases);
    assert_true(4 * same >= 3 * f->n_cases);
}

static void check_texts(fixture *f, const char *what)
{
    for (uint32_t i = 0; i < f->n_texts; i++) {
        text_case *t = &f->texts[i];
        if (t->n_ends != 1) fail_msg("%s: text %u ended %u times", what, i, t->n_ends);
        for (uint32_t k = 0; k < t->n_embd; k++)
            if (!same_number(f, t, k))
                fail_msg("%s: text %u, element %u is %a, alone %a", what, i, k, (double)t->together[k],
                         (double)t->alone[k]);
        tern_request_free(t->request);
    }
}

static tern_batch_counters run(fixture *f, tern_batch_params params, uint32_t between, const char *what)
{
    tern_error err = {0};
    tern_batch_counters counts = {.size = sizeof counts};
    tern_batch *batch = batch_open(f->engine, params);
    bool busy = true;
    const uint64_t runs = runs_of(f);
    for (uint32_t i = 0; i < f->n_cases; i++) {
        batch_submit(batch, &f->cases[i]);
        if (i % 3 == 1 && i / 3 < f->n_texts) {
            text_case *t = &f->texts[i / 3];
            t->n_ends = 0;
            assert_ok(tern_batch_submit(batch, &t->params, &t->request, &err), err);
        }
        for (uint32_t k = 0; k < between; k++) assert_ok(tern_batch_step(batch, &busy, &err), err);
    }
    batch_finish(batch);
    check_cases(f, what);
    check_texts(f, what);
    tern_batch_count(batch, &counts, NULL);
    if (!f->tries) assert_int_equal(runs_of(f) - runs, counts.steps);
    tern_batch_close(batch);
    return counts;
}

static void check(const char *model, uint32_t n_experts)
{
    fixture *f = open_fixture(model, false, n_experts);
    const tern_config *c = tern_engine_config(f->engine);
    tern_batch_params params = {
        .size = sizeof params, .n_parallel = 8, .n_ctx = N_CTX, .n_chunk = 9, .kv = {TERN_KV_F32, TERN_KV_F32}};
    assert_true(run(f, params, 0, "chunks of 9").device_tokens == 0);
    params.n_parallel = 24;
    params.n_chunk = 0;
    run(f, params, 1, "arriving step by step");
    params.no_prefix_reuse = true;
    params.cache_bytes = (uint64_t)(N_CTX / TERN_PAGE_SIZE) * 2 * c->n_layers * c->n_kv_heads * c->head_dim *
                         TERN_PAGE_SIZE * sizeof(float);
    assert_true(run(f, params, 0, "a pool for one").preemptions > 0);
    close_fixture(f);
}

/* The device chooses the tokens of the requests of which it can. */
static void check_gpu(const char *model)
{
    fixture *f = open_fixture(model, true, 0);
    tern_batch_params params = {
        .size = sizeof params, .n_parallel = 6, .n_ctx = N_CTX, .n_chunk = 9, .kv = {TERN_KV_F32, TERN_KV_F32}};
    f->tries = true;
    run(f, params, 1, "arriving step by step");
    f->tries = false;
    const tern_batch_counters counts = run(f, params, 0, "together");
    assert_in_range(counts.device_tokens, 1, counts.generated_tokens - 1);
    close_fixture(f);
}

static void ternary(void **state)
{
    (void)state;
    check("bitnet", 0);
}

static void dense(void **state)
{
    (void)state;
    check("llama", 0);
}

static void experts(void **state)
{
    (void)state;
    check("mixtral", 0);
}

/* Some tokens of a step have adapters, and its experts come in several turns. */
static void some_experts(void **state)
{
    (void)state;
    check("mixtral", 2);
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_request *request;
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_batch *batch = batch_open(engine, TERN_SIZED(tern_batch_params, .n_ctx = 32));
    int32_t prompt[33] = {0};
    tern_request_params p = {.size = sizeof p, .prompt = prompt, .n_prompt = 33, .embed = true};
    assert_int_equal(tern_batch_submit(batch, &p, &request, &err), TERN_CONTEXT_FULL);
    assert_string_equal(err.message, "prompt of 33 tokens: at most 32, the context, expected");
    p.n_prompt = 32;
    p.n = 2;
    assert_int_equal(tern_batch_submit(batch, &p, &request, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "2 vectors of a text: 1 expected");
    p.n = 1;
    p.pooling = (tern_pooling)7;
    assert_int_equal(tern_batch_submit(batch, &p, &request, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "option pooling is 7: 0 to 2 expected");
    tern_batch_close(batch);
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ternary),      cmocka_unit_test(dense),    cmocka_unit_test(experts),
    cmocka_unit_test(some_experts), cmocka_unit_test(refusals),
};

static void ternary_gpu(void **state)
{
    (void)state;
    check_gpu("bitnet");
}

static void dense_gpu(void **state)
{
    (void)state;
    check_gpu("llama");
}

static void experts_gpu(void **state)
{
    (void)state;
    check_gpu("mixtral");
}

static const struct CMUnitTest gpu_tests[] = {
    cmocka_unit_test(ternary_gpu),
    cmocka_unit_test(dense_gpu),
    cmocka_unit_test(experts_gpu),
};

TEST_GROUP(batch_adapters, "threads", tests);
TEST_GROUP(batch_adapters_gpu, "devices long", gpu_tests, .teardown = test_backends_close);
