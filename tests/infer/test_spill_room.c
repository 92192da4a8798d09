/* The room for keys and values: how it is divided, what the host writes there, what is refused. */
#include "infer/spill_cases.h"

#include <string.h>
#include <sys/resource.h>

#include "backend/spill/spill_internal.h"
#include "infer/engine/tiers.h"
#include "support/golden.h"
#include "support/op_case.h"
#include "support/pretended.h"

/* What the host writes before and after pages are cut into heads is what it reads, wherever it begins and ends. */
static void written_by_the_host(void **state)
{
    (void)state;
    enum { PAGE = 96, HEADS = 6, PAGES = 7, BYTES = PAGE * PAGES };
    tern_error err = {0};
    tern_backend *inner, *b;
    tern_spill_cache *caches;
    uint8_t want[2][BYTES], got[BYTES];
    if (test_on_gpu()) test_skip("the host writes the pages");
    assert_ok(tern_backend_open(&inner, &(tern_backend_options){.n_threads = 1}, &err), err);
    assert_ok(tern_spill_open(&b, inner, &(tern_spill_options){.bytes = BYTES}, &err), err);
    tern_spill *s = tern_spill__of(b);
    tern_buffer *halves[2];
    for (int i = 0; i < 2; i++) {
        assert_ok(b->cache_create(b, BYTES, PAGE, &halves[i], &err), err);
        for (uint32_t k = 0; k < BYTES; k++) want[i][k] = (uint8_t)(k * 7 + k / 97 + (uint32_t)i * 31);
        assert_ok(b->buffer_write(b, halves[i], 0, want[i], BYTES, &err), err);
    }
    assert_ok(tern_spill__make_pool(s, halves[0], halves[1], HEADS, &err), err);
    assert_int_equal(tern_spill__pool_for(s, halves[0], halves[1])->groups, 2);
    assert_ok(tern_spill__caches_of_halves(s, halves[0], halves[1], &caches, &err), err);
    for (uint32_t from = 0; from < BYTES; from += 37)
        for (uint32_t n = 1; from + n <= BYTES; n += 61) {
            tern_buffer *half = halves[n % 2];
            for (uint32_t k = 0; k < n; k++) want[n % 2][from + k] ^= (uint8_t)(k + n);
            assert_ok(b->buffer_write(b, half, from, want[n % 2] + from, n, &err), err);
            assert_ok(b->buffer_read(b, half, from / 2, got, BYTES - from, &err), err);
            assert_memory_equal(got, want[n % 2] + from / 2, BYTES - from);
        }
    for (uint32_t page = 0; page < PAGES; page++) /* the second half of each page is the second group's */
        assert_memory_equal(halves[0]->host.data + (PAGES + page) * PAGE / 2, want[0] + page * PAGE + PAGE / 2,
                            PAGE / 2);
    assert_int_equal(tern_spill__make_pool(s, halves[0], halves[1], 3, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "a multiple of 2"));
    for (int i = 0; i < 2; i++) b->buffer_free(b, halves[i]);
    b->close(b);
}

static tern_status try_session(tern_engine *engine, tern_error *err)
{
    tern_session *s = NULL;
    const tern_session_params params = {.size = sizeof params, .n_ctx = N_CTX, .kv = {TERN_KV_F32, TERN_KV_F32}};
    const tern_status status = tern_session_open(&s, engine, &params, err);
    tern_session_close(s);
    return status;
}

/* What an engine gives to keys and values, and how many experts stay there, where so much is free. */
static void divide(tern_engine *engine, uint64_t free, const tern_runner_params *session, uint64_t *kv, uint32_t *slots)
{
    tern_error err = {0};
    tern_backend *b = test_pretended(free);
    assert_ok(tern_engine__tiers(&b, engine, &(tern_engine_params){0}, session, &err), err);
    *kv = b->info.spill ? b->info.spill->room : UINT64_MAX;
    *slots = b->info.paged ? b->info.paged->n_slots : UINT32_MAX;
    b->close(b);
}

/* With less and less free experts make way first, down to the fewest; keys and values then, down to a head's of a
 * layer. */
