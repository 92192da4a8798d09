/* tern rm: models out of the cache. */
#include <string.h>

#include "apps/hub.h"
#include "base/show.h"
#include "hub/known.h"

#define FIELD(name) offsetof(tern_options, name)

static const tern_flag flags[] = {
    {"yes", 'y', TERN_FLAG_BOOL, NULL, FIELD(yes), 0, 0, "Without asking"},
    {"quiet", 'q', TERN_FLAG_BOOL, NULL, FIELD(quiet), 0, 0, "Says nothing but errors"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static tern_status remove_one(const tern_options *o, const tern_hub *hub, const char *text, tern_error *err)
{
    tern_hub_name name;
    uint64_t bytes;
    char question[300], size[16];
    TERN_TRY(tern_hub_known_parse(&name, text, err));
    TERN_TRY(tern_hub_cache_remove(hub, &name, true, &bytes, err));
    const bool all = !name.file[0] && !name.tag[0];
    snprintf(question, sizeof question, "Remove %s%s (%s)?", tern_show_z(text).text,
             all ? ", all of the repository that is here" : "", tern_app_bytes(bytes, size));
    if (!o->yes && !tern_app_hub_ask(question))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s (%s) stays: --yes, or yes on a terminal, removes it",
                         tern_show_z(text).text, size);
    TERN_TRY(tern_hub_cache_remove(hub, &name, false, &bytes, err));
    if (!o->quiet) fprintf(stderr, "%s: %s removed\n", tern_show_z(text).text, size);
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
