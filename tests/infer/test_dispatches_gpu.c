/* What a decoded token costs on a GPU, family by family: dispatches and barriers, as docs/internals/vulkan.md has them.
 * */
#include "support/gpu_model.h"

#include "backend/counters.h"
#include "infer/support.h"
#include "support/converted.h"
#include "support/logits.h"
#include "support/op_case.h"

/* Every count is that of one step of one token, whose logits are read. */
static const struct {
    const char *name;
    bool made;          /* by tests/, or one of the fixtures */
    const char *linear; /* NULL: its own */
    uint32_t in_a_layer, outside;
} families[] = {
    {"llama", false, "q8_0", 5, 2},  {"llama", false, "q4_k", 5, 2}, {"gemma2", false, "q8_0", 7, 4},
    {"gemma3", false, "q8_0", 8, 3}, {"qwen2", true, NULL, 7, 2},    {"qwen3", true, NULL, 6, 2},
};

static void of_a_token(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *path = families[i].made ? test_made(families[i].name) : test_fixture(families[i].name),
                   *linear = families[i].linear;
        tern_engine *engine =
            test_gpu_engine(linear ? test_converted(path, linear, NULL) : path, test_all_layers, NULL);
        tern_backend *b = tern_engine_backend(engine);
        tern_session *session;
        tern_error err = {0};
        tern_backend_counters before, after;
        static const int32_t ids[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
        assert_ok(tern_session_open(&session, engine, &TERN_SIZED(tern_session_params, .n_ctx = 64), &err), err);
        assert_ok(tern_session_append(session, ids, 10, &err), err);
        test_logits(session, 0);
        assert_ok(tern_session_append(session, ids, 1, &err), err);
        test_logits(session, 0);
        b->counters(b, &before);
        assert_ok(tern_session_append(session, ids + 1, 1, &err), err);
        test_logits(session, 0);
        b->counters(b, &after);
        const uint64_t n_layers = tern_engine_config(engine)->n_layers,
                       in_layers = after.layer_dispatches - before.layer_dispatches,
                       outside = after.dispatches - before.dispatches - in_layers,
                       barriers = after.barriers - before.barriers;
        print_message("%s in %s: %.2f dispatches a layer, %u outside, %u barriers\n", families[i].name,
                      linear ? linear : "its own", (double)in_layers / (double)n_layers, (unsigned)outside,
                      (unsigned)barriers);
        assert_int_equal(in_layers, families[i].in_a_layer * n_layers);
        assert_int_equal(outside, families[i].outside);
        assert_true(barriers <= in_layers + outside + 1);
        if (!b->info.never_waits) { /* WebGPU sees to them itself */
            const uint64_t between = after.layer_barriers - before.layer_barriers;
            assert_true(between >= 3 * n_layers && between <= in_layers && between <= barriers);
        }
        tern_session_close(session);
        tern_engine_close(engine);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_token)};

TEST_GROUP(dispatches_gpu, "devices", tests, .teardown = test_backends_close);
