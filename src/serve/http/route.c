/* Which path is answered by what. */
#include "serve/http/route.h"

#include <string.h>

static const tern_route *const tables[] = {tern_routes_openai, tern_routes_ollama, tern_routes_anthropic,
                                           tern_routes_native, tern_routes_page};

static bool matches(const tern_route *r, const char *path, const char **rest)
{
    const size_t n = strlen(r->path);
    const bool star = r->path[n - 1] == '*';
    *rest = path + (star ? n - 1 : n);
    return star ? strncmp(r->path, path, n - 1) == 0 && path[n - 1] : strcmp(r->path, path) == 0;
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
    const char *rest;
    bool other, post = tern_route_find("POST", path, &rest, &other), get = tern_route_find("GET", path, &rest, &other);
    if (get && post) return "GET, HEAD, POST, OPTIONS";
    if (tern_route_find("DELETE", path, &rest, &other)) return "DELETE, OPTIONS";
    return get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

const tern_protocol *tern_route_protocol(const char *path)
{
    if (strncmp(path, "/api/", 5) == 0) return &tern_protocol_ollama;
    if (strncmp(path, "/v1/messages", 12) == 0) return &tern_protocol_anthropic;
    if (strncmp(path, "/v1/", 4) == 0) return &tern_protocol_openai;
    return &tern_protocol_native;
}
