/* Tensors that ranks exchange: sums in the order of the passes and copies to all, between threads that stand for
 * processes, in pieces that begin and end within tensors. */
#include <math.h>
#include <pthread.h>

#include "backend/cpu/cpu.h"
#include "base/rng.h"
#include "ops/ref/update.h"
#include "support/test.h"
#include "train/collective.h"

enum { N = 3, LATEST = 16, N_TENSORS = 9, MOST_FLOATS = 1100003 };

/* Blocks that a rank has for another: the latest swaps of each. */
typedef struct mail {
    tern_ranks_block block;
    uint64_t number; /* of the swap, from 1 on */
    bool taken;
} mail;

typedef struct post {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mail sent[N][N][LATEST];
} post;

typedef struct fake_ranks {
    tern_ranks base;
    post *post;
    uint64_t n_started, numbers[TERN_RANKS_SWAPS];
    tern_ranks_block in[TERN_RANKS_SWAPS][N];
    uint32_t n_under_way, most_under_way;
} fake_ranks;

static tern_status start(tern_ranks *ranks, uint32_t place, const tern_ranks_block *out, const tern_ranks_block *in,
                         tern_error *err)
{
    (void)err;
    fake_ranks *f = (fake_ranks *)ranks;
    const uint64_t number = f->numbers[place] = ++f->n_started;
    pthread_mutex_lock(&f->post->lock);
    for (uint32_t r = 0; r < N; r++) f->post->sent[ranks->rank][r][number % LATEST] = (mail){out[r], number, false};
    pthread_cond_broadcast(&f->post->changed);
    pthread_mutex_unlock(&f->post->lock);
    memcpy(f->in[place], in, sizeof f->in[place]);
    f->n_under_way++;
    if (f->n_under_way > f->most_under_way) f->most_under_way = f->n_under_way;
    return TERN_OK;
}

/* With the lock: what rank r has sent here, and whether it has taken what was sent there. */
static bool exchange(fake_ranks *f, uint32_t r, uint32_t place)
{
    const uint64_t number = f->numbers[place];
    const tern_ranks_block *in = &f->in[place][r];
    mail *from = &f->post->sent[r][f->base.rank][number % LATEST];
    if (from->number == number && !from->taken) {
        if (from->block.bytes != in->bytes) return false; /* for ever: the test times out */
        if (in->bytes) memcpy(in->data, from->block.data, in->bytes);
        from->taken = true;
        pthread_cond_broadcast(&f->post->changed);
    }
    return from->number == number && f->post->sent[f->base.rank][r][number % LATEST].taken;
}

static tern_status finish(tern_ranks *ranks, uint32_t place, tern_error *err)
{
    (void)err;
    fake_ranks *f = (fake_ranks *)ranks;
    pthread_mutex_lock(&f->post->lock);
    for (uint32_t done = 0; done < N - 1;) {
        done = 0;
        for (uint32_t r = 0; r < N; r++) done += r != ranks->rank && exchange(f, r, place);
        if (done < N - 1) pthread_cond_wait(&f->post->changed, &f->post->lock);
    }
    pthread_mutex_unlock(&f->post->lock);
    f->n_under_way--;
    return TERN_OK;
}

static tern_status gather(tern_ranks *ranks, const void *mine, const size_t *bytes, void *all, tern_error *err)
{
    tern_ranks_block out[N], in[N];
    uint8_t *to = all;
    for (uint32_t r = 0; r < N; r++, to += bytes[r - 1]) {
        out[r] = (tern_ranks_block){(void *)(uintptr_t)mine, bytes[ranks->rank]};
        in[r] = (tern_ranks_block){to, bytes[r]};
        if (r == ranks->rank) memcpy(to, mine, bytes[r]);
    }
    TERN_TRY(start(ranks, 0, out, in, err));
    return finish(ranks, 0, err);
}

/* One rank: its tensors, and what it has seen. */
typedef struct worker {
    fake_ranks ranks;
    tern_backend *backend;
    tern_collective_tensor tensors[N_TENSORS];
    bool infinite, late; /* copies late */
    tern_error err;
    tern_status status;
} worker;

/* ---- a backend with copies beside what runs, as late as they may be: written when somebody reads or waits, from
 * memory that must still have what was to be written */

typedef struct late_write {
    tern_buffer *buffer;
    uint64_t offset, bytes;
    const void *data;
} late_write;

enum { MOST_LATE = 4096 };
static _Thread_local late_write late[MOST_LATE];
static _Thread_local size_t n_late;
static _Thread_local tern_backend plain;

static tern_status write_late(tern_backend *b, tern_error *err)
{
    for (size_t i = 0; i < n_late; i++)
        TERN_TRY(plain.buffer_write(b, late[i].buffer, late[i].offset, late[i].data, late[i].bytes, err));
    n_late = 0;
    return TERN_OK;
}

