/* The exports of the WebAssembly module (docs/guides/browser.md): thin functions over the engine, for JavaScript alone.
 * Handles are pointers, sizes of files are doubles (whole numbers up to 2^53), options come in as JSON and results go
 * out as JSON. A function that can fail returns a tern_status; tern_web_message says why. */
#ifndef TERN_WEB_WEB_H
#define TERN_WEB_WEB_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

/* Exported under its own name. */
#define TERN_WEB __attribute__((used, visibility("default")))

/* Where exports leave their message: cleared, ready for a call. */
tern_error *tern_web__error(void);

/* An option of a JSON object and where it goes, by the type that is expected. Numbers have a range. */
typedef enum tern_web_type {
    TERN_WEB_U32,
    TERN_WEB_U64,
    TERN_WEB_F32,
    TERN_WEB_F64,
    TERN_WEB_BOOL,
    TERN_WEB_STRING,
    TERN_WEB_ANY
} tern_web_type;

typedef struct tern_web_option {
    const char *name;
    tern_web_type type;
    void *out; /* uint32_t, uint64_t, float, double, bool, const char *, json_t *; untouched when the option is missing
                  or null */
} tern_web_option;

/* Parses `json` (NULL: no options), which must be an object with no other keys than those n. Strings and `any` that it
 * points to live as long as *root, the caller's to json_decref. Errors: INVALID_ARGUMENT (the key, the value found and
 * what is expected). */
tern_status tern_web__read_options(const char *json, const tern_web_option *options, size_t n, json_t **root,
                                   tern_error *err);
/* The result of the call, which tern_web_result gives until the next one; takes the reference. NULL: out of memory. */
tern_status tern_web__answer(json_t *result, tern_error *err);

#endif
