/* Conversations of responses, by id. */
#include "serve/models/stored.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"

void tern_stored_init(tern_stored *s)
{
    *s = (tern_stored){0};
    pthread_mutex_init(&s->lock, NULL);
}

/* With the lock. */
static void drop(tern_stored *s, tern_stored_one *one)
{
    if (one->messages) s->n_bytes -= strlen(one->messages);
    tern_free(one->messages);
    *one = (tern_stored_one){0};
}

void tern_stored_deinit(tern_stored *s)
{
    for (size_t i = 0; i < TERN_STORED_MAX; i++) drop(s, &s->ring[i]);
    pthread_mutex_destroy(&s->lock);
}

void tern_stored_put(tern_stored *s, const char *id, json_t *messages)
{
    char *text = messages ? json_dumps(messages, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    const size_t n = text ? strlen(text) : 0;
    json_decref(messages);
    if (!text || n > TERN_STORED_MAX_BYTES) {
        tern_free(text);
        return;
    }
    pthread_mutex_lock(&s->lock);
    tern_stored_one *one = &s->ring[s->next];
    drop(s, one);
    snprintf(one->id, sizeof one->id, "%s", id);
    one->messages = text;
    s->n_bytes += n;
    s->next = (s->next + 1) % TERN_STORED_MAX;
    for (size_t i = s->next; s->n_bytes > TERN_STORED_MAX_BYTES; i = (i + 1) % TERN_STORED_MAX) drop(s, &s->ring[i]);
    pthread_mutex_unlock(&s->lock);
}

/* With the lock; NULL: none. */
static tern_stored_one *find(tern_stored *s, const char *id)
{
    for (size_t i = 0; i < TERN_STORED_MAX; i++)
        if (s->ring[i].messages && strcmp(s->ring[i].id, id) == 0) return &s->ring[i];
    return NULL;
}

tern_status tern_stored_get(tern_stored *s, const char *id, char **messages, tern_error *err)
{
    pthread_mutex_lock(&s->lock);
    const tern_stored_one *one = find(s, id);
    const bool found = one != NULL;
    *messages = found ? tern_strdup(one->messages) : NULL;
    pthread_mutex_unlock(&s->lock);
    if (*messages) return TERN_OK;
    if (found) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    return tern_fail(err, TERN_NOT_FOUND, "previous_response_id: no response \"%s\" is kept", tern_show_z(id).text);
}
