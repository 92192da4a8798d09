/* Sessions and batches whose keys and values are not all on the device: the same bits with any room down to one
 * head's of a layer, with every type of cache, with windows and experts, whatever is taken back, saved or shared. */
#include "backend/counters.h"
#include "infer/batch_cases.h"
#include "infer/spill_cases.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/op_case.h"

static void check_model(const char *path, tern_kv_types kv, const char *disk)
{
    uint64_t n_evicted = 0;
    const tern_memory_need need = spill_need(path, kv);
    const uint64_t all = need.cache, each = need.largest_layer;
    tern_engine *wholes[2];
    for (int i = 0; i < 2; i++) wholes[i] = spill_open_how(path, (tern_engine_params){0}, i == 1);
    assert_null(tern_engine_backend(wholes[0])->info.spill);
    for (size_t i = 0; need.least_layer + i * (each / 3) < all; i++) {
        if (i > 0 && !test_takes(i, 5, 3)) continue; /* of thirds of a layer's cache; the least room evicts most */
        const uint64_t room = need.least_layer + i * (each / 3);
        const tern_engine_params how = {.kv_memory.bytes = room, .kv_disk = disk};
        tern_engine *spilling = spill_open_how(path, how, room < each);
        assert_non_null(tern_engine_backend(spilling)->info.spill);
        spill_exercise(spilling, wholes[room < each], kv, path);
        const tern_backend_counters c = spill_counters(spilling);
        print_message("%s: room for %.2f of %.2f KB: %llu pages there, %llu copied, %.2f MB in, %.2f MB out\n", path,
                      (double)room / 1e3, (double)all / 1e3, (unsigned long long)c.kv_hits,
                      (unsigned long long)c.kv_misses, (double)c.kv_in_bytes / 1e6, (double)c.kv_out_bytes / 1e6);
        assert_true((c.kv_hits > 0 || room < each) && c.kv_in_bytes > 0 && (c.kv_evictions > 0 || c.kv_misses == 0));
        assert_true(tern_engine_backend(spilling)->info.spill->taken <= room);
        n_evicted += c.kv_evictions;
        tern_engine_close(spilling);
    }
    assert_true(n_evicted > 0);
    for (int i = 0; i < 2; i++) tern_engine_close(wholes[i]);
}

static void models(void **state)
{
    (void)state;
    const tern_kv_types f32 = {TERN_KV_F32, TERN_KV_F32};
    if (test_on_gpu()) {
        check_model(test_fixture("llama"), f32, NULL);
        return;
    }
    check_model(test_fixture("bitnet"), f32, NULL);
    check_model(test_fixture("llama"), f32, NULL);
    check_model(test_fixture("gemma3"), f32, NULL);  /* windows */
    check_model(test_fixture("gpt-oss"), f32, NULL); /* windows, sinks, experts */
}

/* Layers that recur have their states on the device, however little room keys and values of the others have. */
static void hybrids(void **state)
{
    (void)state;
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_fixture("qwen3_5");
    if (test_on_gpu()) test_skip("the CPU's states are the ones that are compared");
    const tern_memory_need need = spill_need(path, kv);
    const uint64_t rooms[] = {need.largest_layer, need.least_layer};
    for (size_t i = 0; i < 2; i++) {
        tern_engine *spilling = spill_open_how(path, (tern_engine_params){.kv_memory.bytes = rooms[i]}, i == 1),
                    *whole = spill_open_how(path, (tern_engine_params){0}, i == 1);
        spill_exercise(spilling, whole, kv, path);
        assert_true(spill_counters(spilling).kv_in_bytes > 0);
        tern_engine_close(spilling);
        tern_engine_close(whole);
    }
}

static void types(void **state)
{
    (void)state;
    static const tern_kv_types pairs[] = {{TERN_KV_F16, TERN_KV_F16},
                                          {TERN_KV_Q8_0, TERN_KV_Q8_0},
                                          {TERN_KV_Q4_0, TERN_KV_Q4_0},
                                          {TERN_KV_Q8_0, TERN_KV_Q4_0}};
    if (test_on_gpu()) test_skip("pages are pages there, whatever is in them");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_model(test_model("tiny-stories-bitnet"), pairs[i], NULL);
}

/* In files, of which nothing is left. */
static void on_a_disk(void **state)
{
    (void)state;
    if (test_on_gpu()) test_skip("pages are pages there, wherever they lie");
    mkdir(test_scratch("spilled"), 0777);
    check_model(test_fixture("llama"), (tern_kv_types){TERN_KV_F32, TERN_KV_F32}, test_scratch("spilled"));
    assert_int_equal(rmdir(test_scratch("spilled")), 0);
}

/* Two sessions of an engine take turns with the same room; what one saves another one, that spills or does not, goes on
 * with. */