static tern_status write_beside(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    if (n_late == MOST_LATE) TERN_TRY(write_late(b, err));
    late[n_late++] = (late_write){buffer, offset, bytes, data};
    return TERN_OK;
}

static tern_status read_after(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                              tern_error *err)
{
    TERN_TRY(write_late(b, err));
    return plain.buffer_read(b, buffer, offset, data, bytes, err);
}

static void pin(tern_backend *b, void *data, uint64_t bytes, bool pinned)
{
    (void)b, (void)data, (void)bytes, (void)pinned;
}

static const tern_backend_copies copies = {.write_beside = write_beside, .read_beside = read_after, .pin = pin};

static void copy_late(tern_backend *b)
{
    plain = *b;
    b->copies = &copies;
    b->buffer_read = read_after;
    b->wait = write_late;
}

/* Less than a piece, several pieces, none, and none of an owner for long. */
static const size_t sizes[N_TENSORS] = {1000, MOST_FLOATS, 1, 0, 300001, MOST_FLOATS, 77, 800000, 5};
static const uint32_t owners[N_TENSORS] = {0, 1, 1, 2, 0, 1, 2, 0, 2};

/* What a rank has of a tensor in a round: all kinds of bits, but with `finite` no others. */
static void fill(float *x, size_t n, uint32_t rank, uint32_t round, size_t tensor, bool finite)
{
    tern_rng rng = {.state = 1 + rank + 10 * round + 100 * tensor};
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)tern_rng_u64(&rng);
        if (i % 3) bits = (bits & 0x807fffffu) | (0x3e000000u + (bits & 0x01000000u)); /* numbers of one size */
        if (finite && (bits & 0x7f800000u) == 0x7f800000u) bits ^= 0x40000000u;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

enum { ROUNDS = 3 };
static const uint32_t n_active[ROUNDS] = {3, 2, 1};

static tern_status put_gradients(worker *w, uint32_t round, bool finite)
{
    float *x = malloc(MOST_FLOATS * sizeof *x);
    for (size_t i = 0; i < N_TENSORS; i++) {
        fill(x, sizes[i], w->ranks.base.rank, round, i, finite);
        TERN_TRY(w->backend->buffer_write(w->backend, w->tensors[i].buffer, 0, x, sizes[i] * sizeof *x, &w->err));
    }
    free(x);
    return TERN_OK;
}

static tern_status open_worker(worker *w, tern_collective **collective)
{
    const tern_cpu_options one = {.n_threads = 1};
    tern_backend *b;
    TERN_TRY(tern_cpu_open(&w->backend, &one, &w->err));
    b = w->backend;
    if (w->late) copy_late(b);
    for (size_t i = 0; i < N_TENSORS; i++) {
        tern_collective_tensor *t = &w->tensors[i];
        *t = (tern_collective_tensor){.bytes = sizes[i] * sizeof(float), .owner = owners[i]};
        TERN_TRY(b->buffer_create(b, t->bytes, &t->buffer, &w->err));
        if (owners[i] == w->ranks.base.rank) TERN_TRY(b->buffer_create(b, t->bytes, &t->sum, &w->err));
    }
    return tern_collective_open(collective, b, &w->ranks.base, MOST_FLOATS * 2 * sizeof(float), &w->err);
}

/* Three rounds of passes, of which the last ones are not of all; in two calls each, as a backward in two parts has. */
static tern_status add_rounds(worker *w, tern_collective *c)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const tern_collective_passes passes = {.n = n_active[round], .first = round == 0, .infinite = &w->infinite};
        tern_collective_passes beside = passes;
        beside.beside = w->late;
        if (w->ranks.base.rank < passes.n) TERN_TRY(put_gradients(w, round, round > 0));
        TERN_TRY(tern_collective_add(c, w->tensors, 4, &beside, &w->err));
        TERN_TRY(tern_collective_add(c, w->tensors + 4, N_TENSORS - 4, &passes, &w->err));
        TERN_TRY(tern_collective_end(c, &w->err));
    }
    return TERN_OK;
}

static tern_status work(worker *w)
{
    tern_collective *c = NULL;
    TERN_TRY(open_worker(w, &c));
    TERN_TRY(add_rounds(w, c));
    TERN_TRY(put_gradients(w, 7, false)); /* as masters, to be overwritten by those of the owners */
    TERN_TRY(tern_collective_spread(c, w->tensors, N_TENSORS, &w->err));
    TERN_TRY(tern_collective_end(c, &w->err));
    tern_collective_close(c);
    if (n_late) return tern_fail(&w->err, TERN_INTERNAL, "%zu copies that nobody has waited for", n_late);
    if (w->backend->copies) *w->backend = plain;
    return TERN_OK;
}

