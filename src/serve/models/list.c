/* The models of a server. */
#include "serve/models/list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "serve/server.h"

void tern_hosts_init(tern_host_list *list)
{
    pthread_mutex_init(&list->lock, NULL);
}

/* With the lock. */
static size_t index_of(const tern_host_list *list, const char *name)
{
    size_t i = 0;
    while (i < list->n && !tern_host_is_name(list->items[i]->name, name)) i++;
    return i;
}

/* With the lock: the host stays until nobody holds it. */
static void retire(tern_host_list *list, size_t i)
{
    tern_host *h = list->items[i];
    memmove(&list->items[i], &list->items[i + 1], (list->n - i - 1) * sizeof *list->items);
    list->n--;
    h->next_retired = list->retired;
    list->retired = h;
    tern_host_expire(h);
}

static tern_status fail_given(const char *name, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "the model \"%s\" was given when the server started: one that clients made expected",
                     tern_show_z(name).text);
}

/* With the lock. */
static tern_status put(tern_host_list *list, tern_host *h, tern_error *err)
{
    const size_t i = index_of(list, h->name);
    if (i < list->n && !list->items[i]->manifest) return fail_given(h->name, err);
    if (i == list->n && i >= TERN_SERVE_MAX_MODELS)
        return tern_fail(err, TERN_LIMIT, "%u models found, at most %d expected", list->n, TERN_SERVE_MAX_MODELS);
    void *items = list->items;
    TERN_TRY(tern_grow(&items, &list->cap, list->n + 1, sizeof *list->items, err));
    list->items = items;
    if (i < list->n) retire(list, i);
    h->at = list->n_ever++;
    list->items[list->n++] = h;
    return TERN_OK;
}

tern_status tern_hosts_add(tern_serve *s, const tern_serve_model *model, json_t *manifest, tern_error *err)
{
    tern_host *h = NULL;
    tern_status status = tern_host_open(&h, s, model, manifest, err);
    if (status != TERN_OK) return status;
    pthread_mutex_lock(&s->hosts.lock);
    status = put(&s->hosts, h, err);
    pthread_mutex_unlock(&s->hosts.lock);
    if (status != TERN_OK) tern_host_free(h);
    return status;
}

tern_status tern_hosts_remove(tern_serve *s, const char *name, tern_error *err)
{
    tern_host_list *list = &s->hosts;
    tern_status status = TERN_OK;
    pthread_mutex_lock(&list->lock);
    const size_t i = index_of(list, name);
    if (i == list->n) status = tern_fail(err, TERN_NOT_FOUND, "model '%s' not found", tern_show_z(name).text);
    else if (!list->items[i]->manifest) status = fail_given(name, err);
    else retire(list, i);
    pthread_mutex_unlock(&list->lock);
    return status;
}

tern_host *tern_hosts_find(tern_serve *s, const char *name)
{
    tern_host_list *list = &s->hosts;
    pthread_mutex_lock(&list->lock);
    const size_t i = index_of(list, name);
    tern_host *h = i < list->n ? list->items[i] : NULL;
    if (h) h->n_holders++;
    pthread_mutex_unlock(&list->lock);
    return h;
}

tern_host *tern_hosts_first(tern_serve *s)
{
    pthread_mutex_lock(&s->hosts.lock);
    tern_host *h = s->hosts.items[0];
    pthread_mutex_unlock(&s->hosts.lock);
    return h;
}

tern_host *tern_hosts_at(tern_serve *s, uint32_t i)
{
    pthread_mutex_lock(&s->hosts.lock);
    tern_host *h = i < s->hosts.n ? s->hosts.items[i] : NULL;
    if (h) h->n_holders++;
    pthread_mutex_unlock(&s->hosts.lock);
    return h;
}

void tern_hosts_hold(tern_host *h)
{
    pthread_mutex_lock(&h->server->hosts.lock);
    h->n_holders++;
    pthread_mutex_unlock(&h->server->hosts.lock);
}

void tern_hosts_drop(tern_host *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->server->hosts.lock);
    h->n_holders--;
    pthread_mutex_unlock(&h->server->hosts.lock);
}

uint32_t tern_hosts_count(tern_serve *s)
{
    pthread_mutex_lock(&s->hosts.lock);
    const uint32_t n = s->hosts.n;
    pthread_mutex_unlock(&s->hosts.lock);
    return n;
}

void tern_hosts_each(tern_serve *s, void (*each)(void *context, tern_host *host), void *context)
{
    pthread_mutex_lock(&s->hosts.lock);
    for (uint32_t i = 0; i < s->hosts.n; i++) each(context, s->hosts.items[i]);
    pthread_mutex_unlock(&s->hosts.lock);
}

void tern_hosts_reap(tern_host_list *list)
{
    tern_host *gone = NULL;
    pthread_mutex_lock(&list->lock);
    for (tern_host **at = &list->retired; *at;) {
        tern_host *h = *at;
        if (h->n_holders) {
            at = &h->next_retired;
            continue;
        }
        *at = h->next_retired;
        h->next_retired = gone;
        gone = h;
    }
    pthread_mutex_unlock(&list->lock);
    for (tern_host *h = gone, *next; h; h = next) {
        next = h->next_retired;
        tern_host_close(h);
        tern_host_free(h);
    }
}

void tern_hosts_stop(tern_host_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) tern_host_close(list->items[i]);
    for (tern_host *h = list->retired; h; h = h->next_retired) tern_host_close(h);
}

void tern_hosts_deinit(tern_host_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) tern_host_free(list->items[i]);
    for (tern_host *h = list->retired, *next; h; h = next) {
        next = h->next_retired;
        tern_host_free(h);
    }
    tern_free(list->items);
    pthread_mutex_destroy(&list->lock);
}
