/* What a model and a session take, counted before anything is allocated: against what is allocated then, and what is
 * said where it does not fit. */
#include "support/golden.h"
#include "support/op_case.h"
#include "support/test.h"

#include "infer/engine/memory_need.h"
#include "infer/session/session.h"

enum { CONTEXT = 256, BATCH = 64 };

static uint64_t left; /* what the backend says is free */

static uint64_t memory_free(const tern_backend *b)
{
    (void)b;
    return left;
}

static uint64_t allocated;

static tern_status (*create)(tern_backend *, uint64_t, tern_buffer **, tern_error *);

static tern_status counting_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    allocated += bytes;
    return create(b, bytes, out, err);
}

static tern_session_params session_params(tern_kv_type kv)
{
    return TERN_SIZED(tern_session_params, .n_ctx = CONTEXT, .n_batch = BATCH, .max_outputs = 4, .kv = {kv, kv});
}

static void counts_what_is_allocated(void **state)
{
    (void)state;
    static const char *const models[] = {"bitnet", "llama"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        tern_error err = {0};
        tern_engine *engine = test_engine_with(test_fixture(models[m]), &(tern_engine_params){0});
        tern_backend *b = tern_engine_backend(engine);
        const tern_session_params how = session_params(TERN_KV_F16);
        tern_runner_params params;
        uint32_t steps;
        tern_memory_needs needs;
        tern_session *session;
        assert_ok(tern_session_resolve(engine, &how, &params, &steps, &err), err);
        assert_ok(tern_memory_needs_of(engine, &params, false, &needs, &err), err);
        create = b->buffer_create;
        b->buffer_create = counting_create;
        allocated = 0;
        assert_ok(tern_session_open(&session, engine, &how, &err), err);
        assert_int_equal(needs.n, 1);
        assert_true(needs.sides[0].cache > 0 && needs.sides[0].activations > 0 && needs.sides[0].weights == 0);
        assert_int_equal(needs.sides[0].total, allocated);
        tern_session_close(session);
        assert_ok(tern_memory_needs_of(engine, &params, true, &needs, &err), err);
        assert_int_equal(needs.sides[0].weights, tern_model_bytes(tern_engine_model(engine)));
        tern_engine_close(engine);
    }
}

static void assert_said(const tern_error *err, const char *words)
{
    if (!strstr(err->message, words)) fail_msg("\"%s\": \"%s\" expected", err->message, words);
}

/* A session that takes more than there is; what would fit does. */
static void says_what_would_fit(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine_with(test_fixture("llama"), &(tern_engine_params){0});
    tern_backend *b = tern_engine_backend(engine);
    tern_session_params how = session_params(TERN_KV_F32);
    tern_runner_params params;
    tern_memory_needs needs;
    tern_session *session;
    uint32_t steps;
    b->memory_free = memory_free;
    assert_ok(tern_session_resolve(engine, &how, &params, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &params, false, &needs, &err), err);
    left = needs.sides[0].total;
    assert_ok(tern_session_open(&session, engine, &how, &err), err);
    tern_session_close(session);
    left--;
    assert_int_equal(tern_session_open(&session, engine, &how, &err), TERN_OUT_OF_MEMORY);
    assert_null(session);
    assert_said(&err, "GiB are needed (weights 0.00, KV cache");
    assert_said(&err, "--kv f16 takes");
    assert_said(&err, "-c 128 takes");
    assert_said(&err, "-b 32 takes");
    assert_said(&err, "--no-memory-check tries all the same");
    how.n_ctx = CONTEXT / 2;
    assert_ok(tern_session_open(&session, engine, &how, &err), err);
    tern_session_close(session);
    left = 1;
    assert_int_equal(tern_session_open(&session, engine, &how, &err), TERN_OUT_OF_MEMORY);
    assert_said(&err, "a smaller model or type");
    left = 0; /* not known */
    assert_ok(tern_session_open(&session, engine, &how, &err), err);
    tern_session_close(session);
    tern_engine_close(engine);
}

/* With the weights, on a device that holds copies: some of the layers fit. */
static void some_layers_fit(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine_with(test_fixture("bitnet"), &(tern_engine_params){0});
    tern_backend *b = tern_engine_backend(engine);
    const tern_session_params how = session_params(TERN_KV_F16);
    tern_runner_params params;
    tern_memory_needs needs;
    uint32_t steps;
    b->memory_free = memory_free;
    b->weight_bytes = NULL; /* as in the file */
    b->info.copies_weights = true;
    assert_ok(tern_session_resolve(engine, &how, &params, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &params, true, &needs, &err), err);
    const tern_memory_need *n = &needs.sides[0];
    assert_int_equal(n->there, 0);
    left = n->total;
    assert_ok(tern_memory_check(engine, &params, true, &err), err);
    left = n->activations + n->other + (n->weights + n->cache) / 2;
    assert_int_equal(tern_memory_check(engine, &params, true, &err), TERN_OUT_OF_MEMORY);
    assert_said(&err, "--gpu-layers ");
    left = n->total;
    b->info.max_allocation = n->largest - 1;
    assert_int_equal(tern_memory_check(engine, &params, true, &err), TERN_LIMIT);
    assert_said(&err, n->largest_name);
    assert_said(&err, "the device has at most");
    tern_engine_close(engine);
}

static void the_check_can_be_left_out(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_session *session;
    tern_engine *engine = test_engine_with(test_fixture("llama"), &(tern_engine_params){.no_memory_check = true});
    tern_engine_backend(engine)->memory_free = memory_free;
    left = 1;
    assert_ok(tern_session_open(&session, engine, NULL, &err), err);
    tern_session_close(session);
    tern_engine_close(engine);
}

/* Layers, caches and weights of each side are that side's. */
static void sides_have_their_own(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine_params how = {.backend = {.split = true, .gpu_layers = 1}};
    tern_engine *engine = test_engine_with(test_fixture("bitnet"), &how);
    const uint32_t n_layers = tern_engine_config(engine)->n_layers;
    const tern_session_params session = session_params(TERN_KV_F16);
    tern_runner_params params;
    tern_memory_needs needs;
    uint32_t steps;
    assert_ok(tern_session_resolve(engine, &session, &params, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &params, true, &needs, &err), err);
    assert_int_equal(needs.n, 2);
    assert_int_equal(needs.sides[0].cache, (n_layers - 1) * needs.sides[1].cache);
    assert_true(needs.sides[0].weights > needs.sides[1].weights && needs.sides[1].weights > 0);
    assert_int_equal(needs.sides[0].weights + needs.sides[1].weights, tern_model_bytes(tern_engine_model(engine)));
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(counts_what_is_allocated), cmocka_unit_test(says_what_would_fit),
    cmocka_unit_test(some_layers_fit),          cmocka_unit_test(the_check_can_be_left_out),
    cmocka_unit_test(sides_have_their_own),
};

TEST_GROUP(memory_need, "", tests, .teardown = test_backends_close);
