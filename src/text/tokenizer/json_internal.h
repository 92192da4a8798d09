/* Shared by the files that read a tokenizer.json. */
#ifndef TERN_TEXT_TOKENIZER_JSON_INTERNAL_H
#define TERN_TEXT_TOKENIZER_JSON_INTERNAL_H

#include "text/tokenizer/internal.h"

/* A node's string under `key`, or "" when there is none. */
const char *tern_json__text(const json_t *node, const char *key);
/* Absent means `otherwise`. */
bool tern_json__flag(const json_t *node, const char *key, bool otherwise);
/* The list under `key` of a node of type Sequence; NULL for others. */
const json_t *tern_json__members(const json_t *node, const char *key);

/* The alphabet, the normalizer and the pre-tokenizer, whose nodes are NULL where there are none. UNSUPPORTED names the
 * type that is not known. */
tern_status tern_tokenizer__read_pipeline(tern_tokenizer *t, const json_t *normalizer, const json_t *pre,
                                          tern_error *err);

#endif
