/* A trainer on a device that cannot be waited for: the same bits as on one that can. */
#include "backend/cpu/cpu.h"
#include "infer/session/session.h"
#include "support/pending_backend.h"
#include "train/trainers.h"

static tern_error err;

#define AGAIN(call)                                                                                                    \
    do {                                                                                                               \
        tern_status status_;                                                                                           \
        while ((status_ = (call)) == TERN_PENDING) continue;                                                           \
        assert_ok(status_, err);                                                                                       \
    } while (0)

static void steps_again(tern_trainer *trainer, uint32_t n, double *losses)
{
    static test_batch batch;
    const tern_trainer_params *p = tern_trainer_params_of(trainer);
    for (uint32_t i = 0; i < n; i++) {
        tern_trainer_result r;
        test_batch_random(&batch, i, p->batch * p->accumulate, SEQ, N_VOCAB);
        AGAIN(tern_trainer_step(trainer, batch.rows, p->batch * p->accumulate, &r, &err));
        losses[i] = r.loss;
    }
}

static tern_trainer_params accumulated(const struct way *way)
{
    tern_trainer_params p = way_params(way);
    p.accumulate = 3;
    return p;
}

static void goes_on(void **state)
{
    (void)state;
    micro m = open_micro(64);
    test_batch batch;
    test_batch_random(&batch, 77, 5, SEQ, N_VOCAB);
    for (size_t i = 0; i < N_WAYS; i++) {
        tern_backend *device;
        double x[8], y[8], sum_x, sum_y;
        uint64_t n_labels;
        tern_trainer_params p = accumulated(&ways[i]);
        tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
        steps(a, 0, 8, x);
        assert_ok(tern_trainer_evaluate(a, batch.rows, 5, &sum_x, &n_labels, &err), err);
        assert_ok(tern_cpu_open(&device, &(tern_cpu_options){.n_threads = 1}, &err), err);
        test_make_pending(device, 5 + i);
        tern_trainer *b = test_trainer(device, m.model, &p);
        steps_again(b, 8, y);
        AGAIN(tern_trainer_evaluate(b, batch.rows, 5, &sum_y, &n_labels, &err));
        float *norm = calloc(1, 1 << 16);
        AGAIN(tern_trainer_read(b, 0, TERN_STATE_MASTER, norm, &err));
        assert_true(test_pending_count() > 20);
        assert_false(test_pending_reading());
        test_end_pending(device);
        float *want = test_trainer_floats(a, 0, TERN_STATE_MASTER);
        if (p.master == TERN_DTYPE_F32) assert_memory_equal(norm, want, 64);
        assert_memory_equal(x, y, sizeof x);
        assert_true(sum_x == sum_y);
        assert_same(a, b);
        free(norm);
        free(want);
        tern_trainer_close(a);
        tern_trainer_close(b);
        device->close(device);
    }
    close_micro(&m);
}

/* What the router chose is counted once, whatever stops in between. */
static void experts_are_counted(void **state)
{
    (void)state;
    enum { N_STEPS = 3 };
    tern_model *model;
    tern_backend *device;
    double x[N_STEPS], y[N_STEPS];
    const tern_model_options options = {.no_tokenizer = true};
    tern_trainer_params p = small_params();
    p.accumulate = 2;
    assert_ok(tern_model_open(&model, test_fixture("mixtral"), &options, &err), err);
    tern_trainer *a = test_trainer(test_backend("cpu"), model, &p);
    steps_again(a, N_STEPS, x);
    assert_ok(tern_cpu_open(&device, &(tern_cpu_options){.n_threads = 1}, &err), err);
    test_make_pending(device, 31);
    tern_trainer *b = test_trainer(device, model, &p);
    steps_again(b, N_STEPS, y);
    assert_false(test_pending_reading());
    test_end_pending(device);
    const tern_config *c = tern_model_config(model);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(tern_trainer_expert_rows(a), tern_trainer_expert_rows(b),
                        (size_t)c->n_layers * c->n_experts * sizeof(uint64_t));
    tern_trainer_close(a);
    tern_trainer_close(b);
    device->close(device);
    tern_model_close(model);
}

static void same_adapters(const tern_adapter *a, const tern_adapter *b)
{
    const uint32_t rank = tern_adapter_describe(a)->rank;
    assert_int_equal(tern_adapter_describe(b)->n_pairs, tern_adapter_describe(a)->n_pairs);
    for (int role = 0; role < TERN_ROLE_COUNT; role++) {
        const tern_adapter_pair *x = tern_adapter_find(a, (tern_role)role, 0),
                                *y = tern_adapter_find(b, (tern_role)role, 0);
        assert_int_equal(!x, !y);
        if (!x) continue;
        assert_memory_equal(x->a, y->a, (size_t)rank * x->in * sizeof *x->a);
        assert_memory_equal(x->b, y->b, (size_t)rank * x->out * sizeof *x->b);
    }
}

