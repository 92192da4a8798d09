/* One pool of threads: a start gate and a finish gate that spin before they sleep, and task ranges that can be stolen
 * from. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/park.h"

static const uint32_t OPEN = 1u << 31;
enum { MAX_THREADS = 1024, CACHE_LINE = 64, PAUSES_PER_LOOK = 16, YIELDS = 4, LINES_PER_LOOK = 8 };
static const int64_t spin_ns = 100 * 1000;

/* A word that some threads change and others wait on, with the number of those asleep. */
typedef struct gate {
    _Alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} gate;

/* The tasks that a thread starts with: neighbouring tasks read neighbouring memory. Thieves take from `next` as well.
 */
typedef struct lane {
    _Alignas(CACHE_LINE) _Atomic uint64_t next;
    uint64_t end;
} lane;

typedef struct worker {
    tern_pool *pool;
    pthread_t id;
    uint32_t thread;
} worker;

struct tern_pool {
    gate call;   /* counts calls; workers wait on it */
    gate inside; /* OPEN while a call may be joined, and how many workers have joined; the caller waits on it */
    tern_task_fn fn;
    void *context;
    atomic_bool stopping;
    tern_ahead_fn ahead; /* NULL: nothing is prefetched */
    const void *ahead_context;
    bool crowded; /* more threads than CPUs: spinning would keep the others from running */
    uint32_t n_threads;
    uint32_t n_started;
    lane *lanes;     /* [n_threads] */
    worker *workers; /* [n_threads]; the first is the caller and stays unused */
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool changed(gate *g, uint32_t seen)
{
    return atomic_load_explicit(&g->value, memory_order_acquire) != seen;
}

static bool spin(gate *g, uint32_t seen)
{
    int64_t start = 0;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (changed(g, seen)) return true;
            pause_cpu();
        }
        if (start == 0) start = now_ns();
    } while (now_ns() - start < spin_ns);
    return false;
}

static bool give_way(gate *g, uint32_t seen)
{
    for (int i = 0; i < YIELDS; i++) {
        if (changed(g, seen)) return true;
        sched_yield();
    }
    return false;
}

/* Waits until the gate's value is no longer `seen`. A sleeper counts itself before the kernel looks at the value, and
 * the one who changes it changes it before looking for sleepers: one of the two always notices the other. */
