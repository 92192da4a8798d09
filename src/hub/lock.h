/* Locks between programs that write the same blob, those of huggingface_hub among them. */
#ifndef TERN_HUB_LOCK_H
#define TERN_HUB_LOCK_H

#include "hub/files.h"

/* Takes the lock .locks/models--ORG--NAME/SUM.lock, making it where it is missing: *fd, which tern_hub_unlock closes;
 * -1 where another program holds it. Errors: IO. */
tern_status tern_hub_lock(const tern_hub *hub, const char *repository, const char *sum, int *fd, tern_error *err);
/* As above for a lock's own path. */
tern_status tern_hub_lock_path(const char *path, int *fd, tern_error *err);
void tern_hub_unlock(int fd);

#endif
