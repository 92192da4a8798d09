/* Whole models on the GPU, compared with the CPU and with golden files. */
#include "support/gpu_model.h"

#include "support/flips.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/test.h"
#include "support/web_device.h"

enum { MAX_FLIPS = 8 };
static const double most_with_flips = 2e-2;

static tern_engine *open_engine(const char *path, const tern_engine_params *params)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, params, &err), err);
    return engine;
}

tern_engine *test_gpu_engine(const char *path, uint32_t gpu_layers, const tern_engine_params *how)
{
    test_gpu_backend(); /* skips where there is none */
    tern_engine_params params = how ? *how : (tern_engine_params){0};
    params.backend = (tern_backend_options){.name = test_gpu_name(),
                                            .n_threads = 1,
                                            .device = getenv("TERN_TEST_DEVICE"),
                                            .split = gpu_layers != test_all_layers,
                                            .gpu_layers = gpu_layers};
    tern_engine *engine = open_engine(path, &params);
    test_make_waiting(tern_engine_backend(engine));
    return engine;
}

void test_pair_open(test_pair *pair, const char *path, uint32_t gpu_layers, const tern_engine_params *how,
                    double max_rms)
{
    *pair = (test_pair){.max_rms = max_rms, .what = path};
    tern_engine_params params = how ? *how : (tern_engine_params){0};
    params.backend = (tern_backend_options){.n_threads = 1};
    pair->gpu_engine = test_gpu_engine(path, gpu_layers, how);
    pair->cpu_engine = open_engine(path, &params);
    pair->gpu = test_session(pair->gpu_engine, true);
    pair->cpu = test_session(pair->cpu_engine, true);
}

void test_pair_close(test_pair *pair)
{
    print_message("%s: relative rms error at most %.2g after %u flips\n", pair->what, pair->worst, pair->n_flips);
    tern_session_close(pair->gpu);
    tern_session_close(pair->cpu);
    tern_engine_close(pair->gpu_engine);
    tern_engine_close(pair->cpu_engine);
}

static uint32_t vocabulary(const test_pair *pair)
{
    return tern_engine_config(pair->cpu_engine)->n_vocab;
}

uint32_t test_pair_check(test_pair *pair, const int32_t *ids, uint32_t n, const float *got)
{
    tern_error err = {0};
    size_t n_logits = (size_t)n * vocabulary(pair);
    tern_session_truncate(pair->cpu, 0);
    assert_ok(tern_session_append_all(pair->cpu, ids, n, &err), err);
    const float *want = test_logits(pair->cpu, 0);
    double error = test_rms_error(got, want, n_logits);
    uint32_t n_flips = 0;
    if (!(error <= pair->max_rms)) {
        if (!(error <= most_with_flips)) fail_msg("%s: relative rms error %g: no rounding ties", pair->what, error);
        n_flips = test_flips_nearest(&(test_run){pair->cpu, ids, n, got}, pair->max_rms, MAX_FLIPS, &error);
    }
    test_check_rows(got, want, n, vocabulary(pair), pair->max_rms, pair->what);
    pair->n_flips += n_flips;
    if (error > pair->worst) pair->worst = error;
    return n_flips;
}

/* Where the CPU needs no flips to match the numbers and the GPU none to match the CPU, the GPU must match them too. */
static void check_numbers(const test_pair *pair, const float *got, const float *want, uint32_t n, uint32_t n_flips)
{
    size_t n_logits = (size_t)n * vocabulary(pair);
    bool same = n_flips == 0 && test_rms_error(test_logits(pair->cpu, 0), want, n_logits) <= pair->max_rms;
    if (same) test_check_rows(got, want, n, vocabulary(pair), pair->max_rms, pair->what);
    double error = test_rms_error(got, want, n_logits);
    if (!(error <= most_with_flips)) fail_msg("%s: relative rms error %g against the golden logits", pair->what, error);
}

static void check_hidden(const test_pair *pair, uint32_t n)
{
    tern_error err = {0};
    const tern_config *c = tern_engine_config(pair->cpu_engine);
    size_t size = (size_t)n * c->n_embd;
    float *got = malloc(size * sizeof *got), *want = malloc(size * sizeof *want);
    for (uint32_t i = 0; i <= c->n_layers; i++) {
        assert_ok(tern_session_hidden(pair->gpu, i, n, got, &err), err);
        assert_ok(tern_session_hidden(pair->cpu, i, n, want, &err), err);
        double error = test_rms_error(got, want, size);
        if (!(error <= pair->max_rms))
            fail_msg("%s: hidden state %u: relative rms error %g, at most %g expected", pair->what, i, error,
                     pair->max_rms);
    }
    free(got);
    free(want);
}

/* One token after the other, as text is generated. */
static void check_single(test_pair *pair, const int32_t *ids, uint32_t n)
{
    tern_error err = {0};
    size_t row = vocabulary(pair) * sizeof(float);
    uint8_t *logits = malloc(n * row);
    tern_session_truncate(pair->gpu, 0);
    for (uint32_t t = 0; t < n; t++) {
        assert_ok(tern_session_append(pair->gpu, &ids[t], 1, &err), err);
        memcpy(logits + t * row, test_logits(pair->gpu, 0), row);
    }
    test_pair_check(pair, ids, n, (const float *)(const void *)logits);
    free(logits);
}

/* In a session that keeps no hidden states, so that the device chooses the tokens. */
static void check_greedy(const test_pair *pair, const test_golden *golden)
{
    tern_session *session = test_session(pair->gpu_engine, false);
    test_golden_check_greedy(golden, session);
    tern_session_close(session);
}

void test_pair_check_golden(test_pair *pair, const char *golden_path, uint32_t n_single)
{
    tern_error err = {0};
    test_golden golden;
    test_golden_open(&golden, golden_path);
    for (uint32_t i = 0; i < golden.n_inputs; i++) {
        uint32_t n;
        const int32_t *ids = test_golden_ids(&golden, i, &n);
        const float *want = test_golden_logits(&golden, i, (size_t)n * vocabulary(pair));
        tern_session_truncate(pair->gpu, 0);
        assert_ok(tern_session_append_all(pair->gpu, ids, n, &err), err);
        const float *got = test_logits(pair->gpu, 0);
        uint32_t n_flips = test_pair_check(pair, ids, n, got);
        check_numbers(pair, got, want, n, n_flips);
        if (i == 0) check_hidden(pair, n);
        if (n_single) check_single(pair, ids, n < n_single ? n : n_single);
    }
    check_greedy(pair, &golden);
    test_golden_close(&golden);
}