static void *run_worker(void *context)
{
    worker *w = context;
    w->status = work(w);
    return NULL;
}

static void check_floats(const worker *w, const tern_buffer *buffer, const float *want, size_t i, const char *what)
{
    tern_error err;
    float *got = malloc((sizes[i] + 1) * sizeof *got);
    assert_ok(w->backend->buffer_read(w->backend, buffer, 0, got, sizes[i] * sizeof *got, &err), err);
    for (size_t k = 0; k < sizes[i]; k++)
        if (memcmp(&got[k], &want[k], sizeof *got) != 0)
            fail_msg("%s, tensor %zu, element %zu on rank %u: %a found, %a expected", what, i, k, w->ranks.base.rank,
                     (double)got[k], (double)want[k]);
    free(got);
}

/* SGD at a rate of -1, pass after pass, as one process adds them up. */
static void check_tensor(const worker *workers, size_t i)
{
    static const tern_sgd add = {.lr = -1};
    float *sum = calloc(sizes[i] + 1, sizeof *sum), *g = calloc(sizes[i] + 1, sizeof *g);
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t r = 0; r < n_active[round]; r++) {
            fill(g, sizes[i], r, round, i, round > 0);
            tern_ref_sgd(&add, g, sizes[i], sum, NULL);
        }
    check_floats(&workers[owners[i]], workers[owners[i]].tensors[i].sum, sum, i, "sum");
    fill(g, sizes[i], owners[i], 7, i, false);
    for (uint32_t r = 0; r < N; r++) check_floats(&workers[r], workers[r].tensors[i].buffer, g, i, "copy");
    free(sum);
    free(g);
}

static void ranks_exchange_tensors(void **state)
{
    (void)state;
    static worker workers[N];
    post office = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[N];
    for (uint32_t r = 0; r < N; r++) {
        const tern_ranks table = {.rank = r, .n = N, .gather = gather, .swap_start = start, .swap_finish = finish};
        workers[r] = (worker){.ranks = {.base = table, .post = &office}, .late = r != 1};
        assert_int_equal(pthread_create(&threads[r], NULL, run_worker, &workers[r]), 0);
    }
    for (uint32_t r = 0; r < N; r++) pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < N; r++) {
        assert_ok(workers[r].status, workers[r].err);
        assert_int_equal(workers[r].infinite, r != 2); /* what it owns is small, and finite by chance */
        assert_int_equal(workers[r].ranks.n_under_way, 0);
        assert_true(workers[r].ranks.most_under_way > 1);
    }
    for (size_t i = 0; i < N_TENSORS; i++) check_tensor(workers, i);
    for (uint32_t r = 0; r < N; r++) {
        for (size_t i = 0; i < N_TENSORS; i++) {
            workers[r].backend->buffer_free(workers[r].backend, workers[r].tensors[i].buffer);
            workers[r].backend->buffer_free(workers[r].backend, workers[r].tensors[i].sum);
        }
        workers[r].backend->close(workers[r].backend);
    }
}

/* ---- devices that exchange among themselves */

typedef struct device {
    fake_ranks ranks;
    tern_backend backend;
    char name[TERN_PEER_NAME_BYTES];
    uint32_t n_joined, n_added, n_spread, n_finished;
    size_t n_tensors;
    tern_status status;
    tern_error err;
} device;

static device *device_of(tern_backend *b)
{
    return (device *)(void *)((uint8_t *)b - offsetof(device, backend));
}

static void identify(tern_backend *b, char name[static TERN_PEER_NAME_BYTES], char why[static TERN_PEERS_WHY_BYTES])
{
    memcpy(name, device_of(b)->name, TERN_PEER_NAME_BYTES);
    snprintf(why, TERN_PEERS_WHY_BYTES, "no library");
}

static tern_status join(tern_backend *b, tern_ranks *ranks, tern_error *err)
{
    (void)err;
    assert_ptr_equal(ranks, &device_of(b)->ranks.base);
    device_of(b)->n_joined++;
    b->info.joined = true;
    snprintf(b->info.exchange, sizeof b->info.exchange, "a wire");
    return TERN_OK;
}

static tern_status add(tern_backend *b, const tern_collective_tensor *tensors, size_t n,
                       const tern_collective_passes *passes, tern_error *err)
{
    (void)tensors, (void)passes, (void)err;
    device_of(b)->n_added++;
    device_of(b)->n_tensors += n;
    return TERN_OK;
}

static tern_status spread(tern_backend *b, const tern_collective_tensor *tensors, size_t n, tern_error *err)
{
    (void)tensors, (void)n, (void)err;
    device_of(b)->n_spread++;
    return TERN_OK;
}

static tern_status finish_all(tern_backend *b, tern_error *err)
{
    (void)err;
    device_of(b)->n_finished++;
    return TERN_OK;
}

