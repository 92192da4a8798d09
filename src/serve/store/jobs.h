/* Requests that take long without a model: each on a thread of its own, that tells how far it is. */
#ifndef TERN_SERVE_STORE_JOBS_H
#define TERN_SERVE_STORE_JOBS_H

#include "serve/http/exchange.h"

typedef struct tern_job tern_job;
typedef tern_status tern_job_run(tern_job *job, tern_error *err);

struct tern_job {
    tern_job *next;
    tern_exchange *exchange;
    tern_job_run *run;
    pthread_t thread;
    bool ended;   /* guarded by the lock of the list */
    bool streams; /* a line for each status; else one document at the end */
    double shown; /* when progress was last written */
};

typedef struct tern_jobs {
    pthread_mutex_t lock;
    tern_job *first;
} tern_jobs;

void tern_jobs_init(tern_jobs *jobs);
/* Runs `run`; when it returns, the client gets {"status": "success"}, or the error. Errors: BUSY, OUT_OF_MEMORY. */
tern_status tern_jobs_start(tern_exchange *exchange, tern_job_run *run, tern_error *err);
/* Frees those that have ended. */
void tern_jobs_reap(tern_jobs *jobs);
/* Waits for all; the server stops, so that they end soon. */
void tern_jobs_stop(tern_jobs *jobs);
void tern_jobs_deinit(tern_jobs *jobs);

/* Tells the client a status. */
void tern_job_say(tern_job *job, const char *status);
/* A tern_serve_progress, whose context is the job. */
bool tern_job_progress(void *job, const char *digest, uint64_t total, uint64_t completed, bool checking);

#endif
