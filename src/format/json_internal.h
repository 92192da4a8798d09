/* Shared by the JSON reader's files. */
#ifndef TERN_FORMAT_JSON_INTERNAL_H
#define TERN_FORMAT_JSON_INTERNAL_H

#include "format/json.h"

/* The place of the quote that ends the string whose first quote is at `at`; `size` where there is none. */
size_t tern_json__end_of_string(const uint8_t *data, size_t size, size_t at);

#endif
