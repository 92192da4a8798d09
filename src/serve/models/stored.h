/* Conversations of responses, which a client may go on with by the id of the last one (OpenAI's previous_response_id).
 */
#ifndef TERN_SERVE_MODELS_STORED_H
#define TERN_SERVE_MODELS_STORED_H

#include <jansson.h>
#include <pthread.h>

#include "base/error.h"

enum { TERN_STORED_MAX = 1024, TERN_STORED_MAX_BYTES = 64 << 20 };

typedef struct tern_stored_one {
    char id[48];
    char *messages; /* JSON; NULL: none */
} tern_stored_one;

/* A ring: the oldest go first. Thread-safe between init and deinit. */
typedef struct tern_stored {
    pthread_mutex_t lock;
    tern_stored_one ring[TERN_STORED_MAX];
    size_t next, n_bytes;
} tern_stored;

void tern_stored_init(tern_stored *stored);
void tern_stored_deinit(tern_stored *stored);
/* Takes `messages`. One that is larger than all may be is not kept. */
void tern_stored_put(tern_stored *stored, const char *id, json_t *messages);
/* A copy of the messages of an id, freed with tern_free. Errors: NOT_FOUND, OUT_OF_MEMORY. */
tern_status tern_stored_get(tern_stored *stored, const char *id, char **messages, tern_error *err);

#endif
