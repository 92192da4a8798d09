/* Callbacks of libmicrohttpd: a connection comes and goes, a request arrives piece by piece, an answer is fetched. */
#ifndef TERN_SERVE_HTTP_CONNECTION_H
#define TERN_SERVE_HTTP_CONNECTION_H

#include <microhttpd.h>

void tern_connection_changed(void *server, struct MHD_Connection *connection, void **link,
                             enum MHD_ConnectionNotificationCode code);
void *tern_connection_uri(void *server, const char *uri, struct MHD_Connection *connection);
enum MHD_Result tern_connection_handle(void *server, struct MHD_Connection *connection, const char *url,
                                       const char *method, const char *version, const char *data, size_t *n,
                                       void **exchange);
void tern_connection_completed(void *server, struct MHD_Connection *connection, void **exchange,
                               enum MHD_RequestTerminationCode code);

#endif
