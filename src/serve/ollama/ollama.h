/* Declarations that the endpoints of the Ollama API share. */
#ifndef TERN_SERVE_OLLAMA_OLLAMA_H
#define TERN_SERVE_OLLAMA_OLLAMA_H

#include "serve/models/host.h"

extern const tern_dialect tern_ollama__chat, tern_ollama__generate, tern_ollama__embeddings, tern_ollama__one_embedding;

tern_status tern_ollama__read_chat(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_ollama__read_generate(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_ollama__read_embed(tern_api_request *request, const json_t *body, tern_error *err);
/* The older form, of one text, with a vector of any length. */
tern_status tern_ollama__read_embeddings(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_ollama__read_show(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_ollama__answer(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_ollama__tags(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__ps(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__show(tern_answer *answer, tern_host *host, tern_error *err);

/* Changes of models: on servers that let clients make them. */
tern_status tern_ollama__pull(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__create(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__copy(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__delete(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__has_blob(tern_exchange *exchange, tern_error *err);
tern_status tern_ollama__put_blob(tern_exchange *exchange, tern_error *err);

/* RFC 3339, in UTC. */
void tern_ollama__time(int64_t seconds, char out[40]);

#endif
