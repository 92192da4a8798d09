/* Models that are known to work, by a short name. */
#ifndef TERN_HUB_KNOWN_H
#define TERN_HUB_KNOWN_H

#include "hub/name.h"

typedef struct tern_hub_known {
    const char *name;     /* "bitnet-2b-4t" */
    const char *hub_name; /* "ORG/NAME[/FILE][:TAG]" */
    const char *what;     /* of people's interest: size and kind */
    const char *memory;   /* of the weights, as docs/guides/models.md says how it was computed */
    const char *verified; /* what was compared with what */
} tern_hub_known;

/* Ended by a row without a name. */
extern const tern_hub_known tern_hub_known_models[];

/* NULL: none of that name. */
const tern_hub_known *tern_hub_known_find(const char *name);
/* The one whose files an entry of the cache is; NULL: none. */
const tern_hub_known *tern_hub_known_of(const tern_hub_name *name);
/* The short name that another program's ("llama3.2:1b") or a mistyped one is nearest to; NULL: none is near. */
const char *tern_hub_known_nearest(const char *text);
/* Reads a short name, or one that tern_hub_name_parse reads. Errors: INVALID_ARGUMENT (what was found, and the nearest
 * short name). */
tern_status tern_hub_known_parse(tern_hub_name *name, const char *text, tern_error *err);

#endif
