/* Which path is answered by what. */
#include "serve/http/route.h"

#include <string.h>

static const tern_route *const tables[] = {tern_routes_openai, tern_routes_ollama, tern_routes_anthropic,
                                           tern_routes_native, tern_routes_page};

static bool matches(const tern_route *r, const char *path, const char **rest)
{
    const size_t n = strcspn(r->path, "*");
    if (strncmp(r->path, path, n) != 0) return false;
    *rest = path + n;
    if (!r->path[n]) return !**rest;
    if (strcmp(r->path + n, "**") == 0) return **rest;
    const size_t n_star = strcspn(*rest, "/");
    return n_star && strcmp(r->path + n + 1, *rest + n_star) == 0;
}

const tern_route *tern_route_find(const char *method, const char *path, const char **rest, bool *other_method)
{
    *other_method = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const tern_route *r = tables[i]; r->path; r++) {
            if (!matches(r, path, rest)) continue;
            if (strcmp(r->method, strcmp(method, "HEAD") == 0 ? "GET" : method) == 0) return r;
            *other_method = true;
        }
    return NULL;
}

const char *tern_route_methods(const char *path)
{
    static const char *const lists[] = {
        "POST, OPTIONS", "GET, HEAD, OPTIONS",       "DELETE, OPTIONS",       "GET, HEAD, DELETE, OPTIONS",
        "POST, OPTIONS", "GET, HEAD, POST, OPTIONS", "POST, DELETE, OPTIONS", "GET, HEAD, POST, DELETE, OPTIONS"};
    const char *rest;
    bool other;
    const bool get = tern_route_find("GET", path, &rest, &other),
               delete = tern_route_find("DELETE", path, &rest, &other),
               post = tern_route_find("POST", path, &rest, &other);
    return lists[get + 2 * delete + 4 * post];
}

const tern_protocol *tern_route_protocol(const char *path)
{
    if (strncmp(path, "/api/", 5) == 0) return &tern_protocol_ollama;
    if (strncmp(path, "/v1/messages", 12) == 0) return &tern_protocol_anthropic;
    if (strncmp(path, "/v1/", 4) == 0) return &tern_protocol_openai;
    return &tern_protocol_native;
}
