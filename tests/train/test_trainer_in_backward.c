/* The optimiser in the backward: the bits of whole gradients, without having them. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "support/pending_backend.h"
#include "train/trainer/internal.h"
#include "train/trainers.h"

static tern_error err;

/* What neither has to give back is nothing to compare: gradients are the first one's. */
static void compare(const char *name, tern_model *model, tern_trainer_params p, uint32_t n_vocab, uint32_t n)
{
    static test_batch batch;
    tern_trainer *whole = test_trainer(test_backend_here(), model, &p);
    p.optimizer_in_backward = true;
    tern_trainer *brief = test_trainer(test_backend_here(), model, &p);
    for (uint32_t i = 0; i < n; i++) {
        tern_trainer_result a, b;
        test_batch_random(&batch, i, 2, SEQ, n_vocab);
        assert_ok(tern_trainer_step(whole, batch.rows, 2, &a, &err), err);
        assert_ok(tern_trainer_step(brief, batch.rows, 2, &b, &err), err);
        if (a.loss != b.loss || a.norm != b.norm || a.lr != b.lr)
            fail_msg("%s, step %u: loss %.9g and norm %.9g, %.9g and %.9g expected", name, i, b.loss, b.norm, a.loss,
                     a.norm);
    }
    assert_same(brief, whole);
    assert_true(tern_trainer_plan_of(brief)->gradients < tern_trainer_plan_of(whole)->gradients);
    tern_trainer_close(whole);
    tern_trainer_close(brief);
}

static void same_bits(void **state)
{
    (void)state;
    micro m = open_micro(32);
    for (size_t i = 0; i < N_WAYS; i++)
        for (int clip = 0; clip < 2; clip++) {
            tern_trainer_params p = way_params(&ways[i]);
            p.clip = clip ? 0.3 : 0; /* below the first norms */
            p.checkpoint = i % 2;
            compare(ways[i].name, m.model, p, N_VOCAB, test_quick() ? 3 : 8);
        }
    close_micro(&m);
}

/* Untied tables, biases, sinks, experts. */
static void other_models(void **state)
{
    (void)state;
    static const char *const fixtures[] = {"mixtral", "gpt-oss", "llama"};
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        tern_model *model = NULL;
        const tern_model_options options = {.no_tokenizer = true};
        tern_trainer_params p = small_params();
        assert_ok(tern_model_open(&model, test_fixture(fixtures[i]), &options, &err), err);
        p.clip = i == 1;
        compare(fixtures[i], model, p, 256, 3);
        tern_model_close(model);
    }
}

/* The plan has one layer's gradients, is what is asked of the backend, and they are zeros after each step. */
static void memory(void **state)
{
    (void)state;
    micro m = open_micro(32);
    for (int clip = 0; clip < 2; clip++) {
        tern_trainer_params p = small_params();
        test_counting counting;
        p.optimizer_in_backward = true;
        p.clip = clip;
        test_counting_open(&counting, test_backend_here());
        tern_trainer *trainer = test_trainer(&counting.base, m.model, &p);
        const tern_trainer_plan *plan = tern_trainer_plan_of(trainer);
        assert_int_equal(counting.buffer_bytes + counting.weight_bytes, plan->total);
        assert_int_equal(plan->gradients, tern_trainer__gradient_bytes(trainer));
        steps(trainer, 0, 2, NULL);
        uint8_t *bytes = malloc(plan->gradients), *zeros = calloc(1, plan->gradients);
        assert_ok(counting.base.buffer_read(&counting.base, trainer->graphs.gradients.buffers[0], 0, bytes,
                                            plan->gradients, &err),
                  err);
        assert_memory_equal(bytes, zeros, plan->gradients);
        free(bytes);
        free(zeros);
        tern_trainer_close(trainer);
        assert_int_equal(counting.n_live, 0);
    }
    close_micro(&m);
}

/* What is not finite is seen before anything changes where a first pass looks; else the trainer is at its end. */
static void not_finite(void **state)
{
    (void)state;
    micro m = open_micro(0);
    static test_batch batch;
    test_batch_random(&batch, 1, 2, SEQ, N_VOCAB);
    for (int clip = 0; clip < 2; clip++) {
        tern_trainer_params p = small_params();
        p.clip = clip;
        p.optimizer_in_backward = true;
        tern_trainer *a = test_trainer(test_backend_here(), m.model, &p),
                     *b = test_trainer(test_backend_here(), m.model, &p);
        tern_trainer_result r = {.loss = 7};
        const size_t norm = test_trainer_find(a, "model.norm.weight");
        float *weights = test_trainer_floats(a, norm, TERN_STATE_MASTER), broken[16];
        memcpy(broken, weights, sizeof broken);
        broken[3] = NAN;
        assert_ok(tern_trainer_write(a, norm, TERN_STATE_MASTER, broken, &err), err);
        assert_int_equal(tern_trainer_step(a, batch.rows, 2, &r, &err), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "step 0: loss"));
        assert_true(r.loss == 7 && tern_trainer_steps(a) == 0);
        if (clip) {
            assert_ok(tern_trainer_write(a, norm, TERN_STATE_MASTER, weights, &err), err);
            assert_same(a, b);
            steps(a, 0, 2, NULL);
            steps(b, 0, 2, NULL);
            assert_same(a, b);
        } else {
            assert_int_equal(tern_trainer_step(a, batch.rows, 2, &r, &err), TERN_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, "not finite"));
        }
        free(weights);
        tern_trainer_close(a);
        tern_trainer_close(b);
    }
    close_micro(&m);
}

