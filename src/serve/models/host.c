/* A model that is served: who it is, and what reaches its thread. */
#include "serve/models/host.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/show.h"
#include "serve/server.h"

tern_status tern_host_init(tern_host *h, tern_serve *server, uint32_t at, tern_error *err)
{
    const tern_serve_options *o = &server->options;
    *h = (tern_host){.server = server, .name = o->models[at].name, .path = o->models[at].path, .at = at};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    tern_helpers_init(h);
    h->inbox_end = &h->inbox;
    return at ? TERN_OK : tern_loras_init(&server->loras, o->loras, o->n_loras, err);
}

/* With the lock. */
static tern_status start_thread(tern_host *h, tern_error *err)
{
    if (h->stopping) return tern_fail(err, TERN_CANCELLED, "the server is stopping");
    if (h->started) return TERN_OK;
    if (pthread_create(&h->thread, NULL, tern_host__run, h) != 0)
        return tern_fail(err, TERN_OUT_OF_MEMORY, "no thread for the model %s", h->name);
    h->started = true;
    return TERN_OK;
}

tern_status tern_host_open_now(tern_host *h, tern_error *err)
{
    pthread_mutex_lock(&h->lock);
    tern_status status = start_thread(h, err);
    h->must_open = status == TERN_OK;
    pthread_cond_broadcast(&h->changed);
    while (h->must_open) pthread_cond_wait(&h->changed, &h->lock);
    if (status == TERN_OK && h->open_error.code != TERN_OK) {
        status = h->open_error.code;
        if (err) *err = h->open_error;
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

/* A client of a server with one model says the name that it was set up with, for whatever server. */
static bool takes_any_name(const tern_serve_options *o)
{
    return o->n_models == 1 && o->n_loras == 0 && !o->lora_folder && !o->strict_model;
}

bool tern_host_is_name(const char *name, const char *asked)
{
    const size_t n = strlen(name);
    return strncmp(name, asked, n) == 0 && (!asked[n] || strcmp(asked + n, ":latest") == 0);
}

tern_status tern_host_find(tern_serve *s, const char *name, tern_host **host, tern_served_use *uses, uint32_t *n_uses,
                           tern_error *err)
{
    const tern_serve_options *o = &s->options;
    *n_uses = 0;
    *host = &s->hosts[0];
    if (!name || !*name) return TERN_OK;
    for (uint32_t i = 0; i < o->n_models; i++) {
        *host = &s->hosts[i];
        if (tern_host_is_name(o->models[i].name, name)) return TERN_OK;
    }
    *host = &s->hosts[0];
    *n_uses = tern_loras_acquire(&s->loras, name, uses);
    if (*n_uses || takes_any_name(o)) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND, "the model \"%s\" does not exist", tern_show_z(name).text);
}

void tern_host__enqueue(tern_host *h, tern_answer *a)
{
    a->next = NULL;
    *h->inbox_end = a;
    h->inbox_end = &a->next;
    h->n_in_inbox++;
    pthread_cond_broadcast(&h->changed);
}

static tern_status put_in_inbox(tern_host *h, tern_answer *a, tern_error *err)
{
    pthread_mutex_lock(&h->lock);
    tern_status status = start_thread(h, err);
    if (status == TERN_OK && h->n_in_inbox >= h->server->limits.queue)
        status = tern_fail(err, TERN_BUSY, "%u requests already wait for the model %s", h->n_in_inbox, h->name);
    if (status == TERN_OK) tern_host__enqueue(h, a);
    pthread_mutex_unlock(&h->lock);
    return status;
}

tern_status tern_host_submit(tern_exchange *x, tern_error *err)
{
    tern_answer *a;
    tern_status status;
    TERN_TRY(tern_answer_open(&a, x, err));
    TERN_GOTO(x->route->read(&a->request, x->document, err));
    x->ignored = json_incref(a->request.ignored);
    TERN_GOTO(tern_api_request_finish(&a->request, err));
    TERN_GOTO(tern_answer_resolve(a, err));
    TERN_GOTO(put_in_inbox(a->host, a, err));
    return TERN_OK;
fail:
    tern_answer_close(a);
    return status;
}

int64_t tern_host_file_time(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_mtime : 0;
}

void tern_host_count(tern_host *h, tern_batch_counters *counters)
{
    pthread_mutex_lock(&h->lock);
    *counters = h->counters;
    counters->waiting += h->n_in_inbox + tern_helpers_count(h);
    pthread_mutex_unlock(&h->lock);
}

bool tern_host_is_open(tern_host *h)
{
    pthread_mutex_lock(&h->lock);
    const bool is_open = h->is_open;
    pthread_mutex_unlock(&h->lock);
    return is_open;
}

void tern_host_close(tern_host *h)
{
    pthread_mutex_lock(&h->lock);
    const bool started = h->started;
    h->stopping = true;
    h->started = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    if (started) pthread_join(h->thread, NULL);
}

void tern_host_deinit(tern_host *h)
{
    if (!h->server) return;
    if (h->at == 0) tern_loras_deinit(&h->server->loras);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}
