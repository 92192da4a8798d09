/* Keys and values that come while the device computes. */
#include "infer/spill_cases.h"

#include "backend/counters.h"
#include "backend/wrap.h"
#include "support/op_case.h"

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
    for (size_t i = 0; i < 2; i++) {
        uint64_t all;
        const char *path = test_fixture(names[i]);
        const uint64_t each = spill_layer_bytes(path, kv, &all);
        tern_engine *whole = spill_open(path, 0, NULL);
        for (uint64_t room = spill_need(path, kv).least_layer; room < all; room += each / 2) {
            tern_engine *spilling = spill_open(path, room, NULL);
            make_late(tern_wrap__inner(tern_engine_backend(spilling)));
            spill_exercise(spilling, whole, kv, "beside what runs");
            const tern_backend_counters c = spill_counters(spilling);
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

static const struct CMUnitTest tests[] = {cmocka_unit_test(beside_runs)};

TEST_GROUP(spill_beside, "", tests); /* the CPU can be made to be late */
