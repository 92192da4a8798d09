/* tern rm: models out of the cache. */
#include <string.h>

#include "apps/hub/hub.h"
#include "base/show.h"
#include "hub/known.h"
#include "hub/torrent/place.h"

#define FIELD(name) offsetof(tern_options, name)

static const tern_flag flags[] = {
    {"yes", 'y', TERN_FLAG_BOOL, NULL, FIELD(yes), 0, 0, "Without asking"},
    {"quiet", 'q', TERN_FLAG_BOOL, NULL, FIELD(quiet), 0, 0, "Print only errors"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

/* Whether what is to go may go. */
static tern_status ask(const tern_options *o, const char *text, bool all, uint64_t bytes, tern_error *err)
{
    char question[300], size[16];
    snprintf(question, sizeof question, "Remove %s%s (%s)?", tern_show_z(text).text,
             all ? ", all of the repository that is here" : "", tern_app_bytes(bytes, size));
    if (o->yes || tern_app_hub_ask(question)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s (%s) was not removed: --yes, or yes on a terminal, expected",
                     tern_show_z(text).text, size);
}

static tern_status remove_torrent(const tern_options *o, const tern_hub *hub, const char *text, uint64_t *bytes,
                                  tern_error *err)
{
    tern_torrent_entry entry;
    TERN_TRY(tern_torrent_find(hub, text, &entry, err));
    TERN_TRY(ask(o, text, false, entry.bytes, err));
    *bytes = entry.bytes;
    return tern_torrent_remove(hub, &entry, err);
}

static tern_status remove_model(const tern_options *o, const tern_hub *hub, const char *text, uint64_t *bytes,
                                tern_error *err)
{
    tern_hub_name name;
    TERN_TRY(tern_hub_known_parse(&name, text, err));
    TERN_TRY(tern_hub_cache_remove(hub, &name, true, bytes, err));
    TERN_TRY(ask(o, text, !name.file[0] && !name.tag[0], *bytes, err));
    return tern_hub_cache_remove(hub, &name, false, bytes, err);
}

static tern_status remove_one(const tern_options *o, const tern_hub *hub, const char *text, tern_error *err)
{
    char size[16];
    uint64_t bytes;
    TERN_TRY((tern_torrent_name_is(text) ? remove_torrent : remove_model)(o, hub, text, &bytes, err));
    if (!o->quiet) fprintf(stderr, "%s: %s removed\n", tern_show_z(text).text, tern_app_bytes(bytes, size));
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_hub hub;
    TERN_TRY(tern_app_hub(&hub, err));
    for (size_t i = 0; i < o->args.n; i++) TERN_TRY(remove_one(o, &hub, o->args.items[i], err));
    return TERN_OK;
}

const tern_command tern_command_rm = {
    .name = "rm",
    .usage = "NAME ... [--yes]",
    .summary = "Remove models that tern pull has fetched",
    .detail = "Names are those of `tern list`; ORG/NAME alone is all of that repository. Other programs that use the\n"
              "cache of huggingface_hub lose the files too.",
    .groups = groups,
    .min_args = 1,
    .max_args = 1000,
    .run = run,
};
