/* Writing files that appear whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/show.h"

static tern_status fail_errno(tern_error *err, const char *what, const char *path)
{
    tern_status code = errno == ENOENT ? TERN_NOT_FOUND : TERN_IO;
    return tern_fail(err, code, "%s: %s: %s", tern_show_z(path).text, what, strerror(errno));
}

/* The path with its links followed, in storage of tern_alloc; a file that is not there yet keeps its path. */
static tern_status resolve(const char *path, char **out, tern_error *err)
{
    struct stat st;
    *out = NULL;
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    char *real = link ? realpath(path, NULL) : NULL;
    if (link && !real) return fail_errno(err, "a link to a file that does not exist", path);
    *out = tern_strdup(real ? real : path);
    free(real);
    return *out ? TERN_OK : tern_fail_alloc(err, strlen(path) + 1);
}

/* A temporary file in the place of the file; of the mode and owner of the one that is there (the owner only where this
 * process may give files away). */
static tern_status open_temp(tern_file_writer *w, const struct stat *there, tern_error *err)
{
    if (there && access(w->path, W_OK) != 0) return fail_errno(err, "may not be written", w->path);
    TERN_TRY(tern_temp_file(&w->temp, w->path, err));
    if (there) {
        if (fchown(w->temp.fd, there->st_uid, there->st_gid) != 0) errno = 0;
        if (fchmod(w->temp.fd, there->st_mode & 07777) != 0) return fail_errno(err, "cannot set the mode", w->path);
    }
    w->stream = fdopen(w->temp.fd, "wb");
    if (!w->stream) return fail_errno(err, "cannot create", w->path);
    w->temp.fd = -1; /* the stream's, which keeps it locked */
    return TERN_OK;
}

static tern_status open_path(tern_file_writer *w, const char *path, tern_error *err)
{
    struct stat st;
    TERN_TRY(resolve(path, &w->path, err));
    if (stat(w->path, &st) != 0) return open_temp(w, NULL, err);
    if (S_ISDIR(st.st_mode))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is a folder: a file expected", tern_show_z(path).text);
    if (S_ISREG(st.st_mode)) return open_temp(w, &st, err);
    w->stream = fopen(w->path, "wbe");
    return w->stream ? TERN_OK : fail_errno(err, "cannot open", w->path);
}

tern_status tern_file_writer_open(tern_file_writer *w, const char *path, tern_error *err)
{
    *w = (tern_file_writer){0};
    tern_status status = open_path(w, path, err);
    if (status != TERN_OK) tern_file_writer_abort(w);
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
    bool bad = w->failed || fflush(w->stream) != 0 || (w->temp.path && fsync(fileno(w->stream)) != 0);
    tern_status status = bad ? fail_errno(err, "cannot write", w->path) : TERN_OK;
    if (status == TERN_OK && w->temp.path) status = tern_temp_commit(&w->temp, w->path, err);
    const bool closed = fclose(w->stream) == 0;
    w->stream = NULL;
    if (!closed && status == TERN_OK) status = fail_errno(err, "cannot write", w->path);
    tern_file_writer_abort(w);
    return status;
}

void tern_file_writer_abort(tern_file_writer *w)
{
    if (w->memory) w->memory->size -= (size_t)w->written;
    if (w->stream) fclose(w->stream);
    tern_temp_abort(&w->temp);
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
