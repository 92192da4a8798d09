/* A model of the hub as a person names it: ORG/NAME[/FILE][:TAG][@REVISION]. */
#ifndef TERN_HUB_NAME_H
#define TERN_HUB_NAME_H

#include "hub/hub.h"

typedef struct tern_hub_name {
    char repository[200]; /* "ORG/NAME" */
    char file[512];       /* a file of it; "": chosen by hub/choose.h */
    char tag[64];         /* "Q4_K_M"; "": none */
    char revision[128];   /* a branch, a tag or a commit; "main" */
} tern_hub_name;

/* Whether the text begins with "hf:". */
bool tern_hub_name_is(const char *text);
/* Reads a name, with or without "hf:" in front. Errors: INVALID_ARGUMENT (what was found, and the form expected). */
tern_status tern_hub_name_parse(tern_hub_name *name, const char *text, tern_error *err);
/* Whether a path of a repository is one that a file may have: parts between single slashes, none of them "." or "..",
 * no control characters, no backslash, fewer than 512 bytes. */
bool tern_hub_path_is_safe(const char *path);
/* Whether all of `text` is n lower-case hexadecimal digits. */
bool tern_hub_is_hex(const char *text, size_t n);
/* "models--ORG--NAME", the folder of a repository in the cache. */
void tern_hub_folder(const char *repository, char out[256]);

#endif
