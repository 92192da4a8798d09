/* Dispatches that wait for each other on counters (vulkan/order.h): the same bits as with barriers, the trial that a
 * device must pass, and what happens when nobody comes. */
#include "backend/gpu/measure/measure.h"
#include "backend/vulkan/device.h"
#include "backend/vulkan/vulkan.h"
#include "support/command.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"

static tern_error err;

static tern_backend *open_own(tern_vulkan_waits waits, const tern_gpu_caps *limits)
{
    test_gpu_backend(); /* or skipped */
    if (getenv("TERN_TEST_SIMULATE")) test_skip("the device is simulated");
    const tern_vulkan_options options = {.device = getenv("TERN_TEST_DEVICE"),
                                         .cache_dir = "",
                                         .n_threads = 1,
                                         .validation = getenv("TERN_TEST_VALIDATION") != NULL,
                                         .waits = waits,
                                         .limits = limits};
    tern_backend *b = NULL;
    assert_ok(tern_vulkan_open(&b, &options, &err), err);
    return b;
}

/* What waits is what does not, and one binding more. */
static void twins(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++) {
        const tern_gpu_pipeline twin = tern_gpu_waiting(p);
        if (twin == TERN_GPU_PIPELINE_COUNT) continue;
        const tern_gpu_pipeline_info *a = &tern_gpu_pipelines[p], *b = &tern_gpu_pipelines[twin];
        assert_string_equal(a->file, b->file);
        assert_string_equal(a->overrides, b->overrides);
        assert_int_equal(strncmp(a->signature, b->signature, a->n_bindings), 0);
        assert_int_equal(b->n_bindings, a->n_bindings + 1);
        assert_int_equal(b->needs, a->needs | TERN_GPU_NEEDS_WAITS);
        assert_int_equal(tern_gpu_waiting(twin), TERN_GPU_PIPELINE_COUNT);
        n++;
    }
    assert_true(n >= 18);
}

static void VKAPI_PTR does_nothing(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    (void)commands, (void)x, (void)y, (void)z;
}

static void the_trial(void **state)
{
    (void)state;
    tern_backend *b = open_own(TERN_VULKAN_WAITS_ON, NULL);
    tern_vulkan *vk = tern_vulkan__self(b);
    assert_true(vk->waits);
    assert_ok(tern_vulkan_try_waits(b, &err), err);
    vk->fn.CmdDispatch = does_nothing;
    assert_int_equal(tern_vulkan_try_waits(b, &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, "128 of 128 numbers are wrong") && !strstr(err.message, "16384 of 16384"))
        fail_msg("%s", err.message);
    vk->caps.waits = false;
    assert_int_equal(tern_vulkan_try_waits(b, &err), TERN_UNSUPPORTED);
    b->close(b);
    b = open_own(TERN_VULKAN_WAITS_OFF, NULL);
    assert_false(tern_vulkan__self(b)->waits);
    b->close(b);
    /* the least of all */
    const tern_gpu_caps limits = {.workgroup_bytes = 16384,
                                  .workgroup_invocations = 128,
                                  .max_groups = 65535,
                                  .max_binding = 128 << 20,
                                  .waits = true};
    b = open_own(TERN_VULKAN_WAITS_ON, &limits);
    assert_true(tern_vulkan__self(b)->waits);
    b->close(b);
}

static void the_command_says_so(void **state)
{
    (void)state;
    test_gpu_backend();
    if (getenv("TERN_TEST_SIMULATE")) test_skip("the device is simulated");
    json_t *o = test_tern_json(TERN_WORDS("devices", "--measure", "--json"));
    const json_t *devices = json_object_get(json_object_get(o, "vulkan"), "devices"), *d;
    size_t i, n = 0;
    json_array_foreach(devices, i, d)
    {
        if (!json_object_get(d, "read_bandwidth")) continue;
        assert_true(json_is_true(json_object_get(d, "waits")) == !json_object_get(d, "waits_problem"));
        n++;
    }
    assert_true(n > 0);
    json_decref(o);
}

/* The variable counts where the program says nothing. */
static void the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        tern_vulkan_waits said, wanted;
    } cases[] = {{"0", TERN_VULKAN_WAITS_DEFAULT, TERN_VULKAN_WAITS_OFF},
                 {"1", TERN_VULKAN_WAITS_DEFAULT, TERN_VULKAN_WAITS_ON},
                 {"", TERN_VULKAN_WAITS_DEFAULT, TERN_VULKAN_WAITS_DEFAULT},
                 {"0", TERN_VULKAN_WAITS_ON, TERN_VULKAN_WAITS_ON},
                 {"1", TERN_VULKAN_WAITS_OFF, TERN_VULKAN_WAITS_OFF}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_vulkan_options options = {.waits = cases[i].said};
        setenv("TERN_VULKAN_WAITS", cases[i].value, 1);
        tern_vulkan__environment(&options);
        unsetenv("TERN_VULKAN_WAITS");
        assert_int_equal(options.waits, cases[i].wanted);
    }
}

enum { N_PROMPT = 10, N_SINGLE = 5, ROOM = 8192 };

typedef struct steps {
    float logits[N_SINGLE][ROOM];
    uint64_t barriers, layer_barriers, layer_dispatches; /* of the single tokens */
    uint32_t n_vocab, n_layers;
} steps;

