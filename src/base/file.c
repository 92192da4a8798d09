/* Files: read-only maps, and writes that appear whole or not at all. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/show.h"

static tern_status fail_errno(tern_error *err, const char *what, const char *path)
{
    tern_status code = errno == ENOENT ? TERN_NOT_FOUND : TERN_IO;
    return tern_fail(err, code, "%s: %s: %s", path, what, strerror(errno));
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
        status = tern_fail(err, TERN_IO, "%s: not a regular file", path);
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) status = fail_errno(err, "cannot map", path);
        else *map = (tern_file_map){.data = p, .size = (size_t)st.st_size, .mapped = true};
    }
    close(fd);
    return status;
}

void tern_file_map_close(tern_file_map *map)
{
    if (map->mapped) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (tern_file_map){0};
}

void tern_file_drop(const void *start, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)start, to = from + bytes;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
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

tern_status tern_file_writer_open(tern_file_writer *w, const char *path, tern_error *err)
{
    *w = (tern_file_writer){0};
    size_t bytes = strlen(path) + 32;
    w->path = tern_strdup(path);
    w->temp_path = tern_alloc(bytes);
    if (!w->path || !w->temp_path) {
        tern_file_writer_abort(w);
        return tern_fail_alloc(err, bytes);
    }
    snprintf(w->temp_path, bytes, "%s.tmp-%ld", path, (long)getpid());
    w->stream = fopen(w->temp_path, "wbe");
    if (w->stream) return TERN_OK;
    tern_status status = fail_errno(err, "cannot create", w->temp_path);
    tern_file_writer_abort(w);
    return status;
}

tern_status tern_file_writer_open_memory(tern_file_writer *w, tern_buf *out, const char *name, tern_error *err)
{
    *w = (tern_file_writer){.memory = out, .path = tern_strdup(name)};
    if (w->path) return TERN_OK;
    *w = (tern_file_writer){0};
    return tern_fail_alloc(err, strlen(name) + 1);
}

/* To the file's present place, or to the end of memory. */
static void write_bytes(tern_file_writer *w, const void *bytes, size_t n)
{
    if (n == 0 || w->failed) return;
    if (w->memory) w->failed = tern_buf_add(w->memory, bytes, n, NULL) != TERN_OK;
    else w->failed = fwrite(bytes, 1, n, w->stream) != n;
}

void tern_file_writer_add(tern_file_writer *w, const void *bytes, size_t n)
{
    write_bytes(w, bytes, n);
    if (!w->memory || !w->failed) w->written += n;
}

void tern_file_writer_put(tern_file_writer *w, uint64_t offset, const void *bytes, size_t n)
{
    if (w->failed || n == 0) return;
    if (w->memory) {
        memcpy(w->memory->data + (w->memory->size - (size_t)w->written) + offset, bytes, n);
        return;
    }
    w->failed = fseeko(w->stream, (off_t)offset, SEEK_SET) != 0;
    write_bytes(w, bytes, n);
    if (!w->failed) w->failed = fseeko(w->stream, 0, SEEK_END) != 0;
}

void tern_file_writer_pad(tern_file_writer *w, size_t alignment)
{
    static const uint8_t zeros[64];
    size_t left = (alignment - w->written % alignment) % alignment;
    while (left) {
        size_t n = left < sizeof zeros ? left : sizeof zeros;
        tern_file_writer_add(w, zeros, n);
        left -= n;
    }
}

/* The new name itself reaches the disk; file systems that cannot sync a folder do without. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == path ? tern_strdup("/")
                   : slash       ? tern_strndup(path, (size_t)(slash - path))
                                 : tern_strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    tern_free(folder);
}

static tern_status commit_memory(tern_file_writer *w, tern_error *err)
{
    tern_status status = w->failed ? tern_fail_alloc(err, w->written) : TERN_OK;
    if (status == TERN_OK) w->memory = NULL; /* what was written stays */
    tern_file_writer_abort(w);
    return status;
}

tern_status tern_file_writer_commit(tern_file_writer *w, tern_error *err)
{
    if (w->memory) return commit_memory(w, err);
    bool bad = w->failed || fflush(w->stream) != 0 || fsync(fileno(w->stream)) != 0;
    tern_status status = TERN_OK;
    if (bad) status = fail_errno(err, "cannot write", w->temp_path);
    fclose(w->stream);
    w->stream = NULL;
    if (status == TERN_OK && rename(w->temp_path, w->path) != 0) status = fail_errno(err, "cannot rename to", w->path);
    if (status == TERN_OK) {
        sync_folder(w->path);
        tern_free(w->temp_path);
        w->temp_path = NULL;
    }
    tern_file_writer_abort(w);
    return status;
}

void tern_file_writer_abort(tern_file_writer *w)
{
    if (w->memory) w->memory->size -= (size_t)w->written;
    if (w->stream) fclose(w->stream);
    if (w->temp_path) unlink(w->temp_path);
    tern_free(w->temp_path);
    tern_free(w->path);
    *w = (tern_file_writer){0};
}

tern_status tern_file_write(const char *path, const void *bytes, size_t n, tern_error *err)
{
    tern_file_writer w;
    TERN_TRY(tern_file_writer_open(&w, path, err));
    tern_file_writer_add(&w, bytes, n);
    return tern_file_writer_commit(&w, err);
}
