/* The clients that are admitted. */
#include "serve/http/access.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

const char *tern_access_header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Takes as long whatever is wrong. */
static bool is_key(const char *key, const char *given)
{
    const size_t n = strlen(key), m = strlen(given);
    unsigned differs = n != m;
    for (size_t i = 0; i < m; i++) differs |= (unsigned)(unsigned char)given[i] ^ (unsigned char)key[n ? i % n : 0];
    return !differs;
}

bool tern_access_has_key(const tern_serve_options *o, struct MHD_Connection *c)
{
    const char *bearer = tern_access_header(c, "Authorization"), *given = tern_access_header(c, "x-api-key");
    bool found = o->n_keys == 0;
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0) given = bearer + 7;
    for (uint32_t i = 0; given && i < o->n_keys; i++) found |= is_key(o->keys[i], given);
    return found;
}

static bool ends(const char *name, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n > m && strncasecmp(name + n - m, end, m) == 0;
}

/* Whether nobody can register this name: an address, a name without a dot, or a domain of local networks (RFC 6761,
 * 6762, 8375; ICANN keeps .internal). A registered name that points here would give a stranger's page this server's
 * origin (DNS rebinding). */
static bool is_local_name(const char *host)
{
    static const char *const local[] = {".localhost", ".local", ".internal", ".home.arpa"};
    unsigned char address[16];
    char name[256];
    const size_t n = strcspn(host, ":");
    if (*host == '[') return true;
    if (n >= sizeof name) return false;
    memcpy(name, host, n);
    name[n] = 0;
    if (!strchr(name, '.') || inet_pton(AF_INET, name, address) == 1) return true;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (ends(name, n, local[i])) return true;
    return false;
}

/* Whether the origin that --cors names is on this host, whatever the port. */
static bool is_cors_host(const tern_serve_options *o, const char *host)
{
    const char *origin = o->cors ? strstr(o->cors, "://") : NULL;
    if (o->cors && strcmp(o->cors, "*") == 0) return true;
    const size_t n = strcspn(host, ":");
    return origin && strcspn(origin + 3, ":") == n && strncasecmp(origin + 3, host, n) == 0;
}

bool tern_access_has_host(const tern_serve_options *o, struct MHD_Connection *c)
{
    const char *host = tern_access_header(c, "Host");
    return !host || o->n_keys || o->unix_path || is_local_name(host) || is_cors_host(o, host);
}

bool tern_access_has_origin(const tern_serve_options *o, struct MHD_Connection *c)
{
    const char *origin = tern_access_header(c, "Origin"), *host = tern_access_header(c, "Host");
    if (!origin) return true;
    if (o->cors && (strcmp(o->cors, "*") == 0 || strcmp(o->cors, origin) == 0)) return true;
    const char *name = strstr(origin, "://");
    return name && host && strcasecmp(name + 3, host) == 0;
}

void tern_access_add_headers(const tern_serve_options *o, struct MHD_Response *r)
{
    if (!o->cors) return;
    MHD_add_response_header(r, "Access-Control-Allow-Origin", o->cors);
    MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    MHD_add_response_header(r, "Access-Control-Allow-Headers",
                            "Authorization, Content-Type, x-api-key, anthropic-version, anthropic-beta");
    if (strcmp(o->cors, "*") != 0) MHD_add_response_header(r, "Vary", "Origin");
}
