/* Models of a server, as llama.cpp's router has them: listed, opened and closed. */
#include "serve/native/native.h"
#include "serve/server.h"

static void add_model(void *list, tern_host *h)
{
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:s, s:I, s:s, s:{s:s}}", "id", h->name, "object", "model", "owned_by",
                                    "tern", "created", (json_int_t)tern_host_file_time(h->path), "path", h->path,
                                    "status", "value", tern_host_is_open(h) ? "loaded" : "unloaded"));
}

tern_status tern_native__list_models(tern_exchange *x, tern_error *err)
{
    json_t *list = json_array();
    (void)err;
    tern_hosts_each(x->server, add_model, list);
    tern_exchange_send(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
    return TERN_OK;
}

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, offsetof(tern_api_request, model)},
    {0},
};

static tern_status read_name(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){fields, NULL}, body, request, err));
    if (request->model && *request->model) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "model: none found, a name expected");
}

tern_status tern_native__read_load(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->loads = true;
    return read_name(request, body, err);
}

tern_status tern_native__read_unload(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->unloads = true;
    return read_name(request, body, err);
}

tern_status tern_native__loaded(tern_answer *a, tern_host *host, tern_error *err)
{
    if (a->request.unloads && !tern_host_is_open(host))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "model: %s is not loaded", host->name);
    tern_exchange_send(a->exchange, 200, json_pack("{s:b}", "success", 1));
    return TERN_OK;
}
