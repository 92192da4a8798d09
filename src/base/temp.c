/* Temporary files and folders beside the path that they will be renamed to. */
#include "base/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/show.h"

/* A name may have 255 bytes: what is longer is cut, the random digits tell such names apart. */
enum { DIGITS = 16, NAME_BYTES = 200, TRIES = 8 };

static const char mark[] = ".tmp-";

/* Where a path's last part begins. */
static size_t name_start(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

/* Bytes of the last part, slashes at the end left out, at most NAME_BYTES. */
static size_t name_bytes(const char *path)
{
    size_t n = strcspn(path + name_start(path), "/");
    return n < NAME_BYTES ? n : NAME_BYTES;
}

/* The folder that holds the path, in storage of tern_alloc; NULL when out of memory. */
static char *folder_of(const char *path)
{
    size_t n = name_start(path);
    return n == 0 ? tern_strdup(".") : tern_strndup(path, n);
}

static tern_status fail_errno(tern_error *err, const char *what, const char *path)
{
    return tern_fail(err, errno == ENOENT ? TERN_NOT_FOUND : TERN_IO, "%s: %s: %s", tern_show_z(path).text, what,
                     strerror(errno));
}

/* Whether `name` is a temporary name of the path. */
static bool is_temp_of(const char *name, const char *path)
{
    size_t n = name_bytes(path);
    if (name[0] != '.' || strncmp(name + 1, path + name_start(path), n) != 0) return false;
    name += 1 + n;
    if (strncmp(name, mark, sizeof mark - 1) != 0) return false;
    name += sizeof mark - 1;
    return strlen(name) == DIGITS && strspn(name, "0123456789abcdef") == DIGITS;
}

static void remove_folder(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *files = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; files && (entry = readdir(files));) unlinkat(fd, entry->d_name, 0);
    if (files) closedir(files);
    else if (fd >= 0) close(fd);
    unlinkat(folder, name, AT_REMOVEDIR);
}

static void sweep_one(int folder, const char *name)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (S_ISREG(st.st_mode)) unlinkat(folder, name, 0);
        else if (S_ISDIR(st.st_mode)) remove_folder(folder, name);
    }
    close(fd);
}

/* Removes what killed processes left for the path. */
static void sweep(const char *path)
{
    char *folder = folder_of(path);
    DIR *names = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; names && (entry = readdir(names));)
        if (is_temp_of(entry->d_name, path)) sweep_one(dirfd(names), entry->d_name);
    if (names) closedir(names);
    tern_free(folder);
}

/* A new name for the path. */
static tern_status name_it(tern_temp *temp, const char *path, tern_error *err)
{
    uint64_t random;
    size_t start = name_start(path), n = name_bytes(path), bytes = start + n + sizeof mark + DIGITS + 1;
    if (getentropy(&random, sizeof random) != 0) return fail_errno(err, "no random number for a temporary name", path);
    temp->path = tern_alloc(bytes);
    if (!temp->path) return tern_fail_alloc(err, bytes);
    snprintf(temp->path, bytes, "%.*s.%.*s%s%016llx", (int)start, path, (int)n, path + start, mark,
             (unsigned long long)random);
    return TERN_OK;
}

/* Opens it under its name: a file's descriptor may be written. */
static int open_new(const char *path, bool is_folder)
{
    if (!is_folder) return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return mkdir(path, 0777) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

/* Another process may sweep it away before it is locked: then it has no name any more, and the next one is tried. */
static bool hold(int fd)
{
    struct stat st;
    flock(fd, LOCK_EX | LOCK_NB);
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static tern_status create(tern_temp *temp, const char *path, bool is_folder, tern_error *err)
{
    *temp = (tern_temp){.fd = -1};
    sweep(path);
    for (int i = 0; i < TRIES; i++) {
        TERN_TRY(name_it(temp, path, err));
        temp->fd = open_new(temp->path, is_folder);
        if (temp->fd >= 0 && hold(temp->fd)) return TERN_OK;
        bool again = temp->fd >= 0 || errno == EEXIST;
        if (temp->fd >= 0) close(temp->fd);
        else if (!again) fail_errno(err, "cannot create", path);
        tern_status status = errno == ENOENT ? TERN_NOT_FOUND : TERN_IO;
        tern_free(temp->path);
        *temp = (tern_temp){0};
        if (!again) return status;
    }
    return tern_fail(err, TERN_IO, "%s: no temporary name is free after %d tries", tern_show_z(path).text, TRIES);
}

tern_status tern_temp_file(tern_temp *temp, const char *path, tern_error *err)
{
    return create(temp, path, false, err);
}

tern_status tern_temp_folder(tern_temp *temp, const char *path, tern_error *err)
{
    return create(temp, path, true, err);
}

/* The new name itself reaches the disk; file systems that cannot sync a folder do without. */
static void sync_folder(const char *path)
{
    char *folder = folder_of(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    tern_free(folder);
}

/* Both names change places at once; false where the system or the file system cannot. */
static bool exchange(const char *a, const char *b)
{
#if defined(RENAME_EXCHANGE)
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
    (void)a, (void)b;
    return false;
#endif
}

tern_status tern_temp_replace(tern_temp *temp, const char *path, tern_error *err)
{
    if (exchange(temp->path, path)) {
        sync_folder(path);
        tern_temp_abort(temp); /* what was there */
        return TERN_OK;
    }
    remove_folder(AT_FDCWD, path);
    return tern_temp_commit(temp, path, err);
}

tern_status tern_temp_commit(tern_temp *temp, const char *path, tern_error *err)
{
    tern_status status = TERN_OK;
    if (rename(temp->path, path) != 0) {
        status = fail_errno(err, "cannot rename to", path);
    } else {
        sync_folder(path);
        tern_free(temp->path);
        temp->path = NULL;
    }
    if (temp->fd >= 0) close(temp->fd);
    temp->fd = -1;
    tern_temp_abort(temp);
    return status;
}

void tern_temp_abort(tern_temp *temp)
{
    if (temp->path && unlink(temp->path) != 0) remove_folder(AT_FDCWD, temp->path);
    if (temp->path && temp->fd >= 0) close(temp->fd);
    tern_free(temp->path);
    *temp = (tern_temp){0};
}
