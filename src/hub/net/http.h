/* GET requests to the hub, by libcurl: redirects are followed, the token goes to the hub's own host alone. */
#ifndef TERN_HUB_NET_HTTP_H
#define TERN_HUB_NET_HTTP_H

#include "hub/hub.h"
#include "tern/bytes.h"

/* Whether to go on. `fetched`: bytes of this answer so far. */
typedef bool tern_http_progress(void *context, uint64_t fetched);

typedef struct tern_http_request {
    const tern_hub *hub;
    const char *url;
    const char *repository; /* for messages */
    tern_http_progress *progress;
    void *context;
} tern_http_request;

/* The answer's body, of at most max_bytes, into body. Errors: NOT_FOUND (no such repository, revision or file),
 * INVALID_ARGUMENT (gated or private: what to do), IO (no connection, another answer), LIMIT, CANCELLED. */
tern_status tern_http_get(const tern_http_request *request, size_t max_bytes, tern_buf *body, tern_error *err);

/* Fetches the rest of a file of `bytes` bytes after its first `from` bytes, and writes it to fd from there on. A server
 * that sends the whole file instead is written from the start. *at: how many bytes fd has from its start, also on
 * failure. *again: the connection failed, the same request may succeed. Errors: as above; also IO
 * (no space: the system's words), MALFORMED (more bytes than expected). */
tern_status tern_http_fetch(const tern_http_request *request, int fd, uint64_t from, uint64_t bytes, uint64_t *at,
                            bool *again, tern_error *err);

#endif
