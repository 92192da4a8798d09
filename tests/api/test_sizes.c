/* The structs of the public API in other sizes than this library's: what a program of an earlier or a later version
 * passes. */
#include <stddef.h>

#include "api/support.h"

static tern_error err;

static void with_smaller_options(void **state)
{
    (void)state;
    tern_engine *engine;
    /* the first version had no more: what lies behind is not the struct's */
    tern_engine_options o = {.size = offsetof(tern_engine_options, head), .cpu.n_threads = 1, .head = "no encoding"};
    assert_ok(tern_engine_load(&engine, BUNDLED, &o, &err), err);
    tern_engine_close(engine);
    o.size = sizeof o;
    assert_int_equal(tern_engine_load(&engine, BUNDLED, &o, &err), TERN_INVALID_ARGUMENT);
}

static void with_larger_options(void **state)
{
    (void)state;
    tern_engine *engine;
    struct {
        tern_engine_options known;
        uint64_t later[3];
    } o = {.known = {.size = sizeof o, .cpu.n_threads = 1}};
    assert_ok(tern_engine_load(&engine, BUNDLED, &o.known, &err), err);
    tern_engine_close(engine);
    o.later[2] = 1;
    assert_int_equal(tern_engine_load(&engine, BUNDLED, &o.known, &err), TERN_INVALID_ARGUMENT);
    assert_null(engine);
    assert_non_null(strstr(err.message, "options: a member is set that this library does not know"));
}

static void without_a_size(void **state)
{
    tern_engine *engine;
    tern_session *session = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 16)), *other;
    tern_batch *batch;
    const tern_generate_params params = {.sampler = TERN_SAMPLER_DEFAULTS};
    tern_generate_result result = {.size = sizeof result};
    const char *path = test_scratch("sizes.gguf");
    const int32_t ids[] = {1, 2, 3};
#define assert_no_size(call)                                                                                           \
    do {                                                                                                               \
        assert_int_equal(call, TERN_INVALID_ARGUMENT);                                                                 \
        assert_non_null(strstr(err.message, "its size is 0"));                                                         \
    } while (0)
    assert_no_size(tern_engine_load(&engine, BUNDLED, &(tern_engine_options){.cpu.n_threads = 1}, &err));
    assert_no_size(
        tern_engine_load(&engine, BUNDLED,
                         &TERN_SIZED(tern_engine_options, .memory.session = &(tern_session_params){.n_ctx = 8}), &err));
    assert_no_size(tern_engine_describe(*state, &(tern_engine_info){0}, &err));
    assert_no_size(tern_engine_count(*state, &(tern_engine_counters){0}, &err));
    assert_no_size(tern_session_open(&other, *state, &(tern_session_params){.n_ctx = 8}, &err));
    assert_no_size(tern_batch_open(&batch, *state, &(tern_batch_params){.n_ctx = 8}, &err));
    assert_no_size(tern_generate(session, ids, 3, &params, &result, &err));
    result.size = 0;
    assert_no_size(tern_generate(session, ids, 3, &TERN_SIZED(tern_generate_params, .max_tokens = 1), &result, &err));
    assert_no_size(tern_perplexity(session, ids, 3, &(tern_perplexity_params){.window = 2},
                                   &TERN_SIZED(tern_perplexity_result, .ppl = 0), &err));
    assert_no_size(tern_perplexity(session, ids, 3, NULL, &(tern_perplexity_result){.ppl = 0}, &err));
    assert_no_size(tern_convert(BUNDLED, path, &(tern_convert_options){.overwrite = true}, NULL, &err));
    assert_no_size(tern_convert(BUNDLED, path, NULL, &(tern_convert_result){.n_own = 0}, &err));
    assert_no_size(tern_finetune(&(tern_finetune_options){.model = BUNDLED}, NULL, &err));
    assert_ok(tern_batch_open(&batch, *state, &TERN_SIZED(tern_batch_params, .n_ctx = 16), &err), err);
    tern_request *request;
    assert_no_size(tern_batch_submit(batch, &(tern_request_params){.prompt = ids, .n_prompt = 3}, &request, &err));
    assert_no_size(tern_batch_count(batch, &(tern_batch_counters){0}, &err));
    tern_batch_close(batch);
    tern_session_close(session);
}

/* Of a struct of `size` bytes that has room for `known`, how much was written: up to its size, and no canary. */
static void counters_in_any_size(void **state)
{
    tern_engine_counters all = {.size = sizeof all};
    unsigned char room[sizeof all + 64];
    assert_ok(tern_engine_count(*state, &all, &err), err);
    for (size_t size = sizeof(size_t); size <= sizeof room; size += sizeof(uint64_t)) {
        memset(room, 0x5a, sizeof room);
        memcpy(room, &size, sizeof size);
        assert_ok(tern_engine_count(*state, (tern_engine_counters *)(void *)room, &err), err);
        const size_t known = size < sizeof all ? size : sizeof all;
        assert_memory_equal(room + sizeof size, (const unsigned char *)&all + sizeof size, known - sizeof size);
        for (size_t i = known; i < sizeof room; i++) assert_int_equal(room[i], i < size ? 0 : 0x5a);
    }
}

static void samplers_have_room_that_is_zero(void **state)
{
    tern_session *session = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 16));
    tern_generate_params params = {.size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 1};
    tern_generate_result result = {.size = sizeof result};
    params.sampler.reserved[6] = 1;
    assert_int_equal(tern_generate(session, (int32_t[]){1}, 1, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sampler: a member is set that this library does not know"));
    tern_session_close(session);
}

static int setup(void **state)
{
    *state = load(BUNDLED, NULL);
    return 0;
}

static int teardown(void **state)
{
    tern_engine_close(*state);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(with_smaller_options),
    cmocka_unit_test(with_larger_options),
    cmocka_unit_test(without_a_size),
    cmocka_unit_test(counters_in_any_size),
    cmocka_unit_test(samplers_have_room_that_is_zero),
};

TEST_GROUP(sizes, "", tests, .setup = setup, .teardown = teardown);
