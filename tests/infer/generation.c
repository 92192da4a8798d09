/* Generation step by step on a device that cannot be waited for. */
#include "infer/generation.h"

#include "support/op_case.h"
#include "support/pending_backend.h"
#include "support/stepping.h"

int generation_open(void **state)
{
    static generation_fixture f;
    f = (generation_fixture){.engine = open_trained_here(), .slow = test_on_gpu()};
    *state = &f;
    return 0;
}

int generation_open_stepping(void **state)
{
    generation_open(state);
    test_make_stepping(generation_backend(*state));
    return 0;
}

int generation_close(void **state)
{
    tern_engine_close(((generation_fixture *)*state)->engine);
    return 0;
}

tern_backend *generation_backend(const generation_fixture *f)
{
    return tern_engine_backend(f->engine);
}

tern_session *generation_session(const generation_fixture *f, uint32_t n_ctx)
{
    return open_session(f->engine, (tern_session_params){.size = sizeof(tern_session_params),
                                                         .n_ctx = n_ctx,
                                                         .n_batch = GENERATION_BATCH,
                                                         .max_outputs = 5,
                                                         .kv = {TERN_KV_F32, TERN_KV_F32},
                                                         .steps = 4});
}

static uint32_t generation_length(const generation_fixture *f)
{
    return f->slow ? 10 : 24;
}

tern_generate_params generation_params(const generation_fixture *f)
{
    return (tern_generate_params){.size = sizeof(tern_generate_params),
                                  .sampler = TERN_SAMPLER_DEFAULTS,
                                  .max_tokens = generation_length(f),
                                  .draft_costs = equal_costs};
}

static void keep_tokens(generated *out, const tern_session *session)
{
    out->n_tokens = tern_session_n_tokens(session);
    memcpy(out->tokens, tern_session_tokens(session), out->n_tokens * sizeof *out->tokens);
}

tern_status run_steps(tern_generation *g, uint32_t most, bool *done, tern_error *err)
{
    tern_status status = TERN_OK;
    *done = false;
    for (uint32_t i = 0; i < most && !*done && (status == TERN_OK || status == TERN_PENDING); i++)
        status = tern_generation_step(g, done, err);
    return status;
}

tern_generation *open_generation(tern_session *session, const char *prompt, const tern_generate_params *params)
{
    tern_error err = {0};
    tern_generation *g;
    tern_tokens ids = {0};
    if (prompt) ids = ids_of(tern_session_engine(session), prompt);
    assert_ok(tern_generation_open(&g, session, ids.ids, (uint32_t)ids.n, params, &err), err);
    if (ids.ids) memset(ids.ids, 0xff, ids.n * sizeof *ids.ids); /* it is copied */
    tern_tokens_deinit(&ids);
    return g;
}

void by_steps(tern_session *session, const char *prompt, tern_generate_params params, generated *out)
{
    tern_error err = {0};
    bool done;
    params.on_piece = see;
    params.context = &out->seen;
    tern_generation *g = open_generation(session, prompt, &params);
    assert_ok(run_steps(g, UINT32_MAX, &done, &err), err);
    assert_true(done);
    assert_ok(tern_generation_step(g, &done, &err), err); /* changes nothing */
    assert_true(done);
    out->result.size = sizeof out->result;
    assert_ok(tern_generation_describe(g, &out->result, &err), err);
    tern_generation_close(g);
    assert_false(test_pending_reading());
    keep_tokens(out, session);
}

void at_once(tern_session *session, const char *prompt, tern_generate_params params, generated *out)
{
    params.on_piece = see;
    params.context = &out->seen;
    out->result = generate(session, prompt, &params);
    keep_tokens(out, session);
}

void assert_same_generated(const generated *a, const generated *b)
{
    assert_int_equal(a->seen.n_ids, b->seen.n_ids);
    assert_memory_equal(a->seen.ids, b->seen.ids, a->seen.n_ids * sizeof *a->seen.ids);
    assert_int_equal(a->seen.text.size, b->seen.text.size);
    assert_memory_equal(a->seen.text.data, b->seen.text.data, a->seen.text.size);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    assert_int_equal(a->result.reason, b->result.reason);
    assert_int_equal(a->result.n_prompt, b->result.n_prompt);
    assert_int_equal(a->result.n_generated, b->result.n_generated);
    assert_int_equal(a->result.n_drafted, b->result.n_drafted);
    assert_int_equal(a->result.n_accepted, b->result.n_accepted);
    assert_int_equal(a->result.steps, b->result.steps);
    assert_int_equal(a->result.weight_bytes, b->result.weight_bytes);
}
