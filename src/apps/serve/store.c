/* Fetching and removing models of the hub for clients of tern serve. */
#include "apps/serve/store.h"

#include <string.h>

#include "base/show.h"
#include "hub/known.h"
#if TERN_PULL
#include "hub/net/pull.h"
#endif

/* "hf.co/ORG/NAME:TAG" as Ollama says it, a short name, "ORG/NAME:TAG". */
static tern_status parse(tern_hub_name *name, const char *text, tern_error *err)
{
    static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strncmp(text, hosts[i], strlen(hosts[i])) == 0) text += strlen(hosts[i]);
    return tern_hub_known_parse(name, text, err);
}

#if TERN_PULL
typedef struct pulling {
    uint64_t max_bytes;
    tern_serve_progress *progress;
    void *context;
    tern_serve_pulled *pulled;
    uint64_t bytes; /* of the model */
} pulling;

static void on_begin(void *context, const tern_hub_files *files, const tern_hub_choice *choice, uint64_t missing)
{
    pulling *p = context;
    (void)files;
    p->bytes = choice->bytes;
    p->pulled->fetched = missing > 0;
}

static bool on_progress(void *context, const tern_hub_file *file, bool checking, float done)
{
    const pulling *p = context;
    if (p->bytes > p->max_bytes) return false;
    if (!file) return p->progress(p->context, NULL, 0, 0, false);
    return p->progress(p->context, file->sum, file->bytes, (uint64_t)((double)done * (double)file->bytes), checking);
}

/* The name by which the model is found again: its file, where it is one. */
static void set_name(tern_serve_pulled *pulled, const tern_hub_name *name, const tern_hub_found *found)
{
    const char *at = strstr(found->path.text, "/snapshots/");
    const char *file = found->choice.folder || !at ? NULL : strchr(at + strlen("/snapshots/"), '/');
    snprintf(pulled->name, sizeof pulled->name, "%s%s@%s", name->repository, file ? file : "", name->revision);
    snprintf(pulled->path, sizeof pulled->path, "%s", found->path.text);
}

static tern_status pull(void *hub, const char *text, uint64_t max_bytes, tern_serve_progress *progress, void *context,
                        tern_serve_pulled *pulled, tern_error *err)
{
    pulling p = {.max_bytes = max_bytes, .progress = progress, .context = context, .pulled = pulled};
    const tern_hub_events events = {.begin = on_begin, .progress = on_progress, .context = &p};
    tern_hub_name name;
    tern_hub_found found;
    TERN_TRY(parse(&name, text, err));
    const tern_status status = tern_hub_pull(hub, &name, &events, &found, err);
    if (p.bytes > max_bytes)
        return tern_fail(err, TERN_LIMIT, "%s: %llu bytes found, at most %llu expected (--max-upload)", name.repository,
                         (unsigned long long)p.bytes, (unsigned long long)max_bytes);
    if (status == TERN_OK) set_name(pulled, &name, &found);
    return status;
}
#else
static tern_status pull(void *hub, const char *text, uint64_t max_bytes, tern_serve_progress *progress, void *context,
                        tern_serve_pulled *pulled, tern_error *err)
{
    (void)hub;
    (void)max_bytes;
    (void)progress;
    (void)context;
    (void)pulled;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: this tern was built without libcurl and cannot fetch models",
                     tern_show_z(text).text);
}
#endif

static tern_status find(void *hub, const char *text, char path[4096], tern_error *err)
{
    tern_hub_name name;
    tern_hub_found found;
    TERN_TRY(parse(&name, text, err));
    TERN_TRY(tern_hub_cache_find(hub, &name, &found, err));
    snprintf(path, 4096, "%s", found.path.text);
    return TERN_OK;
}

/* A folder of SafeTensors shares its repository with whatever else is there, and stays. */
static tern_status forget(void *hub, const char *text, tern_error *err)
{
    tern_hub_name name;
    uint64_t bytes;
    TERN_TRY(parse(&name, text, err));
    return name.file[0] ? tern_hub_cache_remove(hub, &name, false, &bytes, err) : TERN_OK;
}

tern_serve_store tern_app_store(const tern_hub *hub, const char *folder, uint64_t max_bytes)
{
    return (tern_serve_store){.folder = folder,
                              .max_bytes = max_bytes,
                              .pull = pull,
                              .find = find,
                              .remove = forget,
                              .context = (void *)(uintptr_t)hub};
}
