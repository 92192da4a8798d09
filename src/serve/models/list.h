/* The models of a server: those that were given, and those that clients made. */
#ifndef TERN_SERVE_MODELS_LIST_H
#define TERN_SERVE_MODELS_LIST_H

#include <jansson.h>
#include <pthread.h>

#include "serve/serve.h"

typedef struct tern_host tern_host;

enum { TERN_SERVE_MAX_MODELS = 1024 };

/* A model that left the list stays until nobody holds it. */
typedef struct tern_host_list {
    pthread_mutex_t lock; /* also of the hosts' n_holders; host->lock may be taken under it, not the reverse */
    tern_host **items;    /* [n]; the first one stays */
    uint32_t n;
    size_t cap;
    tern_host *retired;
    uint32_t n_ever;
} tern_host_list;

void tern_hosts_init(tern_host_list *list);
/* Adds a model; one of this name that clients made gives way. `manifest`: what clients made it from, in which the
 * strings of `model` lie; taken, also on failure. NULL: the model was given, and its strings live as long as the
 * server. Errors: INVALID_ARGUMENT (the name is one that was given, options that are wrong), LIMIT, OUT_OF_MEMORY. */
tern_status tern_hosts_add(tern_serve *server, const tern_serve_model *model, json_t *manifest, tern_error *err);
/* From now on clients cannot name it; it closes once nothing runs. Errors: NOT_FOUND, INVALID_ARGUMENT (it was
 * given). */
tern_status tern_hosts_remove(tern_serve *server, const char *name, tern_error *err);
/* The model of this name, without the ":latest" that some clients add, to be given back with tern_hosts_drop; NULL:
 * none. */
tern_host *tern_hosts_find(tern_serve *server, const char *name);
/* The first model, which need not be given back. */
tern_host *tern_hosts_first(tern_serve *server);
/* The i-th, to be given back; NULL: there are fewer. */
tern_host *tern_hosts_at(tern_serve *server, uint32_t i);
void tern_hosts_hold(tern_host *host);
void tern_hosts_drop(tern_host *host);
uint32_t tern_hosts_count(tern_serve *server);
/* Calls with each, in the order in which they came, under the list's lock. */
void tern_hosts_each(tern_serve *server, void (*each)(void *context, tern_host *host), void *context);
/* Frees models that left the list. */
void tern_hosts_reap(tern_host_list *list);
/* Ends what runs, and all threads; then frees all. */
void tern_hosts_stop(tern_host_list *list);
void tern_hosts_deinit(tern_host_list *list);

#endif