static void by_free_memory(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_runner_params session;
    tern_memory_needs needs;
    uint32_t steps, slots, n_slots = UINT32_MAX, n_kv = 0;
    uint64_t kv, last = UINT64_MAX;
    const tern_session_params how = spill_params((tern_kv_types){TERN_KV_F32, TERN_KV_F32});
    tern_engine *engine = test_engine_with(test_fixture("mixtral"), &(tern_engine_params){0});
    test_pretend_device(tern_engine_backend(engine));
    assert_ok(tern_session_resolve(engine, &how, &session, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &session, true, &needs, &err), err);
    const tern_memory_need need = needs.sides[0];
    divide(engine, need.total, &session, &kv, &slots);
    assert_true(kv == UINT64_MAX && slots == UINT32_MAX);
    divide(engine, 0, &session, &kv, &slots); /* not known */
    assert_true(kv == UINT64_MAX && slots == UINT32_MAX);
    for (uint64_t free = need.total - 1; free > need.total / 16; free -= need.total / 100) {
        divide(engine, free, &session, &kv, &slots);
        if (kv == UINT64_MAX && last != UINT64_MAX) break; /* not even one head's */
        assert_true(kv <= last && (kv == UINT64_MAX || (kv >= need.least_layer && kv < need.cache)));
        n_kv += kv != UINT64_MAX;
        if (kv == UINT64_MAX) assert_true(slots <= n_slots);
        n_slots = kv == UINT64_MAX ? slots : n_slots;
        last = kv;
    }
    assert_true(n_kv > 0);
    tern_engine_close(engine);
}

/* Less than a head of a layer, no folder, no room in it: said before anything is lost, and what there is goes on. */
static void no_room(void **state)
{
    (void)state;
    tern_error err = {0};
    struct rlimit limit, small;
    uint64_t all;
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_fixture("llama");
    const uint64_t each = spill_layer_bytes(path, kv, &all);
    tern_engine *less = spill_open(path, spill_need(path, kv).least_layer - 1, NULL),
                *nowhere = spill_open(path, each, "/no/such/folder"), *disk = spill_open(path, each, test_scratch("."));
    assert_int_equal(try_session(less, &err), TERN_OUT_OF_MEMORY);
    assert_non_null(strstr(err.message, "--kv-memory"));
    assert_non_null(strstr(err.message, "a head of a layer"));
    assert_int_equal(try_session(nowhere, &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "/no/such/folder"));
    tern_session *before = spill_session(disk, kv), *after = spill_session(disk, kv);
    spill_append(before, disk, 0, 60);
    spill_append(after, disk, 0, 60);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = each / 4, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const tern_status status = try_session(disk, &err);
    spill_append(before, disk, 60, 90);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, TERN_IO);
    if (!strstr(err.message, "MiB is needed there, ")) fail_msg("%s", err.message);
    spill_append(after, disk, 60, 90);
    spill_assert_same(before, after, disk, "after a full disk", 150);
    assert_int_equal(try_session(disk, &err), TERN_OK);
    tern_session_close(before);
    tern_session_close(after);
    tern_engine_close(less);
    tern_engine_close(nowhere);
    tern_engine_close(disk);
}

/* GPUs bind the sinks of all heads as a whole. */
static void sinks_are_not_cut(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_fixture("gpt-oss");
    if (!test_on_gpu()) test_skip("the CPU binds the sinks of each head");
    tern_engine *engine = spill_open(path, spill_need(path, kv).least_layer, NULL);
    assert_int_equal(try_session(engine, &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, "sinks") || !strstr(err.message, "--kv-memory")) fail_msg("%s", err.message);
    tern_engine_close(engine);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        tern_engine_params how;
        tern_status status;
        const char *says;
    } cases[] = {{{.kv_memory.bytes = 1 << 20}, TERN_INVALID_ARGUMENT, "a folder for what has no room there (kv-disk)"},
                 {{.kv_memory.bytes = 1 << 20, .backend = {.split = true, .gpu_layers = 1}},
                  TERN_UNSUPPORTED,
                  "all layers on one device expected"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        tern_model *model;
        tern_engine *engine;
        assert_ok(tern_model_open(&model, test_fixture("llama"), &(tern_model_options){.no_tokenizer = true}, &err),
                  err);
        assert_int_equal(tern_engine_open(&engine, model, &cases[i].how, &err), cases[i].status);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
    }
}

static void words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tern_kv_room room;
    } good[] = {
        {NULL, {0}}, {"auto", {0}}, {"all", {.all = true}}, {"2K", {.bytes = 2048}}, {"1.5G", {.bytes = 3ull << 29}}};
    static const char *const bad[] = {"", "0", "-1", "5", "4GB", "x", "nan", "1e9M", "0K"};
    tern_kv_room room;
    tern_error err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(tern_kv_room_parse(good[i].text, &room, &err), err);
        assert_true(room.bytes == good[i].room.bytes && room.all == good[i].room.all);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tern_kv_room_parse(bad[i], &room, &err), TERN_INVALID_ARGUMENT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(written_by_the_host), cmocka_unit_test(by_free_memory), cmocka_unit_test(no_room),
    cmocka_unit_test(sinks_are_not_cut),   cmocka_unit_test(refused),        cmocka_unit_test(words),
};

TEST_GROUP(spill_room, "backends", tests, .teardown = test_backends_close);
