/* The Hugging Face hub: where it is, and the folder on this machine that holds what came from it. */
#ifndef TERN_HUB_HUB_H
#define TERN_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The strings are the caller's and outlive all calls. */
typedef struct tern_hub {
    const char *cache;    /* the folder of huggingface_hub: models--ORG--NAME/{blobs,refs,snapshots} */
    const char *endpoint; /* "https://huggingface.co", without a slash at the end */
    const char *token;    /* NULL: none */
    bool offline;         /* nothing is requested */
} tern_hub;

typedef struct tern_hub_path {
    char text[4096];
} tern_hub_path;

/* Joins the parts that are not NULL with slashes. Errors: LIMIT (longer than the path). */
tern_status tern_hub_path_make(tern_hub_path *path, tern_error *err, const char *a, const char *b, const char *c,
                               const char *d);

#endif
