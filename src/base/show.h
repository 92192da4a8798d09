/* Untrusted bytes made fit for an error message. */
#ifndef TERN_BASE_SHOW_H
#define TERN_BASE_SHOW_H

#include <stddef.h>

typedef struct tern_span tern_span; /* base/bytes.h */

typedef struct tern_shown {
    char text[100];
} tern_shown;

/* The bytes as short printable ASCII: others become \xNN, a backslash is doubled, what does not fit becomes "...".
 * Meant as an argument: tern_fail(err, ..., "%s: ...", tern_show(name).text). */
tern_shown tern_show(tern_span bytes);
/* As above for a NUL-terminated string. */
tern_shown tern_show_z(const char *s);

#endif
