/* A server from its opening to its close. */
#include "serve/server.h"

#include <sys/socket.h>
#include <time.h>

#include "base/alloc.h"
#include "serve/store/store.h"

double tern_serve_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t or_default(uint32_t given, uint32_t otherwise)
{
    return given ? given : otherwise;
}

static tern_status init(tern_serve *s, const tern_serve_options *o, tern_error *err)
{
    s->options = *o;
    s->limits = (tern_serve_limits){
        .body_bytes = or_default(o->limits.body_bytes, 16 << 20),
        .tokens = o->limits.tokens,
        .connections = or_default(o->limits.connections, 1024),
        .queue = or_default(o->limits.queue, 256),
        .seconds = or_default(o->limits.seconds, 600),
        .idle_seconds = or_default(o->limits.idle_seconds, 30),
    };
    s->listen_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->store_lock, NULL);
    tern_jobs_init(&s->jobs);
    tern_hosts_init(&s->hosts);
    tern_metrics_init(&s->metrics);
    tern_stored_init(&s->stored);
    TERN_TRY(tern_serve_log_open(&s->log, o->log_path, o->no_log, o->log_prompts, err));
    TERN_TRY(tern_loras_init(&s->loras, o->loras, o->n_loras, err));
    for (uint32_t i = 0; i < o->n_models; i++) TERN_TRY(tern_hosts_add(s, &o->models[i], NULL, err));
    return o->store.folder ? tern_store_open(s, err) : TERN_OK;
}

/* The first model, and those that are to open at the start. */
static tern_status open_models(tern_serve *s, tern_error *err)
{
    for (uint32_t i = 0; i < s->options.n_models; i++)
        if (i == 0 || s->options.models[i].opens) TERN_TRY(tern_host_open_now(s->hosts.items[i], err));
    return TERN_OK;
}

tern_status tern_serve_open(tern_serve **server, const tern_serve_options *options, tern_error *err)
{
    tern_status status;
    tern_serve *s = tern_calloc(1, sizeof *s);
    *server = NULL;
    if (!s) return tern_fail_alloc(err, sizeof *s);
    TERN_GOTO(init(s, options, err));
    TERN_GOTO(open_models(s, err));
    TERN_GOTO(tern_serve__listen(s, err));
    *server = s;
    return TERN_OK;
fail:
    tern_serve_close(s);
    return status;
}

void tern_serve_tick(tern_serve *s)
{
    const double now = tern_serve_seconds(), most = s->limits.idle_seconds;
    pthread_mutex_lock(&s->lock);
    for (tern_link *l = s->links; l; l = l->next) {
        const bool slow = l->state == TERN_LINK_READS && now - l->since > most;
        if (slow || (l->state == TERN_LINK_IDLE && now - l->since > 10 * most)) shutdown(l->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->lock);
    tern_hosts_reap(&s->hosts);
    tern_jobs_reap(&s->jobs);
}

tern_status tern_serve_reopen_log(tern_serve *s, tern_error *err)
{
    return tern_serve_log_reopen(&s->log, err);
}

void tern_serve_drain(tern_serve *s)
{
    atomic_store(&s->drains, true);
}

uint32_t tern_serve_running(const tern_serve *s)
{
    return atomic_load(&((tern_serve *)(uintptr_t)s)->running);
}

void tern_serve_close(tern_serve *s)
{
    if (!s) return;
    atomic_store(&s->drains, true);
    tern_jobs_stop(&s->jobs);
    tern_hosts_stop(&s->hosts);
    tern_serve__close_daemon(s);
    tern_hosts_deinit(&s->hosts);
    tern_loras_deinit(&s->loras);
    tern_serve_log_close(&s->log);
    tern_metrics_deinit(&s->metrics);
    tern_stored_deinit(&s->stored);
    tern_jobs_deinit(&s->jobs);
    pthread_mutex_destroy(&s->store_lock);
    pthread_mutex_destroy(&s->lock);
    tern_free(s);
}
