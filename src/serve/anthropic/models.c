/* The models in the form of the Anthropic API. */
#include <string.h>
#include <time.h>

#include "serve/anthropic/anthropic.h"
#include "serve/http/access.h"
#include "serve/server.h"

bool tern_anthropic__asks(const tern_exchange *x)
{
    return tern_access_header(x->connection, "anthropic-version") != NULL;
}

json_t *tern_anthropic__card(const char *name, const char *path)
{
    const time_t when = (time_t)tern_host_file_time(path);
    struct tm t;
    char text[40] = "";
    if (!gmtime_r(&when, &t) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t)) *text = 0;
    return json_pack("{s:s, s:s, s:s, s:s}", "type", "model", "id", name, "display_name", name, "created_at", text);
}

static void add_model(void *data, tern_host *host)
{
    json_array_append_new(data, tern_anthropic__card(host->name, host->path));
}

static void add_lora(void *data, const tern_served_lora *lora)
{
    json_array_append_new(data, tern_anthropic__card(lora->name, lora->path));
}

tern_status tern_anthropic__list_models(tern_exchange *x, tern_error *err)
{
    json_t *data = json_array();
    (void)err;
    tern_hosts_each(x->server, add_model, data);
    tern_loras_each(&x->server->loras, add_lora, data);
    json_t *first = json_object_get(json_array_get(data, 0), "id");
    json_t *last = json_object_get(json_array_get(data, json_array_size(data) - 1), "id");
    tern_exchange_send(
        x, 200, json_pack("{s:o, s:b, s:O, s:O}", "data", data, "has_more", 0, "first_id", first, "last_id", last));
    return TERN_OK;
}
