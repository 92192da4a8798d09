/* Paths of llama.cpp's server, and what belongs to none of the APIs. */
#include <string.h>

#include "base/bytes.h"
#include "serve/native/native.h"
#include "serve/server.h"

static json_t *write_error(const tern_exchange *x, unsigned code, const char *message)
{
    (void)x;
    const char *type = code == 401   ? "authentication_error"
                       : code == 404 ? "not_found_error"
                       : code == 503 ? "unavailable_error"
                       : code < 500  ? "invalid_request_error"
                                     : "server_error";
    return json_pack("{s:{s:i, s:o, s:s}}", "error", "code", (int)code, "message",
                     tern_serve_string(message, strlen(message)), "type", type);
}

const tern_protocol tern_protocol_native = {write_error, "data: ", "\n\n"};

static tern_status health(tern_exchange *x, tern_error *err)
{
    (void)err;
    if (atomic_load(&x->server->drains)) tern_exchange_fail(x, 503, "the server is stopping");
    else tern_exchange_send(x, 200, json_pack("{s:s}", "status", "ok"));
    return TERN_OK;
}

static tern_status metrics(tern_exchange *x, tern_error *err)
{
    tern_buf text = {0};
    const tern_status status = tern_metrics_write(x->server, &text, err);
    if (status == TERN_OK) tern_exchange_send_text(x, 200, "text/plain; version=0.0.4", text.data, text.size);
    tern_buf_deinit(&text);
    return status;
}

#define PROTOCOL &tern_protocol_native
#define RANKED   .protocol = PROTOCOL, .handle = tern_handle_rerank, .dialect = &tern_native__ranks
const tern_route tern_routes_native[] = {
    {"POST", "/completion", PROTOCOL, .read = tern_native__read_completion, .handle = tern_handle_generate,
     .dialect = &tern_native__completion},
    {"POST", "/infill", PROTOCOL, .read = tern_native__read_infill, .handle = tern_handle_generate,
     .dialect = &tern_native__completion},
    {"POST", "/embedding", PROTOCOL, .read = tern_native__read_embedding, .handle = tern_handle_embed,
     .dialect = &tern_native__embedding},
    {"POST", "/embeddings", PROTOCOL, .read = tern_native__read_embedding, .handle = tern_handle_embed,
     .dialect = &tern_native__embedding},
    {"POST", "/rerank", .read = tern_native__read_rerank, RANKED},
    {"POST", "/reranking", .read = tern_native__read_rerank, RANKED},
    {"POST", "/v1/rerank", .read = tern_native__read_rerank, RANKED},
    {"POST", "/v1/reranking", .read = tern_native__read_rerank, RANKED},
    {"POST", "/v2/rerank", .read = tern_native__read_rerank, RANKED},
    {"POST", "/tokenize", PROTOCOL, .read = tern_native__read_tokenize, .handle = tern_native__tokenize},
    {"POST", "/detokenize", PROTOCOL, .read = tern_native__read_detokenize, .handle = tern_native__detokenize},
    {"POST", "/apply-template", PROTOCOL, .read = tern_native__read_template, .handle = tern_native__template},
    {"GET", "/props", PROTOCOL, .read = tern_native__read_nothing, .handle = tern_native__props},
    {"GET", "/slots", PROTOCOL, .read = tern_native__read_nothing, .handle = tern_native__slots},
    {"POST", "/slots/**", PROTOCOL, .read = tern_native__read_slot, .handle = tern_native__slot},
    {"GET", "/models", PROTOCOL, .reply = tern_native__list_models},
    {"POST", "/models/load", PROTOCOL, .read = tern_native__read_load, .handle = tern_native__loaded},
    {"POST", "/models/unload", PROTOCOL, .read = tern_native__read_unload, .handle = tern_native__loaded},
    {"GET", "/lora-adapters", PROTOCOL, .reply = tern_native__list_loras},
    {"POST", "/lora-adapters", PROTOCOL, .reply = tern_native__scale_loras},
    {"GET", "/health", PROTOCOL, .reply = health, .open = true},
    {"GET", "/v1/health", PROTOCOL, .reply = health, .open = true},
    {"GET", "/metrics", PROTOCOL, .reply = metrics},
    {0},
};
