/* Responses that the server keeps, and the conversations that a client may go on with by their ids (OpenAI's
 * previous_response_id). */
#ifndef TERN_SERVE_MODELS_STORED_H
#define TERN_SERVE_MODELS_STORED_H

#include <jansson.h>
#include <pthread.h>

#include "base/error.h"

enum { TERN_STORED_MAX = 1024, TERN_STORED_MAX_BYTES = 64 << 20 };

typedef enum tern_stored_part {
    TERN_STORED_MESSAGES, /* of the conversation, the answer among them */
    TERN_STORED_RESPONSE, /* as the client got it */
    TERN_STORED_PARTS
} tern_stored_part;

typedef struct tern_stored_one {
    char id[48];
    char *texts[TERN_STORED_PARTS]; /* JSON; all NULL: none */
} tern_stored_one;

/* A ring: the oldest go first. Thread-safe between init and deinit. */
typedef struct tern_stored {
    pthread_mutex_t lock;
    tern_stored_one ring[TERN_STORED_MAX];
    size_t next, n_bytes;
} tern_stored;

void tern_stored_init(tern_stored *stored);
void tern_stored_deinit(tern_stored *stored);
/* Keeps a response and its conversation, as text. One that is larger than all may be is not kept, nor one for which
 * there is no memory. */
void tern_stored_put(tern_stored *stored, const char *id, const json_t *messages, const json_t *response);
/* A copy of a part of the response with this id, freed with tern_free. Errors: NOT_FOUND, OUT_OF_MEMORY. */
tern_status tern_stored_get(tern_stored *stored, const char *id, tern_stored_part part, char **text, tern_error *err);
/* Errors: NOT_FOUND. */
tern_status tern_stored_remove(tern_stored *stored, const char *id, tern_error *err);

#endif
