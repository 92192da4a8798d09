/* `--head exact`: every logit that is given has the full head's bits (on GPUs its number, to the rounding of a sum),
 * and the wanted highest are always given. */
#include "backend/counters.h"
#include "infer/batch_cases.h"
#include "quant/encoding.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/test.h"

#include <math.h>

#include "base/rng.h"
#include "infer/sample/wanted.h"

enum { N_TOKENS = 40, N_TOKENS_QUICK = 10 };

/* Of the group that runs: NULL is the CPU. */
static const char *backend_name;

static tern_status open_status(tern_engine **engine, const char *path, const char *head, bool exact, tern_error *err)
{
    tern_model *model;
    tern_engine_params params = {.backend = {.name = backend_name, .n_threads = 2},
                                 .head = head ? tern_encoding_by_name(head) : NULL,
                                 .head_exact = exact};
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, err), *err);
    return tern_engine_open(engine, model, &params, err);
}

static tern_engine *open_engine(const char *path, const char *head, bool exact)
{
    tern_error err = {0};
    tern_engine *engine;
    assert_ok(open_status(&engine, path, head, exact, &err), err);
    return engine;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The value of the n-th highest logit. */
static float nth_highest(const float *logits, uint32_t n_vocab, uint32_t n)
{
    float *sorted = malloc(n_vocab * sizeof *sorted);
    memcpy(sorted, logits, n_vocab * sizeof *sorted);
    qsort(sorted, n_vocab, sizeof *sorted, descending);
    float v = sorted[n - 1];
    free(sorted);
    return v;
}

static uint32_t compare(const float *full, const float *screened, uint32_t n_vocab, uint32_t wanted)
{
    const float least = nth_highest(full, n_vocab, wanted), rounding = 1e-5f * fabsf(nth_highest(full, n_vocab, 1));
    uint32_t n_left_out = 0;
    for (uint32_t r = 0; r < n_vocab; r++) {
        if (screened[r] == -INFINITY) {
            assert_true(full[r] < (backend_name ? least + rounding : least));
            n_left_out++;
        } else if (backend_name) {
            assert_true(fabsf(screened[r] - full[r]) <= rounding);
        } else {
            assert_memory_equal(&screened[r], &full[r], sizeof(float));
        }
    }
    return n_left_out;
}

static void check(const char *path, const char *head)
{
    static const uint32_t wanted[] = {1, 2, 5, 40, 256};
    tern_error err = {0};
    tern_rng rng = {.state = 7};
    tern_engine *engines[2] = {open_engine(path, head, false), open_engine(path, head, true)};
    tern_session *sessions[2] = {test_session(engines[0], false), test_session(engines[1], false)};
    uint32_t n_vocab = tern_engine_config(engines[0])->n_vocab, n_left_out = 0;
    const uint32_t n_tokens = test_quick() ? N_TOKENS_QUICK : N_TOKENS;
    for (uint32_t t = 0; t < n_tokens; t++) {
        int32_t id = (int32_t)tern_rng_below(&rng, n_vocab);
        uint32_t n = wanted[t % (sizeof wanted / sizeof *wanted)];
        tern_session_set_n_top(sessions[1], n);
        for (int i = 0; i < 2; i++) assert_ok(tern_session_append(sessions[i], &id, 1, &err), err);
        n_left_out += compare(test_logits(sessions[0], 0), test_logits(sessions[1], 0), n_vocab, n);
    }
    assert_true(n_left_out > n_tokens * n_vocab / 4); /* it does leave out what it can */
    for (int i = 0; i < 2; i++) {
        tern_session_close(sessions[i]);
        tern_engine_close(engines[i]);
    }
}

static void tied_bf16(void **state)
{
    (void)state;
    check(test_model("tiny-stories-bitnet"), NULL);
}

static void requantised(void **state)
{
    (void)state;
    check(test_model("tiny-stories-bitnet"), "f16");
    check(test_model("tiny-stories-bitnet"), "q8_0");
}

static void untied(void **state)
{
    (void)state;
    check(test_fixture("llama"), NULL);
}

/* Rows of a step that gives several, as a draft does that is verified. */
static void several_tokens(void **state)
{
    enum { MOST = 11, WANTED = 3 };
    const uint32_t N = backend_name ? 4 : MOST; /* a GPU reads the table for more */
    tern_error err = {0};
    tern_rng rng = {.state = 8};
    int32_t ids[MOST];
    tern_engine *engines[2];
    tern_session *sessions[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        engines[i] = open_engine(test_model("tiny-stories-bitnet"), NULL, i);
        const tern_session_params params = {.size = sizeof params, .n_ctx = 64, .max_outputs = N};
        assert_ok(tern_session_open(&sessions[i], engines[i], &params, &err), err);
    }
    const uint32_t n_vocab = tern_engine_config(engines[0])->n_vocab;
    for (uint32_t i = 0; i < N; i++) ids[i] = (int32_t)tern_rng_below(&rng, n_vocab);
    tern_session_set_n_top(sessions[1], WANTED);
    for (int i = 0; i < 2; i++) assert_ok(tern_session_append_all(sessions[i], ids, N, &err), err);
    for (uint32_t t = 0; t < N; t++)
        assert_true(compare(test_logits(sessions[0], t), test_logits(sessions[1], t), n_vocab, WANTED) > n_vocab / 4);
    for (int i = 0; i < 2; i++) {
        tern_session_close(sessions[i]);
        tern_engine_close(engines[i]);
    }
}

/* ---- whole generations */

enum { N_TEXT = 60, N_SEEDS = 6 };

typedef struct text {
    int32_t ids[N_TEXT];
    uint32_t n;
} text;

static bool keep(void *context, const tern_piece *piece)
{
    text *t = context;
    if (piece->id >= 0 && t->n < N_TEXT) t->ids[t->n++] = piece->id;
    return true;
}

/* Returns the bytes of weights that were read. */
static uint64_t write_text(tern_engine *engine, const tern_sampler_params *sampler, uint32_t draft, text *out)
{
    static const int32_t prompt[] = {1, 300, 20, 7, 300, 20};
    tern_error err = {0};
    tern_session *session;
    tern_generate_result result = {.size = sizeof result};
    const tern_session_params params = {.size = sizeof params, .n_ctx = 128, .max_outputs = 1 + draft};
    const tern_generate_params how = {.size = sizeof how,
                                      .sampler = *sampler,
                                      .max_tokens = N_TEXT,
                                      .ignore_eos = true,
                                      .draft_tokens = draft,
                                      .draft_costs = draft ? equal_costs : NULL,
                                      .on_piece = keep,
                                      .context = out};
    out->n = 0;
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    assert_ok(tern_generate(session, prompt, 6, &how, &result, &err), err);
    tern_session_close(session);
    assert_int_equal(out->n, N_TEXT);
    return result.weight_bytes;
}

static uint64_t n_runs(const tern_engine *engine)
{
    tern_backend *b = tern_engine_backend(engine);
    tern_backend_counters c;
    b->counters(b, &c);
    return c.runs;
}

/* Whatever samples, with and without drafts: the tokens of the full head, from fewer bytes. */
static void samplers(void **state)
{
    static const tern_logit_bias biases[] = {{12, 6}, {40, -2}, {300, 0.5f}};
    static const tern_sampler_params cases[] = {
        {0, 0, 1, 0, 1, 1.3f, 0, 0, 64, 0, NULL, 0},
        {0, 0, 1, 0, 1, 0.8f, -0.2f, -0.1f, 64, 0, biases, 3},
        {0.9f, 20, 0.9f, 0, 1, 0.9f, 0.3f, 0.2f, 32, 0, biases, 3},
        {0.8f, 0, 1, 0.05f, 1, 1, 0, 0, 0, 0, NULL, 0},
        {0.8f, 0, 1, 0.02f, 1, 1.2f, 0, 0, 64, 0, biases, 3},
        {0.7f, 0, 0.9f, 0, 1, 1, 0, 0, 0, 0, NULL, 0},
        {1, 0, 1, 0, 1, 1, 0, 0, 0, 0, NULL, 0},
        {0.6f, 0, 0.95f, 0.05f, 1, 1.1f, 0, 0, 64, 0, biases, 2},
    };
    tern_engine *engines[2];
    (void)state;
    for (int i = 0; i < 2; i++) engines[i] = open_engine(test_model("tiny-stories-bitnet"), NULL, i);
    const tern_config *config = tern_engine_config(engines[0]);
    const uint64_t table = 2ull * config->n_vocab * config->n_embd; /* bytes of bf16 */
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint64_t bytes[2] = {0, 0}, before = n_runs(engines[0]);
        for (uint32_t seed = 0; seed < (test_quick() ? 2 : N_SEEDS); seed++) {
            tern_sampler_params p = cases[c];
            p.seed = seed;
            text texts[2];
            for (int i = 0; i < 2; i++) bytes[i] += write_text(engines[i], &p, seed % 2 * 4, &texts[i]);
            assert_memory_equal(texts[0].ids, texts[1].ids, sizeof texts[0].ids);
        }
        /* a sum takes much of a table where a distribution is flat, as a small model's is */
        const double least = tern_logits_needed_by(&cases[c]).tail > 0 ? -0.175 : 0.5;
        const double saved = ((double)bytes[0] - (double)bytes[1]) / (double)((n_runs(engines[0]) - before) * table);
        if (!backend_name && !(saved > least))
            fail_msg("case %zu: %g of the table's bytes are saved, more than %g expected", c, saved, least);
    }
    for (int i = 0; i < 2; i++) tern_engine_close(engines[i]);
}

