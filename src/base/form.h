/* The kind of an untrusted file or folder, by its first bytes or its names: words for messages about what was expected
 * instead. */
#ifndef TERN_BASE_FORM_H
#define TERN_BASE_FORM_H

#include "base/bytes.h"

/* The kind of bytes that are not text, some with advice: "a model (GGUF)"; NULL: none of those that are known.
 */
const char *tern_form_of_bytes(tern_span bytes);
/* "JSON", "a chat template (Jinja)" or "text", by the first character; NULL: nothing, or bytes of zero. */
const char *tern_form_of_text(tern_span bytes);
/* "an adapter (PEFT)", "a model (Hugging Face)" or "a folder"; NULL: it is none. */
const char *tern_form_of_folder(const char *path);

#endif
