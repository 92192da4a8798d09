/* The Ollama API: its routes, its errors, the list of models. */
#include <string.h>

#include "base/parts.h"
#include "serve/ollama/ollama.h"
#include "serve/server.h"

static json_t *write_error(const tern_exchange *x, unsigned code, const char *message)
{
    (void)x;
    (void)code;
    return json_pack("{s:o}", "error", tern_serve_string(message, strlen(message)));
}

const tern_protocol tern_protocol_ollama = {write_error, "", "\n"};

static json_t *card(const char *name, const char *path)
{
    char when[40];
    tern_ollama__time(tern_host_file_time(path), when);
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:{s:s, s:s}}", "name", name, "model", name, "modified_at", when,
                     "size", (json_int_t)tern_parts_bytes(path), "digest", "", "details", "format", "gguf", "family",
                     "");
}

static void add_lora(void *models, const tern_served_lora *lora)
{
    json_array_append_new(models, card(lora->name, lora->path));
}

static tern_status tags(tern_exchange *x, tern_error *err)
{
    const tern_serve_options *o = &x->server->options;
    json_t *models = json_array();
    (void)err;
    for (uint32_t i = 0; i < o->n_models; i++)
        json_array_append_new(models, card(o->models[i].name, o->models[i].path));
    tern_loras_each(&x->server->loras, add_lora, models);
    tern_exchange_send(x, 200, json_pack("{s:o}", "models", models));
    return TERN_OK;
}

/* Models that are open. */
static tern_status ps(tern_exchange *x, tern_error *err)
{
    const tern_serve_options *o = &x->server->options;
    json_t *models = json_array();
    (void)err;
    for (uint32_t i = 0; i < o->n_models; i++)
        if (tern_host_is_open(&x->server->hosts[i]))
            json_array_append_new(models, card(o->models[i].name, o->models[i].path));
    tern_exchange_send(x, 200, json_pack("{s:o}", "models", models));
    return TERN_OK;
}

static tern_status version(tern_exchange *x, tern_error *err)
{
    (void)err;
    tern_exchange_send(x, 200, json_pack("{s:s}", "version", tern_version()));
    return TERN_OK;
}

#define PROTOCOL &tern_protocol_ollama
const tern_route tern_routes_ollama[] = {
    {"POST", "/api/chat", PROTOCOL, .read = tern_ollama__read_chat, .handle = tern_handle_generate,
     .dialect = &tern_ollama__chat},
    {"POST", "/api/generate", PROTOCOL, .read = tern_ollama__read_generate, .handle = tern_handle_generate,
     .dialect = &tern_ollama__generate},
    {"POST", "/api/embed", PROTOCOL, .read = tern_ollama__read_embed, .handle = tern_handle_embed,
     .dialect = &tern_ollama__embeddings},
    {"POST", "/api/embeddings", PROTOCOL, .read = tern_ollama__read_embeddings, .handle = tern_handle_embed,
     .dialect = &tern_ollama__one_embedding},
    {"POST", "/api/show", PROTOCOL, .read = tern_ollama__read_show, .handle = tern_ollama__show},
    {"GET", "/api/tags", PROTOCOL, .reply = tags},
    {"GET", "/api/ps", PROTOCOL, .reply = ps},
    {"GET", "/api/version", PROTOCOL, .reply = version},
    {0},
};
