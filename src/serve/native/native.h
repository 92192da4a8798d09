/* Declarations that the endpoints of llama.cpp's server share. */
#ifndef TERN_SERVE_NATIVE_NATIVE_H
#define TERN_SERVE_NATIVE_NATIVE_H

#include "serve/models/host.h"

extern const tern_dialect tern_native__completion, tern_native__embedding, tern_native__ranks;

tern_status tern_native__read_completion(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_infill(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_tokenize(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_detokenize(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_template(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_embedding(tern_api_request *request, const json_t *body, tern_error *err);
/* Jina's, Cohere's and llama.cpp's form, or that of Text Embeddings Inference ("texts"). */
tern_status tern_native__read_rerank(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_nothing(tern_api_request *request, const json_t *body, tern_error *err);

tern_status tern_native__tokenize(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_native__detokenize(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_native__template(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_native__props(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_native__slots(tern_answer *answer, tern_host *host, tern_error *err);

tern_status tern_native__read_slot(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__slot(tern_answer *answer, tern_host *host, tern_error *err);
tern_status tern_native__list_models(tern_exchange *exchange, tern_error *err);
tern_status tern_native__read_load(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__read_unload(tern_api_request *request, const json_t *body, tern_error *err);
tern_status tern_native__loaded(tern_answer *answer, tern_host *host, tern_error *err);

/* Adapters, their numbers, and how strongly they count where none is named. */
tern_status tern_native__list_loras(tern_exchange *exchange, tern_error *err);
tern_status tern_native__scale_loras(tern_exchange *exchange, tern_error *err);

#endif
