/* Reading and writing structs that begin with their size. */
#include "base/sized.h"

#include <stdbool.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static tern_status read_size(const void *bytes, size_t known, const char *name, size_t *size, tern_error *err)
{
    memcpy(size, bytes, sizeof *size);
    if (*size >= sizeof *size && *size <= TERN_MAX_STRUCT_BYTES) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "%s: its size is %zu, sizeof the struct expected, which is %zu here (tern/sized.h)", name, *size,
                     known);
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

tern_status tern_sized_read(void *to, size_t known, const void *from, const char *name, tern_error *err)
{
    size_t size;
    memset(to, 0, known);
    if (from) {
        TERN_TRY(read_size(from, known, name, &size, err));
        if (size > known && !is_zero((const unsigned char *)from + known, size - known))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "%s: a member is set that this library does not know: its size is %zu, at most %zu known",
                             name, size, known);
        memcpy(to, from, smaller(size, known));
    }
    memcpy(to, &known, sizeof known);
    return TERN_OK;
}

tern_status tern_sized_write(void *to, const void *from, size_t known, const char *name, tern_error *err)
{
    size_t size;
    if (!to) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is NULL", name);
    TERN_TRY(read_size(to, known, name, &size, err));
    const size_t both = smaller(size, known);
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, both - sizeof size);
    memset((char *)to + both, 0, size - both);
    return TERN_OK;
}

tern_status tern_sized_reserved(const void *bytes, size_t n, const char *name, tern_error *err)
{
    if (is_zero(bytes, n)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "%s: a member is set that this library does not know, in its reserved room", name);
}
