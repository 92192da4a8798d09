/* The status that every Tern function returns if it can fail, and its error message. */
#ifndef TERN_STATUS_H
#define TERN_STATUS_H

#if defined(TERN_STATIC) || !defined(__GNUC__)
#define TERN_API
#else
#define TERN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One list of codes: X(name, value, words). Values never change once released. PENDING is not a failure: a device still
 * works, and the same call is to be made again; only functions that say so return it. NOT_FINITE: the model's weights,
 * or a device, make NaN or infinities of these tokens. LIMIT is what is larger than Tern takes, at any time; BUSY what
 * may be asked for again later. */
#define TERN_STATUS_LIST(X)                                                                                            \
    X(OK, 0, "ok")                                                                                                     \
    X(INVALID_ARGUMENT, 1, "invalid argument")                                                                         \
    X(OUT_OF_MEMORY, 2, "out of memory")                                                                               \
    X(IO, 3, "input/output error")                                                                                     \
    X(NOT_FOUND, 4, "not found")                                                                                       \
    X(MALFORMED, 5, "malformed data")                                                                                  \
    X(UNSUPPORTED, 6, "unsupported")                                                                                   \
    X(LIMIT, 7, "limit exceeded")                                                                                      \
    X(CONTEXT_FULL, 8, "context full")                                                                                 \
    X(CANCELLED, 9, "cancelled")                                                                                       \
    X(INTERNAL, 10, "internal error")                                                                                  \
    X(PENDING, 11, "pending")                                                                                          \
    X(NOT_FINITE, 12, "numbers that are not finite")                                                                   \
    X(BUSY, 13, "busy")

typedef enum tern_status {
#define TERN_STATUS_ENUM(name, value, words) TERN_##name = (value),
    TERN_STATUS_LIST(TERN_STATUS_ENUM)
#undef TERN_STATUS_ENUM
} tern_status;

/* Filled in by a failing call; the caller's storage, zero-initialised means "no error".
 * `message` names the thing, the value found and the value expected; it is NUL-terminated UTF-8. */
typedef struct tern_error {
    tern_status code;
    char message[504];
} tern_error;

/* The words for a code, e.g. "out of memory"; never NULL, static storage. */
TERN_API const char *tern_status_words(tern_status code);

#ifdef __cplusplus
}
#endif

#endif
