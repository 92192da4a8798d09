/* Pulling a model, and what a person sees of it. */
#include <string.h>

#include "apps/hub/hub.h"
#include "apps/progress.h"
#include "base/show.h"
#if TERN_PULL
#include "hub/net/pull.h"

/* The progress shown. */
typedef struct showing {
    tern_progress bar;
    char label[128];
    const tern_hub_file *file; /* whose bar it is */
    bool checking, quiet;
    size_t n_files, n_begun;
} showing;

static void on_begin(void *context, const tern_hub_files *files, const tern_hub_choice *choice, uint64_t missing)
{
    showing *s = context;
    char all[16], rest[16];
    for (size_t i = 0; i < files->n; i++) s->n_files += files->items[i].wanted;
    if (s->quiet) return;
    fprintf(stderr, "%zu file%s, %s", s->n_files, s->n_files == 1 ? "" : "s", tern_app_bytes(choice->bytes, all));
    if (!missing) fputs(", all here\n", stderr);
    else if (missing < choice->bytes) fprintf(stderr, ", %s of them to come\n", tern_app_bytes(missing, rest));
    else fputc('\n', stderr);
}

static void begin_bar(showing *s, const tern_hub_file *file, bool checking)
{
    char bytes[16];
    if (file != s->file) s->n_begun++;
    tern_progress_end(&s->bar);
    s->file = file;
    s->checking = checking;
    snprintf(s->label, sizeof s->label, "%s %.70s (%zu of %zu, %s)", checking ? "Checking" : "Pulling",
             tern_show_z(file->path).text, s->n_begun, s->n_files, tern_app_bytes(file->bytes, bytes));
    s->bar = (tern_progress){.label = s->label};
}

static bool on_progress(void *context, const tern_hub_file *file, bool checking, float done)
{
    showing *s = context;
    if (!file || s->quiet) return !tern_app_interrupted();
    if (file != s->file || checking != s->checking) begin_bar(s, file, checking);
    return tern_progress_update(&s->bar, done);
}

static void on_end(void *context, const tern_hub_file *file)
{
    showing *s = context;
    (void)file;
    tern_progress_end(&s->bar);
}

static void on_note(void *context, const char *words)
{
    showing *s = context;
    tern_progress_end(&s->bar);
    if (!s->quiet) fprintf(stderr, "%s: %s\n", s->file ? tern_show_z(s->file->path).text : "tern pull", words);
}

tern_status tern_app_hub_pull(const tern_hub *hub, const tern_hub_name *name, bool quiet, tern_hub_found *found,
                              tern_error *err)
{
    showing s = {.quiet = quiet};
    const tern_hub_events events = {on_begin, on_progress, on_end, on_note, &s};
    if (!quiet && !hub->offline) tern_app_say("%s from %s: ", name->repository, hub->endpoint);
    tern_status status = tern_hub_pull(hub, name, &events, found, err);
    if (status == TERN_CANCELLED) fputs("\nWhat has come stays; the same command goes on from there.\n", stderr);
    else if (status != TERN_OK && !s.n_files && !quiet && !hub->offline) fputc('\n', stderr);
    return status;
}

#else

tern_status tern_app_hub_pull(const tern_hub *hub, const tern_hub_name *name, bool quiet, tern_hub_found *found,
                              tern_error *err)
{
    (void)hub;
    (void)quiet;
    (void)found;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "%s: this tern was built without libcurl%s and cannot fetch models; use any program that fills "
                     "the cache of huggingface_hub",
                     name->repository, TERN_STATIC ? " (it is one static file)" : "");
}

#endif
