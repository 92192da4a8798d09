/* The Anthropic API: its routes and its errors. */
#include <string.h>

#include "serve/anthropic/anthropic.h"

static json_t *write_error(const tern_exchange *x, unsigned code, const char *message)
{
    (void)x;
    const char *type = code == 401   ? "authentication_error"
                       : code == 403 ? "permission_error"
                       : code == 404 ? "not_found_error"
                       : code == 413 ? "request_too_large"
                       : code == 429 ? "rate_limit_error"
                       : code == 503 ? "overloaded_error"
                       : code < 500  ? "invalid_request_error"
                                     : "api_error";
    return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type", type, "message",
                     tern_serve_string(message, strlen(message)));
}

const tern_protocol tern_protocol_anthropic = {write_error, "event: error\ndata: ", "\n\n"};

static tern_status count(tern_answer *a, tern_host *host, tern_error *err)
{
    tern_tokens ids = {0};
    const tern_status status = tern_answer_tokens(a, host, 0, &ids, err);
    if (status == TERN_OK) tern_exchange_send(a->exchange, 200, json_pack("{s:I}", "input_tokens", (json_int_t)ids.n));
    tern_tokens_deinit(&ids);
    return status;
}

#define PROTOCOL &tern_protocol_anthropic
const tern_route tern_routes_anthropic[] = {
    {"POST", "/v1/messages", PROTOCOL, .read = tern_anthropic__read_messages, .handle = tern_handle_generate,
     .dialect = &tern_anthropic__messages},
    {"POST", "/v1/messages/count_tokens", PROTOCOL, .read = tern_anthropic__read_count, .handle = count},
    {0},
};
