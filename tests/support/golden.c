/* Golden files of whole models. */
#include "support/golden.h"

#include <math.h>

#include "base/file.h"
#include "format/json.h"
#include "support/flips.h"
#include "support/logits.h"
#include "support/test.h"

enum { CONTEXT = 128, MAX_FLIPS = 4, MIN_GREEDY = 8 };

void test_golden_open(test_golden *golden, const char *path)
{
    tern_error err = {0};
    assert_ok(tern_safetensors_open(&golden->file, path, &err), err);
    char name[32];
    for (golden->n_inputs = 0;; golden->n_inputs++) {
        snprintf(name, sizeof name, "%u.input_ids", golden->n_inputs);
        if (!tern_safetensors_find(golden->file, name)) break;
    }
    assert_true(golden->n_inputs > 0);
}

void test_golden_close(test_golden *golden)
{
    tern_safetensors_close(golden->file);
}

const int32_t *test_golden_ids(const test_golden *golden, uint32_t i, uint32_t *n)
{
    char name[32];
    snprintf(name, sizeof name, "%u.input_ids", i);
    const tern_st_tensor *t = tern_safetensors_find(golden->file, name);
    assert_int_equal(t->dtype, TERN_ST_I32);
    *n = (uint32_t)t->n_elements;
    return (const int32_t *)(const void *)t->data;
}

const float *test_golden_logits(const test_golden *golden, uint32_t i, size_t n)
{
    char name[32];
    snprintf(name, sizeof name, "%u.logits", i);
    const tern_st_tensor *t = tern_safetensors_find(golden->file, name);
    assert_int_equal(t->n_elements, n);
    return (const float *)(const void *)t->data;
}

double test_rms_error(const float *got, const float *want, size_t n)
{
    double mean = 0, variance = 0, error = 0;
    for (size_t i = 0; i < n; i++) mean += (double)want[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = (double)want[i] - mean, e = (double)got[i] - (double)want[i];
        variance += d * d;
        error += e * e;
    }
    return sqrt(error / variance);
}

tern_engine *test_engine_with(const char *path, const tern_engine_params *params)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    tern_engine_params how = params ? *params : (tern_engine_params){0};
    how.backend.n_threads = 1;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &how, &err), err);
    return engine;
}

tern_engine *test_engine(const char *path, const char *features)
{
    return test_engine_with(path, &(tern_engine_params){.backend.cpu_features = features});
}

tern_session *test_session(tern_engine *engine, bool keep_hidden)
{
    tern_error err = {0};
    tern_session *session;
    tern_session_params params = {.size = sizeof params,
                                  .n_ctx = CONTEXT,
                                  .max_outputs = CONTEXT,
                                  .kv = {TERN_KV_F32, TERN_KV_F32},
                                  .keep_hidden = keep_hidden};
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    return session;
}

uint32_t test_top(const float *logits, uint32_t n, float *margin)
{
    uint32_t best = 0;
    float least = INFINITY;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    for (uint32_t i = 0; i < n && margin; i++)
        if (i != best && logits[best] - logits[i] < least) least = logits[best] - logits[i];
    if (margin) *margin = least;
    return best;
}

void test_check_rows(const float *got, const float *want, uint32_t n, uint32_t n_vocab, double max_rms,
                     const char *what)
{
    double error = test_rms_error(got, want, (size_t)n * n_vocab);
    if (!(error <= max_rms)) fail_msg("%s: relative rms error %g, at most %g expected", what, error, max_rms);
    for (uint32_t t = 0; t < n; t++) {
        float margin;
        uint32_t expected = test_top(want + (size_t)t * n_vocab, n_vocab, &margin);
        if (margin > TEST_CLEAR_MARGIN) assert_int_equal(test_top(got + (size_t)t * n_vocab, n_vocab, NULL), expected);
    }
}

static void check_hidden(const test_golden *golden, tern_session *session, uint32_t n, double max_rms, const char *what)
{
    const tern_st_tensor *want = tern_safetensors_find(golden->file, "0.hidden");
    if (!want) return;
    tern_error err = {0};
    uint32_t n_states = (uint32_t)want->dims[0], dim = (uint32_t)want->dims[2];
    float *got = malloc((size_t)n * dim * sizeof *got);
    for (uint32_t i = 0; i < n_states; i++) {
        assert_ok(tern_session_hidden(session, i, n, got, &err), err);
        double error =
            test_rms_error(got, (const float *)(const void *)want->data + (size_t)i * n * dim, (size_t)n * dim);
        if (!(error <= max_rms))
            fail_msg("%s: hidden state %u: relative rms error %g, at most %g expected", what, i, error, max_rms);
    }
    free(got);
}

