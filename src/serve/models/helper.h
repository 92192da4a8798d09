/* Threads of a served model that do for single answers what takes long, so that nobody's tokens wait for it. */
#ifndef TERN_SERVE_MODELS_HELPER_H
#define TERN_SERVE_MODELS_HELPER_H

#include "serve/models/answer.h"

/* A thread and the answers that wait for it. Guarded by the lock of its host, whose `changed` says that something is
 * new. */
typedef struct tern_helper {
    tern_host *host;
    void (*work)(tern_host *host, tern_answer *answer); /* without the lock; answer->error: why it failed */
    pthread_t thread;
    bool started;
    tern_answer *first, **end;
    uint32_t n; /* of them, and the one that it works for */
} tern_helper;

void tern_helpers_init(tern_host *host);
/* All on the thread of the model. */
/* Hands an answer to the helper that it waits for; with its work done, or with the error why not, it comes back as the
 * last of the inbox. The engine stays open meanwhile. Errors: OUT_OF_MEMORY (no thread): the answer is still the
 * caller's. */
tern_status tern_helper_submit(tern_host *host, tern_answer *answer, tern_error *err);
/* Waits until all that was handed over has come back. */
void tern_helpers_drain(tern_host *host);
/* With the lock, which is given back meanwhile; the host stops. Waiting requests come back undone. */
void tern_helpers_close(tern_host *host);
/* With the lock: the answers that helpers have. */
uint32_t tern_helpers_count(const tern_host *host);

#endif
