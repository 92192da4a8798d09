/* Fine-tuning on a text in memory: the losses and the adapter of `tern finetune --lora`, bit for bit, also on a device
 * that cannot be waited for. */
#include <math.h>

#include "base/alloc.h"
#include "infer/engine/lora.h"
#include "infer/session/session.h"
#include "support/pending_backend.h"
#include "support/places.h"
#include "tern.h"
#include "train/support.h"
#include "train/tuning.h"

enum { STEPS = 6, MOST_STEPS = 64, SEQ = 32, BATCH = 2, RANK = 4 };

static const char model_path[] = TERN_SOURCE_DIR "/models/stories.gguf",
                  text_path[] = TERN_SOURCE_DIR "/examples/finetune/logbook.txt";

static tern_error err;

static tern_engine *open_engine(void)
{
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, model_path, NULL, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){.backend = {.n_threads = 2}}, &err), err);
    return engine;
}

/* n bytes of it; 0: all. */
static tern_buf open_text(size_t n)
{
    tern_buf text = {0};
    assert_ok(tern_file_read(&text, text_path, 1 << 20, &err), err);
    assert_true(text.size > n);
    if (n) text.size = n;
    return text;
}

typedef struct losses {
    double loss[MOST_STEPS], norm[MOST_STEPS], validation[MOST_STEPS];
    uint32_t n, n_validations;
} losses;

static void note(void *context, const tern_finetune_event *e)
{
    losses *l = context;
    if (e->kind == TERN_FINETUNE_STEP) {
        l->loss[l->n] = e->loss;
        l->norm[l->n++] = e->norm;
    }
    if (e->kind == TERN_FINETUNE_EVALUATED && e->step) l->validation[l->n_validations++] = e->loss;
}

/* With files. */
static void finetune(size_t n_text, losses *out, tern_buf *adapter)
{
    tern_buf text = open_text(n_text);
    char data[512], output[512];
    snprintf(data, sizeof data, "%s", put_file("tuning.txt", text.data, text.size));
    snprintf(output, sizeof output, "%s", test_scratch("tuning.gguf"));
    const char *const inputs[] = {data};
    tern_finetune_options o = {.size = sizeof o};
    tern_finetune_defaults(&o, NULL);
    o.model = model_path;
    o.data = inputs;
    o.n_data = 1;
    o.output = output;
    o.overwrite = true;
    o.lora_rank = RANK;
    o.steps = STEPS;
    o.batch = BATCH;
    o.seq = SEQ;
    o.seed = 3;
    o.cpu.n_threads = 1;
    o.on_event = note;
    o.context = out;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    assert_ok(tern_file_read(adapter, output, 1 << 26, &err), err);
    tern_buf_deinit(&text);
}

static tern_tuning_params small(void)
{
    return (tern_tuning_params){.rank = RANK, .steps = STEPS, .batch = BATCH, .seq = SEQ, .seed = 3};
}

static tern_tuning *open_tuning(tern_engine *engine, size_t n_text, const tern_tuning_params *params)
{
    tern_tuning *tuning;
    tern_buf text = open_text(n_text);
    assert_ok(tern_tuning_open(&tuning, engine, text.data, text.size, params, &err), err);
    tern_buf_deinit(&text);
    return tuning;
}

static void tune(tern_tuning *tuning, losses *out, tern_buf *adapter)
{
    tern_tuning_result r;
    tern_status status;
    const uint64_t n = tern_tuning_n_steps(tuning);
    for (uint64_t i = 0; i < n; i++) {
        while ((status = tern_tuning_step(tuning, &r, &err)) == TERN_PENDING) continue;
        assert_ok(status, err);
        assert_int_equal(r.step, i + 1);
        assert_int_equal(r.n_steps, n);
        assert_true(r.seconds >= 0 && r.n_positions > 0);
        out->loss[out->n] = r.loss;
        out->norm[out->n++] = r.norm;
        if (!isnan(r.validation)) out->validation[out->n_validations++] = r.validation;
    }
    assert_int_equal(tern_tuning_step(tuning, &r, &err), TERN_INVALID_ARGUMENT); /* none is left */
    while ((status = tern_tuning_adapter(tuning, adapter, &err)) == TERN_PENDING) continue;
    assert_ok(status, err);
}

static void assert_same_losses(const losses *a, const losses *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->n_validations, b->n_validations);
    assert_memory_equal(a->loss, b->loss, a->n * sizeof *a->loss);
    assert_memory_equal(a->norm, b->norm, a->n * sizeof *a->norm);
    assert_memory_equal(a->validation, b->validation, a->n_validations * sizeof *a->validation);
}

/* Without rows held out, of which few texts have enough, the adapter of the last step is the result there too. */
static void as_with_files(void **state)
{
    (void)state;
    tern_engine *engine = open_engine();
    for (int all = 0; all < 2; all++) {
        const size_t n_text = all ? 0 : 600;
        losses want = {.n = 0}, got = {.n = 0};
        tern_buf want_adapter = {0}, adapter = {0};
        const tern_tuning_params params = small();
        finetune(n_text, &want, &want_adapter);
        tern_tuning *tuning = open_tuning(engine, n_text, &params);
        tune(tuning, &got, &adapter);
        tern_tuning_close(tuning);
        assert_int_equal(want.n, STEPS);
        assert_int_equal(want.n_validations, all ? STEPS : 0);
        assert_same_losses(&got, &want);
        if (!all) {
            assert_int_equal(adapter.size, want_adapter.size);
            assert_memory_equal(adapter.data, want_adapter.data, adapter.size);
        }
        tern_buf_deinit(&adapter);
        tern_buf_deinit(&want_adapter);
    }
    tern_engine_close(engine);
}

