/* Kept responses, by id. */
#include "serve/models/stored.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "serve/http/exchange.h"

void tern_stored_init(tern_stored *s)
{
    *s = (tern_stored){0};
    pthread_mutex_init(&s->lock, NULL);
}

static size_t bytes_of(const tern_stored_one *one)
{
    size_t n = 0;
    for (size_t i = 0; i < TERN_STORED_PARTS; i++) n += one->texts[i] ? strlen(one->texts[i]) : 0;
    return n;
}

static void free_texts(tern_stored_one *one)
{
    for (size_t i = 0; i < TERN_STORED_PARTS; i++) tern_free(one->texts[i]);
    *one = (tern_stored_one){0};
}

/* With the lock. */
static void drop(tern_stored *s, tern_stored_one *one)
{
    s->n_bytes -= bytes_of(one);
    free_texts(one);
}

void tern_stored_deinit(tern_stored *s)
{
    for (size_t i = 0; i < TERN_STORED_MAX; i++) drop(s, &s->ring[i]);
    pthread_mutex_destroy(&s->lock);
}

void tern_stored_put(tern_stored *s, const char *id, const json_t *messages, const json_t *response)
{
    tern_stored_one one = {
        .texts = {json_dumps(messages, JSON_COMPACT | JSON_REAL_PRECISION(17)), tern_serve_dump(response)}};
    const size_t n = bytes_of(&one);
    if (!one.texts[0] || !one.texts[1] || n > TERN_STORED_MAX_BYTES) {
        free_texts(&one);
        return;
    }
    snprintf(one.id, sizeof one.id, "%s", id);
    pthread_mutex_lock(&s->lock);
    drop(s, &s->ring[s->next]);
    s->ring[s->next] = one;
    s->n_bytes += n;
    s->next = (s->next + 1) % TERN_STORED_MAX;
    for (size_t i = s->next; s->n_bytes > TERN_STORED_MAX_BYTES; i = (i + 1) % TERN_STORED_MAX) drop(s, &s->ring[i]);
    pthread_mutex_unlock(&s->lock);
}

/* With the lock; NULL: none. */
static tern_stored_one *find(tern_stored *s, const char *id)
{
    for (size_t i = 0; i < TERN_STORED_MAX; i++)
        if (s->ring[i].texts[0] && strcmp(s->ring[i].id, id) == 0) return &s->ring[i];
    return NULL;
}

static tern_status fail_unknown(const char *id, tern_error *err)
{
    return tern_fail(err, TERN_NOT_FOUND, "no response \"%s\" is kept", tern_show_z(id).text);
}

tern_status tern_stored_get(tern_stored *s, const char *id, tern_stored_part part, char **text, tern_error *err)
{
    pthread_mutex_lock(&s->lock);
    const tern_stored_one *one = find(s, id);
    const bool found = one != NULL;
    *text = found ? tern_strdup(one->texts[part]) : NULL;
    pthread_mutex_unlock(&s->lock);
    if (*text) return TERN_OK;
    return found ? tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory") : fail_unknown(id, err);
}

tern_status tern_stored_remove(tern_stored *s, const char *id, tern_error *err)
{
    pthread_mutex_lock(&s->lock);
    tern_stored_one *one = find(s, id);
    if (one) drop(s, one);
    pthread_mutex_unlock(&s->lock);
    return one ? TERN_OK : fail_unknown(id, err);
}
