/* The files of a repository, as the hub lists them or as the cache has them. */
#ifndef TERN_HUB_FILES_H
#define TERN_HUB_FILES_H

#include "hub/name.h"

enum { TERN_HUB_COMMIT_DIGITS = 40, TERN_HUB_SHA256_DIGITS = 64, TERN_HUB_MAX_FILES = 100000 };

typedef struct tern_hub_file {
    char *path; /* in the repository; safe by tern_hub_path_is_safe */
    uint64_t bytes;
    /* The name of its blob: of large files (LFS) the SHA-256 sum of the bytes, of others Git's SHA-1 of a blob; "":
     * unknown. */
    char sum[TERN_HUB_SHA256_DIGITS + 1];
    bool wanted; /* set by hub/choose.h */
} tern_hub_file;

/* Zero-initialised is empty. */
typedef struct tern_hub_files {
    tern_hub_file *items;
    size_t n, cap;
    char commit[TERN_HUB_COMMIT_DIGITS + 1];
} tern_hub_files;

/* Errors: LIMIT (more than TERN_HUB_MAX_FILES), OUT_OF_MEMORY. */
tern_status tern_hub_files_add(tern_hub_files *files, const char *path, uint64_t bytes, const char *sum,
                               tern_error *err);
void tern_hub_files_deinit(tern_hub_files *files);
/* In the order of their paths, byte by byte. */
void tern_hub_files_sort(tern_hub_files *files);
/* Reads the hub's answer to /api/models/ORG/NAME/revision/REVISION?blobs=true: "sha" and "siblings". All of it is
 * untrusted. Errors: MALFORMED (what was found; also a path that leads elsewhere), LIMIT, OUT_OF_MEMORY. */
tern_status tern_hub_files_parse(tern_hub_files *files, const void *body, size_t size, tern_error *err);

#endif
