/* Tables of the members that an API's requests have, which read, check, ignore and refuse them. */
#ifndef TERN_SERVE_REQUEST_FIELDS_H
#define TERN_SERVE_REQUEST_FIELDS_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

typedef enum tern_field_kind {
    TERN_FIELD_F32, /* from min to max, both allowed */
    TERN_FIELD_U32,
    TERN_FIELD_U64,
    TERN_FIELD_BOOL,
    TERN_FIELD_TEXT,    /* const char *, borrowed from the document; no NUL inside */
    TERN_FIELD_READ,    /* by `read` */
    TERN_FIELD_OBJECT,  /* its members by `inner` */
    TERN_FIELD_IGNORED, /* changes nothing that Tern does */
    TERN_FIELD_REFUSED  /* would change the answer: refused unless null, false, "", empty, a number from min to max or
                         * a word of `neutral` */
} tern_field_kind;

/* One member; a table ends with one without a name. */
typedef struct tern_field {
    const char *name;
    tern_field_kind kind;
    size_t at; /* offset in the struct that is read into */
    double min, max;
    tern_status (*read)(void *into, const json_t *value, tern_error *err);
    const struct tern_field *inner;
    const char *why;     /* REFUSED: the reason in the error */
    const char *neutral; /* REFUSED: words that change nothing, with "|" between; "true": the value true in the
                          * place of false */
} tern_field;

/* Reads all members of an object; null counts as absent. `tables` ends with NULL. Errors: INVALID_ARGUMENT, which
 * names the member, the value found and what was expected; also for a member that no table has. */
tern_status tern_fields_read(const tern_field *const *tables, const json_t *object, void *into, tern_error *err);
/* The member of this name; NULL: no table has it. */
const tern_field *tern_fields_find(const tern_field *const *tables, const char *name);
/* INVALID_ARGUMENT: "NAME: a KIND, WHAT expected". */
tern_status tern_fields_fail(const char *name, const json_t *value, const char *what, tern_error *err);

#endif
