/* The Ollama API: its routes, its errors. */
#include <string.h>

#include "serve/ollama/ollama.h"
#include "serve/server.h"
#include "serve/store/store.h"

static json_t *write_error(const tern_exchange *x, unsigned code, const char *message)
{
    (void)x;
    (void)code;
    return json_pack("{s:o}", "error", tern_serve_string(message, strlen(message)));
}

const tern_protocol tern_protocol_ollama = {write_error, "", "\n"};

static tern_status version(tern_exchange *x, tern_error *err)
{
    (void)err;
    tern_exchange_send(x, 200, json_pack("{s:s}", "version", tern_version()));
    return TERN_OK;
}

#define PROTOCOL &tern_protocol_ollama
const tern_route tern_routes_ollama[] = {
    {"POST", "/api/chat", PROTOCOL, .read = tern_ollama__read_chat, .handle = tern_ollama__answer,
     .dialect = &tern_ollama__chat},
    {"POST", "/api/generate", PROTOCOL, .read = tern_ollama__read_generate, .handle = tern_ollama__answer,
     .dialect = &tern_ollama__generate},
    {"POST", "/api/embed", PROTOCOL, .read = tern_ollama__read_embed, .handle = tern_handle_embed,
     .dialect = &tern_ollama__embeddings},
    {"POST", "/api/embeddings", PROTOCOL, .read = tern_ollama__read_embeddings, .handle = tern_handle_embed,
     .dialect = &tern_ollama__one_embedding},
    {"POST", "/api/show", PROTOCOL, .read = tern_ollama__read_show, .handle = tern_ollama__show},
    {"GET", "/api/tags", PROTOCOL, .reply = tern_ollama__tags},
    {"GET", "/api/ps", PROTOCOL, .reply = tern_ollama__ps},
    {"GET", "/api/version", PROTOCOL, .reply = version},
    {"POST", "/api/pull", PROTOCOL, .reply = tern_ollama__pull, .manages = true},
    {"POST", "/api/create", PROTOCOL, .reply = tern_ollama__create, .manages = true},
    {"POST", "/api/copy", PROTOCOL, .reply = tern_ollama__copy, .manages = true},
    {"DELETE", "/api/delete", PROTOCOL, .reply = tern_ollama__delete, .manages = true},
    {"GET", "/api/blobs/**", PROTOCOL, .reply = tern_ollama__has_blob, .manages = true},
    {"POST", "/api/blobs/**", PROTOCOL, .upload = tern_store_upload, .reply = tern_ollama__put_blob, .manages = true},
    {0},
};
