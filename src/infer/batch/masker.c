/* The threads that make masks. Masks of grammars that last took the least time come first, and one thread makes short
 * ones only. So a slow grammar waits for the others, not they for it. */
#include "infer/batch/masker.h"

#include <time.h>

#include "base/alloc.h"

static const double SHORT_MS = 2;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Goes on by a token, and makes the mask of what follows. */
static tern_status make_mask(tern_mask *mask, size_t n_words, tern_error *err)
{
    if (!mask->state) TERN_TRY(tern_grammar_state_open(&mask->state, mask->grammar, err));
    if (mask->id >= 0) TERN_TRY(tern_grammar_state_accept(mask->state, mask->id, err));
    return tern_grammar_state_mask(mask->state, mask->words, n_words, err);
}

static bool is_busy(const tern_masker *m, const tern_grammar *grammar)
{
    for (uint32_t i = 0; i < TERN_MASKER_THREADS; i++)
        if (m->running[i] && m->running[i]->grammar == grammar) return true;
    return false;
}

/* With the lock: takes the shortest out of the queue, of a grammar that no other thread uses; NULL: there is none. */
static tern_mask *take(tern_masker *m, bool only_short)
{
    tern_mask **best = NULL;
    for (tern_mask **at = &m->first; *at; at = &(*at)->next)
        if (!is_busy(m, (*at)->grammar) && (!best || (*at)->ms < (*best)->ms)) best = at;
    if (!best || (only_short && (*best)->ms > SHORT_MS)) return NULL;
    tern_mask *mask = *best;
    *best = mask->next;
    mask->queued = false;
    return mask;
}

/* With the lock, which is given back meanwhile. */
static void run(tern_masker *m, tern_mask *mask, uint32_t thread)
{
    tern_error error = {0};
    mask->running = true;
    m->running[thread] = mask;
    pthread_mutex_unlock(&m->lock);
    const double began = now_ms();
    (void)make_mask(mask, m->n_words, &error);
    const double ms = now_ms() - began;
    pthread_mutex_lock(&m->lock);
    mask->error = error;
    mask->ms = ms;
    mask->running = false;
    m->running[thread] = NULL;
    pthread_cond_broadcast(&m->done);
    pthread_cond_broadcast(&m->work); /* others of its grammar may go on */
}

static void work(tern_masker *m, uint32_t thread)
{
    pthread_mutex_lock(&m->lock);
    while (!m->stopping) {
        tern_mask *mask = take(m, thread > 0);
        if (mask) run(m, mask, thread);
        else pthread_cond_wait(&m->work, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
}

static void *work_on_any(void *masker)
{
    work(masker, 0);
    return NULL;
}

static void *work_on_short(void *masker)
{
    work(masker, 1);
    return NULL;
}

tern_status tern_masker_init(tern_masker *m, uint32_t n_vocab, tern_error *err)
{
    pthread_condattr_t by_clock;
    m->n_words = ((size_t)n_vocab + 31) / 32;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->work, NULL);
    if (pthread_condattr_init(&by_clock) != 0) return tern_fail_alloc(err, sizeof by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&m->done, &by_clock);
    pthread_condattr_destroy(&by_clock);
    return TERN_OK;
}

void tern_masker_deinit(tern_masker *m)
{
    if (!m->n_words) return;
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    pthread_cond_broadcast(&m->work);
    pthread_mutex_unlock(&m->lock);
    for (uint32_t i = 0; i < m->n_threads; i++) pthread_join(m->threads[i], NULL);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->work);
    pthread_cond_destroy(&m->done);
}

/* With the first grammar. */
static tern_status start_threads(tern_masker *m, tern_error *err)
{
    static void *(*const mains[TERN_MASKER_THREADS])(void *) = {work_on_any, work_on_short};
    for (; m->n_threads < TERN_MASKER_THREADS; m->n_threads++)
        if (pthread_create(&m->threads[m->n_threads], NULL, mains[m->n_threads], m) != 0)
            return tern_fail(err, TERN_OUT_OF_MEMORY, "thread %u of %d for masks of grammars cannot be started",
                             m->n_threads + 1, TERN_MASKER_THREADS);
    return TERN_OK;
}

static void enqueue(tern_mask *mask, tern_masker *m, int32_t id)
{
    tern_mask **last = &m->first;
    pthread_mutex_lock(&m->lock);
    mask->id = id;
    mask->next = NULL;
    mask->queued = true;
    while (*last) last = &(*last)->next;
    *last = mask;
    pthread_cond_broadcast(&m->work);
    pthread_mutex_unlock(&m->lock);
}

tern_status tern_mask_open(tern_mask *mask, tern_masker *m, tern_grammar *grammar, tern_error *err)
{
    TERN_TRY(start_threads(m, err));
    mask->grammar = grammar;
    mask->words = tern_calloc(m->n_words, sizeof *mask->words);
    if (!mask->words) return tern_fail_alloc(err, m->n_words * sizeof *mask->words);
    enqueue(mask, m, -1);
    return TERN_OK;
}

void tern_mask_go_on(tern_mask *mask, tern_masker *m, int32_t id)
{
    enqueue(mask, m, id);
}

static struct timespec in_ms(double ms)
{
    const double at = now_ms() + ms, seconds = at * 1e-3;
    const time_t whole = (time_t)seconds;
    return (struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
}

bool tern_mask_is_ready(const tern_mask *mask, tern_masker *m, double ms)
{
    const struct timespec end = in_ms(ms);
    bool in_time = ms > 0;
    pthread_mutex_lock(&m->lock);
    while ((mask->queued || mask->running) && in_time) in_time = pthread_cond_timedwait(&m->done, &m->lock, &end) == 0;
    const bool ready = !mask->queued && !mask->running;
    pthread_mutex_unlock(&m->lock);
    return ready;
}

bool tern_mask_give_up(tern_mask *mask, tern_masker *m)
{
    pthread_mutex_lock(&m->lock);
    for (tern_mask **at = &m->first; *at; at = &(*at)->next) {
        if (*at != mask) continue;
        *at = mask->next;
        mask->queued = false;
        break;
    }
    const bool running = mask->running;
    pthread_mutex_unlock(&m->lock);
    return running;
}

void tern_masker_wait(tern_masker *m, double ms)
{
    const struct timespec end = in_ms(ms);
    pthread_mutex_lock(&m->lock);
    bool some = m->first != NULL;
    for (uint32_t i = 0; i < TERN_MASKER_THREADS; i++) some = some || m->running[i];
    if (some) pthread_cond_timedwait(&m->done, &m->lock, &end);
    pthread_mutex_unlock(&m->lock);
}

void tern_mask_close(tern_mask *mask, tern_masker *m)
{
    if (!mask->grammar) return;
    bool running = tern_mask_give_up(mask, m);
    while (running) {
        tern_masker_wait(m, 100);
        running = tern_mask_give_up(mask, m);
    }
    tern_grammar_state_close(mask->state);
    tern_free(mask->words);
    *mask = (tern_mask){0};
}