static void adapter_goes_on(void **state)
{
    (void)state;
    micro m = open_micro(64);
    tern_backend *device;
    tern_adapter *want, *got;
    double x[3], y[3];
    tern_trainer_params p = way_params(&ways[N_WAYS - 1]);
    p.lora.rank = 3; /* padded */
    tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
    steps(a, 0, 3, x);
    assert_ok(tern_trainer_adapter(a, &want, &err), err);
    assert_ok(tern_cpu_open(&device, &(tern_cpu_options){.n_threads = 1}, &err), err);
    test_make_pending(device, 9);
    tern_trainer *b = test_trainer(device, m.model, &p);
    steps_again(b, 3, y);
    assert_memory_equal(x, y, sizeof x);
    AGAIN(tern_trainer_adapter(b, &got, &err));
    same_adapters(want, got);
    tern_adapter_close(want);
    tern_adapter_close(got);
    while (!test_pending_reading()) { /* closed in the middle of one */
        tern_status status = tern_trainer_adapter(b, &got, &err);
        assert_true(status == TERN_PENDING || status == TERN_OK);
        if (status == TERN_OK) tern_adapter_close(got);
    }
    tern_trainer_close(a);
    tern_trainer_close(b);
    assert_false(test_pending_reading());
    test_end_pending(device);
    device->close(device);
    close_micro(&m);
}

/* A step that another call takes the place of has taught nothing, wherever it was. */
static void steps_given_up(void **state)
{
    (void)state;
    micro m = open_micro(64);
    static test_batch other;
    test_batch_random(&other, 1000, 6, SEQ, N_VOCAB);
    for (size_t way = 0; way < N_WAYS; way += N_WAYS - 1) {
        tern_trainer_params p = accumulated(&ways[way]);
        double x[4], y[4], sum;
        uint64_t n_labels;
        tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
        steps(a, 0, 4, x);
        for (uint32_t calls = 1; calls < 6; calls++) {
            tern_backend *device;
            tern_trainer_result r;
            tern_status status = TERN_PENDING;
            assert_ok(tern_cpu_open(&device, &(tern_cpu_options){.n_threads = 1}, &err), err);
            test_make_pending(device, 100 + calls);
            tern_trainer *b = test_trainer(device, m.model, &p);
            for (uint32_t i = 0; i < calls && status == TERN_PENDING; i++)
                status = tern_trainer_step(b, other.rows, 6, &r, &err);
            assert_int_equal(status, TERN_PENDING);
            AGAIN(tern_trainer_evaluate(b, other.rows, 1, &sum, &n_labels, &err));
            steps_again(b, 4, y);
            assert_memory_equal(x, y, sizeof x);
            test_end_pending(device);
            assert_same(a, b);
            tern_trainer_close(b);
            device->close(device);
        }
        tern_trainer_close(a);
    }
    close_micro(&m);
}

/* On an engine: its weights are borrowed, and its sessions stay as they were. */
static void on_an_engine(void **state)
{
    (void)state;
    micro m = open_micro(64), own = open_micro(64);
    double x[6], y[6];
    tern_engine *engine;
    tern_session *session;
    const int32_t ids[] = {1, 2, 3};
    tern_trainer_params p = way_params(&ways[N_WAYS - 1]);
    tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
    steps(a, 0, 6, x);
    assert_ok(tern_engine_open(&engine, own.model, &(tern_engine_params){.backend = {.n_threads = 1}}, &err), err);
    p.engine = engine;
    tern_trainer *b = test_trainer(tern_engine_backend(engine), tern_engine_model(engine), &p);
    assert_int_equal(tern_trainer_plan_of(b)->weights, 0);
    steps(b, 0, 6, y);
    assert_memory_equal(x, y, sizeof x);
    tern_trainer_close(b);
    assert_ok(tern_session_open(&session, engine, NULL, &err), err);
    assert_ok(tern_session_append(session, ids, 3, &err), err); /* the weights are still there */
    tern_session_close(session);
    assert_int_equal(tern_trainer_open(&b, test_backend_here(), m.model, &p, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "engine"));
    tern_engine_close(engine);
    tern_buf_deinit(&own.bytes);
    tern_trainer_close(a);
    close_micro(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(goes_on),        cmocka_unit_test(experts_are_counted), cmocka_unit_test(adapter_goes_on),
    cmocka_unit_test(steps_given_up), cmocka_unit_test(on_an_engine),
};

TEST_GROUP(trainer_calls, "", tests);
