/* Sessions and batches whose keys and values are not all on the device: the same bits with any room down to one
 * head's of a layer, with every type of cache, with windows and experts, whatever is taken back, saved or shared; what
 * is moved; what is refused. */
#include "infer/batch_cases.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/spill/spill_internal.h"
#include "graph/fusions.h"
#include "infer/memory_need.h"
#include "infer/tiers.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/pretended.h"

enum { N_CTX = 192, N_PROMPT = 150, N_DECODED = 40, N_IDS = N_PROMPT + N_DECODED };

/* An engine with room for so many bytes of keys and values; 0: for all. `apart`: attention does not rotate heads
 * itself, which GPUs do to other bits, as it cannot where it takes some of them at a time. */
static tern_engine *open_how(const char *path, tern_engine_params how, bool apart)
{
    tern_error err = {0};
    how.kv_on_host = true;
    if (apart) assert_ok(tern_graph_fusions_parse("rope_attention", &how.no_fusion, &err), err);
    if (test_on_gpu()) return test_gpu_engine(path, test_all_layers, &how);
    return test_engine_with(path, &how);
}

static tern_engine *open_with_room(const char *path, uint64_t bytes, const char *disk)
{
    return open_how(path, (tern_engine_params){.kv_memory.bytes = bytes, .kv_disk = disk}, false);
}

static int32_t id_at(const tern_engine *engine, uint32_t i)
{
    return (int32_t)((7 * i * i + 3 * i) % tern_engine_config(engine)->n_vocab);
}

/* The host samples, so that rings of pages are as long on all engines. */
static tern_session_params params_with(tern_kv_types kv)
{
    return (tern_session_params){.n_ctx = N_CTX, .n_batch = 48, .max_outputs = 4, .host_sampling = true, .kv = kv};
}

static tern_session *session_of(tern_engine *engine, tern_kv_types kv)
{
    return open_session(engine, params_with(kv));
}

/* Bytes of keys and values of a session as these are. */
static tern_memory_need need_of(const char *path, tern_kv_types kv)
{
    tern_error err = {0};
    tern_runner_params params;
    tern_memory_needs needs;
    uint32_t steps;
    tern_engine *engine = open_with_room(path, 0, NULL);
    const tern_session_params session = params_with(kv);
    assert_ok(tern_session_resolve(engine, &session, &params, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &params, false, &needs, &err), err);
    tern_engine_close(engine);
    return needs.sides[0];
}

/* Of the layer that has the most, and *all. */
static uint64_t layer_bytes(const char *path, tern_kv_types kv, uint64_t *all)
{
    const tern_memory_need need = need_of(path, kv);
    *all = need.cache;
    return need.largest_layer;
}

static tern_backend_counters counters_of(const tern_engine *engine)
{
    tern_backend_counters c = {0};
    const tern_backend *b = tern_engine_backend(engine);
    b->counters(b, &c);
    return c;
}

static void append(tern_session *s, tern_engine *engine, uint32_t first, uint32_t n)
{
    tern_error err = {0};
    int32_t ids[N_IDS];
    for (uint32_t i = 0; i < n; i++) ids[i] = id_at(engine, first + i);
    assert_ok(tern_session_append(s, ids, n, &err), err);
}

static void assert_same(tern_session *got, tern_session *want, const tern_engine *engine, const char *what, uint32_t at)
{
    if (memcmp(test_logits(got, 0), test_logits(want, 0), tern_engine_config(engine)->n_vocab * sizeof(float)) != 0)
        fail_msg("%s: other bits after %u tokens", what, at);
}

/* Everything that changes which pages hold what. */
static void exercise(tern_engine *spilling, tern_engine *whole, tern_kv_types kv, const char *what)
{
    tern_session *got = session_of(spilling, kv), *want = session_of(whole, kv), *pair[2] = {got, want};
    tern_engine *engines[2] = {spilling, whole};
    for (int i = 0; i < 2; i++) append(pair[i], engines[i], 0, N_PROMPT);
    assert_same(got, want, whole, what, N_PROMPT);
    for (uint32_t t = N_PROMPT; t < N_IDS; t++) {
        for (int i = 0; i < 2; i++) append(pair[i], engines[i], t, 1);
        assert_same(got, want, whole, what, t + 1);
    }
    for (int i = 0; i < 2; i++) tern_session_truncate(pair[i], 75);
    for (int i = 0; i < 2; i++) append(pair[i], engines[i], 100, 3);
    assert_same(got, want, whole, what, 78);
    for (int i = 0; i < 2; i++) append(pair[i], engines[i], 20, 60);
    assert_same(got, want, whole, what, 138);
    tern_session_close(got);
    tern_session_close(want);
}

