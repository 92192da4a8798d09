/* Generation in steps, where the device chooses the tokens of a run. */
#include "infer/steps.h"

#include "support/op_case.h"
#include "support/stepping.h"

int steps_open(void **state)
{
    static steps_fixture f;
    f = (steps_fixture){.engine = open_trained_here(), .slow = test_on_gpu()};
    f.reference.size = sizeof f.reference;
    if (f.slow) f.reference.steps = 1;
    else f.reference.host_sampling = true;
    if (!f.slow) test_make_stepping(tern_engine_backend(f.engine));
    *state = &f;
    return 0;
}

int steps_close(void **state)
{
    tern_engine_close(((steps_fixture *)*state)->engine);
    return 0;
}

tern_session *steps_session(const steps_fixture *f, uint32_t n_ctx, uint32_t steps)
{
    return open_session(f->engine, TERN_SIZED(tern_session_params, .n_ctx = n_ctx, .kv = {TERN_KV_F32, TERN_KV_F32},
                                              .steps = steps, .n_batch = 64));
}

tern_session *steps_reference(const steps_fixture *f, uint32_t n_ctx)
{
    tern_session_params params = f->reference;
    params.n_ctx = n_ctx;
    params.kv = (tern_kv_types){TERN_KV_F32, TERN_KV_F32};
    params.n_batch = 64;
    return open_session(f->engine, params);
}
