/* Temporary files and folders beside the path that they will be renamed to. */
#ifndef TERN_BASE_TEMP_H
#define TERN_BASE_TEMP_H

#include "base/error.h"

/* "<folder>/.<name>.tmp-<16 random hex digits>": made exclusively, never through a link, and locked while it is open.
 * Zero-initialised is none. */
typedef struct tern_temp {
    char *path; /* NULL: none */
    int fd;     /* -1: another owner closes it, which unlocks */
} tern_temp;

/* Each first removes what killed processes left for the same path: files and folders of that form that are this user's
 * and that nobody holds locked. Errors: NOT_FOUND (no such folder), IO, OUT_OF_MEMORY. */
tern_status tern_temp_file(tern_temp *temp, const char *path, tern_error *err);
tern_status tern_temp_folder(tern_temp *temp, const char *path, tern_error *err);
/* Renames it to `path` and syncs the folder that holds it; on failure it is removed. Either way *temp is closed. */
tern_status tern_temp_commit(tern_temp *temp, const char *path, tern_error *err);
/* As above for a folder where another one, which holds files alone, is: both change places at once, and the old one is
 * removed (where the system cannot exchange names, it is removed first). */
tern_status tern_temp_replace(tern_temp *temp, const char *path, tern_error *err);
/* Removes it, of a folder also the files in it. Safe on a zeroed and a committed one. */
void tern_temp_abort(tern_temp *temp);

#endif
