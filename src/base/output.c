/* Where something may be written. */
#include "base/output.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/parts.h"
#include "base/show.h"

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool tern_output_same(const char *a, const char *b)
{
    struct stat x, y;
    return a && b && stat(a, &x) == 0 && stat(b, &y) == 0 && same(&x, &y);
}

/* The folder of a path: up to its last slash, "." where it has none. In storage of tern_alloc; NULL when out of memory.
 */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return tern_strdup(".");
    return slash == path ? tern_strdup("/") : tern_strndup(path, (size_t)(slash - path));
}

/* Whether a folder on the way to the path is this one. */
static bool leads_through(const char *path, const struct stat *folder)
{
    struct stat st;
    bool found = false;
    char *at = tern_strdup(path);
    for (char *slash; !found && at && (slash = strrchr(at, '/')) && slash != at;) {
        *slash = 0;
        found = stat(at, &st) == 0 && same(&st, folder);
    }
    tern_free(at);
    return found;
}

/* Whether the folder holds the input, by its name as given or by where its links lead. */
static bool holds(const struct stat *folder, const char *input)
{
    char *real = realpath(input, NULL);
    const bool found = leads_through(input, folder) || (real && leads_through(real, folder));
    free(real);
    return found;
}

/* Whether a file that a reader of the folder may take is this one. */
static bool is_part(const char *folder, const struct stat *file)
{
    struct stat st;
    bool found = false;
    DIR *names = opendir(folder);
    for (const struct dirent *entry; !found && names && (entry = readdir(names));)
        found = !tern_path_ends(entry->d_name, ".gguf") && fstatat(dirfd(names), entry->d_name, &st, 0) == 0 &&
                same(&st, file);
    if (names) closedir(names);
    return found;
}

static tern_status fail_same(const char *path, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: input and output are the same %s: another output expected",
                     tern_show_z(path).text, tern_file_is_dir(path) ? "folder" : "file");
}

static tern_status check_input(const tern_output *o, const struct stat *there, const char *input, tern_error *err)
{
    struct stat st;
    if (!input || stat(input, &st) != 0) return TERN_OK;
    if (same(&st, there)) return fail_same(o->path, err);
    if (S_ISDIR(there->st_mode) && holds(there, input))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s holds the input %s: another output expected",
                         tern_show_z(o->path).text, tern_show_z(input).text);
    if (S_ISDIR(st.st_mode) && S_ISREG(there->st_mode) && is_part(input, there))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is a file of the input %s: another output expected",
                         tern_show_z(o->path).text, tern_show_z(input).text);
    return TERN_OK;
}

/* All parts of a model in parts are inputs. */
static tern_status check_parts(const tern_output *o, const struct stat *there, tern_error *err)
{
    uint32_t part;
    const uint32_t n = tern_parts_of_name(o->model, &part);
    tern_status status = TERN_OK;
    for (uint32_t i = 1; i <= n && status == TERN_OK; i++) {
        char *path = tern_parts_path(o->model, i);
        status = path ? check_input(o, there, path, err) : tern_fail_alloc(err, strlen(o->model) + 1);
        tern_free(path);
    }
    return status;
}

static tern_status check_model(const tern_output *o, const struct stat *there, tern_error *err)
{
    if (!o->model) return TERN_OK;
    TERN_TRY(check_input(o, there, o->model, err));
    TERN_TRY(check_parts(o, there, err));
    if (!tern_path_ends(o->model, ".json") && !tern_path_ends(o->model, ".safetensors")) return TERN_OK;
    char *folder = folder_of(o->model);
    if (!folder) return tern_fail_alloc(err, strlen(o->model) + 1);
    tern_status status = check_input(o, there, folder, err);
    tern_free(folder);
    return status;
}

static bool is_empty_folder(const char *path)
{
    size_t n = 0;
    DIR *names = opendir(path);
    if (!names) return false;
    for (const struct dirent *entry; n == 0 && (entry = readdir(names));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(names);
    return n == 0;
}

static bool is_ours(const char *path, const char *ours)
{
    char begins[32];
    const size_t n = ours ? strlen(ours) : 0;
    assert(n <= sizeof begins);
    const int fd = n ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return false;
    const ssize_t got = read(fd, begins, n);
    close(fd);
    return got == (ssize_t)n && memcmp(begins, ours, n) == 0;
}

static tern_status fail_there(const tern_output *o, bool folder, tern_error *err)
{
    const tern_shown path = tern_show_z(o->path);
    if (o->ours)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s exists and was not written for this: another name expected",
                         path.text);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s exists%s", path.text,
                     folder ? " and is not empty: --overwrite writes into it" : ": --overwrite replaces it");
}

tern_status tern_output_check(const tern_output *o, tern_error *err)
{
    struct stat there;
    if (stat(o->path, &there) != 0) return TERN_OK;
    const bool folder = S_ISDIR(there.st_mode);
    if (!folder && !S_ISREG(there.st_mode)) return TERN_OK;
    TERN_TRY(check_model(o, &there, err));
    for (size_t i = 0; i < o->n_inputs; i++) TERN_TRY(check_input(o, &there, o->inputs[i], err));
    if (folder != o->folder)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is a %s: a %s expected", tern_show_z(o->path).text,
                         folder ? "folder" : "file", folder ? "file" : "folder");
    if (o->overwrite || (folder ? is_empty_folder(o->path) : there.st_size == 0)) return TERN_OK;
    return is_ours(o->path, o->ours) ? TERN_OK : fail_there(o, folder, err);
}
