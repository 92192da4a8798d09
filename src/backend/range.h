/* Whether a buffer has the bytes that are read or written. */
#ifndef TERN_BACKEND_RANGE_H
#define TERN_BACKEND_RANGE_H

#include <stdint.h>

#include "base/error.h"

/* INVALID_ARGUMENT where a buffer of `size` bytes has no `bytes` of them at `offset`. */
static inline tern_status tern_backend_check_range(uint64_t size, uint64_t offset, uint64_t bytes, tern_error *err)
{
    if (offset <= size && bytes <= size - offset) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "buffer of %llu bytes: no %llu bytes at %llu",
                     (unsigned long long)size, (unsigned long long)bytes, (unsigned long long)offset);
}

#endif
