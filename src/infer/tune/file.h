/* The file of measured choices: where it is, whose it is, reading and writing it (docs/guides/tuning.md). Its default
 * place: tern_tune_path in tern/infer.h. */
#ifndef TERN_INFER_TUNE_FILE_H
#define TERN_INFER_TUNE_FILE_H

#include "infer/tune/cache.h"

/* The machine that choices hold for: this CPU with its features, this build. */
typedef struct tern_tune_key {
    char cpu[320], build[200];
} tern_tune_key;

void tern_tune_key_of(tern_tune_key *key);

/* Reads a file that holds here. Errors: NOT_FOUND, IO, MALFORMED (a kernel that there is not, too), UNSUPPORTED
 * (another CPU, build or version), all with the path; *out is empty then. */
tern_status tern_tune_file_read(tern_tune_cache *out, const char *path, tern_error *err);
/* Reads it whatever CPU and build it is of; errors as before, except those. */
tern_status tern_tune_file_read_any(tern_tune_cache *out, const char *path, tern_error *err);
/* Whether what was read holds here: UNSUPPORTED (CPU, build), MALFORMED (kernels). */
tern_status tern_tune_file_check(const tern_tune_cache *cache, tern_error *err);

/* Whether it can be written, before anything is measured; makes its folders. Errors: IO, NOT_FOUND. */
tern_status tern_tune_file_try(const char *path, tern_error *err);
/* Adds these choices to those of the file, which may have become more since it was read (by another program); a file
 * that does not hold here is replaced. It appears whole or not at all. Errors: IO, LIMIT, OUT_OF_MEMORY. */
tern_status tern_tune_file_add(const tern_tune_cache *made, const char *path, tern_error *err);

#endif
