/* Clients of tern serve may fetch and remove these: models of the hub, in the cache of `tern pull`. */
#ifndef TERN_APPS_SERVE_STORE_H
#define TERN_APPS_SERVE_STORE_H

#include "apps/hub/hub.h"
#include "serve/serve.h"

/* The hub and the folder live as long as the server. */
tern_serve_store tern_app_store(const tern_hub *hub, const char *folder, uint64_t max_bytes);

#endif
