/* One checkpoint, one text: every ternary encoding through every kernel that --kernel knows, a GPU, and the forward of
 * training choose the same tokens, which are those of PyTorch. */
#include "infer/support.h"

#include <math.h>

#include "backend/cpu/candidates/candidates.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/trainer_case.h"
#include "support/web_device.h"

/* The first tokens, from BOS on, of golden_greedy.json, which transformers made of the checkpoint below. */
static const int32_t golden[] = {2043, 593, 470, 265, 258, 696, 397, 364, 366, 592, 262,
                                 733,  46,  679, 594, 265, 537, 46,  537, 265, 392, 307};
enum { N_GOLDEN = sizeof golden / sizeof *golden, N_PROMPT = 8 };

static const char *checkpoint(void)
{
    return test_model("tiny-stories-bitnet");
}

static tern_status open_as(tern_engine **engine, const char *path, const tern_backend_options *backend, tern_error *err)
{
    tern_model *model;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){0}, err), *err);
    return tern_engine_open(engine, model, &(tern_engine_params){.backend = *backend}, err);
}

/* What follows the prompt is the golden text; closes the engine. */
static void check_text(tern_engine *engine, const char *what)
{
    seen s = {0};
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64));
    const tern_generate_params params = greedy_params(&s, N_GOLDEN - N_PROMPT);
    assert_ok(tern_generate(session, golden, N_PROMPT, &params, &result, &err), err);
    if (s.n_ids != N_GOLDEN - N_PROMPT)
        fail_msg("%s: %u tokens found, %d expected", what, s.n_ids, N_GOLDEN - N_PROMPT);
    for (uint32_t i = 0; i < s.n_ids; i++)
        if (s.ids[i] != golden[N_PROMPT + i])
            fail_msg("%s: token %u: %d found, %d expected", what, i, s.ids[i], golden[N_PROMPT + i]);
    forget(&s);
    tern_session_close(session);
    tern_engine_close(engine);
}

/* Whether there is such a kernel here: not every number between a candidate's first and last need be one, and some want
 * a CPU that has more. */
static bool check_kernel(const char *path, const char *encoding, const char *kernel)
{
    char what[64];
    tern_error err = {0};
    tern_engine *engine;
    const tern_status status = open_as(&engine, path, &(tern_backend_options){.n_threads = 2, .kernel = kernel}, &err);
    if ((status == TERN_INVALID_ARGUMENT || status == TERN_UNSUPPORTED) && strchr(kernel, ':')) return false;
    assert_ok(status, err);
    snprintf(what, sizeof what, "%s, kernel %s", encoding, kernel);
    check_text(engine, what);
    return true;
}

static void every_kernel(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "t160", "tq1_0", "tq2_0"};
    const tern_cpu__candidate *c;
    for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++) {
        const char *path = test_converted(checkpoint(), encodings[e], NULL);
        for (size_t i = 0; (c = tern_cpu__candidate_at(i)); i++) {
            char name[32];
            uint32_t n_found = 0;
            check_kernel(path, encodings[e], c->name);
            for (uint32_t n = c->min; c->parameter && e == 0 && n <= c->max && !(test_quick() && n_found == 2); n++) {
                snprintf(name, sizeof name, "%s:%u", c->name, n);
                n_found += check_kernel(path, encodings[e], name);
            }
            assert_true(!c->parameter || e || n_found > 0);
        }
    }
}

/* bf16 masters, quantised when the model is opened. */
static void masters(void **state)
{
    (void)state;
    check_kernel(checkpoint(), "masters", "dot");
    check_kernel(checkpoint(), "masters", "rsr");
}

/* -log of the probability that the trainer's forward gives token `id` after position `at` of the golden text. */
static double trained_loss(tern_trainer *trainer, uint32_t at, int32_t id)
{
    int32_t ids[64] = {0}, labels[64];
    uint32_t starts[64];
    double sum;
    uint64_t n_labels;
    tern_error err = {0};
    const uint32_t seq = tern_trainer_params_of(trainer)->seq;
    for (uint32_t i = 0; i < seq; i++) {
        labels[i] = i == at ? id : TERN_TRAIN_NO_LABEL;
        starts[i] = i < N_GOLDEN ? 0 : i;
        ids[i] = i < N_GOLDEN ? golden[i] : 0;
    }
    const tern_train_row row = {.ids = ids, .labels = labels, .starts = starts, .n_used = N_GOLDEN, .n_labels = 1};
    assert_ok(tern_trainer_evaluate(trainer, &row, 1, &sum, &n_labels, &err), err);
    assert_int_equal(n_labels, 1);
    return sum;
}

/* No token of the vocabulary can be likelier than `id`: those that have been asked for are not, and all others together
 * have less than it. The candidates are asked for in the order of the session's logits. */
static void check_likeliest(tern_trainer *trainer, uint32_t at, int32_t id, float *logits, uint32_t n_vocab)
{
    const double p = exp(-trained_loss(trainer, at, id));
    double left = 1 - p;
    logits[id] = -INFINITY;
    for (uint32_t n = 0; left >= p; n++) {
        const uint32_t other = test_top(logits, n_vocab, NULL);
        const double q = exp(-trained_loss(trainer, at, (int32_t)other));
        if (!(q < p) || n == 64)
            fail_msg("position %u: token %d has %g, token %u %g, and %g is left after %u tokens", at, id, p, other, q,
                     left, n);
        left -= q;
        logits[other] = -INFINITY;
    }
}

static void training_forward(void **state)
{
    (void)state;
    enum { SEQ = 32 };
    tern_error err = {0};
    tern_engine *engine;
    assert_ok(open_as(&engine, checkpoint(), &(tern_backend_options){.n_threads = 2}, &err), err);
    const uint32_t n_vocab = tern_engine_config(engine)->n_vocab;
    tern_trainer_params params = tern_trainer_defaults();
    params.batch = 1;
    params.seq = SEQ;
    params.n_steps = 1;
    tern_trainer *trainer = test_trainer(tern_engine_backend(engine), tern_engine_model(engine), &params);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64));
    float *logits = malloc(n_vocab * sizeof *logits);
    for (uint32_t at = 0; at + 1 < N_GOLDEN; at++) {
        assert_ok(tern_session_append(session, &golden[at], 1, &err), err);
        memcpy(logits, test_logits(session, 0), n_vocab * sizeof *logits);
        if (at + 1 >= N_PROMPT) check_likeliest(trainer, at, golden[at + 1], logits, n_vocab);
    }
    free(logits);
    tern_trainer_close(trainer);
    tern_session_close(session);
    tern_engine_close(engine);
}

static void gpu(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine;
    test_gpu_backend(); /* skips where there is none */
    const tern_backend_options options = {.name = TEST_GPU, .device = getenv("TERN_TEST_DEVICE")};
    assert_ok(open_as(&engine, test_converted(checkpoint(), "i2_s", NULL), &options, &err), err);
    test_make_waiting(tern_engine_backend(engine));
    check_text(engine, TEST_GPU);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kernel),
    cmocka_unit_test(masters),
    cmocka_unit_test(training_forward),
    cmocka_unit_test(gpu),
};

TEST_GROUP(same_text, "gpu swiftshader arm64", tests, .teardown = test_backends_close);
