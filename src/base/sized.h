/* Structs that begin with their size (tern/sized.h), between a program and the library of another version. */
#ifndef TERN_BASE_SIZED_H
#define TERN_BASE_SIZED_H

#include "base/error.h"
#include "tern/sized.h"

/* Copies the struct `from` that a caller filled in to *to, which has `known` bytes as this library was compiled: what
 * the caller's lacks is zero. `from` NULL: all of *to but its size is zero. `name` is the struct's, for errors:
 * INVALID_ARGUMENT (a size that is none, a member set that this library does not know). *to is whole then, and zero. */
tern_status tern_sized_read(void *to, size_t known, const void *from, const char *name, tern_error *err);
/* Copies the library's struct *from of `known` bytes to `to`, at most as many bytes as the caller's size there says,
 * which stays. The rest of the caller's struct is zero. Errors: INVALID_ARGUMENT (NULL, a size that is none); nothing
 * is written then. */
tern_status tern_sized_write(void *to, const void *from, size_t known, const char *name, tern_error *err);
/* Whether room for later members is unused: n bytes that are zero. Errors: INVALID_ARGUMENT. */
tern_status tern_sized_reserved(const void *bytes, size_t n, const char *name, tern_error *err);

/* By pointers to structs of one type. */
#define TERN_SIZED_READ(to, from, err)  tern_sized_read(to, sizeof *(1 ? (to) : (from)), from, #from, err)
#define TERN_SIZED_WRITE(to, from, err) tern_sized_write(to, from, sizeof *(1 ? (to) : (from)), #to, err)

#endif
