/* SHA-256 sums of bytes. */
#ifndef TERN_BASE_SHA256_H
#define TERN_BASE_SHA256_H

#include <stddef.h>

#include "base/error.h"

enum { TERN_SHA256_DIGITS = 64 };

/* The sum of n bytes as lower-case hexadecimal digits. Errors: UNSUPPORTED (in a browser, whose own function the page
 * calls). Thread-safe. */
tern_status tern_sha256(const void *bytes, size_t n, char digits[TERN_SHA256_DIGITS + 1], tern_error *err);

#endif
