/* tern package: a model as a manifest and shards, or an adapter's files and a manifest, for loading over a network. */
#include <stdio.h>
#include <string.h>

#include "apps/hub/torrent.h"
#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "apps/open.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "model/package/package.h"

enum { SHARD_MIB = TERN_MANIFEST_SHARD_BYTES >> 20 };

static const tern_flag flags[] = {
    {"output", 'o', TERN_FLAG_TEXT, "DIR", offsetof(tern_options, output), 0, 0, "The folder to make"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"type", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, type), 0, 0,
     "Layers: " TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES "; with the tables " TERN_MIX_NAMES},
    {"head", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, head), 0, 0,
     "Embedding and output tables; as the mix has them, else as they are, when not given"},
    {"shard-size", 0, TERN_FLAG_U32, "MIB", offsetof(tern_options, shard_mib), 1, SHARD_MIB, "Size of a shard"},
    {"torrent", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, torrent), 0, 0,
     "Writes " TERN_MANIFEST_TORRENT " beside the manifest and prints a magnet link; also of a package that is there"},
    {"web-seed", 0, TERN_FLAG_TEXTS, "URL", offsetof(tern_options, web_seeds), 0, 0,
     "With --torrent: the address of the folder that DIR lies in, from which all can be had; several times"},
    {"tracker", 0, TERN_FLAG_TEXTS, "URL", offsetof(tern_options, trackers), 0, 0,
     "With --torrent: who tells peers of each other; several times"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static void defaults(tern_options *o)
{
    o->shard_mib = SHARD_MIB;
}

/* *gguf: a file in a temporary folder beside the package, for as long as it takes; the caller's to free. */
static tern_status convert(const tern_options *o, const char *in, char **gguf, tern_temp *temp, tern_error *err)
{
    tern_progress progress = {.label = "Converting"};
    TERN_TRY(tern_temp_folder(temp, o->output, err));
    *gguf = tern_path_join(temp->path, "model.gguf");
    if (!*gguf) return tern_fail_alloc(err, strlen(temp->path) + 16);
    const tern_convert_options how = {.size = sizeof how,
                                      .type = o->type,
                                      .head = o->head,
                                      .progress = tern_progress_update,
                                      .progress_context = &progress};
    tern_convert_result result = {.size = sizeof result};
    const tern_status status = tern_convert(in, *gguf, &how, &result, err);
    tern_progress_end(&progress);
    for (uint32_t i = 0; i < result.n_fallbacks; i++) tern_app_say("%s: %s\n", o->output, result.fallbacks[i]);
    return status;
}

static tern_status cut(const tern_options *o, const char *gguf, tern_error *err)
{
    tern_progress progress = {.label = "Packaging"};
    tern_package_options how = {.shard_bytes = o->shard_mib << 20,
                                .overwrite = o->overwrite,
                                .progress = tern_progress_update,
                                .progress_context = &progress};
    tern_status status = tern_package_write(gguf, o->output, &how, err);
    tern_progress_end(&progress);
    return status;
}

static json_t *torrent_json(const tern_app_torrent *t)
{
    return json_pack("{s:o, s:o, s:I, s:s, s:s, s:o}", "path", tern_app_json_text(t->path.text, strlen(t->path.text)),
                     "name", tern_app_json_text(t->name, strlen(t->name)), "piece_bytes", (json_int_t)t->piece_bytes,
                     "info_hash", t->v1, "info_hash_v2", t->v2, "magnet",
                     tern_app_json_text(t->magnet, strlen(t->magnet)));
}

/* The link goes to standard output, so that a script has it. */
static void show_torrent(const tern_app_torrent *t)
{
    tern_app_say("%s: \"%s\", pieces of %u KiB\n", t->path.text, t->name, t->piece_bytes >> 10);
    fprintf(stderr, "info-hash %s (version 1)\ninfo-hash %s (version 2)\n", t->v1, t->v2);
    tern_app_write_text(t->magnet, strlen(t->magnet));
    tern_app_write("\n", 1);
}

static tern_status report(const tern_options *o, const char *dir, const tern_app_torrent *torrent, tern_error *err)
{
    tern_manifest m;
    char path[4096], size[16];
    snprintf(path, sizeof path, "%s/%s", dir, TERN_MANIFEST_NAME);
    TERN_TRY(tern_manifest_read(&m, path, err));
    tern_app_say("%s: %zu %s%s, %s\n", path, m.n_shards, m.adapter ? "file" : "shard", m.n_shards == 1 ? "" : "s",
                 tern_app_bytes(m.bytes, size));
    json_t *out = o->json ? json_pack("{s:o, s:I, s:I}", "manifest", tern_app_json_text(path, strlen(path)), "shards",
                                      (json_int_t)m.n_shards, "bytes", (json_int_t)m.bytes)
                          : NULL;
    tern_manifest_deinit(&m);
    if (torrent->magnet && !o->json) show_torrent(torrent);
    else if (torrent->magnet) json_object_set_new(out, "torrent", torrent_json(torrent));
    return o->json ? tern_app_print_json(out, err) : TERN_OK;
}

/* The package as it is, and its torrent if one is wanted. */
static tern_status finish(const tern_options *o, const char *dir, tern_error *err)
{
    tern_app_torrent torrent = {0};
    tern_status status = o->torrent ? tern_app_torrent_write(o, dir, &torrent, err) : TERN_OK;
    if (status == TERN_OK) status = report(o, dir, &torrent, err);
    tern_free(torrent.magnet);
    return status;
}

/* A package that is there already, of which a torrent is wanted. */
static bool is_there(const tern_options *o, const char *in)
{
    return o->torrent && !o->output && tern_file_is_dir(in) && tern_package_is(in);
}

static tern_status package_adapter(const tern_options *o, const char *in, tern_error *err)
{
    const char *flag = o->type ? "type" : o->head ? "head" : o->shard_mib != SHARD_MIB ? "shard-size" : NULL;
    if (flag)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s: %s is an adapter, and adapters are packaged unchanged",
                         flag, tern_show_z(in).text);
    TERN_TRY(tern_app_check_output(o, in, o->output, true, err));
    const tern_package_options how = {.overwrite = o->overwrite};
    TERN_TRY(tern_package_write_adapter(in, o->output, &how, err));
    return finish(o, o->output, err);
}