static void goes_on(void **state)
{
    (void)state;
    tern_engine *engine = open_engine();
    losses want = {.n = 0}, got = {.n = 0};
    tern_buf want_adapter = {0}, adapter = {0};
    const tern_tuning_params params = small();
    tern_tuning *tuning = open_tuning(engine, 0, &params);
    tune(tuning, &want, &want_adapter);
    tern_tuning_close(tuning);
    test_make_pending(tern_engine_backend(engine), 11);
    tuning = open_tuning(engine, 0, &params);
    tune(tuning, &got, &adapter);
    assert_true(test_pending_count() > STEPS);
    assert_same_losses(&got, &want);
    assert_int_equal(adapter.size, want_adapter.size);
    assert_memory_equal(adapter.data, want_adapter.data, adapter.size);
    tern_tuning_close(tuning);
    tuning = open_tuning(engine, 0, &params); /* closed in the middle of a read */
    tern_tuning_result r;
    while (!test_pending_reading()) tern_tuning_step(tuning, &r, &err);
    tern_tuning_close(tuning);
    assert_false(test_pending_reading());
    test_end_pending(tern_engine_backend(engine));
    tern_buf_deinit(&adapter);
    tern_buf_deinit(&want_adapter);
    tern_engine_close(engine);
}

static tern_tokens answer(tern_engine *engine, const tern_lora *lora)
{
    enum { LENGTH = 40 };
    tern_session *session;
    tern_tokens ids = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_generate_params params = {.size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = LENGTH};
    const tern_lora_use use = {.lora = lora, .scale = 1};
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(engine));
    params.sampler.temperature = 0;
    assert_ok(tern_tokens_add(&ids, tern_tokenizer_bos(t), &err), err);
    assert_ok(tern_tokenize(t, "The lamp", 8, false, &ids, &err), err);
    assert_ok(tern_session_open(&session, engine,
                                &TERN_SIZED(tern_session_params, .n_ctx = 64, .loras = &use, .n_loras = lora != NULL),
                                &err),
              err);
    assert_ok(tern_generate(session, ids.ids, (uint32_t)ids.n, &params, &result, &err), err);
    ids.n = 0;
    for (uint32_t i = 0; i < tern_session_n_tokens(session); i++)
        assert_ok(tern_tokens_add(&ids, tern_session_tokens(session)[i], &err), err);
    tern_session_close(session);
    return ids;
}

/* It learns; and what was learned, loaded from those bytes, makes the model say something else. */
static void learns(void **state)
{
    (void)state;
    tern_engine *engine = open_engine();
    tern_lora *lora;
    losses got = {.n = 0};
    tern_buf adapter = {0};
    tern_tuning_params params = {.steps = test_quick() ? 10 : 40, .seq = SEQ};
    tern_tokens before = answer(engine, NULL);
    tern_tuning *tuning = open_tuning(engine, 0, &params);
    tune(tuning, &got, &adapter);
    tern_tuning_close(tuning);
    const double first = got.validation[0], last = got.validation[got.n_validations - 1];
    print_message("validation loss %.3f to %.3f\n", first, last);
    assert_true(last < 0.9 * first);
    const tern_lora_file file = {.name = "adapter.gguf", .data = adapter.data, .bytes = adapter.size};
    assert_ok(tern_lora_load_memory(&lora, engine, &file, 1, &err), err);
    tern_tokens after = answer(engine, lora), plain = answer(engine, NULL);
    assert_true(plain.n == before.n && memcmp(plain.ids, before.ids, before.n * sizeof *before.ids) == 0);
    assert_false(after.n == before.n && memcmp(after.ids, before.ids, before.n * sizeof *before.ids) == 0);
    tern_lora_close(lora);
    tern_tokens_deinit(&before);
    tern_tokens_deinit(&after);
    tern_tokens_deinit(&plain);
    tern_buf_deinit(&adapter);
    tern_engine_close(engine);
}

static void refused(void **state)
{
    (void)state;
    tern_engine *engine = open_engine();
    const struct {
        tern_tuning_params params;
        const char *text, *message;
    } cases[] = {
        {{0}, "", "no document"},
        {{.seq = 100000}, "some text", "100000"},
        {{.lr = -1}, "some text", "learning rate -1"},
        {{.lr = NAN}, "some text", "learning rate"},
        {{.rank = 100000}, "some text", "rank"},
        {{.alpha = INFINITY}, "some text", "alpha"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_tuning *tuning = (tern_tuning *)&err;
        int64_t live = tern_alloc_live();
        assert_int_equal(
            tern_tuning_open(&tuning, engine, cases[i].text, strlen(cases[i].text), &cases[i].params, &err),
            TERN_INVALID_ARGUMENT);
        if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s expected", err.message, cases[i].message);
        assert_null(tuning);
        assert_int_equal(tern_alloc_live(), live);
    }
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(as_with_files), cmocka_unit_test(goes_on),
                                          cmocka_unit_test(learns), cmocka_unit_test(refused)};

TEST_GROUP(tuning, "slow", tests);
