/* Setting and passing on errors inside the library. */
#ifndef TERN_BASE_ERROR_H
#define TERN_BASE_ERROR_H

#include "tern/status.h"

/* Stores code and message in err (when err is not NULL) and returns code, so that a failing
 * function reads `return tern_fail(err, TERN_IO, "%s: ...", path);`. An error that is already
 * set in err is overwritten. */
tern_status tern_fail(tern_error *err, tern_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts words in front of the message that is already there: "blk.3.attn_q.weight: code 11 ...".
 * Returns err's code (TERN_INTERNAL when err is NULL). */
tern_status tern_error_prefix(tern_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The out-of-memory error, with the number of bytes asked for. */
tern_status tern_fail_alloc(tern_error *err, unsigned long long bytes);

/* The static analyzer sees one file at a time; this tells it which status these return. Their definitions stand in
 * parentheses, which keeps a macro from being expanded. */
#if defined(__clang_analyzer__)
#define tern_fail(err, code, ...)   (tern_fail(err, code, __VA_ARGS__), (code))
#define tern_fail_alloc(err, bytes) (tern_fail_alloc(err, bytes), TERN_OUT_OF_MEMORY)
#endif

/* Leaves the function with INVALID_ARGUMENT when a pointer that the caller gave is NULL. */
#define TERN_NEED(pointer, err)                                                                                        \
    do {                                                                                                               \
        if (!(pointer)) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is NULL", #pointer);                          \
    } while (0)

/* Runs a call and leaves the function with its status when it failed. */
#define TERN_TRY(call)                                                                                                 \
    do {                                                                                                               \
        tern_status try_status_ = (call);                                                                              \
        if (try_status_ != TERN_OK) return try_status_;                                                                \
    } while (0)

/* As above for functions with one clean-up label: needs `status` and `fail:` in scope. */
#define TERN_GOTO(call)                                                                                                \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != TERN_OK) goto fail;                                                                              \
    } while (0)

#endif
