/* Ranks by MPI: the module that a program opens when it is one of several. Built where there is MPI, linked with
 * nothing of Tern. Messages go from each to each, so that whoever waits knows for whom; a thread says that this process
 * lives. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks/ranks.h"

enum { TAG_GATHER = 1, TAG_SWAP, TAG_TELL, TAG_SEND, TAG_BEAT, SPINS = 64, SHORT_WAIT_US = 20000, NAP_US = 300 };
enum { PARCELS = 256, MAX_SENT = 2 };

/* A message that was copied, and is on its way or free. */
typedef struct parcel {
    void *data;
    size_t cap;
    MPI_Request request;
    int to, tag;
    bool busy;
} parcel;

typedef struct mpi_ranks {
    tern_ranks base;
    MPI_Comm data, beats;
    pthread_mutex_t lock; /* of the parcels */
    pthread_cond_t posted;
    parcel parcels[PARCELS];
    atomic_uint n_busy;
    void *heard; /* what was told last */
    size_t heard_cap;
    pthread_t heart;
    atomic_bool ends;
    atomic_llong heard_us[TERN_MAX_RANKS]; /* when each said last that it lives */
} mpi_ranks;

/* What one call waits for. */
typedef struct waits {
    MPI_Request requests[2 * TERN_MAX_RANKS];
    int peers[2 * TERN_MAX_RANKS], n; /* by their numbers of all */
} waits;

static mpi_ranks *self(tern_ranks *ranks)
{
    return (mpi_ranks *)(ranks->all ? ranks->all : ranks);
}

static long long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static tern_status fail(tern_error *err, tern_status code, const char *what, int rank)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, what, rank, TERN_RANKS_SILENCE_MS / 1000);
    return code;
}

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- signs of life */

static void beat(mpi_ranks *r)
{
    static const char sign;
    for (int i = 0; i < (int)r->base.n; i++) /* one byte is on its way at once, whoever listens */
        if (i != (int)r->base.rank) MPI_Send(&sign, 1, MPI_CHAR, i, TAG_BEAT, r->beats);
}

static void listen(mpi_ranks *r)
{
    MPI_Status from;
    int there = 0;
    char sign;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_BEAT, r->beats, &there, &from) == MPI_SUCCESS && there) {
        MPI_Recv(&sign, 1, MPI_CHAR, from.MPI_SOURCE, TAG_BEAT, r->beats, MPI_STATUS_IGNORE);
        atomic_store(&r->heard_us[from.MPI_SOURCE], now_us());
    }
}

/* Whoever waits for a rank says that it is silent, and all end. One that computes for long waits for none: it is ended
 * from here, a little later. */
