/* Threads of requests that take long without a model. */
#include "serve/store/jobs.h"

#include "base/alloc.h"
#include "serve/server.h"

enum { MAX_JOBS = 8 };
static const double pause_seconds = 0.1; /* between two lines of progress */

void tern_jobs_init(tern_jobs *jobs)
{
    pthread_mutex_init(&jobs->lock, NULL);
}

void tern_jobs_deinit(tern_jobs *jobs)
{
    pthread_mutex_destroy(&jobs->lock);
}

static void free_job(tern_job *j)
{
    tern_exchange_drop(j->exchange);
    tern_free(j);
}

static void write_line(tern_job *j, json_t *line)
{
    tern_exchange_write_json(j->exchange, "", line, "\n");
}

void tern_job_say(tern_job *j, const char *status)
{
    if (j->streams) write_line(j, json_pack("{s:s}", "status", status));
}

bool tern_job_progress(void *job, const char *digest, uint64_t total, uint64_t completed, bool checking)
{
    tern_job *j = job;
    const double now = tern_serve_seconds();
    if (atomic_load(&j->exchange->server->drains) || tern_exchange_is_gone(j->exchange)) return false;
    if (!digest || !j->streams || (now - j->shown < pause_seconds && completed < total)) return true;
    char name[96], status[48];
    j->shown = now;
    snprintf(name, sizeof name, "sha256:%.64s", digest);
    snprintf(status, sizeof status, checking ? "verifying sha256 digest" : "pulling %.12s", digest);
    json_t *line = json_pack("{s:s, s:s, s:I}", "status", status, "digest", name, "total", (json_int_t)total);
    if (completed && !checking) json_object_set_new(line, "completed", json_integer((json_int_t)completed));
    write_line(j, line);
    return true;
}

static void *run(void *job)
{
    tern_job *j = job;
    tern_exchange *x = j->exchange;
    tern_error err = {0};
    if (j->streams) tern_exchange_begin(x, "application/x-ndjson");
    const tern_status status = j->run(j, &err);
    if (status != TERN_OK) {
        tern_exchange_fail(x, tern_exchange_code(status), err.message);
    } else if (j->streams) {
        tern_job_say(j, "success");
        tern_exchange_end(x);
    } else {
        tern_exchange_send(x, 200, json_pack("{s:s}", "status", "success"));
    }
    tern_jobs *jobs = &x->server->jobs;
    pthread_mutex_lock(&jobs->lock);
    j->ended = true;
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* With the lock. */
static unsigned count_running(const tern_jobs *jobs)
{
    unsigned n = 0;
    for (const tern_job *j = jobs->first; j; j = j->next) n += !j->ended;
    return n;
}

tern_status tern_jobs_start(tern_exchange *x, tern_job_run *work, tern_error *err)
{
    tern_jobs *jobs = &x->server->jobs;
    tern_job *j = tern_calloc(1, sizeof *j);
    tern_status status = TERN_OK;
    if (!j) return tern_fail_alloc(err, sizeof *j);
    *j = (tern_job){.exchange = x, .run = work, .streams = !json_is_false(json_object_get(x->document, "stream"))};
    tern_exchange_keep(x);
    pthread_mutex_lock(&jobs->lock);
    if (count_running(jobs) >= MAX_JOBS)
        status = tern_fail(err, TERN_BUSY, "%d models are being fetched or made already", MAX_JOBS);
    else if (pthread_create(&j->thread, NULL, run, j) != 0)
        status = tern_fail(err, TERN_OUT_OF_MEMORY, "no thread to fetch a model");
    if (status == TERN_OK) {
        j->next = jobs->first;
        jobs->first = j;
    }
    pthread_mutex_unlock(&jobs->lock);
    if (status != TERN_OK) free_job(j);
    return status;
}

void tern_jobs_reap(tern_jobs *jobs)
{
    tern_job *gone = NULL;
    pthread_mutex_lock(&jobs->lock);
    for (tern_job **at = &jobs->first; *at;) {
        tern_job *j = *at;
        if (!j->ended) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        j->next = gone;
        gone = j;
    }
    pthread_mutex_unlock(&jobs->lock);
    for (tern_job *j = gone, *next; j; j = next) {
        next = j->next;
        pthread_join(j->thread, NULL);
        free_job(j);
    }
}

void tern_jobs_stop(tern_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    tern_job *all = jobs->first;
    jobs->first = NULL;
    pthread_mutex_unlock(&jobs->lock);
    for (tern_job *j = all, *next; j; j = next) {
        next = j->next;
        pthread_join(j->thread, NULL);
        free_job(j);
    }
}
