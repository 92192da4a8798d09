/* Sums of files by which the hub names them. */
#ifndef TERN_HUB_SUM_H
#define TERN_HUB_SUM_H

#include "hub/files.h"

typedef bool tern_hub_sum_progress(void *context, float done);

/* The sum of an open file's first `bytes` bytes. The length of `like` says which: SHA-256 (64 digits), or Git's SHA-1
 * of a blob (40), which is that of "blob BYTES\0" and the bytes. Errors: IO, CANCELLED (progress, which may
 * be NULL, said so). */
tern_status tern_hub_sum(int fd, uint64_t bytes, const char *like, char out[TERN_HUB_SHA256_DIGITS + 1],
                         tern_hub_sum_progress *progress, void *context, tern_error *err);

#endif
