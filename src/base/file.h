/* Files: read-only maps, and writes that appear whole or not at all. */
#ifndef TERN_BASE_FILE_H
#define TERN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/temp.h"

typedef struct tern_buf tern_buf; /* tern/bytes.h */

/* A file mapped (or, where it cannot be mapped, read) into memory; zero-initialised is closed. */
typedef struct tern_file_map {
    const uint8_t *data;
    size_t size;
    bool mapped;
} tern_file_map;

/* Maps `path` whole and read-only; base/mapped.h knows it until it is closed. Errors: TERN_NOT_FOUND, TERN_IO,
 * TERN_OUT_OF_MEMORY. */
tern_status tern_file_map_open(tern_file_map *map, const char *path, tern_error *err);
void tern_file_map_close(tern_file_map *map);
/* Gives back the memory of whole pages within a part of a map; they are read from the file again when touched. */
void tern_file_drop(const void *start, size_t bytes);

/* A part of a map is read soon: the system fetches it as a whole, and other parts meanwhile. */
void tern_file_want(const void *start, size_t bytes);

/* Whether what this process reads of mapped files is not in memory: it has had to wait for a page since one of the last
 * 256 calls with these, which begin zeroed. The system is asked each time. */
typedef struct tern_file_waits {
    uint64_t n;    /* waits so far */
    uint32_t left; /* calls that still say so */
} tern_file_waits;
bool tern_file_waited(tern_file_waits *waits);

/* Reads a whole file of at most max_bytes into buf (replacing it). Errors: also TERN_LIMIT. */
tern_status tern_file_read(tern_buf *buf, const char *path, size_t max_bytes, tern_error *err);
bool tern_file_is_dir(const char *path);
bool tern_file_exists(const char *path);
/* dir + "/" + name in storage of tern_alloc; NULL when out of memory. */
char *tern_path_join(const char *dir, const char *name);
/* Whether the path ends with `suffix` and has more than that. */
bool tern_path_ends(const char *path, const char *suffix);
/* Makes a folder, unless it is there. Errors: INVALID_ARGUMENT (it is a file), IO. */
tern_status tern_folder_make(const char *path, tern_error *err);
/* Makes every folder that leads to a file, private ones where they are missing; whoever opens the file finds out what
 * failed. */
void tern_folders_make(const char *file_path);

/* Writes a file that appears whole or not at all: bytes go to a temporary file beside it (base/temp.h), which commit
 * syncs and renames to `path`, abort removes. A link is followed, as cp does, and an existing file keeps its mode and
 * owner. A file that is not a regular one (a device, a FIFO) is written to as it is. Write errors are kept and reported
 * by commit. */
typedef struct tern_file_writer {
    FILE *stream;
    tern_buf *memory; /* in the place of a file */
    tern_temp temp;   /* none: `path` itself is written to */
    char *path;       /* where the bytes end, links followed */
    uint64_t written;
    bool failed;
} tern_file_writer;

/* Errors: INVALID_ARGUMENT (`path` is a folder), NOT_FOUND (no such folder; a link to nothing), IO (also: a file that
 * may not be written), OUT_OF_MEMORY. */
tern_status tern_file_writer_open(tern_file_writer *w, const char *path, tern_error *err);
/* Writes to the end of a buffer of the caller's, which abort leaves as it was; `name` is for messages. Errors:
 * OUT_OF_MEMORY, here and in commit. */
tern_status tern_file_writer_open_memory(tern_file_writer *w, tern_buf *out, const char *name, tern_error *err);
void tern_file_writer_add(tern_file_writer *w, const void *bytes, size_t n);
/* Writes over n bytes, all written before, from `offset` on. */
void tern_file_writer_put(tern_file_writer *w, uint64_t offset, const void *bytes, size_t n);
/* Zero bytes up to the next multiple of `alignment`. */
void tern_file_writer_pad(tern_file_writer *w, size_t alignment);
tern_status tern_file_writer_commit(tern_file_writer *w, tern_error *err);
/* Safe on a zeroed, a failed and a committed writer. */
void tern_file_writer_abort(tern_file_writer *w);
/* A whole file of n bytes. */
tern_status tern_file_write(const char *path, const void *bytes, size_t n, tern_error *err);

#endif
