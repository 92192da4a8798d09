/* The head of a request: whether its length and its host have one meaning. */
#ifndef TERN_SERVE_HTTP_HEAD_H
#define TERN_SERVE_HTTP_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>

/* Checks what the library lets through and a proxy before this server may read otherwise, so that one request could
 * hide in another's body. Expected: field names that are tokens (RFC 9110, 5.6.2); at most one Content-Length, all
 * digits, or one Transfer-Encoding, "chunked" (RFC 9112, 6.1 to 6.3); no line break in a value (RFC 9112, 5.2); one
 * Host, which HTTP/1.0 may leave out (RFC 9112, 3.2). Gives NULL, or the reason for status 400, in static storage. */
const char *tern_head_problem(struct MHD_Connection *connection, const char *version);

#endif
