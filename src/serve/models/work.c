/* The thread of a served model: takes what is asked, runs the steps of its batch, ends what is over. */
#include "serve/server.h"

#include <math.h>
#include <time.h>

#include "base/error.h"

enum { MAX_WAIT = 3600 }; /* seconds */

static void begin_answer(tern_host *h, tern_answer *a)
{
    tern_error err = a->error;
    tern_status status = err.code;
    a->waits = TERN_WAITS_NOT;
    a->run = true;
    if (status == TERN_OK) status = tern_host__open(h, &err);
    if (status == TERN_OK && !tern_exchange_is_gone(a->exchange)) status = a->route->handle(a, h, &err);
    if (status == TERN_OK && a->waits != TERN_WAITS_NOT) {
        status = tern_helper_submit(h, a, &err);
        if (status == TERN_OK) return;
    }
    if (status != TERN_OK) tern_answer_fail(a, status, err.message);
    if (a->n_parts == 0) {
        tern_answer_close(a);
        return;
    }
    a->next = h->active;
    h->active = a;
}

/* Those that are over are written and freed; those that nobody waits for, or that take too long, are cancelled. */
static void end_finished(tern_host *h)
{
    const double now = tern_serve_seconds(), most = h->server->limits.seconds;
    for (tern_answer **at = &h->active; *at;) {
        tern_answer *a = *at;
        if (a->done) {
            *at = a->next;
            tern_answer_finish(a);
            tern_answer_close(a);
            continue;
        }
        if (now - a->began > most && a->error.code == TERN_OK) {
            tern_fail(&a->error, TERN_CANCELLED, "no answer within the %g seconds that this server allows", most);
            tern_answer_cancel(a);
        }
        if (tern_exchange_is_gone(a->exchange) || a->error.code != TERN_OK) tern_answer_cancel(a);
        at = &a->next;
    }
}

/* Ends all that runs with an error. */
static void fail_all(tern_host *h, const tern_error *err)
{
    for (tern_answer *a = h->active; a; a = a->next)
        if (a->error.code == TERN_OK) a->error = *err;
    tern_batch_close(h->batch);
    h->batch = NULL;
    end_finished(h);
}

static void run_step(tern_host *h)
{
    tern_error err = {0};
    bool busy;
    if (!h->active) {
        if (h->at == 0) tern_loras_reap(&h->server->loras);
        return;
    }
    if (tern_batch_step(h->batch, &busy, &err) != TERN_OK) {
        fail_all(h, &err);
        return;
    }
    end_finished(h);
    if (h->at == 0) tern_loras_reap(&h->server->loras);
}

/* With the lock, which is given back meanwhile. */
static void run_inbox(tern_host *h)
{
    tern_answer *list = h->inbox;
    h->inbox = NULL;
    h->inbox_end = &h->inbox;
    h->n_in_inbox = 0;
    h->is_busy = true;
    pthread_mutex_unlock(&h->lock);
    while (list) {
        tern_answer *a = list;
        list = a->next;
        begin_answer(h, a);
    }
    run_step(h);
    pthread_mutex_lock(&h->lock);
    if (h->batch) tern_batch_count(h->batch, &h->counters, NULL); /* fails without a size alone */
    h->is_busy = h->active || tern_helpers_count(h);
    h->last_used = tern_serve_seconds();
}

static void open_now(tern_host *h)
{
    tern_error err = {0};
    pthread_mutex_unlock(&h->lock);
    (void)tern_host__open(h, &err);
    pthread_mutex_lock(&h->lock);
    h->open_error = err;
    h->must_open = false;
    pthread_cond_broadcast(&h->changed);
}

static bool is_idle(const tern_host *h)
{
    return !h->inbox && !h->active && !tern_helpers_count(h);
}

/* With the lock, which is given back meanwhile. */
static void close_model(tern_host *h)
{
    pthread_mutex_unlock(&h->lock);
    tern_host__save_pages(h);
    tern_host__close(h);
    pthread_mutex_lock(&h->lock);
    h->is_open = false;
    h->expires = INFINITY;
    h->unloads = false;
}

static void close_if_idle(tern_host *h)
{
    if (is_idle(h)) close_model(h);
    h->must_close = false;
    pthread_cond_broadcast(&h->changed);
}

/* With the lock: waits for something to do, or until the model is to be closed. */
static void wait_or_expire(tern_host *h)
{
    const double now = tern_serve_seconds();
    if (!h->is_open || !is_idle(h) || isinf(h->expires)) {
        pthread_cond_wait(&h->changed, &h->lock);
    } else if (now >= h->expires) {
        close_model(h);
    } else {
        const double at = fmin(h->expires, now + MAX_WAIT);
        const struct timespec until = {.tv_sec = (time_t)at, .tv_nsec = (long)((at - floor(at)) * 1e9)};
        pthread_cond_timedwait(&h->changed, &h->lock, &until);
    }
}

/* With the lock, which is given back. */
static void close_down(tern_host *h)
{
    tern_error err = {0};
    tern_helpers_close(h);
    tern_answer *list = h->inbox;
    h->inbox = NULL;
    h->inbox_end = &h->inbox;
    h->must_close = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    tern_fail(&err, TERN_CANCELLED, "the server is stopping");
    for (tern_answer *a = list, *next; a; a = next) {
        next = a->next;
        tern_answer_fail(a, err.code, err.message);
        tern_answer_close(a);
    }
    tern_host__save_pages(h);
    fail_all(h, &err);
    tern_host__close(h);
}

void *tern_host__run(void *host)
{
    tern_host *h = host;
    pthread_mutex_lock(&h->lock);
    while (!h->stopping) {
        if (h->must_open) open_now(h);
        else if (h->must_close) close_if_idle(h);
        else if (h->inbox || h->active) run_inbox(h);
        else wait_or_expire(h);
    }
    close_down(h);
    return NULL;
}
