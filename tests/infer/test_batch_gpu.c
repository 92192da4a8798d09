/* Batches on a GPU with batch-invariant kernels: every request gives the tokens and the bits that it gives alone. */
#include "infer/batch_cases.h"

#include "support/adapters.h"
#include "support/gpu_model.h"
#include "support/op_case.h"

enum { N_CASES = 16, N_CTX = 128, PARALLEL = 6, MAX_PROMPT = 70, MAX_TOKENS = 8 };

static batch_case *cases;
static tern_kv_types kv = {TERN_KV_F16, TERN_KV_F16};

static int setup(void **state)
{
    (void)state;
    cases = calloc(N_CASES, sizeof *cases);
    return 0;
}

static int teardown(void **state)
{
    free(cases);
    return test_backends_close(state);
}

static tern_engine *open_invariant(const char *path)
{
    return test_gpu_engine(path, test_all_layers, &(tern_engine_params){.batch_invariant = true});
}

/* n cases from `from` on, each alone. */
static void run_alone(tern_engine *engine, batch_case *from, uint32_t n, const tern_lora_use *lora)
{
    const tern_session_params params = {
        .size = sizeof params, .n_ctx = N_CTX, .kv = kv, .loras = lora, .n_loras = lora != NULL};
    tern_session *session = open_session(engine, params);
    for (uint32_t i = 0; i < n; i++) memset(from[i].alone, 0, sizeof from[i].alone);
    batch_run_alone(session, from, n);
    tern_session_close(session);
}

static tern_batch_counters run(tern_engine *engine, uint32_t n, tern_batch_params params, uint32_t between,
                               const char *what)
{
    tern_batch_counters counts = {.size = sizeof counts};
    params.n_ctx = N_CTX;
    params.kv = kv;
    tern_batch *batch = batch_open(engine, params);
    batch_run_together(batch, cases, n, between);
    batch_check(cases, n, what);
    tern_batch_count(batch, &counts, NULL);
    assert_int_equal(counts.running + counts.waiting + counts.pages_used, 0);
    tern_batch_close(batch);
    return counts;
}

static uint64_t bytes_of_one(const tern_config *c)
{
    return 4ull * c->n_layers * c->n_kv_heads * c->head_dim * N_CTX;
}

/* To what an emulated GPU does in seconds. */
static void shorten(tern_request_params *p)
{
    if (p->n_prompt > MAX_PROMPT) p->n_prompt = MAX_PROMPT;
    if (p->max_tokens > MAX_TOKENS) p->max_tokens = MAX_TOKENS;
}

/* Requests of all kinds, some with an adapter if there is one: chunked, with pages shared, copied and put back. */
static void check_model(const char *name, uint32_t n, bool adapted)
{
    tern_engine *engine = open_invariant(test_fixture(name));
    const tern_config *c = tern_engine_config(engine);
    tern_lora *lora = adapted ? test_lora(engine, 4, 3, false) : NULL;
    const tern_lora_use use = {lora, 1};
    batch_fill(cases, n, c->n_vocab, 5);
    for (uint32_t i = 0; i < n; i++) shorten(&cases[i].params);
    run_alone(engine, cases, n, NULL);
    for (uint32_t i = n - n / 4; i < n && adapted; i++) {
        cases[i].params.loras = &use;
        cases[i].params.n_loras = 1;
    }
    if (adapted) run_alone(engine, &cases[n - n / 4], n / 4, &use);
    if (!test_quick()) run(engine, n, TERN_SIZED(tern_batch_params, .n_parallel = PARALLEL), 0, "together");
    const tern_batch_params small = {
        .size = sizeof small, .n_parallel = PARALLEL, .n_batch = 40, .n_chunk = 7, .cache_bytes = bytes_of_one(c)};
    const tern_batch_counters counts = run(engine, n, small, 1, "chunks of 7 and a pool for one");
    assert_true(counts.preemptions > 0 || n < N_CASES);
    assert_in_range(counts.device_tokens, 1, counts.generated_tokens - 1); /* some have penalties */
    tern_lora_close(lora);
    tern_engine_close(engine);
}

static void mixed(void **state)
{
    (void)state;
    check_model("bitnet", N_CASES, true);
}

/* Their rings are whole pages in a batch. */
static void windows(void **state)
{
    (void)state;
    check_model("gemma3", 4, false);
}

/* Rows of pages say all of themselves, on a GPU as well. */
static void blocks(void **state)
{
    (void)state;
    kv = (tern_kv_types){TERN_KV_Q8_0, TERN_KV_Q4_0};
    check_model("bitnet", 5, false);
    kv = (tern_kv_types){TERN_KV_F16, TERN_KV_F16};
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(mixed),
    cmocka_unit_test(windows),
    cmocka_unit_test(blocks),
};

TEST_GROUP(batch_gpu, "devices long", tests, .setup = setup, .teardown = teardown);
