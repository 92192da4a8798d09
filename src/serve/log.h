/* The access log: a line of JSON for each request. */
#ifndef TERN_SERVE_LOG_H
#define TERN_SERVE_LOG_H

#include <pthread.h>
#include <stdio.h>

#include "serve/http/exchange.h"

typedef struct tern_serve_log {
    pthread_mutex_t lock;
    const char *path; /* NULL: standard error */
    FILE *file;       /* NULL: no log */
    bool prompts;
} tern_serve_log;

/* A file at `path` is appended to if it is such a log or empty. Errors: IO, INVALID_ARGUMENT (another file is there).
 */
tern_status tern_serve_log_open(tern_serve_log *log, const char *path, bool off, bool prompts, tern_error *err);
/* The path once more. On failure the file stays that was there. */
tern_status tern_serve_log_reopen(tern_serve_log *log, tern_error *err);
void tern_serve_log_exchange(tern_serve_log *log, const tern_exchange *exchange, bool gone, double ms);
void tern_serve_log_close(tern_serve_log *log);

#endif