static void check_sessions(const char *path, uint64_t room, bool apart, tern_kv_types kv)
{
    tern_error err = {0};
    const char *file = test_scratch("saved.session");
    tern_engine *spilling = spill_open_how(path, (tern_engine_params){.kv_memory.bytes = room}, apart),
                *whole = spill_open_how(path, (tern_engine_params){0}, apart);
    tern_session *got[2] = {spill_session(spilling, kv), spill_session(spilling, kv)},
                 *want[2] = {spill_session(whole, kv), spill_session(whole, kv)};
    for (uint32_t t = 0; t < 60; t += 20)
        for (uint32_t i = 0; i < 2; i++) {
            spill_append(got[i], spilling, t * (i + 2), 20);
            spill_append(want[i], whole, t * (i + 2), 20);
            spill_assert_same(got[i], want[i], whole, "in turns", t);
        }
    assert_ok(tern_session_save(got[0], file, &err), err);
    assert_ok(tern_session_restore(want[1], file, &err), err);
    assert_ok(tern_session_restore(got[1], file, &err), err);
    for (uint32_t t = 0; t < 5; t++) {
        spill_append(got[0], spilling, t, 1);
        spill_append(got[1], spilling, t, 1);
        spill_append(want[0], whole, t, 1);
        spill_append(want[1], whole, t, 1);
        spill_assert_same(got[0], want[0], whole, "saved", t);
        spill_assert_same(got[1], want[1], whole, "restored", t);
        if (!test_on_gpu()) spill_assert_same(want[1], want[0], whole, "restored from what was spilled", t);
    }
    for (uint32_t i = 0; i < 2; i++) {
        tern_session_close(got[i]);
        tern_session_close(want[i]);
    }
    tern_engine_close(spilling);
    tern_engine_close(whole);
}

static void sessions(void **state)
{
    (void)state;
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    check_sessions(test_fixture("gemma3"), spill_need(test_fixture("gemma3"), kv).largest_layer, false, kv);
    check_sessions(test_fixture("llama"), spill_need(test_fixture("llama"), kv).least_layer, true, kv);
}

/* Experts and keys and values of one model, neither of which fit. */
static void beside_experts(void **state)
{
    (void)state;
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_fixture(test_on_gpu() ? "mixtral" : "gpt-oss"); /* sinks are not cut on GPUs */
    const tern_memory_need need = spill_need(path, kv);
    const uint64_t rooms[] = {need.largest_layer, need.least_layer};
    for (size_t i = 0; i < 2; i++) {
        const tern_engine_params how = {.kv_memory.bytes = rooms[i], .experts.per_layer = 4};
        tern_engine *both = spill_open_how(path, how, i == 1),
                    *whole = spill_open_how(path, (tern_engine_params){0}, i == 1);
        spill_exercise(both, whole, kv, "experts and spilling");
        const tern_backend_counters c = spill_counters(both);
        assert_true(c.expert_misses > 0 && c.kv_misses > 0);
        assert_non_null(tern_engine_backend(both)->info.paged);
        tern_engine_close(both);
        tern_engine_close(whole);
    }
}

enum { N_CASES = 10 };

static void check_batch(const char *path, uint64_t room, tern_kv_types kv, batch_case *cases)
{
    tern_engine *spilling = spill_open(path, room, NULL);
    tern_batch *batch =
        batch_open(spilling, TERN_SIZED(tern_batch_params, .n_parallel = 4, .n_ctx = 256, .n_chunk = 40, .kv = kv));
    batch_run_together(batch, cases, N_CASES, 1);
    batch_check(cases, N_CASES, "a batch that spills");
    const tern_backend_counters c = spill_counters(spilling);
    print_message("%llu pages there, %llu copied\n", (unsigned long long)c.kv_hits, (unsigned long long)c.kv_misses);
    assert_true(c.kv_misses > 0);
    tern_batch_close(batch);
    tern_engine_close(spilling);
}

/* Requests of all kinds in a batch, whose pages they share, give what they give alone. */
static void batches(void **state)
{
    (void)state;
    if (test_on_gpu()) test_skip("test_batch_gpu has tolerances of its own");
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_model("tiny-stories-bitnet");
    batch_case *cases = calloc(N_CASES, sizeof *cases);
    assert_non_null(cases);
    tern_engine *whole = spill_open(path, 0, NULL);
    tern_session *alone = open_session(whole, TERN_SIZED(tern_session_params, .n_ctx = 256, .kv = kv));
    const uint64_t each = tern_session_kv_bytes(alone) / tern_engine_config(whole)->n_layers;
    batch_fill(cases, N_CASES, 2000, 23);
    batch_run_alone(alone, cases, N_CASES);
    check_batch(path, each * 4 * 9 / 4, kv, cases);
    check_batch(path, each * 4 / tern_engine_config(whole)->n_kv_heads, kv, cases);
    tern_session_close(alone);
    tern_engine_close(whole);
    free(cases);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(models),         cmocka_unit_test(hybrids),  cmocka_unit_test(types),
    cmocka_unit_test(on_a_disk),      cmocka_unit_test(sessions), cmocka_unit_test(batches),
    cmocka_unit_test(beside_experts),
};

TEST_GROUP(spill, "backends", tests, .teardown = test_backends_close);