static void end_if_silent(mpi_ranks *r, long long now)
{
    for (int i = 0; i < (int)r->base.n; i++) {
        if (i == (int)r->base.rank || now - atomic_load(&r->heard_us[i]) < 1000LL * TERN_RANKS_LONG_SILENCE_MS)
            continue;
        fprintf(stderr, "tern: rank %d does not answer: nothing was heard of it for %d s, so all ranks end\n", i,
                TERN_RANKS_LONG_SILENCE_MS / 1000);
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void free_arrived(mpi_ranks *r);

/* Sleeps until then, or something is on its way. */
static void sleep_until(mpi_ranks *r, long long end)
{
    const struct timespec at = {.tv_sec = end / 1000000, .tv_nsec = end % 1000000 * 1000};
    pthread_mutex_lock(&r->lock);
    if (!atomic_load(&r->n_busy) && !atomic_load(&r->ends)) pthread_cond_timedwait(&r->posted, &r->lock, &at);
    pthread_mutex_unlock(&r->lock);
}

/* Until the next sign of life; what is on its way meanwhile is pushed on. */
static void rest(mpi_ranks *r)
{
    const long long end = now_us() + 1000LL * TERN_RANKS_BEAT_MS;
    while (!atomic_load(&r->ends) && now_us() < end) {
        if (atomic_load(&r->n_busy)) free_arrived(r);
        if (atomic_load(&r->n_busy)) nap(NAP_US);
        else sleep_until(r, end);
    }
}

static void *heart(void *context)
{
    mpi_ranks *r = context;
    for (long long last = now_us(); !atomic_load(&r->ends);) {
        const long long now = now_us();
        /* After a pause of this process itself the others have not been heard because nobody listened. */
        if (now - last > 2000LL * TERN_RANKS_BEAT_MS)
            for (uint32_t i = 0; i < r->base.n; i++) atomic_store(&r->heard_us[i], now);
        last = now;
        beat(r);
        listen(r);
        end_if_silent(r, now);
        rest(r);
    }
    listen(r);
    return NULL;
}

static bool is_silent(mpi_ranks *r, int rank)
{
    return now_us() - atomic_load(&r->heard_us[rank]) > 1000LL * TERN_RANKS_SILENCE_MS;
}

/* ---- waiting */

/* Lets others run, more so the longer it takes. */
static void idle(unsigned round, long long since, bool long_waits)
{
    if (round % SPINS) return;
    if (long_waits && now_us() - since > SHORT_WAIT_US) nap(NAP_US);
    else sched_yield();
}

static tern_status fail_silent(int rank, tern_error *err)
{
    return fail(err, TERN_IO, "rank %d does not answer: nothing was heard of it for %d s, so all ranks end", rank);
}

/* Until all requests are done, or a rank that one of them waits for is silent. */
static tern_status await(mpi_ranks *r, waits *w, bool long_waits, tern_error *err)
{
    const long long since = now_us();
    for (unsigned round = 1;; round++) {
        int done = 0;
        if (MPI_Testall(w->n, w->requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return fail(err, TERN_IO, "MPI: a message to or from another rank than %d failed", (int)r->base.rank);
        if (done) return TERN_OK;
        idle(round, since, long_waits);
        for (int i = 0; round % 4096 == 0 && i < w->n; i++) {
            int one = 0;
            MPI_Request_get_status(w->requests[i], &one, MPI_STATUS_IGNORE);
            if (!one && is_silent(r, w->peers[i])) return fail_silent(w->peers[i], err);
        }
    }
}

/* ---- messages that are on their way while this process goes on */

/* With the lock. */
static unsigned test_parcels(mpi_ranks *r)
{
    unsigned n = 0;
    for (int i = 0; i < PARCELS; i++) {
        parcel *p = &r->parcels[i];
        int done = 0;
        if (p->busy && MPI_Test(&p->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done) p->busy = false;
        n += p->busy;
    }
    atomic_store(&r->n_busy, n);
    return n;
}

static void free_arrived(mpi_ranks *r)
{
    pthread_mutex_lock(&r->lock);
    test_parcels(r);
    pthread_mutex_unlock(&r->lock);
}

/* With the lock: one that is free, the smallest that is large enough if there is one; NULL: too much is on its way. */
static parcel *find_parcel(mpi_ranks *r, int to, int tag, size_t bytes)
{
    parcel *best = NULL;
    int n_sent = 0;
    for (int i = 0; i < PARCELS; i++) {
        parcel *p = &r->parcels[i];
        n_sent += p->busy && p->to == to && p->tag == TAG_SEND;
        if (p->busy) continue;
        const bool fits = p->cap >= bytes, best_fits = best && best->cap >= bytes;
        if (!best || (fits && (!best_fits || p->cap < best->cap))) best = p;
    }
    /* Those before it must not wait for one that waits for them. */
    return tag == TAG_SEND && to > (int)r->base.rank && n_sent >= MAX_SENT ? NULL : best;
}

static tern_status make_room(parcel *p, size_t bytes, tern_error *err)
{
    if (p->cap >= bytes) return TERN_OK;
    void *data = realloc(p->data, bytes);
    if (!data) return fail(err, TERN_OUT_OF_MEMORY, "no memory for a message to rank %d", p->to);
    p->data = data;
    p->cap = bytes;
    return TERN_OK;
}

/* Two pieces as one message. */
typedef struct pieces {
    const void *head, *data;
    size_t head_bytes, bytes;
} pieces;

/* With the lock. */
static tern_status post_now(mpi_ranks *r, parcel *p, int to, int tag, const pieces *what, tern_error *err)
{
    const size_t bytes = what->head_bytes + what->bytes;
    p->to = to;
    p->tag = tag;
    if (make_room(p, bytes ? bytes : 1, err) != TERN_OK) return err->code;
    if (what->head_bytes) memcpy(p->data, what->head, what->head_bytes);
    if (what->bytes) memcpy((char *)p->data + what->head_bytes, what->data, what->bytes);
    if (MPI_Isend(p->data, (int)bytes, MPI_BYTE, to, tag, r->data, &p->request) != MPI_SUCCESS)
        return fail(err, TERN_IO, "MPI: a message to rank %d failed", to);
    int left = 0; /* short ones have, at once */
    MPI_Test(&p->request, &left, MPI_STATUS_IGNORE);
    p->busy = !left;
    if (left) return TERN_OK;
    atomic_fetch_add(&r->n_busy, 1);
    pthread_cond_signal(&r->posted);
    return TERN_OK;
}

static tern_status post(mpi_ranks *r, int to, int tag, const pieces *what, tern_error *err)
{
    const long long since = now_us();
    for (unsigned round = 1;; round++) {
        pthread_mutex_lock(&r->lock);
        parcel *p = find_parcel(r, to, tag, what->head_bytes + what->bytes);
        if (!p && test_parcels(r) < PARCELS) p = find_parcel(r, to, tag, what->head_bytes + what->bytes);
        const tern_status status = p ? post_now(r, p, to, tag, what, err) : TERN_OK;
        pthread_mutex_unlock(&r->lock);
        if (p) return status;
        idle(round, since, true);
        if (round % 4096 == 0 && is_silent(r, to)) return fail_silent(to, err);
    }
}

/* Until all that was posted has left. */
static tern_status flush_parcels(mpi_ranks *r, tern_error *err)
{
    const long long since = now_us();
    for (unsigned round = 1; atomic_load(&r->n_busy); round++) {
        free_arrived(r);
        idle(round, since, true);
        for (int i = 0; round % 4096 == 0 && i < PARCELS; i++)
            if (r->parcels[i].busy && is_silent(r, r->parcels[i].to)) return fail_silent(r->parcels[i].to, err);
    }
    return TERN_OK;
}

/* ---- the table */

/* Waits for one more. */
static MPI_Request *add(waits *w, int peer)
{
    w->peers[w->n] = peer;
    return &w->requests[w->n++];
}

static tern_status gather(tern_ranks *ranks, const void *mine, const size_t *bytes, void *all, tern_error *err)
{
    mpi_ranks *r = self(ranks);
    const int first = (int)ranks->first;
    waits w = {.n = 0};
    char *at = all;
    for (int i = 0; i < (int)ranks->n; i++) {
        if (i == (int)ranks->rank) memmove(at, mine, bytes[i]);
        else if (bytes[i]) MPI_Irecv(at, (int)bytes[i], MPI_BYTE, first + i, TAG_GATHER, r->data, add(&w, first + i));
        at += bytes[i];
    }
    at = all;
    for (uint32_t i = 0; i < ranks->rank; i++) at += bytes[i];
    for (int i = 0; i < (int)ranks->n && bytes[ranks->rank]; i++)
        if (i != (int)ranks->rank)
            MPI_Isend(at, (int)bytes[ranks->rank], MPI_BYTE, first + i, TAG_GATHER, r->data, add(&w, first + i));
    return await(r, &w, true, err);
}

static tern_status swap(tern_ranks *ranks, const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes,
                        tern_error *err)
{
    mpi_ranks *r = self(ranks);
    const char *from = out;
    char *to = in;
    waits w = {.n = 0};
    for (int i = 0; i < (int)ranks->n; from += out_bytes[i], to += in_bytes[i], i++) {
        const int peer = (int)ranks->first + i;
        if (i == (int)ranks->rank) {
            memcpy(to, from, in_bytes[i]);
            continue;
        }
        if (in_bytes[i]) MPI_Irecv(to, (int)in_bytes[i], MPI_BYTE, peer, TAG_SWAP, r->data, add(&w, peer));
        if (out_bytes[i]) MPI_Isend(from, (int)out_bytes[i], MPI_BYTE, peer, TAG_SWAP, r->data, add(&w, peer));
    }
    return await(r, &w, true, err);
}

static tern_status tell(tern_ranks *ranks, const void *head, size_t head_bytes, const void *data, size_t bytes,
                        tern_error *err)
{
    mpi_ranks *r = self(ranks);
    const pieces what = {.head = head, .data = data, .head_bytes = head_bytes, .bytes = bytes};
    if (head_bytes + bytes > INT32_MAX) return fail(err, TERN_LIMIT, "a message of rank %d is longer than 2 GB", 0);
    for (int i = 1; i < (int)r->base.n; i++)
        if (post(r, i, TAG_TELL, &what, err) != TERN_OK) return err->code;
    return TERN_OK;
}

/* The bytes of the next message of rank 0, as long as it lives. */
static tern_status await_told(mpi_ranks *r, int *n, tern_error *err)
{
    MPI_Status from;
    int there = 0;
    const long long since = now_us();
    for (unsigned round = 1;; round++) {
        if (MPI_Iprobe(0, TAG_TELL, r->data, &there, &from) != MPI_SUCCESS)
            return fail(err, TERN_IO, "MPI: a message of rank %d failed", 0);
        if (there) break;
        idle(round, since, true);
        if (round % 4096 == 0 && is_silent(r, 0)) return fail_silent(0, err);
    }
    MPI_Get_count(&from, MPI_BYTE, n);
    return TERN_OK;
}

static tern_status hear(tern_ranks *ranks, void *head, size_t head_bytes, const void **data, size_t *bytes,
                        tern_error *err)
{
    mpi_ranks *r = self(ranks);
    waits w = {.n = 0};
    int n = 0;
    if (await_told(r, &n, err) != TERN_OK) return err->code;
    if (n < 0 || (size_t)n < head_bytes) return fail(err, TERN_INTERNAL, "a message of rank %d is too short", 0);
    if (r->heard_cap < (size_t)n) {
        void *room = realloc(r->heard, (size_t)n);
        if (!room) return fail(err, TERN_OUT_OF_MEMORY, "no memory for a message of rank %d", 0);
        r->heard = room;
        r->heard_cap = (size_t)n;
    }
    MPI_Irecv(r->heard, n, MPI_BYTE, 0, TAG_TELL, r->data, add(&w, 0));
    if (await(r, &w, false, err) != TERN_OK) return err->code;
    if (head_bytes) memcpy(head, r->heard, head_bytes);
    *data = (const char *)r->heard + head_bytes;
    *bytes = (size_t)n - head_bytes;
    return TERN_OK;
}

static tern_status send(tern_ranks *ranks, uint32_t to, const void *data, size_t bytes, tern_error *err)
{
    const pieces what = {.data = data, .bytes = bytes};
    return post(self(ranks), (int)to, TAG_SEND, &what, err);
}

static tern_status receive(tern_ranks *ranks, uint32_t from, void *data, size_t bytes, tern_error *err)
{
    mpi_ranks *r = self(ranks);
    waits w = {.n = 0};
    MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, TAG_SEND, r->data, add(&w, (int)from));
    return await(r, &w, true, err);
}

static void close_ranks(tern_ranks *ranks, bool failed)
{
    mpi_ranks *r = self(ranks);
    tern_error ignored;
    if (!failed) failed = flush_parcels(r, &ignored) != TERN_OK;
    if (!failed) { /* all have come as far as this, unless one is silent */
        waits w = {.n = 0};
        MPI_Ibarrier(r->data, add(&w, ranks->rank == 0 ? (int)ranks->n - 1 : 0));
        failed = await(r, &w, true, &ignored) != TERN_OK;
    }
    if (failed) {
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->ends, true);
    pthread_cond_signal(&r->posted);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->heart, NULL);
    MPI_Finalize();
    for (int i = 0; i < PARCELS; i++) free(r->parcels[i].data);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->posted);
    free(r->heard);
    free(r);
}

static void init_locks(mpi_ranks *r)
{
    pthread_condattr_t by_clock;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->posted, &by_clock);
    pthread_condattr_destroy(&by_clock);
}

__attribute__((visibility("default"))) tern_status tern_ranks_module_open(tern_ranks **ranks, tern_error *err);

/* Among the ranks that share this one's memory. */
static uint32_t local_rank(void)
{
    MPI_Comm here;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &rank);
    MPI_Comm_free(&here);
    return (uint32_t)rank;
}