static void check_model(const char *path, tern_kv_types kv, const char *disk)
{
    uint64_t n_evicted = 0;
    const tern_memory_need need = need_of(path, kv);
    const uint64_t all = need.cache, each = need.largest_layer;
    tern_engine *wholes[2];
    for (int i = 0; i < 2; i++) wholes[i] = open_how(path, (tern_engine_params){0}, i == 1);
    assert_null(tern_engine_backend(wholes[0])->info.spill);
    for (uint64_t room = need.least_layer; room < all; room += test_quick() || test_on_gpu() ? 2 * each : each / 3) {
        const tern_engine_params how = {.kv_memory.bytes = room, .kv_disk = disk};
        tern_engine *spilling = open_how(path, how, room < each);
        assert_non_null(tern_engine_backend(spilling)->info.spill);
        exercise(spilling, wholes[room < each], kv, path);
        const tern_backend_counters c = counters_of(spilling);
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

static void types(void **state)
{
    (void)state;
    static const tern_kv_types pairs[] = {{TERN_KV_F16, TERN_KV_F16},
                                          {TERN_KV_Q8_0, TERN_KV_Q8_0},
                                          {TERN_KV_Q4_0, TERN_KV_Q4_0},
                                          {TERN_KV_Q8_0, TERN_KV_Q4_0}};
    if (test_on_gpu()) skip(); /* pages are pages there, whatever is in them */
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_model(test_model("tiny-stories-bitnet"), pairs[i], NULL);
}

/* In files, of which nothing is left. */
static void on_a_disk(void **state)
{
    (void)state;
    if (test_on_gpu()) skip(); /* nor does it matter where they come from */
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
    tern_engine *spilling = open_how(path, (tern_engine_params){.kv_memory.bytes = room}, apart),
                *whole = open_how(path, (tern_engine_params){0}, apart);
    tern_session *got[2] = {session_of(spilling, kv), session_of(spilling, kv)},
                 *want[2] = {session_of(whole, kv), session_of(whole, kv)};
    for (uint32_t t = 0; t < 60; t += 20)
        for (uint32_t i = 0; i < 2; i++) {
            append(got[i], spilling, t * (i + 2), 20);
            append(want[i], whole, t * (i + 2), 20);
            assert_same(got[i], want[i], whole, "in turns", t);
        }
    assert_ok(tern_session_save(got[0], file, &err), err);
    assert_ok(tern_session_restore(want[1], file, &err), err);
    assert_ok(tern_session_restore(got[1], file, &err), err);
    for (uint32_t t = 0; t < 5; t++) {
        append(got[0], spilling, t, 1);
        append(got[1], spilling, t, 1);
        append(want[0], whole, t, 1);
        append(want[1], whole, t, 1);
        assert_same(got[0], want[0], whole, "saved", t);
        assert_same(got[1], want[1], whole, "restored", t);
        if (!test_on_gpu()) assert_same(want[1], want[0], whole, "restored from what was spilled", t);
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
    check_sessions(test_fixture("gemma3"), need_of(test_fixture("gemma3"), kv).largest_layer, false, kv);
    check_sessions(test_fixture("llama"), need_of(test_fixture("llama"), kv).least_layer, true, kv);
}

/* Experts and keys and values of one model, neither of which fit. */
static void beside_experts(void **state)
{
    (void)state;
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_fixture(test_on_gpu() ? "mixtral" : "gpt-oss"); /* sinks are not cut on GPUs */
    const tern_memory_need need = need_of(path, kv);
    const uint64_t rooms[] = {need.largest_layer, need.least_layer};
    for (size_t i = 0; i < 2; i++) {
        const tern_engine_params how = {.kv_memory.bytes = rooms[i], .experts.per_layer = 4};
        tern_engine *both = open_how(path, how, i == 1), *whole = open_how(path, (tern_engine_params){0}, i == 1);
        exercise(both, whole, kv, "experts and spilling");
        const tern_backend_counters c = counters_of(both);
        assert_true(c.expert_misses > 0 && c.kv_misses > 0);
        assert_non_null(tern_engine_backend(both)->info.paged);
        tern_engine_close(both);
        tern_engine_close(whole);
    }
}

enum { N_CASES = 10 };

static void check_batch(const char *path, uint64_t room, tern_kv_types kv, batch_case *cases)
{
    tern_engine *spilling = open_with_room(path, room, NULL);
    tern_batch *batch =
        batch_open(spilling, (tern_batch_params){.n_parallel = 4, .n_ctx = 256, .n_chunk = 40, .kv = kv});
    batch_run_together(batch, cases, N_CASES, 1);
    batch_check(cases, N_CASES, "a batch that spills");
    const tern_backend_counters c = counters_of(spilling);
    print_message("%llu pages there, %llu copied\n", (unsigned long long)c.kv_hits, (unsigned long long)c.kv_misses);
    assert_true(c.kv_misses > 0);
    tern_batch_close(batch);
    tern_engine_close(spilling);
}

/* Requests of all kinds in a batch, whose pages they share, give what they give alone. */
static void batches(void **state)
{
    (void)state;
    if (test_on_gpu()) skip(); /* test_batch_gpu has tolerances of its own */
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    const char *path = test_model("tiny-stories-bitnet");
    batch_case *cases = calloc(N_CASES, sizeof *cases);
    assert_non_null(cases);
    tern_engine *whole = open_with_room(path, 0, NULL);
    tern_session *alone = open_session(whole, (tern_session_params){.n_ctx = 256, .kv = kv});
    const uint64_t each = tern_session_kv_bytes(alone) / tern_engine_config(whole)->n_layers;
    batch_fill(cases, N_CASES, 4000, 23);
    batch_run_alone(alone, cases, N_CASES);
    check_batch(path, each * 4 * 9 / 4, kv, cases);
    check_batch(path, each * 4 / tern_engine_config(whole)->n_kv_heads, kv, cases);
    tern_session_close(alone);
    tern_engine_close(whole);
    free(cases);
}

/* What the host writes before and after pages are cut into heads is what it reads, wherever it begins and ends. */
static void written_by_the_host(void **state)
{
    (void)state;
    enum { PAGE = 96, HEADS = 6, PAGES = 7, BYTES = PAGE * PAGES };
    tern_error err = {0};
    tern_backend *inner, *b;
    tern_spill_cache *caches;
    uint8_t want[2][BYTES], got[BYTES];
    if (test_on_gpu()) skip();
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
    const tern_session_params params = {.n_ctx = N_CTX, .kv = {TERN_KV_F32, TERN_KV_F32}};
    const tern_status status = tern_session_open(&s, engine, &params, err);
    tern_session_close(s);
    return status;
}

/* A device that computes as late as it may: the run that was started last happens when something must be behind it,
 * and what is copied beside it happens at once. */
static struct late {
    tern_backend real;
    tern_prepared *started;
    uint32_t n_written, n_read, n_pinned;
} late;

static tern_status catch_up(tern_backend *b, tern_error *err)
{
    tern_prepared *p = late.started;
    late.started = NULL;
    return p ? late.real.run(b, p, 1, err) : TERN_OK;
}

static tern_status late_run(tern_backend *b, tern_prepared *p, uint32_t n, tern_error *err)
{
    assert_int_equal(n, 1);
    TERN_TRY(catch_up(b, err));
    late.started = p;
    return TERN_OK;
}

static tern_status late_wait(tern_backend *b, tern_error *err)
{
    TERN_TRY(catch_up(b, err));
    return late.real.wait(b, err);
}

static tern_status late_write(tern_backend *b, tern_buffer *to, uint64_t at, const void *data, uint64_t n,
                              tern_error *err)
{
    TERN_TRY(catch_up(b, err));
    return late.real.buffer_write(b, to, at, data, n, err);
}

static tern_status late_read(tern_backend *b, const tern_buffer *from, uint64_t at, void *data, uint64_t n,
                             tern_error *err)
{
    TERN_TRY(catch_up(b, err));
    return late.real.buffer_read(b, from, at, data, n, err);
}

static void late_prepared_free(tern_backend *b, tern_prepared *p)
{
    tern_error err = {0};
    assert_ok(catch_up(b, &err), err);
    late.real.prepared_free(b, p);
}

static tern_status write_beside(tern_backend *b, tern_buffer *to, uint64_t at, const void *data, uint64_t n,
                                tern_error *err)
{
    late.n_written++;
    return late.real.buffer_write(b, to, at, data, n, err);
}

static tern_status read_beside(tern_backend *b, const tern_buffer *from, uint64_t at, void *data, uint64_t n,
                               tern_error *err)
{
    late.n_read++;
    return late.real.buffer_read(b, from, at, data, n, err);
}

static void count_pinned(tern_backend *b, void *data, uint64_t n, bool pinned)
{
    (void)b, (void)data;
    assert_true(n > 0);
    late.n_pinned += pinned ? 1 : UINT32_MAX;
}

static const tern_backend_copies late_copies = {
    .write_beside = write_beside, .read_beside = read_beside, .pin = count_pinned};

static void make_late(tern_backend *b)
{
    late = (struct late){.real = *b};
    b->copies = &late_copies;
    b->run = late_run;
    b->wait = late_wait;
    b->buffer_write = late_write;
    b->buffer_read = late_read;
    b->prepared_free = late_prepared_free;
}

/* Pages that come while the device computes are not in the way of what it computes with. */
static void beside_runs(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "gemma3"};
    const tern_kv_types kv = {TERN_KV_F32, TERN_KV_F32};
    if (test_on_gpu()) skip(); /* the CPU can be made to be late */
    for (size_t i = 0; i < 2; i++) {
        uint64_t all;
        const char *path = test_fixture(names[i]);
        const uint64_t each = layer_bytes(path, kv, &all);
        tern_engine *whole = open_with_room(path, 0, NULL);
        for (uint64_t room = need_of(path, kv).least_layer; room < all; room += each / 2) {
            tern_engine *spilling = open_with_room(path, room, NULL);
            make_late(tern_wrap__inner(tern_engine_backend(spilling)));
            exercise(spilling, whole, kv, "beside what runs");
            const tern_backend_counters c = counters_of(spilling);
            print_message("%s: %llu there, %llu waited for, %llu before; %u copies beside, %u back\n", names[i],
                          (unsigned long long)c.kv_hits, (unsigned long long)c.kv_misses,
                          (unsigned long long)c.kv_prefetched, late.n_written, late.n_read);
            assert_true(room < 2 * each || (c.kv_prefetched > 0 && late.n_written > 0));
            assert_int_equal(late.n_pinned, 0);
            tern_engine_close(spilling);
        }
        tern_engine_close(whole);
    }
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
    const tern_session_params how = params_with((tern_kv_types){TERN_KV_F32, TERN_KV_F32});
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
    const uint64_t each = layer_bytes(path, kv, &all);
    tern_engine *less = open_with_room(path, need_of(path, kv).least_layer - 1, NULL),
                *nowhere = open_with_room(path, each, "/no/such/folder"),
                *disk = open_with_room(path, each, test_scratch("."));
    assert_int_equal(try_session(less, &err), TERN_OUT_OF_MEMORY);
    assert_non_null(strstr(err.message, "--kv-memory"));
    assert_non_null(strstr(err.message, "a head of a layer"));
    assert_int_equal(try_session(nowhere, &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "/no/such/folder"));
    tern_session *before = session_of(disk, kv), *after = session_of(disk, kv);
    append(before, disk, 0, 60);
    append(after, disk, 0, 60);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = each / 4, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const tern_status status = try_session(disk, &err);
    append(before, disk, 60, 90);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, TERN_IO);
    if (!strstr(err.message, "MiB is needed there, ")) fail_msg("%s", err.message);
    append(after, disk, 60, 90);
    assert_same(before, after, disk, "after a full disk", 150);
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
    if (!test_on_gpu()) skip();
    tern_engine *engine = open_with_room(path, need_of(path, kv).least_layer, NULL);
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
                  "without layers split"}};
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
    cmocka_unit_test(models),
    cmocka_unit_test(types),
    cmocka_unit_test(on_a_disk),
    cmocka_unit_test(sessions),
    cmocka_unit_test(batches),
    cmocka_unit_test(beside_experts),
    cmocka_unit_test(no_room),
    cmocka_unit_test(refused),
    cmocka_unit_test(words),
    cmocka_unit_test(by_free_memory),
    cmocka_unit_test(beside_runs),
    cmocka_unit_test(written_by_the_host),
    cmocka_unit_test(sinks_are_not_cut),
};

TEST_GROUP(spill, "backends", tests, .teardown = test_backends_close);
