/* Locks of blobs, by flock. */
#include "hub/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/show.h"

tern_status tern_hub_lock(const tern_hub *hub, const char *repository, const char *sum, int *fd, tern_error *err)
{
    char folder[256], name[TERN_HUB_SHA256_DIGITS + 8];
    tern_hub_path path;
    tern_hub_folder(repository, folder);
    snprintf(name, sizeof name, "%s.lock", sum);
    TERN_TRY(tern_hub_path_make(&path, err, hub->cache, ".locks", folder, name));
    return tern_hub_lock_path(path.text, fd, err);
}

tern_status tern_hub_lock_path(const char *path, int *fd, tern_error *err)
{
    tern_folders_make(path);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (*fd < 0) return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path).text, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0) return TERN_OK;
    const int why = errno;
    close(*fd);
    *fd = -1;
    return why == EWOULDBLOCK ? TERN_OK : tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path).text, strerror(why));
}

void tern_hub_unlock(int fd)
{
    if (fd >= 0) close(fd);
}