tern_status tern_ranks_module_open(tern_ranks **ranks, tern_error *err)
{
    int threads = 0, rank = 0, n = 0;
    mpi_ranks *r = calloc(1, sizeof *r);
    if (!r) return fail(err, TERN_OUT_OF_MEMORY, "no memory for ranks", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads) != MPI_SUCCESS || threads != MPI_THREAD_MULTIPLE) {
        free(r);
        return fail(err, TERN_UNSUPPORTED, "MPI: level %d of threads expected (MPI_THREAD_MULTIPLE)",
                    MPI_THREAD_MULTIPLE);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->beats);
    r->base = (tern_ranks){.rank = (uint32_t)rank,
                           .n = (uint32_t)n,
                           .local = local_rank(),
                           .gather = gather,
                           .swap = swap,
                           .tell = tell,
                           .hear = hear,
                           .send = send,
                           .receive = receive,
                           .close = close_ranks};
    init_locks(r);
    for (int i = 0; i < TERN_MAX_RANKS; i++) atomic_store(&r->heard_us[i], now_us());
    *ranks = &r->base;
    if (n > TERN_MAX_RANKS || pthread_create(&r->heart, NULL, heart, r) == 0) return TERN_OK;
    free(r);
    return fail(err, TERN_IO, "MPI: rank %d cannot start a thread", rank);
}
