/* Calls of tools, as a model writes them. */
#ifndef TERN_WEB_TOOLS_H
#define TERN_WEB_TOOLS_H

#include "tern.h"

/* The form of the model's own template; NONE where it cannot tell the model which tools there are. */
tern_tool_form tern_web__tool_form(const tern_tokenizer *tokenizer); /* NULL: none */

#endif
