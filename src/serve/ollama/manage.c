/* Endpoints of the Ollama API that fetch, make, copy and delete models. */
#include <string.h>

#include "base/show.h"
#include "serve/ollama/ollama.h"
#include "serve/server.h"
#include "serve/store/store.h"

static const char *text_in(const tern_exchange *x, const char *key)
{
    return json_string_value(json_object_get(x->document, key));
}

tern_status tern_ollama__pull(tern_exchange *x, tern_error *err)
{
    return tern_jobs_start(x, tern_store_pull, err);
}

tern_status tern_ollama__create(tern_exchange *x, tern_error *err)
{
    return tern_jobs_start(x, tern_store_create, err);
}

static tern_status say_done(tern_exchange *x)
{
    tern_exchange_send_text(x, 200, "application/json", "", 0);
    return TERN_OK;
}

tern_status tern_ollama__copy(tern_exchange *x, tern_error *err)
{
    TERN_TRY(tern_store_copy(x->server, text_in(x, "source"), text_in(x, "destination"), err));
    return say_done(x);
}

tern_status tern_ollama__delete(tern_exchange *x, tern_error *err)
{
    const char *model = text_in(x, "model"), *name = model && *model ? model : text_in(x, "name");
    if (!name || !*name) return tern_fail(err, TERN_INVALID_ARGUMENT, "model: none found, a name expected");
    TERN_TRY(tern_store_remove(x->server, name, err));
    return say_done(x);
}

tern_status tern_ollama__has_blob(tern_exchange *x, tern_error *err)
{
    char path[4096];
    TERN_TRY(tern_store_blob_path(x->server, x->rest, path, err));
    if (tern_store_has_blob(x->server, x->rest)) return say_done(x);
    return tern_fail(err, TERN_NOT_FOUND, "the blob %s does not exist", tern_show_z(x->rest).text);
}

tern_status tern_ollama__put_blob(tern_exchange *x, tern_error *err)
{
    bool created;
    TERN_TRY(tern_store_finish_upload(x, &created, err));
    tern_exchange_send_text(x, created ? 201 : 200, "application/json", "", 0);
    return TERN_OK;
}
