/* Files: read-only maps, paths and folders. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/form.h"
#include "base/mapped.h"
#include "base/show.h"

static tern_status fail_errno(tern_error *err, const char *what, const char *path)
{
    tern_status code = errno == ENOENT ? TERN_NOT_FOUND : TERN_IO;
    return tern_fail(err, code, "%s: %s: %s", path, what, strerror(errno));
}

static tern_status map_bytes(tern_file_map *map, int fd, size_t n, const char *path, tern_error *err)
{
    void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return fail_errno(err, "cannot map", path);
    const tern_status status = tern_mapped_add(p, n, path, err);
    if (status == TERN_OK) *map = (tern_file_map){.data = p, .size = n, .mapped = true};
    else munmap(p, n);
    return status;
}

tern_status tern_file_map_open(tern_file_map *map, const char *path, tern_error *err)
{
    *map = (tern_file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, "cannot open", path);
    struct stat st;
    tern_status status = TERN_OK;
    if (fstat(fd, &st) != 0) {
        status = fail_errno(err, "cannot stat", path);
    } else if (!S_ISREG(st.st_mode)) {
        status = tern_fail(err, TERN_IO, "%s: %s found, a file expected", path,
                           S_ISDIR(st.st_mode) ? tern_form_of_folder(path) : "no regular file");
    } else if (st.st_size > 0) {
        status = map_bytes(map, fd, (size_t)st.st_size, path, err);
    }
    close(fd);
    return status;
}

void tern_file_map_close(tern_file_map *map)
{
    if (map->mapped) {
        tern_mapped_remove(map->data);
        munmap((void *)(uintptr_t)map->data, map->size);
    }
    *map = (tern_file_map){0};
}

void tern_file_drop(const void *start, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)start, to = from + bytes;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

void tern_file_want(const void *start, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)start / page * page;
    if (bytes) madvise((void *)from, (uintptr_t)start + bytes - from, MADV_WILLNEED);
}

bool tern_file_waited(tern_file_waits *waits)
{
    enum { CALLS = 256 };
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return false;
    const uint64_t n = (uint64_t)usage.ru_majflt;
    if (n != waits->n) waits->left = CALLS;
    else if (waits->left) waits->left--;
    waits->n = n;
    return waits->left > 0;
}

tern_status tern_file_read(tern_buf *buf, const char *path, size_t max_bytes, tern_error *err)
{
    tern_file_map map;
    TERN_TRY(tern_file_map_open(&map, path, err));
    buf->size = 0;
    tern_status status = TERN_OK;
    if (map.size > max_bytes)
        status = tern_fail(err, TERN_LIMIT, "%s: %zu bytes, at most %zu expected", path, map.size, max_bytes);
    else status = tern_buf_add(buf, map.data, map.size, err);
    tern_file_map_close(&map);
    return status;
}

bool tern_file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool tern_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

char *tern_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir), bytes = n + strlen(name) + 2;
    char *path = tern_alloc(bytes);
    if (path) snprintf(path, bytes, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return path;
}

bool tern_path_ends(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);
    return n > m && memcmp(path + n - m, suffix, m) == 0;
}

tern_status tern_folder_make(const char *path, tern_error *err)
{
    if (mkdir(path, 0777) == 0) return TERN_OK;
    const int why = errno;
    if (tern_file_is_dir(path)) return TERN_OK;
    if (why == EEXIST)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is a file: a folder expected", tern_show_z(path).text);
    return tern_fail(err, TERN_IO, "%s: cannot make the folder: %s", tern_show_z(path).text, strerror(why));
}

void tern_folders_make(const char *file_path)
{
    char part[4096];
    const size_t n = strlen(file_path);
    if (n == 0 || n >= sizeof part) return;
    memcpy(part, file_path, n + 1);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(part, 0700);
        *at = '/';
    }
}
