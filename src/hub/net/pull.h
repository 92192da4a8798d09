/* Fetching a model of the hub into the cache. */
#ifndef TERN_HUB_NET_PULL_H
#define TERN_HUB_NET_PULL_H

#include "hub/cache.h"

/* Events meanwhile; all may be NULL. */
typedef struct tern_hub_events {
    /* The files that are wanted, once, before anything of them is fetched: `missing` bytes are not here yet. */
    void (*begin)(void *context, const tern_hub_files *files, const tern_hub_choice *choice, uint64_t missing);
    /* How much of a file is there; `checking`: of its sum. False to stop: what is there stays. */
    bool (*progress)(void *context, const tern_hub_file *file, bool checking, float done);
    void (*end)(void *context, const tern_hub_file *file);
    /* A line for people: that another program is waited for, that a connection was cut. */
    void (*note)(void *context, const char *words);
    void *context;
} tern_hub_events;

/* Makes the model of a name be in the cache, as the hub has it now. A file that is cut short goes on where it stopped,
 * in this call and in later ones; each blob appears under its name only when it is whole and its sum is right; two
 * programs that pull the same blob wait for each other. Errors: those of hub/net/http.h and hub/choose.h; UNSUPPORTED
 * (offline), IO (no space: bytes needed and free), MALFORMED (a wrong sum; the received bytes were removed). */
tern_status tern_hub_pull(const tern_hub *hub, const tern_hub_name *name, const tern_hub_events *events,
                          tern_hub_found *found, tern_error *err);

#endif
