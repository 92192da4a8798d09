/* The thread of a served model that reads adapters, so that nobody's tokens wait for a file. */
#ifndef TERN_SERVE_MODELS_LORA_READER_H
#define TERN_SERVE_MODELS_LORA_READER_H

#include "serve/models/answer.h"

/* Guarded by the lock of its host, whose `changed` says that something is new. */
typedef struct tern_lora_reader {
    pthread_t thread;
    bool started;
    tern_answer *first, **end; /* answers that wait for it */
    uint32_t n;                /* of them, and the one that it works for */
} tern_lora_reader;

/* All on the thread of the model. */
/* Takes an answer; with its adapters read, or with the error why not, it comes back as the last of the inbox. The
 * engine stays open meanwhile. Errors: OUT_OF_MEMORY (no thread): the answer is still the caller's. */
tern_status tern_lora_reader_submit(tern_host *host, tern_answer *answer, tern_error *err);
/* Waits until all that it took has come back. */
void tern_lora_reader_drain(tern_host *host);
/* With the lock, which is given back meanwhile; the host stops. What waits comes back unread. */
void tern_lora_reader_close(tern_host *host);

#endif