/* What they give in a batch, in the place of what each gives alone. */
static void run_with_the_full_head(tern_engine *full, batch_case *cases, uint32_t n)
{
    tern_batch *batch = batch_open(full, TERN_SIZED(tern_batch_params, .n_parallel = 5, .n_ctx = 256));
    batch_run_together(batch, cases, n, 2);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(cases[i].alone, cases[i].together, sizeof cases[i].alone);
        tern_request_free(cases[i].request);
        cases[i].request = NULL;
    }
    tern_batch_close(batch);
}

/* Mixed requests in a batch with the exact head: what each gives alone with the full one. */
static void batches(void **state)
{
    enum { N = 24 };
    static batch_case cases[N];
    tern_error err = {0};
    tern_engine *full = open_engine(test_model("tiny-stories-bitnet"), NULL, false),
                *exact = open_engine(test_model("tiny-stories-bitnet"), NULL, true);
    tern_session *session;
    (void)state;
    assert_ok(tern_session_open(&session, full, &TERN_SIZED(tern_session_params, .n_ctx = 256), &err), err);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        batch_fill(cases, N, tern_engine_config(full)->n_vocab, seed);
        for (uint32_t i = 0; i < N; i++) {
            tern_sampler_params *p = &cases[i].params.sampler;
            if (i % 3 == 0) p->temperature = 0.8f, p->top_k = 0, p->min_p = 0, p->top_p = i % 2 ? 1 : 0.9f;
        }
        if (backend_name) run_with_the_full_head(full, cases, N);
        else batch_run_alone(session, cases, N);
        tern_batch *batch = batch_open(exact, TERN_SIZED(tern_batch_params, .n_parallel = 5, .n_ctx = 256));
        batch_run_together(batch, cases, N, seed == 1 && !backend_name ? 0 : 2);
        uint32_t n_same = 0;
        for (uint32_t i = 0; i < N && backend_name; i++) n_same += batch_same_tokens(&cases[i]);
        if (!backend_name) batch_check(cases, N, "exact head");
        else print_message("%u of %d requests have the full head's tokens\n", n_same, N);
        assert_true(!backend_name || 10 * n_same >= 8 * N); /* steps have other rows, and kernels round by them */
        tern_batch_close(batch);
    }
    tern_session_close(session);
    tern_engine_close(full);
    tern_engine_close(exact);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(several_tokens), cmocka_unit_test(samplers),    cmocka_unit_test(batches),
    cmocka_unit_test(tied_bf16),      cmocka_unit_test(requantised), cmocka_unit_test(untied),
};

