/* One request and its answer. */
#include "serve/http/exchange.h"

#include <microhttpd.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "serve/http/route.h"

enum { MAX_UNREAD_BYTES = 4 << 20 };

tern_exchange *tern_exchange_open(tern_serve *server, const char *method, const char *path)
{
    tern_exchange *x = tern_calloc(1, sizeof *x);
    if (!x) return NULL;
    x->path = tern_strdup(path);
    x->server = server;
    x->method = method;
    x->fd = -1;
    atomic_init(&x->refs, 1);
    pthread_mutex_init(&x->lock, NULL);
    if (x->path) return x;
    tern_exchange_drop(x);
    return NULL;
}

void tern_exchange_keep(tern_exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
}

void tern_exchange_drop(tern_exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1) return;
    if (x->upload) x->close_upload(x->upload);
    json_decref(x->document);
    json_decref(x->ignored);
    tern_buf_deinit(&x->body);
    tern_buf_deinit(&x->out);
    tern_free(x->path);
    tern_free(x->asked_model);
    tern_free(x->action);
    pthread_mutex_destroy(&x->lock);
    tern_free(x);
}

/* With the lock: lets the connection's thread go on. */
static void wake(tern_exchange *x)
{
    if (!x->waits || x->gone) return;
    x->waits = false;
    MHD_resume_connection(x->connection);
}

static void give_up(tern_exchange *x)
{
    x->ended = true;
    x->gone = true;
    if (x->waits) MHD_resume_connection(x->connection);
    x->waits = false;
}

void tern_exchange_send_text(tern_exchange *x, unsigned code, const char *type, const char *text, size_t n)
{
    pthread_mutex_lock(&x->lock);
    if (!x->gone && !x->code) {
        const bool kept = tern_buf_add(&x->out, text, n, NULL) == TERN_OK;
        x->code = kept ? code : MHD_HTTP_INTERNAL_SERVER_ERROR;
        x->type = type;
        x->ended = true;
        wake(x);
    }
    pthread_mutex_unlock(&x->lock);
}

char *tern_serve_dump(const json_t *document)
{
    return json_dumps(document, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
}

void tern_exchange_send(tern_exchange *x, unsigned code, json_t *document)
{
    char *text = document ? tern_serve_dump(document) : NULL;
    if (text) tern_exchange_send_text(x, code, "application/json", text, strlen(text));
    else tern_exchange_send_text(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "application/json", "{}", 2);
    tern_free(text);
    json_decref(document);
}

void tern_exchange_begin(tern_exchange *x, const char *type)
{
    pthread_mutex_lock(&x->lock);
    if (!x->gone && !x->code) {
        x->code = MHD_HTTP_OK;
        x->type = type;
        x->streams = true;
        wake(x);
    }
    pthread_mutex_unlock(&x->lock);
}

void tern_exchange_write(tern_exchange *x, const void *bytes, size_t n)
{
    pthread_mutex_lock(&x->lock);
    if (!x->gone && !x->ended) {
        if (x->out.size - x->out_at + n > MAX_UNREAD_BYTES || tern_buf_add(&x->out, bytes, n, NULL) != TERN_OK)
            give_up(x);
        else wake(x);
    }
    pthread_mutex_unlock(&x->lock);
}

void tern_exchange_write_json(tern_exchange *x, const char *before, json_t *document, const char *behind)
{
    tern_buf all = {0};
    char *text = document ? tern_serve_dump(document) : NULL;
    if (text && tern_buf_addf(&all, NULL, "%s", before) == TERN_OK &&
        tern_buf_add(&all, text, strlen(text), NULL) == TERN_OK && tern_buf_addf(&all, NULL, "%s", behind) == TERN_OK)
        tern_exchange_write(x, all.data, all.size);
    tern_buf_deinit(&all);
    tern_free(text);
    json_decref(document);
}

void tern_exchange_end(tern_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    wake(x);
    pthread_mutex_unlock(&x->lock);
}

unsigned tern_exchange_code(tern_status status)
{
    switch (status) {
    case TERN_INVALID_ARGUMENT:
    case TERN_MALFORMED:
    case TERN_UNSUPPORTED:
    case TERN_LIMIT:
    case TERN_CONTEXT_FULL: return MHD_HTTP_BAD_REQUEST;
    case TERN_NOT_FOUND: return MHD_HTTP_NOT_FOUND;
    case TERN_BUSY: return MHD_HTTP_TOO_MANY_REQUESTS;
    case TERN_OUT_OF_MEMORY:
    case TERN_CANCELLED: return MHD_HTTP_SERVICE_UNAVAILABLE;
    default: return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void tern_exchange_fail(tern_exchange *x, unsigned code, const char *message)
{
    const tern_protocol *protocol = x->route ? x->route->protocol : tern_route_protocol(x->path);
    pthread_mutex_lock(&x->lock);
    const bool streams = x->streams;
    pthread_mutex_unlock(&x->lock);
    json_t *document = protocol->error(x, code, message);
    if (!streams) {
        tern_exchange_send(x, code, document);
        return;
    }
    tern_exchange_write_json(x, protocol->error_before, document, protocol->error_behind);
    tern_exchange_end(x);
}

const char *tern_exchange_argument(const tern_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

bool tern_exchange_is_gone(tern_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    struct pollfd p = {.fd = x->fd, .events = POLLRDHUP};
    if (!x->gone && x->fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR))) give_up(x);
    const bool gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    return gone;
}
