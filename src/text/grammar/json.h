/* Parts of JSON as nodes of a grammar's tree: for JSON Schema, for regular expressions inside of strings, and for the
 * calls of tools. */
#ifndef TERN_TEXT_GRAMMAR_JSON_H
#define TERN_TEXT_GRAMMAR_JSON_H

#include <jansson.h>

#include "base/bytes.h"
#include "text/grammar/tree.h"

/* One character of n ranges as it stands in a JSON string: as it is, or escaped where it must be. */
tern_status tern_grammar_json__class(tern_grammar_tree *tree, const tern_grammar_range *ranges, size_t n, bool others,
                                     uint32_t *node, tern_error *err);
/* Any character of a JSON string, in any of its forms. */
tern_status tern_grammar_json__char(tern_grammar_tree *tree, uint32_t *node, tern_error *err);
/* White space where JSON may have it: none, one blank, or up to two ends of lines with up to 32 blanks after the
 * last. */
tern_status tern_grammar_json__space(tern_grammar_tree *tree, uint32_t *node, tern_error *err);
/* Adds n bytes of UTF-8 as a JSON string with its quotes, with escapes only where they must be (\n, not \u000a). */
tern_status tern_grammar_json__quote(tern_buf *out, const char *text, size_t n, tern_error *err);
/* Adds a value as compact JSON. Errors: also LIMIT (nested too deep). */
tern_status tern_grammar_json__print(tern_buf *out, const json_t *value, tern_error *err);
/* Text of a regular expression, which messages call `what`. `searched`: a pattern of JSON Schema, around which any text
 * may stand where it has no ^ and $; its nodes are for language.h. */
tern_status tern_grammar_regex__parse(tern_grammar_tree *tree, tern_span source, const char *what, bool searched,
                                      uint32_t *node, tern_error *err);

/* A schema as a node. `at` is where it is in the document, for messages: a JSON pointer. The document gives the
 * definitions. Errors: MALFORMED, UNSUPPORTED, LIMIT, OUT_OF_MEMORY. */
tern_status tern_grammar_schema__add(tern_grammar_tree *tree, const json_t *document, const char *at, uint32_t *node,
                                     tern_error *err);

#endif
