/* Parts of conversations in OpenAI's JSON, in the form that chat templates read: one for the server and for training
 * data. Results are new values (json_decref). */
#ifndef TERN_FORMAT_CHAT_JSON_H
#define TERN_FORMAT_CHAT_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

typedef struct tern_buf tern_buf; /* tern/bytes.h */

/* Whether the value is a tool's name: a text of 1 to 255 bytes without NUL. */
bool tern_chat_json_is_name(const json_t *name);
/* {"type": "function", "function": {"name", "description", "parameters"}}; the description is left out unless it is a
 * string. parameters NULL: those of a tool that takes none. NULL: out of memory. */
json_t *tern_chat_json_tool(const json_t *name, const json_t *description, const json_t *parameters);
/* The arguments of a call as an object: OpenAI writes the object's text, others the object; none is an empty one. Fails
 * without a message: anything but OUT_OF_MEMORY when it is neither. */
tern_status tern_chat_json_arguments(const json_t *given, json_t **out);
/* {"type": "function", "function": {"name", "arguments"}, "id"}; takes `arguments`. The id is left out unless it is a
 * string. NULL: out of memory. */
json_t *tern_chat_json_call(const json_t *id, const json_t *name, json_t *arguments);
/* The name of the tool that the latest call with this id has in the "tool_calls" of a list of messages; borrowed. NULL:
 * there is none. */
json_t *tern_chat_json_called(const json_t *messages, const char *id);
/* The first of these variables of a template that comes from elsewhere: the messages, the tools, ...; borrowed. NULL:
 * there is none. */
const char *tern_chat_json_own_variable(const json_t *variables);
/* Adds the text of content in parts: {"type": "text" | "input_text" | "output_text", "text"}. Errors:
 * INVALID_ARGUMENT (names the type of any other part), OUT_OF_MEMORY. */
tern_status tern_chat_json_join(const json_t *parts, tern_buf *text, tern_error *err);

#endif
