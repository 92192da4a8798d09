/* tern package: a model as a manifest and shards, for loading over a network. */
#include <stdio.h>
#include <string.h>

#include "apps/model.h"
#include "apps/open.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/file.h"
#include "model/package.h"

static const tern_flag flags[] = {
    {"output", 'o', TERN_FLAG_TEXT, "DIR", offsetof(tern_options, output), 0, 0, "The folder to make"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"type", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, type), 0, 0,
     "Layers: " TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES "; with the tables " TERN_MIX_NAMES},
    {"head", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, head), 0, 0,
     "Embedding and output tables; as the mix has them, else as they are, when not given"},
    {"shard-size", 0, TERN_FLAG_U32, "MIB", offsetof(tern_options, shard_mib), 1, TERN_MANIFEST_SHARD_BYTES >> 20,
     "Size of a shard"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static void defaults(tern_options *o)
{
    o->shard_mib = TERN_MANIFEST_SHARD_BYTES >> 20;
}

/* *gguf: a file in a temporary folder beside the package, for as long as it takes; the caller's to free. */
static tern_status convert(const tern_options *o, const char *in, char **gguf, tern_temp *temp, tern_error *err)
{
    tern_progress progress = {.label = "Converting"};
    TERN_TRY(tern_temp_folder(temp, o->output, err));
    *gguf = tern_path_join(temp->path, "model.gguf");
    if (!*gguf) return tern_fail_alloc(err, strlen(temp->path) + 16);
    const tern_convert_options how = {
        .type = o->type, .head = o->head, .progress = tern_progress_update, .progress_context = &progress};
    tern_convert_result result;
    const tern_status status = tern_convert(in, *gguf, &how, &result, err);
    tern_progress_end(&progress);
    for (uint32_t i = 0; i < result.n_fallbacks; i++) fprintf(stderr, "%s: %s\n", o->output, result.fallbacks[i]);
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

static tern_status report(const tern_options *o, tern_error *err)
{
    tern_manifest m;
    char path[4096], size[16];
    snprintf(path, sizeof path, "%s/%s", o->output, TERN_MANIFEST_NAME);
    TERN_TRY(tern_manifest_read(&m, path, err));
    fprintf(stderr, "%s: %zu shard%s, %s\n", path, m.n_shards, m.n_shards == 1 ? "" : "s",
            tern_app_bytes(m.bytes, size));
    json_t *out = o->json ? json_pack("{s:o, s:I, s:I}", "manifest", tern_app_json_text(path, strlen(path)), "shards",
                                      (json_int_t)m.n_shards, "bytes", (json_int_t)m.bytes)
                          : NULL;
    tern_manifest_deinit(&m);
    return o->json ? tern_app_print_json(out, err) : TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_app_path path;
    const char *in = path.text;
    const tern_encoding *unused;
    const tern_mix *unused_mix;
    char *gguf = NULL;
    tern_temp temp = {0};
    if (!o->output) return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give the folder to make with -o");
    TERN_TRY(tern_app_type(o->type, &unused, &unused_mix, err));
    TERN_TRY(tern_app_encoding("head", o->head, &unused, err));
    TERN_TRY(tern_app_find_model(&(tern_options){.model = o->args.items[0]}, &path, err));
    const bool is_file = !o->type && !o->head && !tern_file_is_dir(in) && !tern_path_ends(in, ".json") &&
                         !tern_path_ends(in, ".safetensors");
    TERN_TRY(tern_app_check_output(o, in, o->output, true, err));
    tern_status status;
    TERN_GOTO(is_file ? TERN_OK : convert(o, in, &gguf, &temp, err));
    TERN_GOTO(cut(o, is_file ? in : gguf, err));
fail:
    tern_free(gguf);
    tern_temp_abort(&temp);
    return status == TERN_OK ? report(o, err) : status;
}

const tern_command tern_command_package = {
    .name = "package",
    .usage = "MODEL -o DIR [--type TYPE] [--head TYPE]",
    .summary = "Cut a model into shards with a manifest, for the web",
    .detail = "MODEL is a GGUF file or a Hugging Face folder. The shards together are the GGUF file; their SHA-256 "
              "sums are in\n"
              "the manifest, and are checked when -m DIR or a browser opens the package.",
    .groups = groups,
    .min_args = 1,
    .max_args = 1,
    .defaults = defaults,
    .run = run,
};