typedef struct chosen {
    int32_t ids[CONTEXT];
    uint32_t n;
} chosen;

static bool take(void *context, const tern_piece *piece)
{
    chosen *c = context;
    if (piece->id >= 0) c->ids[c->n++] = piece->id;
    return true;
}

/* The n tokens after the first n_prompt of `ids` are what the session generates there. */
static void check_text(tern_session *session, const int32_t *ids, uint32_t n_prompt, uint32_t n)
{
    chosen got = {.n = 0};
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = n,
                                   .ignore_eos = true,
                                   .on_piece = take,
                                   .context = &got};
    params.sampler.temperature = 0;
    tern_session_truncate(session, 0);
    assert_ok(tern_generate(session, ids, n_prompt, &params, &result, &err), err);
    assert_int_equal(got.n, n);
    for (uint32_t i = 0; i < n; i++)
        if (got.ids[i] != ids[n_prompt + i])
            fail_msg("greedy text, token %u: %d found, %d expected", n_prompt + i, got.ids[i], ids[n_prompt + i]);
}

void test_golden_check_greedy(const test_golden *golden, tern_session *session)
{
    const tern_st_tensor *ids = tern_safetensors_find(golden->file, "greedy.ids");
    const tern_st_tensor *margins = tern_safetensors_find(golden->file, "greedy.margins");
    if (!ids) return;
    const bool rounds = tern_engine_config(tern_session_engine(session))->bit_linear;
    const float *margin = (const float *)(const void *)margins->data,
                clear = rounds ? TEST_CLEAR_MARGIN : TEST_CLEAR_MARGIN_DENSE;
    const uint32_t n_made = (uint32_t)margins->n_elements, n_prompt = (uint32_t)ids->n_elements - n_made;
    uint32_t n_checked = 0;
    for (uint32_t from = 0, n; from < n_made; from += n + 1) {
        for (n = 0; from + n < n_made && margin[from + n] > clear;) n++;
        if (n) check_text(session, (const int32_t *)(const void *)ids->data, n_prompt + from, n);
        n_checked += n;
    }
    assert_true(n_checked >= MIN_GREEDY);
}

void test_golden_check(const char *path, const char *golden_path, const tern_engine_params *params, double max_rms)
{
    test_golden golden;
    test_golden_open(&golden, golden_path);
    tern_engine *engine = test_engine_with(path, params);
    tern_session *session = test_session(engine, true);
    uint32_t n_vocab = tern_engine_config(engine)->n_vocab;
    for (uint32_t i = 0; i < golden.n_inputs; i++) {
        uint32_t n;
        const int32_t *ids = test_golden_ids(&golden, i, &n);
        const float *want = test_golden_logits(&golden, i, (size_t)n * n_vocab);
        test_flips_nearest(&(test_run){session, ids, n, want}, max_rms, MAX_FLIPS, NULL);
        test_check_rows(test_logits(session, 0), want, n, n_vocab, max_rms, path);
        if (i == 0) check_hidden(&golden, session, n, max_rms, path);
    }
    test_golden_check_greedy(&golden, session);
    tern_session_close(session);
    tern_engine_close(engine);
    test_golden_close(&golden);
}

void test_golden_check_made(const char *family, const char *path)
{
    char golden[64];
    snprintf(golden, sizeof golden, "%s/golden.safetensors", family);
    test_golden_check(path ? path : test_made(family), test_made(golden), NULL, 5e-4);
}

const char *test_heldout_file(void)
{
    return test_model(test_on_shared() ? "tiny-stories-bitnet/heldout_shakespeare.txt"
                                       : "tiny-stories-bitnet/heldout.txt");
}

tern_tokens test_heldout(const tern_engine *engine)
{
    tern_error err = {0};
    tern_buf text = {0};
    tern_tokens ids = {0};
    assert_ok(tern_file_read(&text, test_heldout_file(), 1 << 20, &err), err);
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(engine));
    assert_ok(tern_tokenize(t, text.data, text.size, false, &ids, &err), err);
    tern_buf_deinit(&text);
    return ids;
}

double test_heldout_nll(void)
{
    tern_error err = {0};
    json_t *root;
    double nll;
    assert_ok(tern_json_read(&root, test_model("tiny-stories-bitnet/golden_ppl.json"), 1 << 20, &err), err);
    assert_ok(tern_json_get_f64(root, "mean_nll", &nll, &err), err);
    tern_json_free(root);
    return nll;
}