/* Masters alone are left, for reading. */
static void finished(void **state)
{
    (void)state;
    micro m = open_micro(32);
    test_counting counting;
    test_counting_open(&counting, test_backend_here());
    tern_trainer_params p = small_params();
    tern_trainer *a = test_trainer(&counting.base, m.model, &p), *b = test_trainer(test_backend_here(), m.model, &p);
    static test_batch batch;
    double sum;
    uint64_t n_labels;
    test_batch_random(&batch, 1, 2, SEQ, N_VOCAB);
    steps(a, 0, 2, NULL);
    steps(b, 0, 2, NULL);
    assert_ok(tern_trainer_finish(a, &err), err);
    assert_int_equal(counting.n_live, tern_trainer_n_tensors(a)); /* a buffer each */
    for (size_t i = 0; i < tern_trainer_n_tensors(a); i++) {
        size_t n, n_want;
        uint8_t *got = test_trainer_bytes(a, i, TERN_STATE_MASTER, &n),
                *want = test_trainer_bytes(b, i, TERN_STATE_MASTER, &n_want);
        assert_int_equal(n, n_want);
        assert_memory_equal(got, want, n);
        free(got);
        free(want);
    }
    assert_int_equal(tern_trainer_evaluate(a, batch.rows, 2, &sum, &n_labels, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "finished"));
    tern_trainer_close(a);
    tern_trainer_close(b);
    assert_int_equal(counting.n_live, 0);
    close_micro(&m);
}

static void refused(void **state)
{
    (void)state;
    micro m = open_micro(0);
    static test_batch batch;
    double loss;
    tern_trainer *trainer = NULL;
    tern_trainer_params p = small_params();
    p.optimizer_in_backward = true;
    p.accumulate = 2;
    assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), m.model, &p, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "accumulate 2"));
    p.accumulate = 1;
    trainer = test_trainer(test_backend_here(), m.model, &p);
    test_batch_random(&batch, 1, 2, SEQ, N_VOCAB);
    assert_int_equal(tern_trainer_backward(trainer, batch.rows, 2, &loss, &err), TERN_UNSUPPORTED);
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* On a device that cannot be waited for; a step that is given up has been taken whole, or not at all. */
static void goes_on(void **state)
{
    (void)state;
    micro m = open_micro(32);
    static test_batch batch;
    for (uint32_t calls = 0; calls < 6; calls++) {
        tern_backend *device;
        tern_trainer_params p = way_params(&ways[calls % 2 ? 4 : 0]); /* one of them blends */
        tern_trainer_result r;
        double sum;
        uint64_t n_labels;
        p.clip = calls < 3 ? 1 : 0;
        tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
        assert_ok(tern_cpu_open(&device, &(tern_cpu_options){.n_threads = 1}, &err), err);
        test_make_pending(device, 50 + calls);
        p.optimizer_in_backward = true;
        tern_trainer *b = test_trainer(device, m.model, &p);
        for (uint32_t i = 0; i < 8; i++) {
            const uint64_t before = tern_trainer_steps(b);
            tern_status status = TERN_PENDING;
            test_batch_random(&batch, i, 2, SEQ, N_VOCAB);
            for (uint32_t k = 0; k <= calls % 3 + i % 2 && status == TERN_PENDING; k++)
                status = tern_trainer_step(b, batch.rows, 2, &r, &err);
            while (i != 2 && status == TERN_PENDING) status = tern_trainer_step(b, batch.rows, 2, &r, &err);
            while ((status = tern_trainer_evaluate(b, batch.rows, 1, &sum, &n_labels, &err)) == TERN_PENDING) continue;
            assert_ok(status, err);
            if (tern_trainer_steps(b) != before) steps(a, i, 1, NULL);
            assert_int_equal(tern_trainer_steps(b), tern_trainer_steps(a));
        }
        test_end_pending(device);
        assert_same(b, a);
        tern_trainer_close(a);
        tern_trainer_close(b);
        device->close(device);
    }
    close_micro(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_bits),
    cmocka_unit_test(memory),
    cmocka_unit_test(not_finite),
};
static const struct CMUnitTest tests_cpu[] = {
    cmocka_unit_test(other_models),
    cmocka_unit_test(refused),
    cmocka_unit_test(finished),
    cmocka_unit_test(goes_on),
};

TEST_GROUP(trainer_in_backward, "backends long", tests);
TEST_GROUP(trainer_in_backward_cpu, "", tests_cpu);
