/* tern list: the models of the hub that are on this machine. */
#include <string.h>

#include "apps/hub/hub.h"
#include "hub/known.h"
#include "hub/torrent/place.h"

#define FIELD(name) offsetof(tern_options, name)

static const tern_flag flags[] = {
    {"known", 0, TERN_FLAG_BOOL, NULL, FIELD(known), 0, 0,
     "Short names that tern pull knows, in place of what is here"},
    {"names", 0, TERN_FLAG_BOOL, NULL, FIELD(names), 0, 0, "Names alone, one in each line"},
    {"json", 0, TERN_FLAG_BOOL, NULL, FIELD(json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

typedef struct listed {
    const tern_options *options;
    json_t *rows; /* with --json */
    uint64_t bytes;
    size_t n;
} listed;

/* The short name where the entry has one. */
static const char *name_of(const tern_hub_entry *entry)
{
    const tern_hub_known *k = tern_hub_known_of(&entry->parsed);
    return k ? k->name : entry->name;
}

/* The columns shown for a model; path NULL: it is not whole. */
typedef struct row {
    const char *name, *repository, *revision, *path;
    uint64_t bytes, coming;
} row;

static void take_json(listed *l, const row *r)
{
    json_t *path = r->path ? tern_app_json_text(r->path, strlen(r->path)) : json_null();
    json_array_append_new(l->rows, json_pack("{s:o, s:s?, s:s, s:o, s:I, s:I}", "name",
                                             tern_app_json_text(r->name, strlen(r->name)), "repository", r->repository,
                                             "revision", r->revision, "path", path, "bytes", (json_int_t)r->bytes,
                                             "incomplete_bytes", (json_int_t)r->coming));
}

static void take_row(listed *l, const row *r)
{
    char size[16], cell[40];
    l->bytes += r->bytes;
    l->n++;
    if (l->options->json) {
        take_json(l, r);
        return;
    }
    if (l->options->names && !r->path) return;
    if (!l->options->names) {
        tern_app_bytes(r->path ? r->bytes : r->coming, size);
        snprintf(cell, sizeof cell, "%10s  ", size);
        tern_app_write(cell, strlen(cell));
    }
    tern_app_write_text(r->name, strlen(r->name));
    if (!l->options->names && !r->path) tern_app_write(" (not whole yet)", 16);
    tern_app_write("\n", 1);
}

static tern_status take(void *context, const tern_hub_entry *e, tern_error *err)
{
    (void)err;
    take_row(context, &(row){name_of(e), e->parsed.repository, e->parsed.revision,
                             e->path.text[0] ? e->path.text : NULL, e->bytes, e->coming});
    return TERN_OK;
}

static tern_status take_torrent(void *context, const tern_torrent_entry *e, tern_error *err)
{
    (void)err;
    take_row(context, &(row){e->name, NULL, e->place.hash, e->whole ? e->place.package.text : NULL,
                             e->whole ? e->bytes : 0, e->whole ? 0 : e->bytes});
    return TERN_OK;
}

static tern_status show_known(const tern_options *o, tern_error *err)
{
    json_t *rows = o->json ? json_array() : NULL;
    for (const tern_hub_known *k = tern_hub_known_models; k->name; k++) {
        if (o->json)
            json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", k->name, "model", k->hub_name,
                                                  "what", k->what, "memory", k->memory, "verified", k->verified));
        else if (o->names) printf("%s\n", k->name);
        else printf("%-18s%-9s%s\n%-18s%-9s%s\n", k->name, k->memory, k->what, "", "", k->hub_name);
    }
    return o->json ? tern_app_print_json(rows, err) : TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    listed l = {.options = o, .rows = o->json && !o->known ? json_array() : NULL};
    tern_hub hub;
    char size[16];
    if (o->known) return show_known(o, err);
    tern_status status = tern_app_hub(&hub, err);
    if (status == TERN_OK) status = tern_hub_cache_list(&hub, take, &l, err);
    if (status == TERN_OK) status = tern_torrent_list(&hub, take_torrent, &l, err);
    if (status == TERN_OK && o->json) return tern_app_print_json(l.rows, err);
    if (l.rows) json_decref(l.rows);
    if (status != TERN_OK || o->names) return status;
    if (l.n) printf("%10s  in %s\n", tern_app_bytes(l.bytes, size), hub.cache);
    else printf("No models in %s. tern list --known shows some that tern pull fetches.\n", hub.cache);
    return TERN_OK;
}

const tern_command tern_command_list = {
    .name = "list",
    .usage = "[--known] [--names | --json]",
    .summary = "Show the models that tern pull has fetched",
    .detail = "They lie in the cache that huggingface_hub and transformers use too. -m takes the names that are shown.",
    .groups = groups,
    .run = run,
};
