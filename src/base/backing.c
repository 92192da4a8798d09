/* Memory for much data that is not needed all the time. */
#include "base/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"

static tern_status map(tern_backing *b, size_t bytes, int fd, tern_error *err)
{
    const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED) return tern_fail_alloc(err, bytes);
    *b = (tern_backing){.data = p, .bytes = bytes, .on_disk = fd >= 0};
    return TERN_OK;
}

static tern_status fail_room(const char *folder, size_t bytes, uint64_t room, tern_error *err)
{
    const double mib = 1 << 20;
    return tern_fail(err, TERN_IO, "%s: a file of %.1f MiB is needed there, %.1f MiB are free",
                     tern_show_z(folder).text, (double)bytes / mib, (double)room / mib);
}

/* A write beyond the process's limit would be a signal. */
static tern_status check_limit(const char *folder, size_t bytes, tern_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
        return TERN_OK;
    return fail_room(folder, bytes, limit.rlim_cur, err);
}

static tern_status take_blocks(const char *folder, int fd, size_t bytes, tern_error *err)
{
    const int failed = posix_fallocate(fd, 0, (off_t)bytes);
    struct statvfs disk;
    if (!failed) return TERN_OK;
    if ((failed == ENOSPC || failed == EFBIG) && fstatvfs(fd, &disk) == 0)
        return fail_room(folder, bytes, (uint64_t)disk.f_bavail * disk.f_frsize, err);
    return tern_fail(err, TERN_IO, "%s: a file of %zu bytes: %s", tern_show_z(folder).text, bytes, strerror(failed));
}

/* Its name goes at once. */
static tern_status open_file(const char *folder, int *fd, tern_error *err)
{
    char *path = tern_path_join(folder, ".tern-XXXXXX");
    if (!path) return tern_fail_alloc(err, strlen(folder));
    *fd = mkostemp(path, O_CLOEXEC);
    const tern_status status = errno == ENOENT || errno == ENOTDIR ? TERN_NOT_FOUND : TERN_IO;
    if (*fd < 0) tern_fail(err, status, "%s: no file can be made there: %s", tern_show_z(folder).text, strerror(errno));
    else unlink(path);
    tern_free(path);
    return *fd < 0 ? status : TERN_OK;
}

tern_status tern_backing_open(tern_backing *b, uint64_t wanted, const char *folder, tern_error *err)
{
    const size_t bytes = tern_size_of(wanted ? wanted : 1);
    int fd = -1;
    *b = (tern_backing){0};
    if (!folder) return map(b, bytes, fd, err);
    TERN_TRY(check_limit(folder, bytes, err));
    TERN_TRY(open_file(folder, &fd, err));
    tern_status status = take_blocks(folder, fd, bytes, err);
    if (status == TERN_OK) status = map(b, bytes, fd, err);
    close(fd); /* the map keeps the file */
    return status;
}

void tern_backing_close(tern_backing *b)
{
    if (b->data) munmap(b->data, b->bytes);
    *b = (tern_backing){0};
}

void tern_backing_want(const tern_backing *b, uint64_t offset, uint64_t bytes)
{
    if (b->on_disk) tern_file_want(b->data + offset, (size_t)bytes);
}