static void gate_wait(gate *g, uint32_t seen, bool crowded)
{
    if (crowded ? give_way(g, seen) : spin(g, seen)) return;
    atomic_fetch_add(&g->sleepers, 1);
    while (!changed(g, seen)) tern_park__wait(&g->value, seen);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_wake(gate *g)
{
    if (atomic_load(&g->sleepers)) tern_park__wake(&g->value);
}

/* A lane that has ended is seen by reading it: many threads look at the same time, and taking turns to write would cost
 * each of them a way to every other core. */
static void run_lane(tern_pool *pool, lane *from, uint32_t thread)
{
    while (atomic_load_explicit(&from->next, memory_order_relaxed) < from->end) {
        uint64_t task = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
        if (task >= from->end) return;
        pool->fn(pool->context, (uint32_t)task, thread);
    }
}

/* The thread's own lane, then what the others have left. */
static void run_tasks(tern_pool *pool, uint32_t thread)
{
    for (uint32_t i = 0; i < pool->n_threads; i++) run_lane(pool, &pool->lanes[(thread + i) % pool->n_threads], thread);
}

static void leave(tern_pool *pool)
{
    if (atomic_fetch_sub(&pool->inside.value, 1) == 1) gate_wake(&pool->inside);
}

/* A worker that comes when the caller has closed the call stays out: nobody waits for a thread that the system keeps
 * from running. */
static bool join(tern_pool *pool)
{
    if (atomic_fetch_add(&pool->inside.value, 1) & OPEN) return true;
    leave(pool);
    return false;
}

/* Asks for memory, a few lines at a time, until the next call begins. */
static void fetch(tern_pool *pool, tern_ahead_range range, uint32_t calls)
{
    for (size_t at = 0; at < range.bytes; at += CACHE_LINE) {
        if (at / CACHE_LINE % LINES_PER_LOOK == 0 && changed(&pool->call, calls)) return;
        __builtin_prefetch(range.from + at, 0, 2);
    }
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    tern_pool *pool = self->pool;
    for (uint32_t calls = 0;;) {
        gate_wait(&pool->call, calls, pool->crowded);
        calls = atomic_load(&pool->call.value);
        if (pool->stopping) return NULL;
        if (!join(pool)) continue;
        run_tasks(pool, self->thread);
        tern_ahead_range range = {0};
        if (pool->ahead) range = pool->ahead(pool->ahead_context, self->thread, pool->n_threads);
        leave(pool);
        fetch(pool, range, calls);
    }
}

/* Best effort: a core that is taken away meanwhile only costs speed. */
static void pin_worker(const worker *w)
{
#if defined(__linux__)
    uint32_t ids[MAX_THREADS];
    uint32_t n = tern_cpu_core_ids(ids, MAX_THREADS);
    if (n == 0) return;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(ids[w->thread % n], &mask);
    pthread_setaffinity_np(w->id, sizeof mask, &mask);
#else
    (void)w;
#endif
}

/* Workers block every signal but those that a fault raises: handlers run in the program's own threads. */
static int start_worker(worker *w)
{
    sigset_t blocked, old;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGFPE);
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    int code = pthread_create(&w->id, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

static tern_status start_workers(tern_pool *pool, bool pin, tern_error *err)
{
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        worker *w = &pool->workers[i];
        *w = (worker){.pool = pool, .thread = i};
        int code = start_worker(w);
        if (code)
            return tern_fail(err, TERN_IO, "cannot start thread %u of %u: %s", i, pool->n_threads, strerror(code));
        pool->n_started++;
        if (pin) pin_worker(w);
    }
    return TERN_OK;
}

tern_status tern_pool_open(tern_pool **pool, uint32_t n_threads, bool pin, tern_error *err)
{
    *pool = NULL;
    if (n_threads > MAX_THREADS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u threads, at most %d expected", n_threads, MAX_THREADS);
    if (n_threads == 0) n_threads = tern_cpu_cores();
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    tern_pool *made = tern_alloc_aligned(sizeof *made, CACHE_LINE);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->n_threads = n_threads;
    made->crowded = n_threads > tern_cpu_threads();
    made->lanes = tern_alloc_aligned(n_threads * sizeof *made->lanes, CACHE_LINE);
    made->workers = tern_calloc(n_threads, sizeof *made->workers);
    tern_status status =
        made->lanes && made->workers ? start_workers(made, pin, err) : tern_fail_alloc(err, n_threads * sizeof(lane));
    if (status == TERN_OK) *pool = made;
    else tern_pool_close(made);
    return status;
}

void tern_pool_close(tern_pool *pool)
{
    if (!pool) return;
    pool->stopping = true;
    atomic_fetch_add(&pool->call.value, 1);
    gate_wake(&pool->call);
    for (uint32_t i = 1; i <= pool->n_started; i++) pthread_join(pool->workers[i].id, NULL);
    tern_free(pool->workers);
    tern_free_aligned(pool->lanes);
    tern_free_aligned(pool);
}

uint32_t tern_pool_threads(const tern_pool *pool)
{
    return pool->n_threads;
}

void tern_pool_ahead(tern_pool *pool, tern_ahead_fn fn, const void *context)
{
    if (!pool) return;
    pool->ahead = fn;
    pool->ahead_context = context;
}

static void split_tasks(tern_pool *pool, uint64_t n_tasks)
{
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        lane *l = &pool->lanes[i];
        atomic_store_explicit(&l->next, tern_pool_first_task(n_tasks, i, pool->n_threads), memory_order_relaxed);
        l->end = tern_pool_first_task(n_tasks, i + 1, pool->n_threads);
    }
}

void tern_pool_for(tern_pool *pool, uint32_t n_tasks, tern_task_fn fn, void *context)
{
    if (!pool || pool->n_threads == 1 || n_tasks <= 1) {
        for (uint32_t i = 0; i < n_tasks; i++) fn(context, i, 0);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    split_tasks(pool, n_tasks);
    atomic_fetch_or(&pool->inside.value, OPEN);
    atomic_fetch_add(&pool->call.value, 1);
    gate_wake(&pool->call);
    run_tasks(pool, 0);
    uint32_t left = atomic_fetch_and(&pool->inside.value, ~OPEN) & ~OPEN;
    for (; left != 0; left = atomic_load(&pool->inside.value)) gate_wait(&pool->inside, left, pool->crowded);
}

typedef struct trial {
    tern_try_fn fn;
    void *context;
    tern_status status;
    tern_error err;
    atomic_bool failed;
} trial;

static void try_task(void *context, uint32_t task, uint32_t thread)
{
    trial *t = context;
    tern_error err = {0};
    if (atomic_load_explicit(&t->failed, memory_order_relaxed)) return;
    const tern_status status = t->fn(t->context, task, thread, &err);
    if (status == TERN_OK || atomic_exchange(&t->failed, true)) return;
    t->status = status;
    t->err = err;
}

tern_status tern_pool_try(tern_pool *pool, uint32_t n_tasks, tern_try_fn fn, void *context, tern_error *err)
{
    trial t = {.fn = fn, .context = context, .status = TERN_OK};
    tern_pool_for(pool, n_tasks, try_task, &t);
    if (t.status != TERN_OK && err) *err = t.err;
    return t.status;
}
