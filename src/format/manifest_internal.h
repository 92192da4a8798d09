/* Inside the manifest: what its files share. */
#ifndef TERN_FORMAT_MANIFEST_INTERNAL_H
#define TERN_FORMAT_MANIFEST_INTERNAL_H

#include "format/manifest.h"

/* The shards, once the fields are checked, and what each holds of the file. Errors: MALFORMED, UNSUPPORTED (another
 * strategy), LIMIT, OUT_OF_MEMORY. */
tern_status tern_manifest__read_shards(tern_manifest *manifest, tern_error *err);
/* Those of version 2: which are whose, and the ranges in the order of the shards. */
tern_status tern_manifest__read_experts(tern_manifest *manifest, tern_error *err);
/* A range more. */
tern_status tern_manifest__add_range(tern_manifest *manifest, size_t *cap, const tern_manifest_range *range,
                                     tern_error *err);

#endif
