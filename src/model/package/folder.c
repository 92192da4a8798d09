/* The folder of a package that is being written: files, their sums, the manifest; it appears when it is complete. */
#include <dirent.h>
#include <string.h>

#include "base/alloc.h"
#include "base/output.h"
#include "base/sha256.h"
#include "base/show.h"
#include "model/package/internal.h"

static tern_status write_file(const char *dir, const char *name, const void *bytes, size_t n, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    tern_status status = tern_file_write(path, bytes, n, err);
    tern_free(path);
    return status;
}

tern_status tern_package__write_shard(const char *folder, const char *name, const void *bytes, size_t n, json_t **shard,
                                      tern_error *err)
{
    char digits[TERN_SHA256_DIGITS + 1];
    *shard = NULL;
    TERN_TRY(tern_sha256(bytes, n, digits, err));
    TERN_TRY(write_file(folder, name, bytes, n, err));
    *shard = json_pack("{s:s, s:I, s:s}", "file", name, "bytes", (json_int_t)n, "sha256", digits);
    return *shard ? TERN_OK : tern_fail_alloc(err, 256);
}

tern_status tern_package__write_manifest(const char *folder, const json_t *manifest, tern_error *err)
{
    char *text = json_dumps(manifest, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text) return tern_fail_alloc(err, 1 << 20);
    tern_status status = write_file(folder, TERN_MANIFEST_NAME, text, strlen(text), err);
    tern_free(text);
    return status;
}

static bool is_part(const char *name)
{
    static const char *const others[] = {TERN_MANIFEST_NAME,
                                         TERN_MANIFEST_TORRENT,
                                         TERN_MANIFEST_ADAPTER_CONFIG,
                                         TERN_MANIFEST_ADAPTER_WEIGHTS,
                                         TERN_MANIFEST_ADAPTER_GGUF,
                                         ".",
                                         ".."};
    const size_t n = strlen(name);
    bool part = n > 10 && strncmp(name, "shard_", 6) == 0 && strcmp(name + n - 4, ".bin") == 0 &&
                strspn(name + 6, "0123456789") == n - 10;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) part = part || strcmp(name, others[i]) == 0;
    return part;
}

/* An empty folder may be there already, and to overwrite a package; a file that is not part of one is not removed. */
tern_status tern_package__check_target(const char *source, const char *dir, bool overwrite, tern_error *err)
{
    const tern_output output = {.path = dir, .folder = true, .model = source, .overwrite = overwrite};
    tern_status status = tern_output_check(&output, err);
    DIR *names = opendir(dir);
    for (const struct dirent *e; status == TERN_OK && names && (e = readdir(names));)
        if (!is_part(e->d_name))
            status = tern_fail(err, TERN_INVALID_ARGUMENT,
                               "%s holds %s, which is not part of a package: a new folder expected",
                               tern_show_z(dir).text, tern_show_z(e->d_name).text);
    if (names) closedir(names);
    return status;
}

tern_status tern_package__write_folder(const char *dir, tern_package__write_fn write, void *context, tern_error *err)
{
    tern_temp temp = {0};
    TERN_TRY(tern_temp_folder(&temp, dir, err));
    tern_status status = write(context, temp.path, err);
    if (status == TERN_OK)
        return tern_file_exists(dir) ? tern_temp_replace(&temp, dir, err) : tern_temp_commit(&temp, dir, err);
    tern_temp_abort(&temp);
    return status;
}
