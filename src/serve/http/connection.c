/* Callbacks of libmicrohttpd. */
#include "serve/http/connection.h"

#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "serve/http/access.h"
#include "serve/http/head.h"
#include "serve/http/route.h"
#include "serve/server.h"

static tern_link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void set_state(tern_serve *s, struct MHD_Connection *c, int state)
{
    tern_link *link = link_of(c);
    if (!link) return;
    pthread_mutex_lock(&s->lock);
    link->state = state;
    link->since = tern_serve_seconds();
    pthread_mutex_unlock(&s->lock);
}

static int fd_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static void add_link(tern_serve *s, struct MHD_Connection *c, void **out)
{
    tern_link *link = tern_calloc(1, sizeof *link);
    *out = link;
    if (!link) return;
    *link = (tern_link){.fd = fd_of(c), .since = tern_serve_seconds(), .state = TERN_LINK_READS};
    pthread_mutex_lock(&s->lock);
    link->next = s->links;
    if (s->links) s->links->before = link;
    s->links = link;
    pthread_mutex_unlock(&s->lock);
}

static void remove_link(tern_serve *s, tern_link *link)
{
    if (!link) return;
    pthread_mutex_lock(&s->lock);
    if (link->next) link->next->before = link->before;
    if (link->before) link->before->next = link->next;
    else s->links = link->next;
    pthread_mutex_unlock(&s->lock);
    tern_free(link);
}

void tern_connection_changed(void *server, struct MHD_Connection *c, void **link,
                             enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) add_link(server, c, link);
    else remove_link(server, *link);
}

void *tern_connection_uri(void *server, const char *uri, struct MHD_Connection *c)
{
    (void)uri;
    set_state(server, c, TERN_LINK_READS);
    return NULL;
}

