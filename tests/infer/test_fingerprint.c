/* What a saved session knows of its model: every hyperparameter that keys and values depend on (model/hyper.h). */
#include "infer/loading.h"
#include "infer/session/internal.h"
#include "infer/session_cases.h"
#include "model/hyper.h"
#include "support/converted.h"

/* The configuration, which only this test writes to. */
static void put(tern_config *c, const tern_hyper *h, double value)
{
    void *at = (char *)c + h->at;
    switch (h->kind) {
    case TERN_HYPER_U32: *(uint32_t *)at = (uint32_t)value; break;
    case TERN_HYPER_F32: *(float *)at = (float)value; break;
    case TERN_HYPER_BOOL: *(bool *)at = value != 0; break;
    case TERN_HYPER_ACTIVATION: *(tern_activation *)at = (tern_activation)value; break;
    }
}

static void knows_hyperparameters(void **state)
{
    (void)state;
    tern_config *c = (tern_config *)(uintptr_t)tern_engine_config(session_engine), before = *c;
    size_t n = 0;
    c->window = 8; /* so that what belongs to windows and to experts counts */
    c->n_experts = 4;
    const uint64_t same = tern_session__fingerprint(&session_session->runner);
    for (size_t i = 0; tern_hyper_at(i); i++) {
        const tern_hyper *h = tern_hyper_at(i);
        const double value = tern_hyper_value(h, c);
        assert_true(strlen(h->name) > 0);
        put(c, h, value > 0 ? value - 1 : 1);
        assert_true(tern_hyper_value(h, c) != value);
        const bool differs = tern_session__fingerprint(&session_session->runner) != same;
        put(c, h, value);
        if (h->cached && !differs) fail_msg("%s is not in the fingerprint", h->name);
        n += h->cached;
    }
    assert_true(n > 25 && same == tern_session__fingerprint(&session_session->runner));
    *c = before;
}

static const tern_engine_params cpu = {.backend = {.name = "cpu", .n_threads = 1}};

/* Dense layers whose inputs a file says to be int8, and the same layers where it does not; ternary ones as well. */
static void knows_inputs(void **state)
{
    (void)state;
    for (int dense = 0; dense < 2; dense++) {
        tern_engine *engine = map_file(test_converted(test_fixture("bitnet"), dense ? "f32" : "tq2_0", NULL), &cpu);
        tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = CTX));
        tern_config *c = (tern_config *)(uintptr_t)tern_engine_config(engine);
        const uint64_t same = tern_session__fingerprint(&session->runner);
        c->bit_linear = !c->bit_linear;
        assert_true(tern_session__fingerprint(&session->runner) != same);
        c->bit_linear = !c->bit_linear;
        assert_true(tern_session__fingerprint(&session->runner) == same);
        tern_session_close(session);
        tern_engine_close(engine);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(knows_hyperparameters), cmocka_unit_test(knows_inputs)};

TEST_GROUP(fingerprint, "", tests, .setup = session_setup, .teardown = session_teardown);
