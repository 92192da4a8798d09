/* The access log. */
#include "serve/log.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/output.h"
#include "base/show.h"

/* A log that is there goes on; no other file is written to. */
static tern_status open_file(const char *path, FILE **file, tern_error *err)
{
    const tern_output output = {.path = path, .ours = "{\"time\":"};
    if (path) TERN_TRY(tern_output_check(&output, err));
    *file = path ? fopen(path, "ae") : stderr;
    if (*file) return TERN_OK;
    return tern_fail(err, TERN_IO, "log %s: %s", tern_show_z(path).text, strerror(errno));
}

tern_status tern_serve_log_open(tern_serve_log *log, const char *path, bool off, bool prompts, tern_error *err)
{
    *log = (tern_serve_log){.path = path, .prompts = prompts};
    pthread_mutex_init(&log->lock, NULL);
    return off ? TERN_OK : open_file(path, &log->file, err);
}

tern_status tern_serve_log_reopen(tern_serve_log *log, tern_error *err)
{
    FILE *file;
    if (!log->file || !log->path) return TERN_OK;
    TERN_TRY(open_file(log->path, &file, err));
    pthread_mutex_lock(&log->lock);
    fclose(log->file);
    log->file = file;
    pthread_mutex_unlock(&log->lock);
    return TERN_OK;
}

void tern_serve_log_exchange(tern_serve_log *log, const tern_exchange *x, bool gone, double ms)
{
    char when[32];
    struct tm t;
    const time_t now = time(NULL);
    if (!log->file) return;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &t));
    json_t *line = json_pack("{s:s, s:s, s:s, s:i, s:f}", "time", when, "method", tern_show_z(x->method).text, "path",
                             tern_show_z(x->path).text, "status", (int)x->code, "ms", ms);
    if (line && x->model[0])
        json_object_update_new(line,
                               json_pack("{s:s, s:I, s:I}", "model", tern_show_z(x->model).text, "prompt_tokens",
                                         (json_int_t)x->n_prompt, "generated_tokens", (json_int_t)x->n_generated));
    if (line && x->ignored) json_object_set(line, "ignored_options", x->ignored);
    if (line && gone) json_object_set_new(line, "gone", json_true());
    if (line && log->prompts && x->document) json_object_set(line, "body", x->document);
    char *text = line ? tern_serve_dump(line) : NULL;
    pthread_mutex_lock(&log->lock);
    if (text) fprintf(log->file, "%s\n", text);
    fflush(log->file);
    pthread_mutex_unlock(&log->lock);
    tern_free(text);
    json_decref(line);
}

void tern_serve_log_close(tern_serve_log *log)
{
    if (log->file && log->path) fclose(log->file);
    log->file = NULL;
    pthread_mutex_destroy(&log->lock);
}