static tern_status package_model(const tern_options *o, const char *in, tern_error *err)
{
    char *gguf = NULL;
    tern_temp temp = {0};
    const bool is_file = !o->type && !o->head && !tern_file_is_dir(in) && !tern_path_ends(in, ".json") &&
                         !tern_path_ends(in, ".safetensors");
    TERN_TRY(tern_app_check_output(o, in, o->output, true, err));
    tern_status status;
    TERN_GOTO(is_file ? TERN_OK : convert(o, in, &gguf, &temp, err));
    TERN_GOTO(cut(o, is_file ? in : gguf, err));
fail:
    tern_free(gguf);
    tern_temp_abort(&temp);
    return status == TERN_OK ? finish(o, o->output, err) : status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_app_path path;
    const tern_encoding *unused;
    const tern_mix *unused_mix;
    TERN_TRY(tern_app_torrent_check_flags(o, err));
    if (is_there(o, o->args.items[0])) return finish(o, o->args.items[0], err);
    if (!o->output) return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give the folder to make with -o");
    TERN_TRY(tern_app_type(o->type, &unused, &unused_mix, err));
    TERN_TRY(tern_app_encoding("head", o->head, &unused, err));
    TERN_TRY(tern_app_find_model(&(tern_options){.model = o->args.items[0]}, &path, err));
    return tern_app_is_adapter(path.text) ? package_adapter(o, path.text, err) : package_model(o, path.text, err);
}

const tern_command tern_command_package = {
    .name = "package",
    .usage = "MODEL -o DIR [--type TYPE] [--head TYPE] [--torrent] | ADAPTER -o DIR [--torrent] | PACKAGE "
             "--torrent",
    .summary = "Cut a model into shards with a manifest, for the web",
    .detail = "MODEL is a GGUF file or a Hugging Face folder. The shards together are the GGUF file; their SHA-256 "
              "sums are in\n"
              "the manifest, and are checked when -m DIR or a browser opens the package. The files of an ADAPTER\n"
              "(LoRA: GGUF or PEFT) stay as they are, and --lora DIR opens their package. Files of a torrent are the\n"
              "manifest and the shards; `tern pull DIR/" TERN_MANIFEST_TORRENT " --seed` gives them.",
    .groups = groups,
    .min_args = 1,
    .max_args = 1,
    .defaults = defaults,
    .run = run,
};
