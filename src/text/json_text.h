/* Raw JSON strings and arrays, for documents whose hundred thousands of items should not become a tree. */
#ifndef TERN_TEXT_JSON_TEXT_H
#define TERN_TEXT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/* The raw value without white space around it. */
tern_span tern_json__trim(tern_span raw);
/* Adds what a raw string (with its quotes) says to out. Errors: MALFORMED (no string, a bad escape, not UTF-8). */
tern_status tern_json__unescape(tern_span raw, tern_buf *out, tern_error *err);
/* A raw whole number of at most nine digits. Errors: MALFORMED. */
tern_status tern_json__number(tern_span raw, uint32_t *out, tern_error *err);

/* Walks the items of one raw array. */
typedef struct tern_json_items {
    tern_span rest;
    bool started;
} tern_json_items;

/* The next item, raw: *more is false after the last one. Errors: MALFORMED. */
tern_status tern_json__next_item(tern_json_items *items, bool *more, tern_span *item, tern_error *err);

#endif