static const tern_backend_peers peers = {
    .identify = identify, .join = join, .add = add, .spread = spread, .finish = finish_all};

/* Opens twice, as two trainers of one backend do: it joins once. */
static tern_status use_device(device *d)
{
    const tern_collective_tensor tensors[2] = {{.owner = 0, .bytes = 4}, {.owner = 1, .bytes = 4}};
    const tern_collective_passes passes = {.n = N};
    for (int i = 0; i < 2; i++) {
        tern_collective *c;
        TERN_TRY(tern_collective_open(&c, &d->backend, &d->ranks.base, 4, &d->err));
        if (d->backend.info.joined) {
            TERN_TRY(tern_collective_add(c, tensors, 2, &passes, &d->err));
            TERN_TRY(tern_collective_spread(c, tensors, 2, &d->err));
            TERN_TRY(tern_collective_end(c, &d->err));
        }
        tern_collective_close(c);
    }
    return TERN_OK;
}

static void *run_device(void *context)
{
    device *d = context;
    d->status = use_device(d);
    return NULL;
}

/* Names of the three devices, "-": the backend knows no peers; "": it cannot be joined. */
static void check_joining(const char *const names[N], const char *said)
{
    static device devices[N];
    post office = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[N];
    for (uint32_t r = 0; r < N; r++) {
        const tern_ranks table = {.rank = r, .n = N, .gather = gather};
        devices[r] = (device){.ranks = {.base = table, .post = &office}, .backend.info.name = "fake"};
        if (*names[r] != '-') devices[r].backend.peers = &peers;
        snprintf(devices[r].name, sizeof devices[r].name, "%s", names[r]);
        assert_int_equal(pthread_create(&threads[r], NULL, run_device, &devices[r]), 0);
    }
    for (uint32_t r = 0; r < N; r++) pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < N; r++) {
        const device *d = &devices[r];
        const bool joined = strcmp(said, "a wire") == 0;
        assert_ok(d->status, d->err);
        assert_string_equal(d->backend.info.exchange, said);
        assert_int_equal(d->n_joined, joined);
        assert_int_equal(d->n_added, 2 * joined);
        assert_int_equal(d->n_tensors, 4 * joined);
        assert_int_equal(d->n_spread, 2 * joined);
        assert_int_equal(d->n_finished, 2 * joined);
    }
}

static void devices_join_where_all_can(void **state)
{
    (void)state;
    check_joining((const char *[]){"a 1", "a 2", "b 1"}, "a wire");
    check_joining((const char *[]){"a 1", "", "b 1"}, "memory of the host (rank 1: no library)");
    check_joining((const char *[]){"a 1", "a 2", "a 1"}, "memory of the host (ranks 0 and 2 have one device)");
    check_joining((const char *[]){"a 1", "a 2", "-"},
                  "memory of the host (rank 2: backend \"fake\" has no other way)");
}

/* Every kind of number meets every other, also where vectors end; what is no finite one is told. */
static void passes_are_added_exactly(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {0,          1,          0x00800000, 0x00ffffff, 0x01000000, 0x3f800000,
                                     0x40490fdb, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f800001, 0x7effffff};
    enum { KINDS = sizeof kinds / sizeof *kinds, ALL = 4 * KINDS * KINDS };
    static const tern_sgd add = {.lr = -1};
    float was[ALL], g[ALL], got[ALL], want[ALL];
    for (uint32_t i = 0; i < ALL; i++) {
        const uint32_t a = kinds[i / 4 / KINDS] | (i & 1) << 31, b = kinds[i / 4 % KINDS] | (i & 2) << 30;
        memcpy(&was[i], &a, sizeof a);
        memcpy(&g[i], &b, sizeof b);
    }
    memcpy(want, was, sizeof want);
    tern_ref_sgd(&add, g, ALL, want, NULL);
    assert_false(tern_collective_add_pass(was, g, ALL, got));
    assert_memory_equal(got, want, sizeof want);
    memset(want, 0, sizeof want);
    tern_ref_sgd(&add, g, ALL, want, NULL);
    assert_false(tern_collective_add_pass(NULL, g, ALL, got));
    assert_memory_equal(got, want, sizeof want);
    for (uint32_t i = 0; i < ALL; i++) { /* one at a time; and in place */
        float sum = was[i], one = was[i];
        tern_ref_sgd(&add, &g[i], 1, &one, NULL);
        assert_true(tern_collective_add_pass(&sum, &g[i], 1, &sum) == (isfinite(g[i]) != 0));
        assert_memory_equal(&sum, &one, sizeof one);
    }
}

static const struct CMUnitTest collective[] = {cmocka_unit_test(passes_are_added_exactly),
                                               cmocka_unit_test(ranks_exchange_tensors),
                                               cmocka_unit_test(devices_join_where_all_can)};

TEST_GROUP(collective, "threads", collective);
