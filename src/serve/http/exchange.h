/* One request and its answer: what a connection carries, and what any thread may write to it. */
#ifndef TERN_SERVE_HTTP_EXCHANGE_H
#define TERN_SERVE_HTTP_EXCHANGE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/serve.h"
#include "tern/bytes.h"

struct MHD_Connection;
typedef struct tern_route tern_route;

typedef struct tern_exchange {
    tern_serve *server;
    struct MHD_Connection *connection;
    const tern_route *route;
    const char *rest; /* of the path, behind what the route names; in `path` */
    char *path;
    const char *method;
    char *asked_model, *action; /* of the query; NULL: not given */
    const char *unknown_member; /* of the request: it names something that is not there; NULL: none does */
    tern_buf body;
    json_t *document; /* the body; lives as long as the exchange */
    void *upload;     /* of a route that takes its body piece by piece; freed with close_upload */
    void (*close_upload)(void *upload);
    int fd;
    double began; /* when the body was whole */
    bool too_large, asked;
    bool closes;     /* the connection, after the answer: where the next request begins is not known */
    atomic_int refs; /* the connection's, and that of what answers */

    pthread_mutex_t lock; /* of the rest */
    unsigned code;        /* of HTTP; 0: not known yet */
    const char *type;
    bool streams, ended, waits, gone;
    tern_buf out;
    size_t out_at;

    char model[256]; /* for the log */
    json_t *ignored; /* for the log: names of options that were not known; NULL: none */
    uint32_t n_prompt, n_generated;
} tern_exchange;

/* With one reference. NULL: out of memory. */
tern_exchange *tern_exchange_open(tern_serve *server, const char *method, const char *path);
void tern_exchange_keep(tern_exchange *exchange);
void tern_exchange_drop(tern_exchange *exchange);

/* All of these are thread-safe, and do nothing once the client has gone. A whole answer; takes the document. */
void tern_exchange_send(tern_exchange *exchange, unsigned code, json_t *document);
/* As above for text; `type`: static storage. */
void tern_exchange_send_text(tern_exchange *exchange, unsigned code, const char *type, const char *text, size_t n);
/* The head of a stream. */
void tern_exchange_begin(tern_exchange *exchange, const char *type);
/* More of a stream. A client that does not take what was written for it is given up. */
void tern_exchange_write(tern_exchange *exchange, const void *bytes, size_t n);
/* A document with text before and behind it, and frees it. */
void tern_exchange_write_json(tern_exchange *exchange, const char *before, json_t *document, const char *behind);
void tern_exchange_end(tern_exchange *exchange);
/* An error in the API's own form, as the answer or at the end of a stream. */
void tern_exchange_fail(tern_exchange *exchange, unsigned code, const char *message);
/* The code of HTTP for an error. */
unsigned tern_exchange_code(tern_status status);
/* A value of the query, borrowed; NULL: not given. For the thread of the connection, before the answer. */
const char *tern_exchange_argument(const tern_exchange *exchange, const char *name);
/* Whether nobody reads the answer any more. */
bool tern_exchange_is_gone(tern_exchange *exchange);
/* Compact, with numbers of 9 digits; NULL: out of memory. Freed with tern_free. */
char *tern_serve_dump(const json_t *document);

#endif
