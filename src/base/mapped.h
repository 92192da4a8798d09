/* Files that are mapped into memory, and what happens when one of them is cut short meanwhile. */
#ifndef TERN_BASE_MAPPED_H
#define TERN_BASE_MAPPED_H

#include <stddef.h>

#include "base/error.h"

/* Notes that the n bytes at `start` are those of the file. Thread-safe. Errors: OUT_OF_MEMORY. */
tern_status tern_mapped_add(const void *start, size_t n, const char *path, tern_error *err);
/* Takes the note back, before the bytes are unmapped. Thread-safe. */
void tern_mapped_remove(const void *start);

/* The system answers SIGBUS to whoever reads a mapped byte that the file no longer has, or that its disk cannot give.
 * From this call on that is one line on standard error, which names the file, and the end of the process with status 1;
 * every other SIGBUS goes to the handler that was there before. Calling it again changes nothing. Errors: IO. */
tern_status tern_mapped_report(tern_error *err);

#endif
