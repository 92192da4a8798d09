/* Admission of clients: keys, and the origins of web pages. */
#ifndef TERN_SERVE_HTTP_ACCESS_H
#define TERN_SERVE_HTTP_ACCESS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "serve/serve.h"

/* The value of a header; NULL: there is none. */
const char *tern_access_header(struct MHD_Connection *connection, const char *name);
/* Whether a request brings one of the keys ("Authorization: Bearer KEY" or "x-api-key: KEY"), or none is needed. */
bool tern_access_has_key(const tern_serve_options *options, struct MHD_Connection *connection);
/* Whether the Host is one under which no stranger's page can be of this server's origin, or keys are needed anyway. */
bool tern_access_has_host(const tern_serve_options *options, struct MHD_Connection *connection);
/* Whether no page of another origin asks: one that --cors does not name must not, even if it cannot read the answer. */
bool tern_access_has_origin(const tern_serve_options *options, struct MHD_Connection *connection);
/* The headers that let a page read an answer. */
void tern_access_add_headers(const tern_serve_options *options, struct MHD_Response *response);

#endif
