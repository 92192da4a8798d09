/* tern pull: a model from the Hugging Face hub, or from peers by BitTorrent. */
#include <string.h>

#include "apps/hub/hub.h"
#include "apps/hub/torrent.h"
#include "base/show.h"
#include "hub/known.h"

#define FIELD(name) offsetof(tern_options, name)

static const tern_flag flags[] = {
    {"json", 0, TERN_FLAG_BOOL, NULL, FIELD(json), 0, 0, "Print JSON"},
    {"quiet", 'q', TERN_FLAG_BOOL, NULL, FIELD(quiet), 0, 0, "Neither a progress bar nor lines, but errors"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {"Torrents", tern_flags_torrent}, {0}};

static tern_status report(const tern_options *o, const tern_hub_name *name, const tern_hub_found *found,
                          tern_error *err)
{
    const char *path = found->path.text;
    if (o->json)
        return tern_app_print_json(json_pack("{s:s, s:s, s:s, s:o, s:I}", "name", o->args.items[0], "repository",
                                             name->repository, "revision", name->revision, "path",
                                             tern_app_json_text(path, strlen(path)), "bytes",
                                             (json_int_t)found->choice.bytes),
                                   err);
    tern_app_write_text(path, strlen(path));
    tern_app_write("\n", 1);
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_hub hub;
    tern_hub_name name;
    tern_hub_found found = {0};
    const char *what = o->args.items[0];
    if (tern_torrent_is(what)) return tern_app_torrent_pull(o, what, err);
    TERN_TRY(tern_app_torrent_check_unused(o, what, err));
    TERN_TRY(tern_hub_known_parse(&name, what, err));
    TERN_TRY(tern_app_hub(&hub, err));
    TERN_TRY(tern_app_hub_pull(&hub, &name, o->quiet, &found, err));
    return report(o, &name, &found, err);
}

const tern_command tern_command_pull = {
    .name = "pull",
    .usage = "NAME | [hf:]ORG/NAME[/FILE][:TAG][@REVISION] | magnet:?... | FILE.torrent",
    .summary = "Fetch a model from the Hugging Face hub, or a package from peers",
    .detail =
        "The path of the model goes to standard output; -m takes the name from then on. A TAG (Q4_K_M) chooses a\n"
        "GGUF file by a word of its name; without one the rule of docs/guides/models.md does. NAME is one of those "
        "that\n"
        "`tern list --known` shows. HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and HF_HUB_OFFLINE are read.\n"
        "A magnet link or a torrent is a package (tern package --torrent), fetched from its web seeds and by "
        "BitTorrent\n"
        "from peers, who see this machine's address and meanwhile get from it what it has; -m torrent:NAME opens it,\n"
        "--lora torrent:NAME that of an adapter.",
    .groups = groups,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