/* A device that chooses the tokens itself takes what was left out for no candidate. */
static void chosen_on_the_device(void **state)
{
    static const tern_sampler_params cases[] = {{0, 0, 1, 0, 1, 1, 0, 0, 0, 0, NULL, 0},
                                                {0.8f, 40, 0.95f, 0.02f, 1, 1, 0, 0, 0, 0, NULL, 0},
                                                {1, 64, 1, 0, 1, 1, 0, 0, 0, 0, NULL, 0}};
    tern_engine *engines[2];
    (void)state;
    for (int i = 0; i < 2; i++) engines[i] = open_engine(test_model("tiny-stories-bitnet"), NULL, i);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
            tern_sampler_params p = cases[c];
            text texts[2];
            p.seed = seed;
            for (int i = 0; i < 2; i++) write_text(engines[i], &p, 0, &texts[i]);
            assert_memory_equal(texts[0].ids, texts[1].ids, sizeof texts[0].ids);
        }
    for (int i = 0; i < 2; i++) tern_engine_close(engines[i]);
}

/* A screen that takes no fewer bytes than the table is refused, and a backend without screens says so. */
static void refusals(void **state)
{
    tern_error err = {0};
    tern_engine *engine = NULL;
    tern_session *session = NULL;
    (void)state;
    tern_status status = open_status(&engine, test_model("tiny-stories-bitnet"), "q8_0", true, &err);
    if (status == TERN_OK)
        status = tern_session_open(&session, engine, &TERN_SIZED(tern_session_params, .n_ctx = 32), &err);
    assert_int_equal(status, TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, strcmp(backend_name, "cuda") == 0 ? "q8_0" : "only the CPU and CUDA have it"));
    tern_engine_close(engine);
}

static int on_gpu(void **state)
{
    (void)state;
    backend_name = test_gpu_name();
    return 0;
}

static int on_cpu(void **state)
{
    (void)state;
    backend_name = NULL;
    return 0;
}

/* Of the GPUs CUDA has screens. */
static void screens(void **state)
{
    if (strcmp(backend_name, "cuda") != 0) return;
    tied_bf16(state);
    untied(state);
    several_tokens(state);
    samplers(state);
    chosen_on_the_device(state);
    batches(state);
}

static const struct CMUnitTest gpu_tests[] = {cmocka_unit_test(refusals), cmocka_unit_test(screens)};

TEST_GROUP(exact_head, "", tests);
TEST_GROUP(exact_head_gpu, "devices", gpu_tests, .setup = on_gpu, .teardown = on_cpu);