/* Single tokens after a prompt. */
static void decode(steps *out, bool waits, tern_kv_type kv)
{
    static const int32_t ids[N_PROMPT + N_SINGLE] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 3, 99, 7, 41, 5};
    setenv("TERN_VULKAN_WAITS", waits ? "1" : "0", 1);
    tern_engine *engine = test_gpu_engine(test_fixture("bitnet"), test_all_layers, NULL);
    unsetenv("TERN_VULKAN_WAITS");
    tern_backend *b = tern_engine_backend(engine);
    tern_backend_counters before, after;
    tern_session *session;
    out->n_vocab = tern_engine_config(engine)->n_vocab;
    out->n_layers = tern_engine_config(engine)->n_layers;
    assert_true(out->n_vocab <= ROOM);
    assert_ok(tern_session_open(&session, engine, &TERN_SIZED(tern_session_params, .n_ctx = 64, .kv = {kv, kv}), &err),
              err);
    assert_ok(tern_session_append(session, ids, N_PROMPT, &err), err);
    test_logits(session, 0);
    b->counters(b, &before);
    for (uint32_t i = 0; i < N_SINGLE; i++) {
        assert_ok(tern_session_append(session, ids + N_PROMPT + i, 1, &err), err);
        memcpy(out->logits[i], test_logits(session, 0), out->n_vocab * sizeof(float));
    }
    b->counters(b, &after);
    out->barriers = after.barriers - before.barriers;
    out->layer_barriers = after.layer_barriers - before.layer_barriers;
    out->layer_dispatches = after.layer_dispatches - before.layer_dispatches;
    tern_session_close(session);
    tern_engine_close(engine);
}

/* The first dispatch of a step that waits has a barrier before it, no other one of a layer. */
static void same_bits_as_with_barriers(void **state)
{
    (void)state;
    if (getenv("TERN_TEST_SIMULATE")) test_skip("the device is simulated");
    static steps with, without;
    static const tern_kv_type types[] = {TERN_KV_F16, TERN_KV_F32};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        decode(&without, false, types[k]);
        decode(&with, true, types[k]);
        for (uint32_t i = 0; i < N_SINGLE; i++)
            assert_memory_equal(with.logits[i], without.logits[i], with.n_vocab * sizeof(float));
        assert_int_equal(without.layer_dispatches, N_SINGLE * 5 * without.n_layers);
        assert_int_equal(with.layer_dispatches, without.layer_dispatches);
        assert_int_equal(without.layer_barriers, without.layer_dispatches);
        assert_int_equal(with.layer_barriers, N_SINGLE);
        assert_int_equal(without.barriers - with.barriers, without.layer_barriers - with.layer_barriers);
    }
}

/* A chain of two, of which the second waits for one workgroup more than there is. */
static void nobody_comes(void **state)
{
    (void)state;
    tern_backend *b = open_own(TERN_VULKAN_WAITS_ON, NULL);
    tern_vulkan *vk = tern_vulkan__self(b);
    enum { N = 3, ROUNDS = 2 };
    tern_op op = {.kind = TERN_OP_LINEAR, .layer = UINT32_MAX, .out = {.value = TERN_NO_VALUE}};
    tern_value values[2];
    tern_binding bindings[2] = {{0}};
    tern_prepared *prepared = NULL;
    for (int i = 0; i < 2; i++) {
        values[i] = (tern_value){.kind = TERN_VALUE_ACTIVATION, .bytes = N * 4};
        assert_ok(b->buffer_create(b, N * 4, &bindings[i].buffer, &err), err);
    }
    const tern_graph graph = {.ops = &op, .n_ops = 1, .values = values, .n_values = 2, .tokens = TERN_NO_VALUE};
    tern_gpu_program program = {.graph = &graph, .caps = &vk->caps};
    assert_ok(tern_gpu_add_waits(&program, &op, N, ROUNDS, &err), err);
    assert_ok(tern_vulkan__prepare_program(vk, &program, bindings, &prepared, &err), err);
    assert_true(prepared->places[0].barrier && !prepared->places[1].barrier);
    assert_int_equal(prepared->places[1].number, N);
    for (int i = 0; i < 2; i++) { /* replayed: the counters begin anew */
        assert_ok(b->run(b, prepared, 1, &err), err);
        assert_ok(b->wait(b, &err), err);
    }
    const uint32_t more = N + 1, at = prepared->places[1].slot * TERN_VULKAN_SLOT_BYTES;
    assert_ok(b->buffer_write(b, prepared->waits_at_start, at, &more, sizeof more, &err), err);
    for (int i = 0; i < 2; i++) { /* and it is not forgotten */
        assert_ok(b->run(b, prepared, 1, &err), err);
        assert_int_equal(b->wait(b, &err), TERN_INTERNAL);
        if (!strstr(err.message, "waited in vain") || !strstr(err.message, "TERN_VULKAN_WAITS=0"))
            fail_msg("%s", err.message);
    }
    b->prepared_free(b, prepared);
    for (int i = 0; i < 2; i++) b->buffer_free(b, bindings[i].buffer);
    b->close(b);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(twins),        cmocka_unit_test(the_environment),
                                          cmocka_unit_test(the_trial),    cmocka_unit_test(the_command_says_so),
                                          cmocka_unit_test(nobody_comes), cmocka_unit_test(same_bits_as_with_barriers)};

TEST_GROUP(waits, "gpu swiftshader", tests, .teardown = test_backends_close);
