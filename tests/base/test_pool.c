/* The thread pool: every task exactly once, by several threads, without allocation. */
#include "support/test.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/pool.h"

enum { MAX_TASKS = 5000 };

typedef struct tally {
    uint32_t n_threads;
    uint32_t runs[MAX_TASKS]; /* not atomic: the pool must order the tasks before its return */
    _Atomic uint32_t bad_threads;
} tally;

static void count_run(void *context, uint32_t task, uint32_t thread)
{
    tally *t = context;
    if (thread >= t->n_threads) atomic_fetch_add(&t->bad_threads, 1);
    t->runs[task]++;
    for (volatile uint32_t i = 0; i < task % 17 * 10; i++) {} /* uneven work */
}

static void check_calls(uint32_t n_threads, const uint32_t *sizes, size_t n_sizes, uint32_t n_repeats)
{
    tern_error err = {0};
    tern_pool *pool;
    static tally t;
    assert_ok(tern_pool_open(&pool, n_threads, n_threads % 2, &err), err);
    assert_int_equal(tern_pool_threads(pool), n_threads);
    for (size_t i = 0; i < n_sizes; i++) {
        t = (tally){.n_threads = n_threads};
        for (uint32_t repeat = 0; repeat < n_repeats; repeat++) tern_pool_for(pool, sizes[i], count_run, &t);
        for (uint32_t task = 0; task < MAX_TASKS; task++)
            assert_int_equal(t.runs[task], task < sizes[i] ? n_repeats : 0);
        assert_int_equal(t.bad_threads, 0);
    }
    tern_pool_close(pool);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 3, 5, 8, 100, 999, MAX_TASKS};
    const uint32_t threads[] = {1, 2, 3, 8, 33}; /* the larger ones sleep at each call on a small machine */
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        check_calls(threads[i], sizes, sizeof sizes / sizeof sizes[0], 30);
}

static void many_short_calls(void **state)
{
    (void)state;
    const uint32_t size = 3;
    check_calls(2, &size, 1, 5000);
    check_calls(5, &size, 1, 500);
}

typedef struct siege {
    uint32_t n_tasks;
    _Atomic uint32_t done;
} siege;

/* Task 0 ends after all others, so that another thread must take over the rest of its range. */
static void first_waits_for_rest(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    siege *s = context;
    if (task == 0)
        while (atomic_load(&s->done) < s->n_tasks - 1) sched_yield();
    atomic_fetch_add(&s->done, 1);
}

static void idle_threads_steal(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_pool *pool;
    assert_ok(tern_pool_open(&pool, 2, false, &err), err);
    siege s = {.n_tasks = 64};
    tern_pool_for(pool, s.n_tasks, first_waits_for_rest, &s);
    assert_int_equal(s.done, s.n_tasks);
    tern_pool_close(pool);
}

enum { LOOKERS = 3 };

typedef struct look {
    _Atomic uint32_t asked[LOOKERS]; /* by thread */
    _Atomic uint32_t wrong;
} look;

/* Where nothing lies: asking for memory never touches it. */
static tern_ahead_range ask_for_nothing(const void *context, uint32_t thread, uint32_t n_threads)
{
    look *l = (look *)(uintptr_t)context;
    atomic_fetch_add(thread < LOOKERS && n_threads == LOOKERS ? &l->asked[thread] : &l->wrong, 1);
    return (tern_ahead_range){(const uint8_t *)4096, 1 << 20};
}

static void waiting_threads_look_ahead(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_pool *pool;
    static tally t = {.n_threads = LOOKERS};
    look l = {0};
    assert_ok(tern_pool_open(&pool, LOOKERS, false, &err), err);
    tern_pool_ahead(pool, ask_for_nothing, &l);
    uint32_t n = 0;
    for (; n < 1000000 && !(l.asked[1] && l.asked[2]); n++) tern_pool_for(pool, 50, count_run, &t);
    assert_true(l.asked[1] && l.asked[2]);
    assert_int_equal(l.asked[0] + l.wrong, 0); /* the caller has other things to do */
    for (uint32_t task = 0; task < 50; task++) assert_int_equal(t.runs[task], n);
    tern_pool_ahead(pool, NULL, NULL);
    const uint32_t asked = l.asked[1] + l.asked[2];
    tern_pool_for(pool, 50, count_run, &t);
    assert_int_equal(l.asked[1] + l.asked[2], asked);
    tern_pool_close(pool);
}

static void default_is_at_least_one_thread(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_pool *pool;
    assert_ok(tern_pool_open(&pool, 0, true, &err), err);
    assert_true(tern_pool_threads(pool) >= 1);
    tern_pool_close(pool);
    tern_pool_close(NULL);
}

static void calls_do_not_allocate(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_pool *pool;
    static tally t = {.n_threads = 2};
    assert_ok(tern_pool_open(&pool, 2, false, &err), err);
    uint64_t before = tern_alloc_count();
    for (int i = 0; i < 100; i++) tern_pool_for(pool, 50, count_run, &t);
    assert_int_equal(tern_alloc_count(), before);
    tern_pool_close(pool);
}

static void bad_opens_are_clean(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_pool *pool;
    assert_int_equal(tern_pool_open(&pool, 1025, false, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "1025 threads, at most 1024 expected");
    assert_null(pool);
    int64_t live = tern_alloc_live();
    uint64_t n = 0;
    tern_status status;
    do {
        tern_alloc_fail_after(++n, false);
        status = tern_pool_open(&pool, 4, false, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_pool_close(pool);
        assert_int_equal(tern_alloc_live(), live);
    } while (status != TERN_OK);
    assert_true(n > 1);
}

static tern_status refuse_some(void *context, uint32_t task, uint32_t thread, tern_error *err)
{
    const uint32_t *bad = context;
    (void)thread;
    return task < *bad ? TERN_OK : tern_fail(err, TERN_LIMIT, "task %u", task);
}

/* The error is one of those that came up; without any, all tasks are done. */
static void failures_are_given_back(void **state)
{
    (void)state;
    tern_pool *pool;
    tern_error err = {0};
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
        uint32_t bad = 40;
        assert_ok(tern_pool_open(&pool, n_threads, false, &err), err);
        assert_int_equal(tern_pool_try(pool, 40, refuse_some, &bad, &err), TERN_OK);
        assert_int_equal(tern_pool_try(pool, 41, refuse_some, &bad, NULL), TERN_LIMIT);
        assert_int_equal(tern_pool_try(pool, 41, refuse_some, &bad, &err), TERN_LIMIT);
        assert_string_equal(err.message, "task 40");
        bad = 0;
        assert_int_equal(tern_pool_try(pool, 100, refuse_some, &bad, &err), TERN_LIMIT);
        assert_int_equal(strncmp(err.message, "task ", 5), 0);
        tern_pool_close(pool);
    }
    uint32_t bad = 5;
    assert_int_equal(tern_pool_try(NULL, 5, refuse_some, &bad, &err), TERN_OK); /* without threads */
    assert_int_equal(tern_pool_try(NULL, 6, refuse_some, &bad, &err), TERN_LIMIT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(failures_are_given_back),    cmocka_unit_test(every_task_runs_once),
    cmocka_unit_test(many_short_calls),           cmocka_unit_test(idle_threads_steal),
    cmocka_unit_test(waiting_threads_look_ahead), cmocka_unit_test(default_is_at_least_one_thread),
    cmocka_unit_test(calls_do_not_allocate),      cmocka_unit_test(bad_opens_are_clean),
};

TEST_GROUP(pool, "threads", tests);
