/* Setting and passing on errors inside the library. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tern_status_words(tern_status code)
{
    switch (code) {
#define TERN_STATUS_CASE(name, value, words)                                                                           \
    case TERN_##name: return words;
        TERN_STATUS_LIST(TERN_STATUS_CASE)
#undef TERN_STATUS_CASE
    }
    return "unknown status";
}

/* Messages quote templates, names and paths of others, and end on terminals: control characters, which move the cursor
 * or set a title there, become '?', and line breaks spaces. */
static void clean(char *text)
{
    for (char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '\n' || c == '\r' || c == '\t') *p = ' ';
        else if (c < 0x20 || c == 0x7f) *p = '?';
        else if (c == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0) p[0] = p[1] = '?';
    }
}

tern_status(tern_fail)(tern_error *err, tern_status code, const char *format, ...)
{
    if (!err) return code;
    va_list args;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    clean(err->message);
    err->code = code;
    return code;
}

tern_status tern_error_prefix(tern_error *err, const char *format, ...)
{
    if (!err) return TERN_INTERNAL;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (n < 0) n = 0;
    if ((size_t)n < sizeof err->message) snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", old);
    clean(err->message);
    return err->code;
}

tern_status(tern_fail_alloc)(tern_error *err, unsigned long long bytes)
{
    return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory: could not allocate %llu bytes", bytes);
}
