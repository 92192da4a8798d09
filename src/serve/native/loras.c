/* GET and POST /lora-adapters of llama.cpp's server. */
#include "serve/native/native.h"
#include "serve/server.h"

static void add_lora(void *list, const tern_served_lora *l)
{
    json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:f}", "id", (json_int_t)l->id, "name", l->name, "path",
                                          l->path, "scale", (double)l->scale));
}

tern_status tern_native__list_loras(tern_exchange *x, tern_error *err)
{
    json_t *list = json_array();
    (void)err;
    tern_loras_each(&x->server->loras, add_lora, list);
    tern_exchange_send(x, 200, list);
    return TERN_OK;
}

tern_status tern_native__scale_loras(tern_exchange *x, tern_error *err)
{
    tern_api_request request;
    tern_api_request_init(&request);
    tern_status status = tern_api_request_read_loras(&request, x->document, err);
    if (status == TERN_OK)
        status = tern_loras_scale(&x->server->loras, request.lora_scales, request.n_lora_scales, err);
    if (status == TERN_OK) tern_exchange_send(x, 200, json_pack("{s:b}", "success", 1));
    tern_api_request_deinit(&request);
    return status;
}
