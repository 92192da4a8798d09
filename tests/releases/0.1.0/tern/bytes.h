/* A growable byte string, the form in which text comes back. */
#ifndef TERN_BYTES_H
#define TERN_BYTES_H

#include <stddef.h>

#include "tern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialised is empty. `data` is NULL until something was added, and has a NUL after `size` bytes from then on;
 * the bytes may hold NULs of their own. Functions add to its end; set `size` to 0 to use the memory again. The caller's
 * to deinit. */
typedef struct tern_buf {
    char *data;
    size_t size, cap;
} tern_buf;

/* Frees the bytes; the string is empty again. NULL is fine. */
TERN_API void tern_buf_deinit(tern_buf *buf);

#ifdef __cplusplus
}
#endif

#endif
