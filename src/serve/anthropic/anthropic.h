/* Declarations that the endpoints of the Anthropic API share. */
#ifndef TERN_SERVE_ANTHROPIC_ANTHROPIC_H
#define TERN_SERVE_ANTHROPIC_ANTHROPIC_H

#include "serve/models/host.h"

extern const tern_dialect tern_anthropic__messages;

tern_status tern_anthropic__read_messages(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_anthropic__read_count(tern_api_request *request, const json_t *body, tern_error *err);

/* Functions of the tables' kind READ: messages with their blocks, tools, and which of them must be called. */
tern_status tern_anthropic__read_conversation(void *request, const json_t *value, tern_error *err);
tern_status tern_anthropic__read_tools(void *request, const json_t *value, tern_error *err);
tern_status tern_anthropic__read_choice(void *request, const json_t *value, tern_error *err);

/* Whether a client of this API asks for a path that OpenAI's has too: with the header "anthropic-version". */
bool tern_anthropic__asks(const tern_exchange *exchange);
tern_status tern_anthropic__list_models(tern_exchange *exchange, tern_error *err);
json_t *tern_anthropic__card(const char *name, const char *path);

#endif
