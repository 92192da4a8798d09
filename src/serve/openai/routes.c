/* The OpenAI API: its routes, its errors, the list of models. */
#include "serve/openai/openai.h"

#include <string.h>

#include "base/show.h"
#include "serve/anthropic/anthropic.h"
#include "serve/server.h"

/* Whether a model is what a request names and the server may not have; else it is a path, or a kept response. */
static bool names_model(const tern_exchange *x)
{
    return x->route && (x->route->handle || strncmp(x->path, "/v1/models/", strlen("/v1/models/")) == 0);
}

static json_t *write_error(const tern_exchange *x, unsigned code, const char *message)
{
    const bool no_model = code == 404 && names_model(x);
    const char *type = code == 401   ? "authentication_error"
                       : code == 403 ? "permission_error"
                       : no_model    ? "not_found_error"
                       : code == 429 ? "rate_limit_error"
                       : code < 500  ? "invalid_request_error"
                                     : "server_error";
    const char *known = code == 401         ? "invalid_api_key"
                        : no_model          ? "model_not_found"
                        : x->unknown_member ? "previous_response_not_found"
                                            : NULL;
    return json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", tern_serve_string(message, strlen(message)),
                     "type", type, "param", x->unknown_member, "code", known);
}

const tern_protocol tern_protocol_openai = {write_error, "data: ", "\n\n"};

static json_t *model_card(const char *name, const char *path, const char *parent)
{
    json_t *card = json_pack("{s:s, s:s, s:I, s:s}", "id", name, "object", "model", "created",
                             (json_int_t)tern_host_file_time(path), "owned_by", "tern");
    if (parent) json_object_set_new(card, "parent", json_string(parent));
    return card;
}

static void add_model(void *data, tern_host *host)
{
    json_array_append_new(data, model_card(host->name, host->path, NULL));
}

typedef struct lora_list {
    json_t *data;
    const char *parent;
} lora_list;

static void add_lora(void *context, const tern_served_lora *lora)
{
    const lora_list *list = context;
    json_array_append_new(list->data, model_card(lora->name, lora->path, list->parent));
}

static tern_status list_models(tern_exchange *x, tern_error *err)
{
    if (tern_anthropic__asks(x)) return tern_anthropic__list_models(x, err);
    json_t *data = json_array();
    tern_hosts_each(x->server, add_model, data);
    tern_loras_each(&x->server->loras, add_lora, &(lora_list){data, tern_hosts_first(x->server)->name});
    tern_exchange_send(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
    return TERN_OK;
}

static tern_status show_model(tern_exchange *x, tern_error *err)
{
    tern_served_use uses[TERN_SERVE_MAX_LORAS];
    tern_host *host;
    uint32_t n;
    TERN_TRY(tern_host_find(x->server, x->rest, &host, uses, &n, err));
    const bool known = n || tern_host_is_name(host->name, x->rest);
    const bool anthropic = tern_anthropic__asks(x);
    json_t *card = anthropic
                       ? tern_anthropic__card(n ? uses[0].lora->name : host->name, n ? uses[0].lora->path : host->path)
                   : n ? model_card(uses[0].lora->name, uses[0].lora->path, host->name)
                       : model_card(host->name, host->path, NULL);
    tern_loras_release(&x->server->loras, uses, n);
    tern_hosts_drop(host);
    if (!known) json_decref(card);
    if (!known) return tern_fail(err, TERN_NOT_FOUND, "the model \"%s\" does not exist", tern_show_z(x->rest).text);
    tern_exchange_send(x, 200, card);
    return TERN_OK;
}

#define PROTOCOL &tern_protocol_openai
const tern_route tern_routes_openai[] = {
    {"POST", "/v1/chat/completions", PROTOCOL, .read = tern_openai__read_chat, .handle = tern_handle_generate,
     .dialect = &tern_openai__chat},
    {"POST", "/v1/completions", PROTOCOL, .read = tern_openai__read_completion, .handle = tern_handle_generate,
     .dialect = &tern_openai__completion},
    {"POST", "/v1/responses", PROTOCOL, .read = tern_openai__read_response, .handle = tern_handle_generate,
     .dialect = &tern_openai__response},
    {"POST", "/v1/responses/input_tokens", PROTOCOL, .read = tern_openai__read_response, .handle = tern_openai__count},
    {"GET", "/v1/responses/*" TERN_OPENAI_INPUT_ITEMS, PROTOCOL, .reply = tern_openai__list_input},
    {"GET", "/v1/responses/*", PROTOCOL, .reply = tern_openai__show_response},
    {"DELETE", "/v1/responses/*", PROTOCOL, .reply = tern_openai__delete_response},
    {"POST", "/v1/embeddings", PROTOCOL, .read = tern_openai__read_embeddings, .handle = tern_handle_embed,
     .dialect = &tern_openai__embeddings},
    {"POST", "/v1/load_lora_adapter", PROTOCOL, .read = tern_openai__read_load, .handle = tern_openai__load},
    {"POST", "/v1/unload_lora_adapter", PROTOCOL, .read = tern_openai__read_unload, .handle = tern_openai__unload},
    {"GET", "/v1/models", PROTOCOL, .reply = list_models},
    {"GET", "/v1/models/**", PROTOCOL, .reply = show_model},
    {0},
};
