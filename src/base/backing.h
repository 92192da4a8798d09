/* Memory for much data that is not needed all the time: of the system, or of a file without a name, so that the disk
 * has what memory has no room for. */
#ifndef TERN_BASE_BACKING_H
#define TERN_BASE_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_backing {
    uint8_t *data; /* zeros at first; NULL: none */
    size_t bytes;
    bool on_disk;
} tern_backing;

/* folder NULL: memory of the system, which is taken when it is first touched. Else a file there, which nobody else
 * sees and which is gone when the process ends, however it does; its bytes on the disk are taken now. Errors:
 * OUT_OF_MEMORY, NOT_FOUND (no such folder), IO (the disk, or what a process may write, has no room for so many: both
 * numbers are named), UNSUPPORTED. */
tern_status tern_backing_open(tern_backing *backing, uint64_t bytes, const char *folder, tern_error *err);
void tern_backing_close(tern_backing *backing); /* zeroed is fine */
/* These bytes are read soon: the disk begins to bring them. Memory of the system is not counted. */
void tern_backing_want(const tern_backing *backing, uint64_t offset, uint64_t bytes);

#endif