/* More of an answer that is a stream; nothing new lets the connection wait. */
static ssize_t fetch(void *exchange, uint64_t at, char *to, size_t max)
{
    tern_exchange *x = exchange;
    ssize_t n = 0;
    (void)at;
    pthread_mutex_lock(&x->lock);
    const size_t left = x->out.size - x->out_at;
    if (x->gone) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left) {
        n = (ssize_t)(left < max ? left : max);
        memcpy(to, x->out.data + x->out_at, (size_t)n);
        x->out_at += (size_t)n;
        if (x->out_at == x->out.size) x->out_at = x->out.size = 0;
    } else if (x->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->waits = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static enum MHD_Result queue(tern_exchange *x)
{
    struct MHD_Response *r =
        x->streams ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, fetch, x, NULL)
                   : MHD_create_response_from_buffer(x->out.size, x->out.data ? x->out.data : (void *)(uintptr_t) "",
                                                     MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", x->type);
    if (x->streams) MHD_add_response_header(r, "Cache-Control", "no-cache");
    if (x->code == MHD_HTTP_UNAUTHORIZED) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (x->code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, "Allow", tern_route_methods(x->path));
    if (x->code == MHD_HTTP_TOO_MANY_REQUESTS || x->code == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(r, "Retry-After", "1");
    if (x->closes || x->too_large || atomic_load(&x->server->drains)) MHD_add_response_header(r, "Connection", "close");
    tern_access_add_headers(&x->server->options, r);
    const enum MHD_Result result = MHD_queue_response(x->connection, x->code, r);
    MHD_destroy_response(r);
    return result;
}

/* The answer, once its head is known; until then the connection waits. */
static enum MHD_Result answer_or_wait(tern_exchange *x)
{
    enum MHD_Result result = MHD_YES;
    pthread_mutex_lock(&x->lock);
    if (x->gone) {
        result = MHD_NO;
    } else if (!x->code) {
        x->waits = true;
        MHD_suspend_connection(x->connection);
    }
    const bool known = x->code;
    pthread_mutex_unlock(&x->lock);
    return known && result == MHD_YES ? queue(x) : result; /* nothing but the body of a stream changes then */
}

/* Kinds of requests to other servers that models of text do not serve. */
static const char *kind_of(const char *path)
{
    static const char *const kinds[][2] = {
        {"/v1/audio", "sound"}, {"/v1/images", "images"}, {"/v1/videos", "video"}, {"/v1/video", "video"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(path, kinds[i][0], strlen(kinds[i][0])) == 0) return kinds[i][1];
    return NULL;
}

static void refuse_route(tern_exchange *x, const char *method, bool other_method)
{
    const char *kind = kind_of(x->path);
    char message[256];
    if (other_method)
        snprintf(message, sizeof message, "%s %s: %s expected", tern_show_z(method).text, tern_show_z(x->path).text,
                 tern_route_methods(x->path));
    else
        snprintf(message, sizeof message, "no endpoint %s %s%s%s%s", tern_show_z(method).text,
                 tern_show_z(x->path).text, kind ? ": " : "", kind ? kind : "",
                 kind ? " is not supported, text alone is" : "");
    tern_exchange_fail(x, other_method ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND, message);
}

/* For a body. */
static uint64_t most_bytes(const tern_serve *s, const tern_route *route)
{
    return route->upload ? s->options.store.max_bytes : s->limits.body_bytes;
}

/* Decides what needs no body. */
static void look_at_head(tern_exchange *x, const char *method, const char *version)
{
    tern_serve *s = x->server;
    const char *problem = tern_head_problem(x->connection, version);
    const char *length = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Content-Length");
    bool other_method;
    char message[120];
    const tern_route *route = tern_route_find(method, x->path, &x->rest, &other_method);
    if (problem) {
        x->closes = true;
        tern_exchange_fail(x, MHD_HTTP_BAD_REQUEST, problem);
    } else if (!tern_access_has_host(&s->options, x->connection)) {
        tern_exchange_fail(x, MHD_HTTP_FORBIDDEN,
                           "Host: an IP address, a name of this network, or a name in --cors expected");
    } else if (strcmp(method, "OPTIONS") == 0) {
        tern_exchange_send_text(x, MHD_HTTP_NO_CONTENT, "text/plain", "", 0);
    } else if (!tern_access_has_origin(&s->options, x->connection)) {
        tern_exchange_fail(x, MHD_HTTP_FORBIDDEN,
                           "the request comes from a page of another origin, which --cors does not list");
    } else if (!(route && route->open) && !tern_access_has_key(&s->options, x->connection)) {
        tern_exchange_fail(x, MHD_HTTP_UNAUTHORIZED,
                           "a valid key expected, as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"");
    } else if (!route) {
        refuse_route(x, method, other_method);
    } else if (route->manages && !s->options.store.folder) {
        tern_exchange_fail(x, MHD_HTTP_FORBIDDEN,
                           "clients cannot change the models of this server: it was started without --manage");
    } else if (length && strtoull(length, NULL, 10) > most_bytes(s, route)) {
        snprintf(message, sizeof message, "the body: %.20s bytes found, at most %llu expected", length,
                 (unsigned long long)most_bytes(s, route));
        x->too_large = true;
        tern_exchange_fail(x, MHD_HTTP_CONTENT_TOO_LARGE, message);
    } else if (route->handle && atomic_load(&s->drains)) {
        tern_exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping");
    } else {
        x->route = route;
    }
}

/* A value of the query, which other threads read; NULL: not given. */
static char *argument(const tern_exchange *x, const char *name)
{
    const char *value = tern_exchange_argument(x, name);
    return value ? tern_strdup(value) : NULL;
}

static tern_exchange *start(tern_serve *s, struct MHD_Connection *c, const char *method, const char *url,
                            const char *version)
{
    tern_exchange *x = tern_exchange_open(s, method, url);
    if (!x) return NULL;
    x->connection = c;
    x->fd = fd_of(c);
    x->began = tern_serve_seconds();
    x->asked_model = argument(x, "model");
    x->action = argument(x, "action");
    atomic_fetch_add(&s->running, 1);
    look_at_head(x, method, version);
    return x;
}

/* A piece of a body that is not kept in memory. */
static void take_upload(tern_exchange *x, const char *data, size_t n)
{
    tern_error err = {0};
    if (x->code) return;
    set_state(x->server, x->connection, TERN_LINK_READS); /* it may take long, as long as bytes come */
    const tern_status status = x->route->upload(x, data, n, &err);
    if (status == TERN_OK) return;
    x->closes = true;
    tern_exchange_fail(x, status == TERN_LIMIT ? MHD_HTTP_CONTENT_TOO_LARGE : tern_exchange_code(status), err.message);
}

static void take(tern_exchange *x, const char *data, size_t n)
{
    if (x->route && x->route->upload) {
        take_upload(x, data, n);
        return;
    }
    if (x->body.size + n > x->server->limits.body_bytes) x->too_large = true;
    if (!x->too_large && !x->code && tern_buf_add(&x->body, data, n, NULL) != TERN_OK) x->too_large = true;
}

/* The body is whole. */
static void handle(tern_exchange *x)
{
    tern_error err = {0};
    tern_status status;
    set_state(x->server, x->connection, TERN_LINK_ANSWERS);
    x->began = tern_serve_seconds();
    if (x->too_large) {
        tern_exchange_fail(x, MHD_HTTP_CONTENT_TOO_LARGE,
                           "the body is larger than the limit of this server (--max-body)");
        return;
    }
    if (x->body.size && tern_json_parse(&x->document, x->body.data, x->body.size, "the body", &err) != TERN_OK) {
        tern_exchange_fail(x, MHD_HTTP_BAD_REQUEST, err.message);
        return;
    }
    status = x->route->reply ? x->route->reply(x, &err) : tern_host_submit(x, &err);
    if (status != TERN_OK) tern_exchange_fail(x, tern_exchange_code(status), err.message);
}

enum MHD_Result tern_connection_handle(void *server, struct MHD_Connection *c, const char *url, const char *method,
                                       const char *version, const char *data, size_t *n, void **exchange)
{
    tern_exchange *x = *exchange;
    if (!x) {
        *exchange = x = start(server, c, method, url, version);
        if (!x) return MHD_NO;
        return x->code && (x->closes || x->too_large || !x->route) ? queue(x) : MHD_YES;
    }
    if (*n) {
        take(x, data, *n);
        *n = 0;
        return MHD_YES;
    }
    if (x->route && !x->asked && !x->code) {
        x->asked = true;
        handle(x);
    }
    return answer_or_wait(x);
}

void tern_connection_completed(void *server, struct MHD_Connection *c, void **exchange,
                               enum MHD_RequestTerminationCode code)
{
    tern_serve *s = server;
    tern_exchange *x = *exchange;
    set_state(s, c, TERN_LINK_IDLE);
    if (!x) return;
    pthread_mutex_lock(&x->lock);
    const bool gone = x->gone || code != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    x->gone = true;
    x->waits = false;
    pthread_mutex_unlock(&x->lock);
    const double seconds = tern_serve_seconds() - x->began;
    tern_metrics_request(&s->metrics, x->code ? x->code : 499, gone, seconds);
    tern_serve_log_exchange(&s->log, x, gone, seconds * 1e3);
    *exchange = NULL;
    tern_exchange_drop(x);
    atomic_fetch_sub(&s->running, 1);
}
