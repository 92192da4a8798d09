/* What a saved session knows of its model: every hyperparameter that keys and values depend on (model/hyper.h). */
#include "infer/session_cases.h"
#include "infer/session_internal.h"
#include "model/hyper.h"

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

static const struct CMUnitTest tests[] = {cmocka_unit_test(knows_hyperparameters)};

TEST_GROUP(fingerprint, "", tests, .setup = session_setup, .teardown = session_teardown);
