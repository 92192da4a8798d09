/* Declarations that the endpoints of the OpenAI API share. */
#ifndef TERN_SERVE_OPENAI_OPENAI_H
#define TERN_SERVE_OPENAI_OPENAI_H

#include "serve/models/host.h"

/* Members that chat and completions have in common. */
extern const tern_field tern_openai__shared[];
extern const tern_dialect tern_openai__chat, tern_openai__completion, tern_openai__response, tern_openai__embeddings;

json_t *tern_openai__usage(const tern_answer *answer);
const char *tern_openai__reason(const tern_completion *c);
/* Log-probabilities of tokens first .. n - 1, in the form of chat: {"content": [...]}; null without. */
json_t *tern_openai__chat_logprobs(const tern_answer *answer, const tern_completion *c, size_t first);
/* In the form of completions: {"tokens": ..., "token_logprobs": ..., "top_logprobs": ..., "text_offset": ...}. */
json_t *tern_openai__text_logprobs(const tern_answer *answer, const tern_completion *c, size_t first);

void tern_openai__response_id(const tern_answer *answer, char id[48]);
tern_status tern_openai__read_format(void *request, const json_t *value, tern_error *err);
tern_status tern_openai__read_chat(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_openai__read_completion(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_openai__read_embeddings(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_openai__read_response(tern_api_request *request, const json_t *body, tern_error *err);

/* Reads tools of responses: functions, and namespaces of functions. */
tern_status tern_openai__read_tools(void *request, const json_t *value, tern_error *err);
/* The name that templates and the model use: NAMESPACE__NAME, or the name without a namespace. A new reference. */
json_t *tern_openai__qualify(const json_t *space, json_t *name);
/* Sets "name" of an item, and "namespace" where the tool of that qualified name has one. */
void tern_openai__set_name(const tern_api_request *request, json_t *item, const char *name);
/* The tools that were offered, in the form of responses; owned by the caller. */
json_t *tern_openai__tools(const tern_api_request *request);

/* Responses that are kept. The last one counts the tokens of a prompt. */
#define TERN_OPENAI_INPUT_ITEMS "/input_items" /* behind the id */
tern_status tern_openai__show_response(tern_exchange *exchange, tern_error *err);
tern_status tern_openai__delete_response(tern_exchange *exchange, tern_error *err);
tern_status tern_openai__list_input(tern_exchange *exchange, tern_error *err);
tern_status tern_openai__count(tern_answer *answer, tern_host *host, tern_error *err);

/* vLLM's: adapters come and go while the server runs. */
tern_status tern_openai__read_load(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_openai__load(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_openai__read_unload(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_openai__unload(tern_answer *answer, tern_host *host, tern_error *err);

#endif
