/* A model that is served: who it is, and what reaches its thread. */
#include "serve/models/host.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "serve/server.h"

/* Waits end by the clock of tern_serve_seconds. */
static void init_condition(pthread_cond_t *changed)
{
    pthread_condattr_t how;
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &how);
    pthread_condattr_destroy(&how);
}

static tern_status read_settings(tern_host *h, const char *text, tern_error *err)
{
    tern_api_request request;
    if (!text) return TERN_OK;
    TERN_TRY(tern_json_parse(&h->settings, text, strlen(text), "options", err));
    tern_api_request_init(&request);
    const tern_status status = tern_api_request_apply(&request, h->settings, err);
    tern_api_request_deinit(&request);
    return status;
}

/* The variables of the template that its settings give, or else those of the server. */
static tern_status read_variables(tern_host *h, tern_error *err)
{
    const char *own = h->model.variables, *text = own ? own : h->server->options.variables;
    tern_api_request request;
    if (!text) return TERN_OK;
    TERN_TRY(tern_json_parse(&h->variables, text, strlen(text), "--chat-template-kwargs", err));
    tern_api_request_init(&request);
    const tern_status status = tern_api_request_read_variables(&request, h->variables, err);
    tern_api_request_deinit(&request);
    return status;
}

/* Members that are not in the manifest as they stand: paths, and options. */
static tern_status own_strings(tern_host *h, tern_error *err)
{
    tern_serve_model *m = &h->model;
    tern_serve_adapter *adapters = tern_calloc(m->n_adapters + 1, sizeof *adapters);
    h->path = m->path = tern_strdup(m->path);
    if (!adapters || !m->path) {
        tern_free(adapters);
        m->adapters = NULL;
        m->n_adapters = 0;
        return tern_fail_alloc(err, sizeof *m);
    }
    bool all = true;
    for (uint32_t i = 0; i < m->n_adapters; i++) {
        adapters[i] = (tern_serve_adapter){tern_strdup(m->adapters[i].path), m->adapters[i].scale};
        all = all && adapters[i].path;
    }
    m->adapters = adapters;
    h->settings = json_incref(json_object_get(h->manifest, "parameters"));
    return all ? TERN_OK : tern_fail_alloc(err, sizeof *m);
}

static void free_strings(tern_host *h)
{
    for (uint32_t i = 0; i < h->model.n_adapters; i++) tern_free((void *)(uintptr_t)h->model.adapters[i].path);
    tern_free((void *)(uintptr_t)h->model.adapters);
    tern_free((void *)(uintptr_t)h->model.path);
}

tern_status tern_host_open(tern_host **host, tern_serve *server, const tern_serve_model *model, json_t *manifest,
                           tern_error *err)
{
    tern_host *h = tern_calloc(1, sizeof *h);
    *host = NULL;
    if (!h) {
        json_decref(manifest);
        return tern_fail_alloc(err, sizeof *h);
    }
    *h = (tern_host){.server = server,
                     .name = model->name,
                     .path = model->path,
                     .model = *model,
                     .manifest = manifest,
                     .expires = INFINITY};
    pthread_mutex_init(&h->lock, NULL);
    init_condition(&h->changed);
    tern_helpers_init(h);
    h->inbox_end = &h->inbox;
    tern_status status = read_settings(h, model->options, err);
    if (status == TERN_OK) status = read_variables(h, err);
    if (status == TERN_OK && manifest) status = own_strings(h, err);
    if (status == TERN_OK) *host = h;
    else tern_host_free(h);
    return status;
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
    return o->n_loras == 0 && !o->lora_folder && !o->strict_model && !o->store.folder;
}

bool tern_host_is_name(const char *name, const char *asked)
{
    const size_t n = strlen(name);
    return strncmp(name, asked, n) == 0 && (!asked[n] || strcmp(asked + n, ":latest") == 0);
}

tern_status tern_host_find(tern_serve *s, const char *name, tern_host **host, tern_served_use *uses, uint32_t *n_uses,
                           tern_error *err)
{
    *n_uses = 0;
    *host = name && *name ? tern_hosts_find(s, name) : NULL;
    if (*host) return TERN_OK;
    if (name && *name) *n_uses = tern_loras_acquire(&s->loras, name, uses);
    if (name && *name && !*n_uses && !(tern_hosts_count(s) == 1 && takes_any_name(&s->options)))
        return tern_fail(err, TERN_NOT_FOUND, "the model \"%s\" does not exist", tern_show_z(name).text);
    *host = tern_hosts_first(s);
    tern_hosts_hold(*host);
    return TERN_OK;
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
    if (status == TERN_OK) {
        h->unloads = false;
        tern_host__enqueue(h, a);
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

/* Needs no model that is open. */
static tern_status unload(tern_answer *a, tern_error *err)
{
    TERN_TRY(a->route->handle(a, a->host, err));
    tern_host_expire(a->host);
    return TERN_OK;
}

tern_status tern_host_submit(tern_exchange *x, tern_error *err)
{
    tern_answer *a;
    tern_status status;
    TERN_TRY(tern_answer_open(&a, x, err));
    TERN_GOTO(tern_answer_read(a, err));
    if (!a->request.unloads) {
        TERN_GOTO(put_in_inbox(a->host, a, err)); /* it is the thread's now */
        return TERN_OK;
    }
    TERN_GOTO(unload(a, err));
    tern_answer_close(a);
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

void tern_host_free(tern_host *h)
{
    if (!h) return;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    if (h->manifest) free_strings(h);
    json_decref(h->settings);
    json_decref(h->variables);
    json_decref(h->manifest);
    tern_free(h);
}

void tern_host_keep(tern_host *h, double seconds)
{
    pthread_mutex_lock(&h->lock);
    if (!h->unloads) h->expires = seconds < 0 ? INFINITY : tern_serve_seconds() + seconds;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void tern_host_expire(tern_host *h)
{
    pthread_mutex_lock(&h->lock);
    h->unloads = true;
    h->expires = 0;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void tern_host_describe(tern_host *h, tern_model_card *card)
{
    pthread_mutex_lock(&h->lock);
    *card = h->card;
    pthread_mutex_unlock(&h->lock);
    if (card->known) return;
    tern_model_card_read(card, h->path); /* the model's thread does not wait for it */
    pthread_mutex_lock(&h->lock);
    if (!h->card.known) h->card = *card;
    h->card.known = true;
    *card = h->card;
    pthread_mutex_unlock(&h->lock);
}
